# What a message costs in the plugin (`bench cost`): a libibverbs.so.1 that does next to nothing, the two ends of one
# connection on it, and a relay. A library of objects, since no caller names its getifaddrs().
meshbed_room(null_wire_objects PRODUCT FILES null_wire.cpp)
product_library(ibverbs_null null_wire.map PARTS null_wire_objects SONAME ibverbs 1 FOLDER null-lib)
meshbed_room(null_pair OBJECT FILES null_pair.cpp null_plugin.cpp null_interface.cpp)
# Needed by the program itself, so that the plugin finds this libibverbs.so.1 and no other.
target_link_libraries(null_pair PUBLIC -Wl,--no-as-needed ibverbs_null ${CMAKE_DL_LIBS})
meshbed_files(relay main.cpp null_relay.cpp)
add_executable(meshbed-cost ${relay})
# The archive alone: what else it brings is another libibverbs.so.1.
target_link_libraries(meshbed-cost PRIVATE null_pair $<TARGET_FILE:meshbed_net> meshbed_base Threads::Threads)
add_dependencies(meshbed-cost meshbed_net)

# And what one costs in the engine, over a net plugin in the program itself.
meshbed_files(engine engine_main.cpp null_net.cpp)
add_executable(meshbed-engine-cost ${engine})
target_link_libraries(meshbed-engine-cost PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)

set_target_properties(meshbed-cost meshbed-engine-cost PROPERTIES ENABLE_EXPORTS ON EXCLUDE_FROM_ALL ON)
add_custom_target(cost_programs DEPENDS meshbed-cost meshbed-engine-cost)
