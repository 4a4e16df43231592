# The target `lint` runs clang-tidy on every source, and again only if the source or one of our headers in it changed.
find_program(CLANG_TIDY clang-tidy-16 REQUIRED)  # clang-tidy 14 rejects lambdas that capture structured bindings
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
