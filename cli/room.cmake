# The command: two programs, each of which knows all commands and continues as the other one where it has to.

# bin/meshbed: the commands that run a scenario, or look at one.
meshbed_room(cli_command_objects COMMAND FOLDERS common command EXCEPT command/main.cpp)
target_link_libraries(cli_command_objects PUBLIC Boost::program_options)
add_library(meshbed_cli STATIC $<TARGET_OBJECTS:cli_command_objects>)
target_link_libraries(meshbed_cli PUBLIC meshbed_testbed Boost::program_options)
meshbed_files(main command/main.cpp)
add_executable(meshbed ${main})
target_link_libraries(meshbed PRIVATE meshbed_cli)
target_link_options(meshbed PRIVATE ${program_linker})

# bin/meshbed-tools: the commands that measure, sweep and verify, with the rooms that they alone run.
set(tools ../testbed/verify ../testbed/verify/ptx bench bench/scale nccl ring command/tools)
set(except command/tools/main.cpp)
if(MESHBED_SANITIZE)
  # What reads files of others. The rest measures and computes, and is 100 CPU seconds to compile.
  set(tools nccl ring)
  set(except "")
endif()
meshbed_room(cli_tools_objects COMMAND FOLDERS ${tools} EXCEPT ${except})
target_link_libraries(cli_tools_objects PUBLIC Boost::program_options)
add_library(meshbed_tools STATIC $<TARGET_OBJECTS:cli_tools_objects> $<TARGET_OBJECTS:testbed_sweep_objects>
            $<TARGET_OBJECTS:testbed_plan_objects> $<TARGET_OBJECTS:testbed_diagnose_objects>
            $<TARGET_OBJECTS:library_objects>)
target_link_libraries(meshbed_tools PUBLIC meshbed_cli meshbed_fidelity meshbed_fat_binary meshbed_import)
if(NOT MESHBED_SANITIZE)
  target_sources(meshbed_tools PRIVATE $<TARGET_OBJECTS:testbed_page_objects>
                 $<TARGET_OBJECTS:testbed_serve_objects>)
  target_link_libraries(meshbed_tools PUBLIC meshbed_ptx)
  meshbed_files(main command/tools/main.cpp)
  add_executable(meshbed-tools ${main})
  target_link_libraries(meshbed-tools PRIVATE meshbed_tools)
  target_link_options(meshbed-tools PRIVATE ${program_linker})
endif()

# What the ranks of `nccl compare` run: a program that knows nccl.h and CUDA alone. It finds its libraries where they
# lie in the build folder and where they are installed.
meshbed_files(sweep nccl/program/sweep.cpp)
add_library(meshbed-nccl-sweep MODULE ${sweep})
target_include_directories(meshbed-nccl-sweep PRIVATE ${CMAKE_SOURCE_DIR}/plugin/dropin)
target_link_libraries(meshbed-nccl-sweep PRIVATE nccl_dropin cuda_sim_driver)
set_target_properties(meshbed-nccl-sweep PROPERTIES PREFIX "" BUILD_WITH_INSTALL_RPATH ON
                      INSTALL_RPATH "$ORIGIN/../nccl-lib:$ORIGIN/../cuda-lib"
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

include(${CMAKE_CURRENT_LIST_DIR}/bench/cost/room.cmake)
