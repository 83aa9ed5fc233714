# Enables CUDA if a compiler for it is found; ADAPTIVELOAD_HAS_CUDA says whether.
set(ADAPTIVELOAD_HAS_CUDA OFF)
if(NOT ADAPTIVELOAD_CUDA)
  return()
endif()

# The toolkit's usual place, for shells whose PATH lacks it.
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(ADAPTIVELOAD_NVCC nvcc PATHS /usr/local/cuda/bin)
  mark_as_advanced(ADAPTIVELOAD_NVCC)
  if(ADAPTIVELOAD_NVCC)
    set(CMAKE_CUDA_COMPILER ${ADAPTIVELOAD_NVCC})
  endif()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  return()
endif()

execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE version)
if(version MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_LESS 12.0)
  message(STATUS "CUDA ${CMAKE_MATCH_1} left alone: C++20 needs 12.0 or later")
  return()
endif()

# Nothing said: what people have, as far as the compiler knows it. `native`: this machine's GPUs,
# or compute capability 9.0 if it has none (CMake would take the compiler's oldest).
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known)
  set(CMAKE_CUDA_ARCHITECTURES)
  foreach(architecture 80 86 89 90 100 120)
    if(known MATCHES "compute_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture})
    endif()
  endforeach()
elseif(CMAKE_CUDA_ARCHITECTURES STREQUAL "native")
  set(capabilities)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities ERROR_QUIET)
  if(NOT capabilities MATCHES "[0-9]")
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
endif()

enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(ADAPTIVELOAD_HAS_CUDA ON)
