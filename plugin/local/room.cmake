# libnccl-net-local.so, the engine's transport within one host: a net plugin that needs libc alone, with the C boundary
# of the other one.
meshbed_room(local_objects PRODUCT FOLDERS .)
product_library(nccl-net-local local.map PARTS local_objects boundary_objects meshbed_base)
