// Version 5 of the tuner: NCCL 2.28 on; 2.30 looks for v6 first and takes this one where there is none.
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"
#include "plugin/nccl/tuner.h"

using namespace meshbed::nccl;

namespace {

int init(void** context, std::uint64_t comm_id, std::size_t ranks, std::size_t nodes, LogFunction log, NvlDomainInfoV5*,
         TunerConstantsV5*) {
  return tuner_init(context, comm_id, ranks, nodes, log);
}

/// The number of channels stays NCCL's choice.
int get_coll_info(void* context, int collective, std::size_t size_bytes, int /*pipelined*/, float** cost_table,
                  int algorithms, int protocols, int /*registered*/, int* /*channels*/) {
  return tuner_get_coll_info(context, collective, size_bytes, cost_table, algorithms, protocols);
}

}  // namespace

const TunerV5 ncclTunerPlugin_v5 = {
    .name = kPluginName,
    .init = &init,
    .getCollInfo = &get_coll_info,
    .finalize = &tuner_finalize,
};
