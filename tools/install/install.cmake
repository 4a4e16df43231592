# `cmake --install build --prefix FOLDER` installs the library, its CMake and pkg-config files, the command line and the models. The folder
# can be moved afterward.
include(CMakePackageConfigHelpers)

install(TARGETS kvik EXPORT kvikTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kvik DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
        PATTERN "hub.h" EXCLUDE PATTERN "serve.h" EXCLUDE)  # their libraries are not installed: kvik_hub, kvik_server
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kvik/models)
if(KVIK_BUILD_CLI)
  install(TARGETS kvik_cli)
endif()

# `kvik manual` and `kvik completion` generate the manual pages and shell completions.
if(KVIK_BUILD_CLI AND NOT CMAKE_CROSSCOMPILING)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  add_custom_command(
    OUTPUT ${pages}/kvik.1 ${pages}/kvik ${pages}/_kvik ${pages}/kvik.fish
    DEPENDS kvik_cli
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
    COMMAND kvik_cli manual --folder ${pages}
    COMMAND kvik_cli completion bash > ${pages}/kvik
    COMMAND kvik_cli completion zsh > ${pages}/_kvik
    COMMAND kvik_cli completion fish > ${pages}/kvik.fish)
  add_custom_target(kvik_pages ALL DEPENDS ${pages}/kvik.1)
  install(DIRECTORY ${pages}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
  install(FILES ${pages}/kvik DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/_kvik DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${pages}/kvik.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# C programs that link the static library also need the C++ runtime.
set(cxx_libraries ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(FILTER cxx_libraries INCLUDE REGEX "^(stdc\\+\\+|c\\+\\+|m)$")

# find_package(kvik)
set(kvik_package ${CMAKE_INSTALL_LIBDIR}/cmake/kvik)
get_target_property(kvik_type kvik TYPE)
if(kvik_type STREQUAL "STATIC_LIBRARY")
  target_link_libraries(kvik PRIVATE "$<INSTALL_INTERFACE:${cxx_libraries}>")
endif()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kvikConfig.cmake.in ${PROJECT_BINARY_DIR}/kvikConfig.cmake INSTALL_DESTINATION ${kvik_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvikConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT kvikTargets NAMESPACE kvik:: DESTINATION ${kvik_package})
install(FILES ${PROJECT_BINARY_DIR}/kvikConfig.cmake ${PROJECT_BINARY_DIR}/kvikConfigVersion.cmake DESTINATION ${kvik_package})

# pkg-config kvik. A static library does not record its dependencies, and few users pass --static, so for a static build they are public.
list(TRANSFORM CMAKE_DL_LIBS PREPEND -l OUTPUT_VARIABLE pc_libraries)
list(TRANSFORM cxx_libraries PREPEND -l)
list(APPEND pc_libraries ${cxx_libraries})
list(JOIN pc_libraries " " pc_libraries)
if(kvik_type STREQUAL "SHARED_LIBRARY")
  set(pc_private .private)
  set(pc_libraries "\nLibs.private: -pthread ${pc_libraries}")
else()
  set(pc_private)
  set(pc_libraries " -pthread ${pc_libraries}")
endif()
file(RELATIVE_PATH pc_up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_up ${pc_up})
cmake_path(APPEND pc_libdir "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND pc_includedir "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(${CMAKE_CURRENT_LIST_DIR}/kvik.pc.in ${PROJECT_BINARY_DIR}/kvik.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kvik.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
