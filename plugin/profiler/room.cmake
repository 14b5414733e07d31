# libnccl-profiler-meshbed.so, what NCCL decides, from its profiler's hooks: a plugin of its own, for
# NCCL_PROFILER_PLUGIN=meshbed.
meshbed_room(profiler_objects PRODUCT FOLDERS .)
product_library(nccl-profiler-meshbed profiler.map PARTS profiler_objects)
