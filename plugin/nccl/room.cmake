# libnccl-net-mesh.so: the transport of plugin/verbs and plugin/net behind NCCL's tables, in one list since the compiler
# optimises what every message passes as a whole. That is compiled for speed; what runs while connections are made or a
# user looks is made small, since every simulated rank has its own copy of it.

meshbed_files(nccl_data_path entry_data.cpp net_v8.cpp net_v9.cpp net_v10.cpp net_v11.cpp net_v12.cpp)
meshbed_files(nccl_rules tuner_price.cpp)
set(data_path ${nccl_data_path} ${verbs_data_path} ${net_data_path})
set(rules ${verbs_rules} ${nccl_rules} ${net_rules})
meshbed_sources(sources .)
list(APPEND sources ${verbs_sources} ${net_sources})
list(SORT sources)
meshbed_files(boundary boundary.cpp)
list(REMOVE_ITEM sources ${boundary} ${data_path} ${rules})

meshbed_room(boundary_objects PRODUCT FILES ${boundary})  # the C boundary of either net plugin
meshbed_room(net_data_objects DATA_PATH FILES ${data_path})
meshbed_room(net_objects PRODUCT FILES ${sources} OPTIONS -Os)
meshbed_room(net_rules_objects PRODUCT FILES ${rules} OPTIONS -Os)

# The rules alone are for the command and the tests: a libibverbs that a program itself needed would stand before the
# drop-in when simulated ranks look for theirs.
product_archive(meshbed_net_rules net_rules_objects)
target_link_libraries(meshbed_net_rules PUBLIC meshbed_base Threads::Threads)
product_archive(meshbed_net net_data_objects net_objects net_rules_objects boundary_objects)
target_link_libraries(meshbed_net PUBLIC meshbed_base ${IBVERBS_LIBRARY} Threads::Threads)

# NODELETE: NCCL closes it, and a relay's thread may stay.
product_library(nccl-net-mesh plugin.map PARTS meshbed_net meshbed_base LINKS ${IBVERBS_LIBRARY} NODELETE)
