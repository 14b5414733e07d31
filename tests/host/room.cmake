# What the tests load as copies: a library that knows nothing of the simulator, linked as the product's libraries are.
meshbed_room(host_probe_objects PRODUCT FOLDERS probe)
product_library(host_probe probe/probe.map PARTS host_probe_objects)
meshbed_test(host COMPUTES LINKS meshbed_sim NEEDS host_probe)
# Valgrind's own memory counts in the first.
meshbed_memcheck(host FILTER "--test-case-exclude=a copy costs less than 60 KB,*there is no memory*")
