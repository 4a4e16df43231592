# Kernels for NVIDIA GPUs. nvcc makes machine code of each .cu file, and an assembler file turns the results into libkvik-cuda.so: data only,
# which the library opens at run time. Nothing else needs a toolkit, and CMake's CUDA language is not used.
set(KVIK_CUDA AUTO CACHE STRING "Build the kernels for NVIDIA GPUs: AUTO (if nvcc is found), ON or OFF")
set(cuda_folder ${PROJECT_SOURCE_DIR}/src/kernels/cuda)
file(GLOB cuda_kernels CONFIGURE_DEPENDS ${cuda_folder}/*.cu)
file(GLOB cuda_headers CONFIGURE_DEPENDS ${cuda_folder}/*.cuh ${cuda_folder}/launches.h ${PROJECT_SOURCE_DIR}/src/kernels/device/*.h ${PROJECT_SOURCE_DIR}/src/kernels/ops.h)

# Kernels and the structs that they take belong together: the version is that of both.
set(cuda_version "")
foreach(file ${cuda_kernels} ${cuda_headers})
  file(SHA256 ${file} hash)
  string(APPEND cuda_version ${hash})
endforeach()
string(SHA256 cuda_version "${cuda_version}")
string(SUBSTRING ${cuda_version} 0 12 cuda_version)
set_source_files_properties(${cuda_folder}/modules.cc PROPERTIES COMPILE_DEFINITIONS "KVIK_CUDA_VERSION=\"${KVIK_VERSION}-${cuda_version}\"")

set(KVIK_NVCC "")
if(KVIK_CUDA)
  set(hints /usr/local/cuda/bin)
  if(KVIK_TEST_PYTHON)  # nvidia-cuda-nvcc from PyPI
    get_filename_component(python_environment ${KVIK_TEST_PYTHON}/../.. ABSOLUTE)
    file(GLOB python_nvcc ${python_environment}/lib/python3*/site-packages/nvidia/*/bin)
    list(APPEND hints ${python_nvcc})
  endif()
  if(DEFINED ENV{CUDACXX})
    set(KVIK_NVCC $ENV{CUDACXX})
  else()
    find_program(KVIK_NVCC_PROGRAM nvcc HINTS ${hints})
    if(KVIK_NVCC_PROGRAM)
      set(KVIK_NVCC ${KVIK_NVCC_PROGRAM})
    endif()
  endif()
  # The kernels are tested with nvcc 13.0; AUTO ignores an older one, which may not know the architecture.
  if(KVIK_NVCC AND KVIK_CUDA STREQUAL "AUTO")
    execute_process(COMMAND ${KVIK_NVCC} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
    if(NOT nvcc_version MATCHES "release ([0-9]+)\\." OR CMAKE_MATCH_1 LESS 13)
      message(STATUS "Not building the kernels for NVIDIA GPUs: nvcc 13.0 or newer was expected")
      set(KVIK_NVCC "")
    endif()
  endif()
  if(NOT KVIK_NVCC AND NOT KVIK_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "KVIK_CUDA is ON, and nvcc was not found; set CUDACXX to it")
  endif()
endif()
if(NOT KVIK_NVCC)
  return()
endif()

# -dlcm=cg: loads go past L1, which may hold what an overlapping launch has overwritten. --fmad=false: only fma() calls give one.
set(cuda_flags "-fatbin -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a -Xptxas -v,-dlcm=cg -I'${PROJECT_SOURCE_DIR}/src'")
set(cuda_build ${PROJECT_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${cuda_build})
set(table "  .section .rodata\n  .balign 64\n")
set(entries "")
set(fatbins "")
set(n_files 0)
foreach(kernel ${cuda_kernels})
  get_filename_component(name ${kernel} NAME_WE)
  add_custom_command(
    OUTPUT ${cuda_build}/${name}.fatbin
    COMMAND sh -c "${KVIK_NVCC} ${cuda_flags} -o ${cuda_build}/${name}.fatbin ${kernel} > ${cuda_build}/${name}.resources 2>&1 || { cat ${cuda_build}/${name}.resources; exit 1; }"
    DEPENDS ${kernel} ${cuda_headers}
    COMMENT "Compiling CUDA kernels ${name}"
    VERBATIM)
  list(APPEND fatbins ${cuda_build}/${name}.fatbin)
  string(APPEND table "name_${name}: .asciz \"${name}\"\n  .balign 64\nbytes_${name}: .incbin \"${cuda_build}/${name}.fatbin\"\nend_${name}:\n  .balign 64\n")
  string(APPEND entries "  .quad name_${name}, bytes_${name}, end_${name} - bytes_${name}\n")
  math(EXPR n_files "${n_files} + 1")
endforeach()
string(APPEND table "version: .asciz \"${KVIK_VERSION}-${cuda_version}\"\narch: .asciz \"sm_90a\"\n  .section .data.rel.ro,\"aw\"\n  .balign 8\nfiles:\n${entries}")
string(APPEND table "  .globl kvik_cuda_kernels\n  .type kvik_cuda_kernels, @object\nkvik_cuda_kernels: .quad version, arch, files, ${n_files}\n")
string(APPEND table "  .size kvik_cuda_kernels, 32\n  .section .note.GNU-stack,\"\",@progbits\n")
file(CONFIGURE OUTPUT ${cuda_build}/kernels.s CONTENT "${table}" @ONLY)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/libkvik-cuda.so
  COMMAND ${CMAKE_CXX_COMPILER} -shared -nostdlib -o ${PROJECT_BINARY_DIR}/libkvik-cuda.so ${cuda_build}/kernels.s
  DEPENDS ${fatbins} ${cuda_build}/kernels.s
  COMMENT "Linking libkvik-cuda.so"
  VERBATIM)
add_custom_target(kvik_cuda ALL DEPENDS ${PROJECT_BINARY_DIR}/libkvik-cuda.so)
if(KVIK_INSTALL)
  install(FILES ${PROJECT_BINARY_DIR}/libkvik-cuda.so DESTINATION ${CMAKE_INSTALL_LIBDIR}/kvik)
endif()
if(SKBUILD)
  install(FILES ${PROJECT_BINARY_DIR}/libkvik-cuda.so DESTINATION ${CMAKE_INSTALL_LIBDIR}/kvik COMPONENT python)
endif()
