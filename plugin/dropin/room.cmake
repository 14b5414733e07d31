# The engine behind nccl.h: a libnccl.so.2 in a folder of its own, so that only who names it takes it for NVIDIA's.
meshbed_room(dropin_objects PRODUCT FOLDERS . OPTIONS -Os)
# NODELETE: threads take their data with them when they end.
product_library(nccl_dropin nccl.map PARTS dropin_objects meshcoll LINKS ${NETTLE_ARCHIVE} SONAME nccl 2
                FOLDER nccl-lib NODELETE)

# MPI over the engine's store, for programs whose ranks meet by it.
meshbed_room(mpi_objects PRODUCT FOLDERS mpi OPTIONS -Os)
product_library(mpi_dropin mpi/mpi.map PARTS mpi_objects meshcoll LINKS ${NETTLE_ARCHIVE} SONAME mpi 40 FOLDER mpi-lib)
