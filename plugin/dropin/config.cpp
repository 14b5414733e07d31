#include "plugin/dropin/config.h"

#include <charconv>
#include <cstddef>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/coll/store/environment.h"

namespace meshbed::dropin {
namespace {

// Up to `blocking`, its first field: NCCL 2.14.
constexpr std::size_t kSmallestBytes = offsetof(ncclConfig_t, cgaClusterSize);

struct Field {
  const char* name;
  int since;  // the NCCL that brought it: before, what lies there is padding of a shorter struct
  int value;
  int honoured;  // what we do anyway
};

std::int64_t number_of(const char* name, std::int64_t otherwise) {
  constexpr std::int64_t kMost = 1'000'000;
  const auto given = coll::variable(name);
  if (!given) return otherwise;
  std::int64_t number = 0;
  const char* end = given->data() + given->size();
  const auto [stop, error] = std::from_chars(given->data(), end, number);
  if (error == std::errc() && stop == end && number >= 1 && number <= kMost) return number;
  MESHBED_WARN("%s is \"%s\", no number from 1 to %lld: it is taken to be %lld", name, given->c_str(),
               static_cast<long long>(kMost), static_cast<long long>(otherwise));
  return otherwise;
}

}  // namespace

std::int64_t reach_timeout_ms() {
  const std::int64_t tries = number_of("NCCL_SOCKET_RETRY_CNT", 34);
  return tries * (tries + 1) / 2 * number_of("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100);
}

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
  const auto knows = [version = static_cast<int>(given->version)](int since) { return version >= since; };
  constexpr int k17 = NCCL_VERSION(2, 17, 0), k18 = NCCL_VERSION(2, 18, 0), k25 = NCCL_VERSION(2, 25, 0);
  constexpr int k27 = NCCL_VERSION(2, 27, 0), k28 = NCCL_VERSION(2, 28, 0);
  for (const Field& field : {Field{"blocking", 0, config.blocking, 1},
                             {"cgaClusterSize", k17, config.cgaClusterSize, kNothing},
                             {"minCTAs", k17, config.minCTAs, kNothing},
                             {"maxCTAs", k17, config.maxCTAs, kNothing},
                             {"splitShare", k18, config.splitShare, 0},
                             {"trafficClass", k25, config.trafficClass, kNothing},
                             {"collnetEnable", k27, config.collnetEnable, 0},
                             {"CTAPolicy", k27, config.CTAPolicy, kNothing},
                             {"shrinkShare", k27, config.shrinkShare, 0},
                             {"nvlsCTAs", k27, config.nvlsCTAs, kNothing},
                             {"nChannelsPerNetPeer", k28, config.nChannelsPerNetPeer, kNothing},
                             {"nvlinkCentricSched", k28, config.nvlinkCentricSched, kNothing}}) {
    if (!knows(field.since)) continue;
    if (field.value == NCCL_CONFIG_UNDEF_INT || field.value == field.honoured) continue;
    return invalid_usage("config." + std::string(field.name) + " = " + std::to_string(field.value) +
                         " is not supported" +
                         (field.honoured == kNothing ? std::string() : ", only " + std::to_string(field.honoured)) +
                         ": leave it undefined");
  }
  if (knows(k17) && config.netName != nullptr) {
    return invalid_usage("config.netName = \"" + std::string(config.netName) +
                         "\" is not supported: set NCCL_NET_PLUGIN, and leave it undefined");
  }
  return {};  // commName is a label for tools and has no effect here
}

}  // namespace meshbed::dropin
