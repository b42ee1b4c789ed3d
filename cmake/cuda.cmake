# NVIDIA GPUs. CMake 3.25 does not know C++20 for CUDA, so nvcc is called as it is. Adds to `objects`
# and `dependencies`.
set(CROSSBOW_CUDA AUTO CACHE STRING "GPU kernels: AUTO (where they can be built), ON or OFF")
set_property(CACHE CROSSBOW_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT CROSSBOW_CUDA OR CROSSBOW_SANITIZE)
  return()
endif()

find_program(CROSSBOW_NVCC nvcc HINTS /usr/local/cuda/bin)
if(CROSSBOW_NVCC)
  execute_process(COMMAND ${CROSSBOW_NVCC} --version OUTPUT_VARIABLE nvcc_version)
  string(REGEX MATCH "release ([0-9.]+)" nvcc_version "${nvcc_version}")
  set(nvcc_version ${CMAKE_MATCH_1})
endif()
if(CROSSBOW_NVCC)
  cmake_path(GET CROSSBOW_NVCC PARENT_PATH cuda_root)
  cmake_path(GET cuda_root PARENT_PATH cuda_root)
  find_path(CROSSBOW_CUDNN_INCLUDE cudnn_graph.h HINTS ${cuda_root}/include)
  find_path(CROSSBOW_CUBLASLT_INCLUDE cublasLt.h HINTS ${cuda_root}/include)
  find_library(CROSSBOW_CUDART cudart_static HINTS ${cuda_root} PATH_SUFFIXES lib64 lib)
endif()
set(cudnn_version 0)
if(EXISTS ${CROSSBOW_CUDNN_INCLUDE}/cudnn_version.h)
  file(STRINGS ${CROSSBOW_CUDNN_INCLUDE}/cudnn_version.h cudnn_version REGEX "define CUDNN_M(AJOR|INOR) [0-9]")
  list(JOIN cudnn_version . cudnn_version)
  string(REGEX REPLACE "[^0-9.]" "" cudnn_version "${cudnn_version}")
endif()
if(NOT CROSSBOW_NVCC OR nvcc_version VERSION_LESS 12.1 OR cudnn_version VERSION_LESS 9.8
   OR NOT CROSSBOW_CUBLASLT_INCLUDE OR NOT CROSSBOW_CUDART)
  set(needed "nvcc 12.1 or later, cudart_static, and the headers of cuBLAS and of cuDNN 9.8 or later")
  if(NOT CROSSBOW_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "CROSSBOW_CUDA=${CROSSBOW_CUDA} needs ${needed}: install NVIDIA's CUDA toolkit and "
                        "cuDNN and put nvcc into PATH, or set CROSSBOW_CUDA=OFF")
  endif()
  message(STATUS "No GPU kernels, which need ${needed}")
  return()
endif()

message(STATUS "GPU kernels by nvcc ${nvcc_version}")
# Loaded at run time; from here where the loader finds none by itself.
find_library(CROSSBOW_CUDNN_LIBRARY libcudnn.so.9 HINTS ${cuda_root} PATH_SUFFIXES lib64 lib)
string(REGEX MATCH "^[0-9]+" cuda_major ${nvcc_version})
find_library(CROSSBOW_CUBLASLT_LIBRARY libcublasLt.so.${cuda_major} HINTS ${cuda_root}
  PATH_SUFFIXES lib64 lib)

set(nvcc_flags -std=c++20 -O3 --expt-relaxed-constexpr -ccbin ${CMAKE_CXX_COMPILER}
  -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=[sm_90,compute_90]
  # fmt 9 takes nvcc for a compiler without constexpr, and nvcc does not follow its consteval.
  -DFMT_USE_CONSTEXPR=1 -DFMT_CONSTEVAL=constexpr -I${CMAKE_CURRENT_SOURCE_DIR}
  -no-compress)  # a test reads the PTX
if(CMAKE_POSITION_INDEPENDENT_CODE)
  list(APPEND nvcc_flags -Xcompiler=-fPIC)
endif()
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cu)
foreach(source IN LISTS cuda_sources)
  string(REPLACE "/" "_" name ${source})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CROSSBOW_NVCC} ${nvcc_flags}
            -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d COMMENT "Building CUDA object ${source}" VERBATIM)
  list(APPEND cuda_objects ${object})
endforeach()
add_custom_target(crossbow_cuda_objects DEPENDS ${cuda_objects})

file(GLOB_RECURSE cuda_host_sources CONFIGURE_DEPENDS */cuda/*.cpp)
add_library(crossbow_cuda_host OBJECT ${cuda_host_sources})
set_target_properties(crossbow_cuda_host PROPERTIES UNITY_BUILD OFF)  # sources have names of their own
target_include_directories(crossbow_cuda_host PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set(cuda_include ${cuda_root}/include ${CROSSBOW_CUDNN_INCLUDE} ${CROSSBOW_CUBLASLT_INCLUDE})
target_include_directories(crossbow_cuda_host SYSTEM PUBLIC ${cuda_include})
target_link_libraries(crossbow_cuda_host PRIVATE ${dependencies})
foreach(library CUDNN CUBLASLT)
  if(CROSSBOW_${library}_LIBRARY)
    string(TOLOWER ${library} source)
    set_source_files_properties(device/cuda/${source}.cpp PROPERTIES COMPILE_DEFINITIONS
      "CROSSBOW_${library}=\"${CROSSBOW_${library}_LIBRARY}\"")
  endif()
endforeach()

set(cuda_objects ${cuda_objects} $<TARGET_OBJECTS:crossbow_cuda_host>)
add_dependencies(crossbow_objects crossbow_cuda_objects)
target_link_libraries(crossbow_objects PUBLIC ${cuda_objects} ${CROSSBOW_CUDART} ${CMAKE_DL_LIBS} rt)
list(APPEND objects ${cuda_objects})
list(APPEND dependencies ${CROSSBOW_CUDART} ${CMAKE_DL_LIBS} rt)
