# Many sources in one translation unit: most of what compiling one costs is reading the headers of the standard library
# and of other projects, and the optimiser sees across the sources that stand together (which took the place of
# link-time optimisation of everything). With MESHBED_UNITY=OFF each file proves that it includes what it uses of the
# project; tests/includes_test.cpp checks what it uses of the standard library.

# unity(TARGET COUNT): so many sources at a time; 0: all.
function(unity target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MESHBED_UNITY} UNITY_BUILD_BATCH_SIZE ${count})
endfunction()

# precompile_headers(): where sources are compiled one by one, each target made so far reads these headers once: reading
# them for every file is three quarters of the work.
function(precompile_headers)
  if(MESHBED_UNITY)
    return()
  endif()
  set(precompiled_headers algorithm array atomic bit charconv chrono cmath condition_variable cstdint deque exception
      filesystem functional initializer_list iosfwd iterator limits map memory mutex new numeric optional ostream set
      span sstream stdexcept string string_view system_error thread tuple type_traits unordered_map utility variant
      vector fmt/format.h)
  list(TRANSFORM precompiled_headers PREPEND "<")
  list(TRANSFORM precompiled_headers APPEND ">")
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(sources ${target} SOURCES)
    if(NOT type STREQUAL UTILITY AND sources)
      string(GENEX_STRIP "${sources}" sources)  # objects of other targets
      list(LENGTH sources count)
      if(count GREATER 6)  # reading the headers costs about as much as six small sources
        target_precompile_headers(${target} PRIVATE ${precompiled_headers})
      endif()
    endif()
  endforeach()
endfunction()
