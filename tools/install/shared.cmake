# A shared libkvik exports only what the public headers declare.
set(header ${PROJECT_SOURCE_DIR}/include/kvik/kvik.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
file(STRINGS ${header} types REGEX "^(class|struct) .*{$")
list(TRANSFORM types REPLACE "^[a-z]+ ([A-Za-z]+).*" "      kvik::\\1::*")
file(STRINGS ${header} functions REGEX "^[a-z].*\\).*;")
list(TRANSFORM functions REPLACE ".* ([a-z_]+)\\(.*" "      kvik::\\1*")
list(APPEND shown ${types} ${functions} "      \"typeinfo for kvik::Error\"" "      \"typeinfo name for kvik::Error\"" "      \"vtable for kvik::Error\"")
string(REPLACE ";" ";\n" shown "${shown}")
set(map ${PROJECT_BINARY_DIR}/kvik.map)
file(CONFIGURE OUTPUT ${map} CONTENT "{\n  global:\n    kvik_*;\n    extern \"C++\" {\n${shown};\n    };\n  local: *;\n};\n")

target_link_options(kvik PRIVATE -Wl,--version-script=${map} -Wl,--no-undefined)
set_target_properties(kvik PROPERTIES LINK_DEPENDS ${map})
