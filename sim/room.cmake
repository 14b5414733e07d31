# The simulator, and the drop-in libibverbs.so.1 that simulated ranks load.

# One by one: the sources define libibverbs' symbols, some of which its headers define as macros or inline functions
# elsewhere.
file(GLOB verbs_dropin_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/verbs/dropin/*.cpp
     ${CMAKE_CURRENT_LIST_DIR}/verbs/dropin/*.c)
meshbed_room(verbs_dropin_objects PRODUCT FILES ${verbs_dropin_sources} UNITY 1)
product_library(ibverbs_sim verbs/dropin/libibverbs.map PARTS verbs_dropin_objects SONAME ibverbs 1 FOLDER sim-lib)

include(${CMAKE_CURRENT_LIST_DIR}/perfetto/room.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/cuda/room.cmake)

meshbed_room(meshbed_sim STATIC FOLDERS engine replay host host/* verbs fault trace cuda/world UNITY 37)
target_link_libraries(meshbed_sim PUBLIC meshbed_models meshbed_perfetto meshbed_base fmt::fmt ${SIMGRID_LIBRARY} ${XXHASH_LIBRARY}
                      Boost::context ${NETTLE_ARCHIVE} Threads::Threads ${CMAKE_DL_LIBS})
