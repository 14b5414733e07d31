# Rooms: the functions with which each folder's room.cmake says what is built from it.
#
# These lists are included, and are no directories of CMake's: all targets are in one scope, so that one room may name
# another one's objects, and object files lie at build/CMakeFiles/TARGET.dir wherever their sources are. Names in a list
# are relative to its folder. Each source is compiled once: what goes into a library that simulated ranks load, or into
# several, is a library of objects, and an archive of the same objects serves the tests (cmake/products.cmake).

# Where nothing is timed.
if(CMAKE_BUILD_TYPE STREQUAL RelWithDebInfo)
  set(brisk_options -O1)
endif()
# In the command nothing runs per message: -Og takes 30 % less to compile than -O1 (the room scenario: 39 s against 57 s).
# With sanitizers -O0 (the room report with AddressSanitizer and UBSan: 49 s and 1.4 GB, against 131 s and 1.9 GB).
set(command_options "")
if(CMAKE_BUILD_TYPE STREQUAL RelWithDebInfo)
  set(command_options -Og)
endif()
if(MESHBED_SANITIZE)
  set(command_options -O0)
endif()

# meshbed_files(VARIABLE NAME...): the absolute names of these files. One that does not exist is an error.
function(meshbed_files variable)
  set(paths "")
  foreach(name ${ARGN})
    get_filename_component(path ${name} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_LIST_DIR})
    if(NOT EXISTS ${path})
      message(FATAL_ERROR "${CMAKE_CURRENT_LIST_FILE} names ${name}, which does not exist")
    endif()
    list(APPEND paths ${path})
  endforeach()
  set(${variable} ${paths} PARENT_SCOPE)
endfunction()

# meshbed_sources(VARIABLE FOLDER...): the *.cpp files of these folders, some of which may come later.
function(meshbed_sources variable)
  set(patterns "")
  foreach(folder ${ARGN})
    get_filename_component(path ${folder} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_LIST_DIR})
    list(APPEND patterns ${path}/*.cpp)
  endforeach()
  set(found "")
  if(patterns)
    file(GLOB found CONFIGURE_DEPENDS ${patterns})
  endif()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# meshbed_room(TARGET KIND [FOLDERS FOLDER...] [EXCEPT FILE...] [FILES FILE...] [UNITY COUNT] [OPTIONS OPTION...]): the
# sources of the folders but those excepted, or these files. KIND is one of
#   STATIC, SHARED, OBJECT  that library
#   PRODUCT                 objects of libraries that ranks load (product_library)
#   DATA_PATH               the same of what every message passes: one translation unit, optimised when linked
#   COMMAND                 objects of the testbed and of the command: one translation unit, as nothing here is timed
function(meshbed_room target kind)
  cmake_parse_arguments(PARSE_ARGV 2 room "" "UNITY" "FOLDERS;EXCEPT;FILES;OPTIONS")
  meshbed_sources(sources ${room_FOLDERS})
  meshbed_files(excepted ${room_EXCEPT})
  meshbed_files(files ${room_FILES})
  list(REMOVE_ITEM sources ${excepted})
  list(APPEND sources ${files})
  if(kind STREQUAL STATIC OR kind STREQUAL SHARED)
    add_library(${target} ${kind} ${sources})
  else()
    add_library(${target} OBJECT ${sources})
  endif()
  if(kind STREQUAL PRODUCT OR kind STREQUAL DATA_PATH)
    target_compile_options(${target} PRIVATE ${product_options})
    unity(${target} 24)
  endif()
  if(kind STREQUAL DATA_PATH)
    unity(${target} 0)
    if(link_time_options)
      target_compile_options(${target} PRIVATE ${link_time_options} -ffat-lto-objects)
    endif()
  elseif(kind STREQUAL COMMAND)
    target_link_libraries(${target} PUBLIC testbed_libraries)
    unity(${target} 99)
    target_compile_options(${target} PRIVATE ${command_options})
  endif()
  if(DEFINED room_UNITY)
    unity(${target} ${room_UNITY})
  endif()
  target_compile_options(${target} PRIVATE ${room_OPTIONS})
endfunction()

# embedded_file(TARGET NAME FROM SCRIPT [DEPENDS FILE...]): generated/NAME.cpp, which SCRIPT writes from the file or
# folder FROM, as a source of the target: the program needs no file beside it.
function(embedded_file target name from script)
  cmake_parse_arguments(PARSE_ARGV 4 file "" "" "DEPENDS")
  set(generated ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  meshbed_files(inputs ${script} ${file_DEPENDS})
  get_filename_component(from ${from} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_LIST_DIR})
  get_filename_component(script ${script} ABSOLUTE BASE_DIR ${CMAKE_CURRENT_LIST_DIR})
  add_custom_command(OUTPUT ${generated} DEPENDS ${inputs} VERBATIM
                     COMMAND ${CMAKE_COMMAND} -DFROM=${from} -DTO=${generated} -P ${script})
  # clang-tidy reads before the file exists.
  set_source_files_properties(${generated} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${generated})
endfunction()
