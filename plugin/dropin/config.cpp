#include "plugin/dropin/config.h"

#include <cstddef>
#include <cstring>

namespace meshbed::dropin {
namespace {

// Up to `blocking`, its first field: NCCL 2.14.
constexpr std::size_t kSmallestBytes = offsetof(ncclConfig_t, cgaClusterSize);

struct Field {
  const char* name;
  int value;
  int honoured;  // what we do anyway
};

}  // namespace

Outcome check_config(const ncclConfig_t* given) {
  if (given == nullptr) return {};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (given->magic != NCCL_CONFIG_MAGIC || given->size < kSmallestBytes) {
    return invalid_argument("the config was not made by NCCL_CONFIG_INITIALIZER");
  }
  if (given->size > sizeof config) {
    return invalid_argument("the config has " + std::to_string(given->size) + " bytes, where NCCL " +
                            std::to_string(NCCL_MAJOR) + "." + std::to_string(NCCL_MINOR) + " has " +
                            std::to_string(sizeof config) + ": compile against its nccl.h");
  }
  std::memcpy(&config, given, given->size);
  constexpr int kNothing = NCCL_CONFIG_UNDEF_INT;
  for (const Field& field : {Field{"blocking", config.blocking, 1},
                             {"cgaClusterSize", config.cgaClusterSize, kNothing},
                             {"minCTAs", config.minCTAs, kNothing},
                             {"maxCTAs", config.maxCTAs, kNothing},
                             {"splitShare", config.splitShare, 0},
                             {"trafficClass", config.trafficClass, kNothing},
                             {"collnetEnable", config.collnetEnable, 0},
                             {"CTAPolicy", config.CTAPolicy, kNothing},
                             {"shrinkShare", config.shrinkShare, 0},
                             {"nvlsCTAs", config.nvlsCTAs, kNothing},
                             {"nChannelsPerNetPeer", config.nChannelsPerNetPeer, kNothing},
                             {"nvlinkCentricSched", config.nvlinkCentricSched, kNothing}}) {
    if (field.value == NCCL_CONFIG_UNDEF_INT || field.value == field.honoured) continue;
    return invalid_usage("config." + std::string(field.name) + " = " + std::to_string(field.value) +
                         " is not supported" +
                         (field.honoured == kNothing ? std::string() : ", only " + std::to_string(field.honoured)) +
                         ": leave it undefined");
  }
  if (config.netName != nullptr) {
    return invalid_usage("config.netName = \"" + std::string(config.netName) +
                         "\" is not supported: set NCCL_NET_PLUGIN, and leave it undefined");
  }
  return {};  // commName is a label for tools, which need not be told
}

}  // namespace meshbed::dropin
