# The emulated world. The guest's init script travels inside the library.
meshbed_room(meshbed_emu STATIC FOLDERS . image microvm namespace UNITY 48 OPTIONS ${brisk_options})
embedded_file(meshbed_emu guest_init guest_init.sh embed_text.cmake DEPENDS guest_init.sh)
target_link_libraries(meshbed_emu PUBLIC meshbed_base fmt::fmt ${XXHASH_LIBRARY}
                      PRIVATE nlohmann_json::nlohmann_json)

# What traces rdma-core's calls outside the simulator; it calls the real libibverbs.so.1, which it must not replace.
meshbed_room(meshbed-verbs-trace SHARED FOLDERS trace UNITY 24 OPTIONS -fvisibility=hidden)
target_link_libraries(meshbed-verbs-trace PRIVATE meshbed_base ${CMAKE_DL_LIBS})
