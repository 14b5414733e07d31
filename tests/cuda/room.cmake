# The simulated CUDA in the test program, and whole programs by `meshbed cuda run`. Sanitizers look at what reads a
# program's images and PTX and runs it, and at threads that call; the rest goes through the drop-ins, which are files of
# their own.
set(here ${CMAKE_CURRENT_LIST_DIR})
if(MESHBED_SANITIZE)
  set(suite ${here}/calling_threads_test.cpp)
  if(NOT MESHBED_SANITIZE STREQUAL thread)
    list(APPEND suite ${here}/ptx_*_test.cpp ${here}/fat_binary_test.cpp)
  endif()
  meshbed_test(cuda SOURCES ${suite} LINKS meshbed_cuda COST 50)
  return()
endif()

# cuda_program(NAME SOURCE... LINKS LIBRARY...): NAME is built before the tests, which start it.
function(cuda_program name)
  cmake_parse_arguments(PARSE_ARGV 1 program "" "" "LINKS")
  meshbed_files(sources ${program_UNPARSED_ARGUMENTS})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${program_LINKS})
endfunction()
cuda_program(cuda-saxpy program/saxpy.cpp LINKS cuda_sim_runtime)
# Programs of their own, which load the libcuda.so.1 that is installed: a ring, the engine's kernels, both the processor's
# and the GPU's, and one that asks a driver for its answers and knows nothing of the simulator.
cuda_program(cuda-ring-twin program/ring_twin.cpp program/ring_twins.cpp LINKS meshbed_ring_gpu)
cuda_program(cuda-reduce-twin program/reduce_twin.cpp LINKS meshbed_coll)
cuda_program(cuda-driver-facts program/driver_facts.cpp LINKS ${CMAKE_DL_LIBS} Threads::Threads)

meshbed_test(cuda COST 50
             LINKS meshbed_cuda meshbed_cuda_door meshbed_ring_gpu cuda_sim_driver cuda_sim_runtime
             NEEDS cuda_sim_nvml cuda-saxpy cuda-ring-twin cuda-reduce-twin cuda-driver-facts gpu_kernels)

# NVIDIA's headers, where they are installed, for comparison.
file(GLOB cuda_folders /usr/local/cuda*/include)
find_path(CUDA_DRIVER_INCLUDE cuda.h HINTS ${cuda_folders})
if(CUDA_DRIVER_INCLUDE)
  target_sources(cuda_tests PRIVATE ${here}/nvidia_header.cpp ${here}/nvidia_calls.cpp)
  set_source_files_properties(${here}/nvidia_header.cpp ${here}/nvidia_calls.cpp PROPERTIES
                              SKIP_UNITY_BUILD_INCLUSION ON INCLUDE_DIRECTORIES "${CUDA_DRIVER_INCLUDE}")
endif()
