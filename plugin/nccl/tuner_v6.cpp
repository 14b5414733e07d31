// Version 6 of the tuner: NCCL 2.30 on: chunks, too, are asked about.
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"
#include "plugin/nccl/tuner.h"

using namespace meshbed::nccl;

const TunerV6 ncclTunerPlugin_v6 = {
    .name = kPluginName,
    .init = &tuner_init,
    .getCollInfo = &tuner_get_coll_info,
    .finalize = &tuner_finalize,
    .getChunkSize = &tuner_get_chunk_size,
};
