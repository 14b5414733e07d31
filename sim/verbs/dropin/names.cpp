// Texts and rates: ibv_event_type_str(3), ibv_wc_status_str, ibv_rate_to_mult(3), ibv_rate_to_mbps(3),
// ibv_fork_init(3). The texts are rdma-core's own, because logs and tools match on them.

#include <array>

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

namespace {

template <std::size_t kCount>
const char* name_at(const std::array<const char*, kCount>& names, int index) {
  return index >= 0 && static_cast<std::size_t>(index) < kCount ? names[static_cast<std::size_t>(index)] : "unknown";
}

struct Rate {
  ibv_rate rate;
  int multiple;  // of 2.5 Gb/s; 0: none
  int mbps;
};

constexpr std::array kRates{
    Rate{IBV_RATE_2_5_GBPS, 1, 2500},     Rate{IBV_RATE_5_GBPS, 2, 5000},        Rate{IBV_RATE_10_GBPS, 4, 10000},
    Rate{IBV_RATE_14_GBPS, 0, 14062},     Rate{IBV_RATE_20_GBPS, 8, 20000},      Rate{IBV_RATE_25_GBPS, 0, 25781},
    Rate{IBV_RATE_28_GBPS, 11, 28125},    Rate{IBV_RATE_30_GBPS, 12, 30000},     Rate{IBV_RATE_40_GBPS, 16, 40000},
    Rate{IBV_RATE_50_GBPS, 20, 53125},    Rate{IBV_RATE_56_GBPS, 0, 56250},      Rate{IBV_RATE_60_GBPS, 24, 60000},
    Rate{IBV_RATE_80_GBPS, 32, 80000},    Rate{IBV_RATE_100_GBPS, 0, 103125},    Rate{IBV_RATE_112_GBPS, 0, 112500},
    Rate{IBV_RATE_120_GBPS, 48, 120000},  Rate{IBV_RATE_168_GBPS, 0, 168750},    Rate{IBV_RATE_200_GBPS, 0, 206250},
    Rate{IBV_RATE_300_GBPS, 0, 309375},   Rate{IBV_RATE_400_GBPS, 160, 425000},  Rate{IBV_RATE_600_GBPS, 240, 637500},
    Rate{IBV_RATE_800_GBPS, 320, 850000}, Rate{IBV_RATE_1200_GBPS, 480, 1275000}};

}  // namespace

MESHBED_VERB const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array kNames{"success",
                                     "local length error",
                                     "local QP operation error",
                                     "local EE context operation error",
                                     "local protection error",
                                     "Work Request Flushed Error",
                                     "memory management operation error",
                                     "bad response error",
                                     "local access error",
                                     "remote invalid request error",
                                     "remote access error",
                                     "remote operation error",
                                     "transport retry counter exceeded",
                                     "RNR retry counter exceeded",
                                     "local RDD violation error",
                                     "remote invalid RD request",
                                     "aborted error",
                                     "invalid EE context number",
                                     "invalid EE context state",
                                     "fatal error",
                                     "response timeout error",
                                     "general error",
                                     "TM error",
                                     "TM software rendezvous"};
  return name_at(kNames, static_cast<int>(status));
}

MESHBED_VERB const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr std::array kNames{"CQ error",
                                     "local work queue catastrophic error",
                                     "invalid request local work queue error",
                                     "local access violation work queue error",
                                     "communication established",
                                     "send queue drained",
                                     "path migrated",
                                     "path migration request error",
                                     "local catastrophic error",
                                     "port active",
                                     "port error",
                                     "LID change",
                                     "P_Key change",
                                     "SM change",
                                     "SRQ catastrophic error",
                                     "SRQ limit reached",
                                     "last WQE reached",
                                     "client reregistration",
                                     "GID table change",
                                     "WQ fatal"};
  return name_at(kNames, static_cast<int>(event));
}

MESHBED_VERB const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array kNames{"unknown",           "InfiniBand channel adapter",
                                     "InfiniBand switch", "InfiniBand router",
                                     "iWARP NIC",         "usNIC",
                                     "usNIC UDP",         "unspecified"};
  return name_at(kNames, static_cast<int>(type));
}

MESHBED_VERB const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array kNames{"no state change (NOP)", "down", "init", "armed", "active", "active defer"};
  return name_at(kNames, static_cast<int>(state));
}

MESHBED_VERB int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& each : kRates) {
    if (each.rate == rate && each.multiple != 0) return each.multiple;
  }
  return -1;
}

MESHBED_VERB ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& each : kRates) {
    if (each.multiple != 0 && each.multiple == multiple) return each.rate;
  }
  return IBV_RATE_MAX;
}

MESHBED_VERB int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& each : kRates) {
    if (each.rate == rate) return each.mbps;
  }
  return -1;
}

MESHBED_VERB ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& each : kRates) {
    if (each.mbps == mbps) return each.rate;
  }
  return IBV_RATE_MAX;
}

// No page is pinned behind the kernel's back, so fork needs no preparation.
MESHBED_VERB int ibv_fork_init(void) { return 0; }
MESHBED_VERB ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }
MESHBED_VERB int ibv_dontfork_range(void*, std::size_t) { return 0; }
MESHBED_VERB int ibv_dofork_range(void*, std::size_t) { return 0; }

MESHBED_VERB const char* ibv_get_sysfs_path(void) { return "/sys"; }

// Data of rdma-core's private interface; only providers read it.
extern "C" __attribute__((visibility("default"))) bool verbs_allow_disassociate_destroy;
bool verbs_allow_disassociate_destroy = false;
