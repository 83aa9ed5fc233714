# What our own tests, benchmarks and examples are built with. Nothing here reaches a user's project.
include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)

set(CMAKE_CXX_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(ADAPTIVELOAD_CCACHE ccache)
mark_as_advanced(ADAPTIVELOAD_CCACHE)
if(ADAPTIVELOAD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ADAPTIVELOAD_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${ADAPTIVELOAD_CCACHE})
endif()

# Link it to every executable of ours: the library and warnings as errors.
add_library(adaptiveload_development INTERFACE)
target_link_libraries(adaptiveload_development INTERFACE adaptiveload::adaptiveload)
set(warnings -Wall -Wextra -Wconversion -Wshadow)
list(JOIN warnings "," warnings_for_nvcc)
target_compile_options(
  adaptiveload_development
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings};$<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Werror>>"
            "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${warnings_for_nvcc}>"
            "$<$<COMPILE_LANGUAGE:CUDA>:$<$<BOOL:${PROJECT_IS_TOP_LEVEL}>:-Werror=all-warnings>>")
