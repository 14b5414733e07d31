# The tests use the pure parts, and load the plugin itself as copies in a simulated world.
set(here ${CMAKE_CURRENT_LIST_DIR})
file(GLOB suite CONFIGURE_DEPENDS ${here}/*_test.cpp)
set(needs host_probe)
if(MESHBED_SANITIZE)
  # Only what reads bytes and decides, without a simulated world and without the plugin file. A header of the room that
  # simulates, or takes in one that does, makes its tests simulate: mesh_ranks.h, failover_streams.h, striped_streams.h.
  set(needs "")
  set(worlds "#include \"(sim/|tests/support/run_world\\.h)|MESHBED_BINARY_DIR")
  file(GLOB headers CONFIGURE_DEPENDS ${here}/*.h)
  set(before "")
  while(NOT worlds STREQUAL before)
    set(before "${worlds}")
    foreach(header ${headers})
      file(STRINGS ${header} simulates REGEX "${worlds}")
      if(simulates)
        get_filename_component(name ${header} NAME)
        list(REMOVE_ITEM headers ${header})
        string(APPEND worlds "|tests/net/${name}")
      endif()
    endforeach()
  endwhile()
  foreach(source ${suite})
    file(STRINGS ${source} simulates REGEX "${worlds}")
    if(simulates)
      list(REMOVE_ITEM suite ${source})
    endif()
  endforeach()
endif()
meshbed_test(net COMPUTES SOURCES ${suite} LINKS meshbed_net_rules meshbed_sim NEEDS ${needs} SHARDS 3 COST 40)

# A million handles: AddressSanitizer runs them. Long streams and messages, polling for seconds, and one story at
# many moments: short ones do the same things. No descriptor left: Valgrind lets accept(2) happen and then takes the
# connection away. Every third case: under Valgrind each takes seconds, most of them for translating one more copy of
# the same plugin.
meshbed_memcheck(net SHARDS 6 TAKEN 2 COST 150 FILTER "--source-file-exclude=*mutation_test*"
    "--test-case-exclude=*moments*,*at whatever moment*,long stream:*,*long messages over two cables*,*does not answer holds up*,*no descriptor left*,*or much later,*come 60 s apart*")
