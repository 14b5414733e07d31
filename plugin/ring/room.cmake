# Work rings of megakernels: values, codecs and an interpreter, of the standard library alone.
meshbed_room(ring_objects PRODUCT FOLDERS abi kernel queue telemetry)
product_archive(meshbed_ring ring_objects)
target_link_libraries(meshbed_ring PUBLIC meshbed_base Threads::Threads)

# The same on a GPU.
meshbed_room(ring_gpu_objects PRODUCT FOLDERS gpu)
gpu_kernel(ring_gpu_objects gpu/megakernel.cu)
product_archive(meshbed_ring_gpu ring_gpu_objects)
target_link_libraries(meshbed_ring_gpu PUBLIC meshbed_ring meshbed_cuda_door)
