# The testbed in a few targets, a translation unit each: one a room costs 100 CPU seconds more, nearly all of them for
# what each instantiates of the libraries below. tests/tidy_test.cpp holds the arrows between the rooms.
add_library(testbed_libraries INTERFACE)
# TOML_HEADER_ONLY=0: use Debian's compiled libtomlplusplus, which keeps the build short.
target_link_libraries(testbed_libraries INTERFACE meshbed_times meshbed_models meshbed_base fmt::fmt
                      tomlplusplus::tomlplusplus nlohmann_json::nlohmann_json ${XXHASH_LIBRARY}
                      ${CMAKE_DL_LIBS} meshbed_coll meshbed_cuda_door meshbed_ring_gpu meshbed_ring meshbed_net_rules
                      meshbed_sim meshbed_emu)
target_link_options(testbed_libraries INTERFACE -Wl,--as-needed)
target_compile_definitions(testbed_libraries INTERFACE TOML_HEADER_ONLY=0)

meshbed_room(testbed_scenario_objects COMMAND FOLDERS base scenario scenario/findings scenario/megakernel scenario/nccl
             topology)
meshbed_room(testbed_world_objects COMMAND FOLDERS workload workload/megakernel workload/nccl world world/replay
             EXCEPT workload/pattern.cpp)
meshbed_room(testbed_result_objects COMMAND FOLDERS result result/zernel render)
# Each section of a run's document registers itself, so its objects are linked whether or not anything names them.
meshbed_room(testbed_section_objects COMMAND FOLDERS result/sections)
meshbed_room(values OBJECT FILES workload/pattern.cpp)  # every element of every buffer: for speed
add_library(meshbed_testbed STATIC $<TARGET_OBJECTS:testbed_scenario_objects> $<TARGET_OBJECTS:testbed_world_objects>
            $<TARGET_OBJECTS:testbed_result_objects> $<TARGET_OBJECTS:values>)
target_link_libraries(meshbed_testbed PUBLIC testbed_libraries INTERFACE $<TARGET_OBJECTS:testbed_section_objects>)

# Measured files, what the profiles predict of them, and plots: not in the program that a first run waits for.
meshbed_room(testbed_fidelity_objects COMMAND FOLDERS fidelity fidelity/gpu plot)
add_library(meshbed_fidelity STATIC $<TARGET_OBJECTS:testbed_fidelity_objects>)
target_link_libraries(meshbed_fidelity PUBLIC meshbed_testbed meshbed_fits)

# libmeshbed.so: scenarios and results for programs (include/meshbed). What it stands on goes in with it and is hidden.
meshbed_room(library_objects COMMAND FOLDERS library OPTIONS -fvisibility=hidden)
target_include_directories(library_objects PRIVATE ${CMAKE_CURRENT_LIST_DIR}/include)
add_library(libmeshbed SHARED $<TARGET_OBJECTS:library_objects>)
target_include_directories(libmeshbed INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_LIST_DIR}/include>
                           $<INSTALL_INTERFACE:include>)
target_compile_features(libmeshbed INTERFACE cxx_std_17)
target_link_libraries(libmeshbed PRIVATE meshbed_fidelity)
target_link_options(libmeshbed PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,--gc-sections)
set_target_properties(libmeshbed PROPERTIES OUTPUT_NAME meshbed EXPORT_NAME meshbed VERSION 0 SOVERSION 0
                      LINKER_LANGUAGE CXX)

# Variants of a scenario, each run as the library runs it.
meshbed_room(testbed_sweep_objects COMMAND FOLDERS sweep)
target_include_directories(testbed_sweep_objects PRIVATE ${CMAKE_CURRENT_LIST_DIR}/include)
meshbed_room(testbed_plan_objects COMMAND FOLDERS plan)
# What logs, results and scenarios say of a job, and the runs that prove a cause.
meshbed_room(testbed_diagnose_objects COMMAND FOLDERS diagnose diagnose/causes diagnose/read diagnose/prove)
target_include_directories(testbed_diagnose_objects PRIVATE ${CMAKE_CURRENT_LIST_DIR}/include)

# Files of machines to scenarios, and scenarios to files of others.
meshbed_room(testbed_import_objects COMMAND FOLDERS import import/read import/infer import/write import/collect import/rings export)
embedded_file(testbed_import_objects collect_script import/collect/collect.sh import/collect/embed_script.cmake
              DEPENDS import/collect/collect.sh)
add_library(meshbed_import STATIC $<TARGET_OBJECTS:testbed_import_objects>)
target_link_libraries(meshbed_import PUBLIC meshbed_testbed LibArchive::LibArchive yaml-cpp pugixml::pugixml)

# Results as one HTML file. Its script and style sheet are kept as npm bundles them (testbed/page/package.json), so that
# building needs no npm.
meshbed_room(testbed_page_objects COMMAND FOLDERS page)
# Results over HTTP and WebSocket, with Boost.Beast: headers of libboost-dev, which Boost's other packages bring along.
meshbed_room(testbed_serve_objects COMMAND FOLDERS serve)
embedded_file(testbed_page_objects report_bundle page/bundle page/embed_bundle.cmake
              DEPENDS page/bundle/report.js page/bundle/report.css)

# meshbed-run: the process of each run of libmeshbed's.
meshbed_sources(run_sources library/child)
add_executable(meshbed-run ${run_sources})
unity(meshbed-run 9)
target_link_libraries(meshbed-run PRIVATE meshbed_testbed)
target_link_options(meshbed-run PRIVATE ${program_linker})
