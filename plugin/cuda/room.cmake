# The door to CUDA, which is looked for when the program runs.
meshbed_room(cuda_door_objects PRODUCT FOLDERS . OPTIONS -Os)
product_archive(meshbed_cuda_door cuda_door_objects)
target_link_libraries(meshbed_cuda_door PUBLIC meshbed_base ${CMAKE_DL_LIBS})
