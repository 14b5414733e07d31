# Owners of verbs objects; compiled with the transport (plugin/nccl/room.cmake).
meshbed_files(verbs_data_path completion.cpp queue_pair.cpp)
meshbed_files(verbs_rules gid.cpp)
meshbed_sources(verbs_sources .)
