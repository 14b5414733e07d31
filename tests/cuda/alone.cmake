# cuda_tests without anything but the simulated CUDA: of tests/cuda what needs neither the simulated world, the plugin's
# files, nor the command. With MESHBED_ROOMS=cuda (sim/cuda/README.md); every other build has all of tests/cuda.
set(MESHBED_TESTS_DIR ${CMAKE_SOURCE_DIR}/tests)
include(${CMAKE_SOURCE_DIR}/cmake/tests.cmake)
add_library(test_support STATIC ${MESHBED_TESTS_DIR}/support/main.cpp)
target_link_libraries(test_support PUBLIC doctest::doctest fmt::fmt)
target_compile_definitions(test_support PUBLIC DOCTEST_CONFIG_SUPER_FAST_ASSERTS MESHBED_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                           MESHBED_BINARY_DIR="${CMAKE_BINARY_DIR}")

file(GLOB suite CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_test.cpp)
meshbed_files(others direct_test.cpp dma_buf_test.cpp door_test.cpp engine_test.cpp exports_test.cpp facts_test.cpp
              idle_test.cpp kept_ptx_test.cpp nvml_test.cpp program_test.cpp reduce_twin_test.cpp ring_twin_test.cpp
              share_test.cpp)
list(REMOVE_ITEM suite ${others})
meshbed_test(cuda SOURCES ${suite} LINKS meshbed_cuda cuda_sim_driver cuda_sim_runtime COST 50)
