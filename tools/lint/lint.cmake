# The target `lint`: clang-tidy over every source that is compiled here, and again only where a file or a header of ours in it changed.
find_program(CLANG_TIDY clang-tidy-16 REQUIRED)  # 14 does not know that lambdas capture structured bindings
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lint)
set(lint_stamps)
foreach(source ${KVIK_SOURCES} ${KVIK_LINT_SOURCES})
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${source})
  string(REPLACE "/" "." stamp ${name})
  set(stamp ${PROJECT_BINARY_DIR}/lint/${stamp})
  add_custom_command(
    OUTPUT ${stamp}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/.clang-tidy
    DEPFILE ${stamp}.d
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    COMMAND tools/lint/one ${name} ${stamp}
    COMMENT "clang-tidy ${name}")
  list(APPEND lint_stamps ${stamp})
endforeach()
add_custom_target(lint DEPENDS ${lint_stamps})
