# Minutes of threads that wait for each other, or of walks through plans: the same code runs in the shorter cases.
set(briefly "--test-case-exclude=*type and reduction by mesh*,*by other algorithms*on 1..9 ranks*,*completes late changes no bit of any type,*for 1..33 ranks*")
set(filter "")
if(MESHBED_SANITIZE STREQUAL thread)
  set(filter ${briefly})
endif()

# A net plugin inside the test program: its table must be found by dlsym.
meshbed_room(loopback OBJECT FILES loopback_net.cpp rank_threads.cpp UNITY 2)
target_link_libraries(loopback PRIVATE test_support)
meshbed_test(coll COMPUTES EXPORTS ALSO $<TARGET_OBJECTS:loopback> LINKS meshbed_coll meshbed_sim FILTER ${filter}
             SHARDS 4 COST 200)

# Lines on a plugin that hesitates: abort_test.cpp has them; abort by lines: the engine's own messages meet the same
# ends. What is counted on many meshes: each type's runs follow such plans.
meshbed_memcheck(coll SHARDS 2 COST 150 FILTER
    "${briefly},*type and reduction in lines*the triangle*,*where messages are lines*,*on meshes:*,random cablings*some cables beside*")

# The engine between processes of this host, over the local plugin's file; the loopback net is what it is compared with.
meshbed_files(rank_processes ../local/rank_processes.cpp)
meshbed_test(local COMPUTES EXPORTS ALSO ${rank_processes} $<TARGET_OBJECTS:loopback> LINKS meshbed_coll
             NEEDS nccl-net-local)
