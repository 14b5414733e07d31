# The command's rooms. `meshbed state` is asked from outside, and a simulated GPU is measured.
file(GLOB suite CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_test.cpp)
set(needs meshbed meshbed-tools cuda_libraries)
if(MESHBED_SANITIZE)
  # Those that read what others wrote; these compute and walk.
  set(needs meshbed)
  foreach(name calibrate_gpu callgrind choice_tree claimable conformance_ptx descriptor_queue fault_board matrix
          megakernel_profile memory one_shot_rows pattern progress ring_combination ring_parts ring_walk
          simulated_faults world)
    list(REMOVE_ITEM suite ${CMAKE_CURRENT_LIST_DIR}/${name}_test.cpp)
  endforeach()
  # Of what a sanitized build leaves out.
  foreach(source ${suite})
    file(STRINGS ${source} measures REGEX "#include \"(testbed/verify|cli/bench|cli/command/tools)/")
    if(measures)
      list(REMOVE_ITEM suite ${source})
    endif()
  endforeach()
endif()
meshbed_test(cli SOURCES ${suite} LINKS meshbed_tools NEEDS ${needs} SHARDS 3 COST 60)
