# The product, the lowest room first. The files that ranks load are libraries of their own.
foreach(room base verbs net nccl cuda ring local profiler coll dropin)
  include(${CMAKE_CURRENT_LIST_DIR}/${room}/room.cmake)
endforeach()
