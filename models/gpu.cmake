# The models of GPUs: in the simulated CUDA, too, which a CUDA program loads.
meshbed_files(gpu_sources gpu.cpp gpu_fields.cpp)
meshbed_room(gpu_model_objects PRODUCT FILES ${gpu_sources})
