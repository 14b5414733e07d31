# libmeshcoll.so, the engine. The lists name files, since the layers' folders hold what every message passes, what calls
# on GPU memory pass, and the rest, side by side.

# What every message passes, for speed.
meshbed_room(coll_data_objects DATA_PATH FILES
             run/executor.cpp run/channel_run.cpp plan/plan.cpp reduce/reduce.cpp transport/transport_tables.cpp
             run/worker.cpp)

# What calls on GPU memory alone pass stands together, beside loops for other processors: the kernel maps pages by 64
# KiB around one that is used, and a process without a GPU shall have none of these in memory.
meshbed_room(coll_gpu_objects PRODUCT OPTIONS -Os FILES
             run/gpu.cpp run/communicator_gpu.cpp run/pinned_pool.cpp run/loan.cpp run/recorded_call.cpp
             run/gpu_reduce.cpp run/gpu_sums.cpp transport/direct_messages.cpp)
get_target_property(data_path coll_data_objects SOURCES)
get_target_property(gpu_path coll_gpu_objects SOURCES)
gpu_kernel(coll_gpu_objects reduce/reduce_gpu.cu)

# The reductions' loops are compiled for several processors, and one is chosen when the program runs. All are to become
# vectors, whose last elements go one by one; and floating point operations that the source does not ask for may run
# beside the others, since no flag of theirs is read.
set(loops reduce/reduce_baseline.cpp reduce/reduce_avx2.cpp reduce/reduce_avx512.cpp)
set(vector_options -O2 -ftree-vectorize -fno-trapping-math)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  list(APPEND vector_options -fvect-cost-model=unlimited --param=vect-epilogues-nomask=0)
endif()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  # For processors of before 2013: small.
  meshbed_room(reduce_baseline_objects PRODUCT FILES reduce/reduce_baseline.cpp OPTIONS -Os -fno-trapping-math)
  meshbed_room(reduce_avx2_objects PRODUCT FILES reduce/reduce_avx2.cpp OPTIONS ${vector_options} -mavx2 -mf16c)
  meshbed_room(reduce_avx512_objects PRODUCT FILES reduce/reduce_avx512.cpp OPTIONS ${vector_options} -mf16c -mavx512f
               -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  set(wide_loops reduce_avx2_objects reduce_avx512_objects)
else()
  meshbed_room(reduce_baseline_objects PRODUCT FILES reduce/reduce_baseline.cpp OPTIONS ${vector_options})
  set(wide_loops "")
endif()

meshbed_room(coll_objects PRODUCT FOLDERS . * EXCEPT ${data_path} ${gpu_path} ${loops} OPTIONS -Os)

set(parts coll_data_objects coll_objects reduce_baseline_objects)
product_archive(meshbed_coll ${parts} coll_gpu_objects ${wide_loops})
target_link_libraries(meshbed_coll PUBLIC meshbed_cuda_door meshbed_base ${NETTLE_ARCHIVE} Threads::Threads)
# NODELETE: threads take their texts with them when they end.
product_library(meshcoll meshcoll.map LINKS ${NETTLE_ARCHIVE} NODELETE
                PARTS ${parts} cuda_door_objects coll_gpu_objects ${wide_loops} meshbed_base)
