# Traces of runs, decoded with Perfetto's schema by protobuf. Where Debian's libprotobuf-dev or protobuf-compiler is
# missing, what is compiled in its place says that it is skipped.
if(MESHBED_SANITIZE)
  return()
endif()
find_program(PROTOC protoc)
find_path(PROTOBUF_INCLUDE google/protobuf/message.h)
find_library(PROTOBUF_LIBRARY protobuf)
set(here ${CMAKE_CURRENT_LIST_DIR})
if(PROTOC AND PROTOBUF_INCLUDE AND PROTOBUF_LIBRARY)
  set(decoder ${CMAKE_CURRENT_BINARY_DIR}/perfetto)
  file(MAKE_DIRECTORY ${decoder})
  add_custom_command(OUTPUT ${decoder}/trace.pb.cc ${decoder}/trace.pb.h
                     COMMAND ${PROTOC} --proto_path=${here} --cpp_out=${decoder} ${here}/trace.proto
                     DEPENDS ${here}/trace.proto VERBATIM)
  meshbed_test(perfetto ALSO ${here}/decoded.cpp ${decoder}/trace.pb.cc LINKS meshbed_perfetto nlohmann_json::nlohmann_json NEEDS meshbed
               worlds cuda-saxpy COST 20)
  target_include_directories(perfetto_tests SYSTEM PRIVATE ${decoder} ${PROTOBUF_INCLUDE})
  target_link_libraries(perfetto_tests PRIVATE ${PROTOBUF_LIBRARY})
  set_source_files_properties(${decoder}/trace.pb.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS -w)
else()
  meshbed_test(perfetto SOURCES ${here}/skipped.cpp)
endif()
