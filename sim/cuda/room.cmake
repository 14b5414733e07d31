# The simulated CUDA: everything that it does, in a library that the drop-ins libcuda.so.1, libcudart.so.13 and
# libnvidia-ml.so.1 beside it load (README.md). In a folder of their own, so that only who names it takes them for NVIDIA's.
meshbed_room(cuda_objects PRODUCT FOLDERS . graph image launch library nvml per_thread process share texture UNITY 99)

# The PTX interpreter. Its loops over the lanes of a warp are to become vectors, also where the compiler first has to
# see that two arrays are apart; no flag of a floating point operation is read.
set(vector_options -ftree-vectorize -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND vector_options -fvect-cost-model=dynamic)
endif()
meshbed_room(ptx_objects PRODUCT FOLDERS ptx ptx/cache ptx/cluster ptx/isa ptx/race ptx/vector UNITY 99
             OPTIONS ${vector_options})

set(links fmt::fmt ${ZSTD_LIBRARY} ${LZ4_LIBRARY} Threads::Threads)
product_archive(meshbed_cuda cuda_objects ptx_objects gpu_model_objects)
target_link_libraries(meshbed_cuda PUBLIC meshbed_perfetto meshbed_base ${links})
add_library(meshbed-cuda SHARED $<TARGET_OBJECTS:cuda_objects> $<TARGET_OBJECTS:ptx_objects>
            $<TARGET_OBJECTS:gpu_model_objects> $<TARGET_OBJECTS:perfetto_objects> $<TARGET_OBJECTS:base_objects>)
meshbed_files(open_map process/open.map)
target_link_options(meshbed-cuda PRIVATE -Wl,--version-script=${open_map} -Wl,--as-needed)
if(NOT MESHBED_SANITIZE AND NOT MESHBED_FUZZ)  # whose runtimes are left undefined in shared objects
  target_link_options(meshbed-cuda PRIVATE -Wl,--no-undefined)  # it needs nothing of the simulator around it
endif()
target_link_libraries(meshbed-cuda PRIVATE ${links})
set_target_properties(meshbed-cuda PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/cuda-lib
                      LINK_DEPENDS ${open_map})

# cuda_dropin(NAME SONAME VERSION): dropin/NAME.cpp
function(cuda_dropin name soname version)
  meshbed_room(cuda_${name}_objects PRODUCT FILES dropin/${name}.cpp)
  product_library(cuda_sim_${name} dropin/${name}.map PARTS cuda_${name}_objects LINKS ${CMAKE_DL_LIBS}
                  SONAME ${soname} ${version} FOLDER cuda-lib)
endfunction()
cuda_dropin(driver cuda 1)
cuda_dropin(runtime cudart 13)
cuda_dropin(nvml nvidia-ml 1)

# Parts of it in the command: the PTX interpreter, which `conformance ptx` runs in the process itself, and what is in a
# libnccl.so's fat binaries, for `nccl check`.
product_archive(meshbed_ptx ptx_objects)
target_link_libraries(meshbed_ptx PUBLIC meshbed_base)
meshbed_room(fat_binary_objects PRODUCT FILES image/fat_binary.cpp)
product_archive(meshbed_fat_binary fat_binary_objects)
target_link_libraries(meshbed_fat_binary PUBLIC meshbed_base fmt::fmt ${ZSTD_LIBRARY} ${LZ4_LIBRARY})
