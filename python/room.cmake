# `import meshbed`: a module over libmeshbed's public headers, for Debian's /usr/bin/python3.
# pybind11: C++ classes as Python's, with exceptions and numpy arrays over memory of ours.
find_package(Python3 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 REQUIRED)

# Beside the Python sources in the build folder, so that PYTHONPATH=build/python is enough.
set(python_folder ${CMAKE_BINARY_DIR}/python/meshbed)
pybind11_add_module(python_module MODULE ${CMAKE_SOURCE_DIR}/python/module.cpp)
target_link_libraries(python_module PRIVATE libmeshbed)
set_target_properties(python_module PROPERTIES OUTPUT_NAME _meshbed LIBRARY_OUTPUT_DIRECTORY ${python_folder}
                      BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../../..:$ORIGIN/../../lib")
file(GLOB python_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/meshbed/*)
add_custom_command(TARGET python_module POST_BUILD VERBATIM
                   COMMAND ${CMAKE_COMMAND} -E copy_if_different ${python_sources} ${python_folder})
set_target_properties(python_module PROPERTIES LINK_DEPENDS "${python_sources}")

install(FILES ${python_sources} DESTINATION lib/python3/dist-packages/meshbed)
install(FILES $<TARGET_FILE:python_module> DESTINATION lib/python3/dist-packages/meshbed)
add_dependencies(installed python_module meshbed-run)
