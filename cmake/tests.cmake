# One test binary a room, so that a change rebuilds and reruns little; ctest runs them side by side.

# add_suite(NAME [SHARDS COUNT] [TAKEN COUNT] [COST SECONDS] [ALONE] ARGUMENTS ARGUMENT...): the suite as several tests,
# each with a part of its test cases (tests/support/main.cpp), so that both cores end together: SHARDS parts, of which
# TAKEN run (default: all). Those with the largest COST (about how many seconds one takes) begin first. ALONE: no other
# runs beside it. ARGUMENTS: as of add_test().
function(add_suite name)
  cmake_parse_arguments(PARSE_ARGV 1 suite "ALONE" "SHARDS;TAKEN;COST" "ARGUMENTS")
  if(NOT suite_SHARDS)
    set(suite_SHARDS 1)
  endif()
  if(NOT suite_TAKEN)
    set(suite_TAKEN ${suite_SHARDS})
  endif()
  foreach(part RANGE 1 ${suite_TAKEN})
    set(test ${name})
    set(environment MESHBED_CASE_LOG=1)
    if(suite_SHARDS GREATER 1)
      set(test ${name}/${part})
      list(APPEND environment MESHBED_SHARD=${part}/${suite_SHARDS})
    endif()
    add_test(NAME ${test} ${suite_ARGUMENTS})
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${environment}")
    if(suite_COST)
      set_tests_properties(${test} PROPERTIES COST ${suite_COST})
    endif()
    if(suite_ALONE)
      set_tests_properties(${test} PROPERTIES RUN_SERIAL TRUE)
    endif()
  endforeach()
endfunction()

# starts_programs(VARIABLE FILE...): whether one of these tests or their headers starts the built command.
function(starts_programs variable)
  set(${variable} FALSE PARENT_SCOPE)
  foreach(file ${ARGN})
    file(STRINGS ${file} lines REGEX "meshbed_program\\(|/bin/meshbed")
    if(lines)
      set(${variable} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# meshbed_test(ROOM [SOURCES PATTERN...] [ALSO FILE...] [LINKS TARGET...] [NEEDS TARGET...] [FILTER OPTION...]
#              [COMPUTES] [EXPORTS] [SHARDS COUNT] [COST SECONDS] [ALONE]): the program ROOM_tests of
# tests/ROOM/*_test.cpp, or of these files, and its suite. NEEDS: what it starts or loads; FILTER: doctest's options;
# EXPORTS: what it loads may look names up in it. COMPUTES: the tests compute much themselves; the others wait for the
# product, and -O0 takes a quarter to a half less time to compile than -O1.
function(meshbed_test room)
  cmake_parse_arguments(PARSE_ARGV 1 test "COMPUTES;EXPORTS;ALONE" "SHARDS;COST" "SOURCES;ALSO;LINKS;NEEDS;FILTER")
  set(folder ${MESHBED_TESTS_DIR}/${room})
  if(NOT test_SOURCES)
    set(test_SOURCES ${folder}/*_test.cpp)
  endif()
  list(GET test_SOURCES 0 first)
  get_filename_component(folder ${first} DIRECTORY)
  file(GLOB sources CONFIGURE_DEPENDS ${test_SOURCES})
  add_executable(${room}_tests ${sources})
  target_sources(${room}_tests PRIVATE ${test_ALSO})
  target_link_libraries(${room}_tests PRIVATE test_support doctest::doctest ${test_LINKS})
  target_link_options(${room}_tests PRIVATE ${program_linker})
  unity(${room}_tests 24)
  if(test_COMPUTES)
    target_compile_options(${room}_tests PRIVATE ${brisk_options})
  elseif(brisk_options)
    target_compile_options(${room}_tests PRIVATE -O0)
  endif()
  if(test_EXPORTS)
    set_target_properties(${room}_tests PROPERTIES ENABLE_EXPORTS ON)
  endif()
  # Sanitizers look at the tests themselves and at what is linked into them: no simulation loads a file there.
  if(NOT MESHBED_SANITIZE AND MESHBED_ROOMS STREQUAL all)
    add_dependencies(${room}_tests rank_libraries)
    file(GLOB headers ${folder}/*.h)
    starts_programs(starts ${sources} ${headers})
    if(starts)
      add_dependencies(${room}_tests worlds meshbed-tools meshbed-run cuda_libraries)
    endif()
  endif()
  if(test_NEEDS)
    add_dependencies(${room}_tests ${test_NEEDS})
  endif()
  set(how "")
  foreach(word SHARDS COST)
    if(test_${word})
      list(APPEND how ${word} ${test_${word}})
    endif()
  endforeach()
  if(test_ALONE)
    list(APPEND how ALONE)
  endif()
  add_suite(${room} ${how} ARGUMENTS COMMAND ${room}_tests ${test_FILTER})
endfunction()

# meshbed_memcheck(ROOM [SHARDS COUNT] [TAKEN COUNT] [COST SECONDS] [FILTER OPTION...]): the same suite under Valgrind,
# by `ctest -C Memcheck`: whole simulations included, for Valgrind follows the stacks that SimGrid switches to, which
# AddressSanitizer does not. FILTER: what is left out, as doctest's options.
function(meshbed_memcheck room)
  if(MESHBED_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 test "" "" "FILTER")
  add_suite(memcheck/${room} ${test_UNPARSED_ARGUMENTS} ARGUMENTS CONFIGURATIONS Memcheck
            COMMAND valgrind -q --trace-children=yes --error-exitcode=9
                    --suppressions=${MESHBED_TESTS_DIR}/valgrind.supp $<TARGET_FILE:${room}_tests> ${test_FILTER})
endfunction()
