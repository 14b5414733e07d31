# Libraries that ranks load: built of objects, with hidden symbols, and without the system's libstdc++ (a dynamic one
# would let std::thread escape the simulator's redirection).

set(product_options -fvisibility=hidden -ffunction-sections -fdata-sections)
# What every message passes is compiled once more when its library is linked: it is then known that no other code calls
# its functions, and most are inlined (measured by `bench cost`: 12 % fewer instructions a message). Objects stay usable
# without that, so that linking the tests stays cheap; clang's would need another linker.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_BUILD_TYPE STREQUAL RelWithDebInfo AND NOT MESHBED_SANITIZE)
  set(link_time_options -flto=auto)
endif()

# mold: links a program in a tenth of the time (measured on cli_tests: 3.4 CPU seconds by GNU ld). Not the libraries,
# whose data path the compiler optimises while GNU ld links.
find_program(MOLD mold)
if(MOLD AND NOT MESHBED_FUZZ)
  set(program_linker -fuse-ld=mold)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND program_linker -fno-lto)  # objects are optimised when a library is linked; here as they are
endif()

# objects_of(VARIABLE PART...): the libraries of objects of these parts. A part is one itself, or an archive or a
# library that was made of some.
function(objects_of variable)
  set(objects "")
  foreach(part ${ARGN})
    get_target_property(parts ${part} meshbed_objects)
    if(parts)
      list(APPEND objects ${parts})
    else()
      list(APPEND objects ${part})
    endif()
  endforeach()
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()

# object_files(VARIABLE OBJECTS...): what those libraries of objects compile.
function(object_files variable)
  list(TRANSFORM ARGN PREPEND "$<TARGET_OBJECTS:")
  list(TRANSFORM ARGN APPEND ">")
  set(${variable} ${ARGN} PARENT_SCOPE)
endfunction()

# product_archive(TARGET PART...): an archive of objects that the product's libraries hold, too.
function(product_archive target)
  objects_of(objects ${ARGN})
  object_files(files ${objects})
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${files})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX meshbed_objects "${objects}")
endfunction()

# product_library(TARGET MAP PARTS PART... [LINKS LIBRARY...] [SONAME NAME VERSION] [FOLDER FOLDER] [NODELETE]): MAP is
# its version script; libNAME.so.VERSION in that folder of the build folder; NODELETE: closing it leaves it in memory.
function(product_library target map)
  cmake_parse_arguments(PARSE_ARGV 2 product "NODELETE" "FOLDER" "PARTS;LINKS;SONAME")
  meshbed_files(map ${map})
  objects_of(objects ${product_PARTS})
  object_files(files ${objects})
  add_library(${target} SHARED ${files})
  target_link_options(${target} PRIVATE ${link_time_options} -Wl,--version-script=${map} -Wl,--gc-sections
                      -Wl,-z,noseparate-code
                      -Wl,-z,now -Wl,--as-needed -Wl,--exclude-libs,ALL
                      # Every simulated rank loads its own copy of the whole file: debug information is 4/5 of it.
                      -Wl,--strip-debug)
  if(NOT MESHBED_SANITIZE AND NOT MESHBED_FUZZ)  # sanitizer runtimes are left undefined in shared objects
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:terminate_objects>)
    target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--no-undefined)
  endif()
  if(product_NODELETE)
    target_link_options(${target} PRIVATE -Wl,-z,nodelete)
  endif()
  target_link_libraries(${target} PRIVATE ${product_LINKS})
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map} LINKER_LANGUAGE CXX meshbed_objects "${objects}")
  if(product_SONAME)
    list(GET product_SONAME 0 name)
    list(GET product_SONAME 1 version)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION ${version} SOVERSION ${version})
  endif()
  if(product_FOLDER)
    set_target_properties(${target} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${product_FOLDER})
  endif()
endfunction()
