// Version 5 of the tuner: NCCL 2.28 on; 2.30 looks for v6 first.
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"
#include "plugin/nccl/tuner.h"

using namespace meshbed::nccl;

const TunerV5 ncclTunerPlugin_v5 = {
    .name = kPluginName,
    .init = &tuner_init,
    .getCollInfo = &tuner_get_coll_info,
    .finalize = &tuner_finalize,
};
