# What ./meshbed install PREFIX puts there. Files are copied as they were built, byte by byte: their SHA-256 is what
# reports name. The command and the files that it and ranks load stand together in lib/meshbed, in the folders that they
# have in the build folder, since each is found from where the running program is.
include(CMakePackageConfigHelpers)

set(inner lib/meshbed)
set(as_program PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
foreach(program meshbed meshbed-tools meshbed-run)
  install(FILES ${CMAKE_BINARY_DIR}/bin/${program} DESTINATION ${inner}/bin ${as_program})
endforeach()
foreach(target nccl-net-mesh nccl-net-local nccl-profiler-meshbed meshcoll meshbed-verbs-trace meshbed-nccl-sweep)
  install(FILES $<TARGET_FILE:${target}> DESTINATION ${inner}/lib)
endforeach()
foreach(folder nccl-lib mpi-lib sim-lib cuda-lib)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/${folder} DESTINATION ${inner} USE_SOURCE_PERMISSIONS)
endforeach()
# What users name: the command, and the files that NCCL and programs load by name.
install(CODE [=[
set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
file(MAKE_DIRECTORY "${prefix}/bin")
file(CREATE_LINK ../lib/meshbed/bin/meshbed "${prefix}/bin/meshbed" SYMBOLIC)
foreach(name libnccl-net-mesh.so libnccl-net-local.so libnccl-profiler-meshbed.so libmeshcoll.so)
  file(CREATE_LINK meshbed/lib/${name} "${prefix}/lib/${name}" SYMBOLIC)
endforeach()
]=])

install(DIRECTORY ${CMAKE_SOURCE_DIR}/scenarios ${CMAKE_SOURCE_DIR}/models/profiles DESTINATION share/meshbed)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/testbed/include/meshbed DESTINATION include)
install(FILES ${CMAKE_SOURCE_DIR}/plugin/coll/meshcoll.h DESTINATION include/meshbed)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/plugin/ring/include/meshbed DESTINATION include)

# libmeshbed: find_package(Meshbed) and pkg-config meshbed, both wherever the prefix lies.
install(TARGETS libmeshbed EXPORT MeshbedTargets LIBRARY DESTINATION lib)
install(EXPORT MeshbedTargets NAMESPACE Meshbed:: DESTINATION lib/cmake/Meshbed)
file(WRITE ${CMAKE_BINARY_DIR}/generated/MeshbedConfig.cmake
     "include(\"\${CMAKE_CURRENT_LIST_DIR}/MeshbedTargets.cmake\")\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/MeshbedConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/MeshbedConfig.cmake ${CMAKE_BINARY_DIR}/generated/MeshbedConfigVersion.cmake
        DESTINATION lib/cmake/Meshbed)
configure_file(${CMAKE_SOURCE_DIR}/cmake/meshbed.pc.in ${CMAKE_BINARY_DIR}/generated/meshbed.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/generated/meshbed.pc DESTINATION lib/pkgconfig)

# All of that, before `cmake --install` copies it.
add_custom_target(installed DEPENDS worlds meshbed-tools cuda_libraries libmeshbed meshbed-run)
