# What the conformance suite is tried on: a plugin that breaks the rule that it is given.
meshbed_room(faulty_objects PRODUCT FILES faulty_net.cpp)
product_library(faulty-net faulty.map PARTS faulty_objects meshbed_net meshbed_base LINKS ${IBVERBS_LIBRARY})
target_link_options(faulty-net PRIVATE -Wl,--allow-multiple-definition)  # its table comes first, and is the one shown
meshbed_test(conformance LINKS meshbed_base NEEDS faulty-net SHARDS 2 COST 60)
