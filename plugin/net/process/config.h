#pragma once
// Every environment variable that the net plugin reads, as one table: name, default, range, meaning, and whether it has
// an effect. It needs no verbs, so that `meshbed env` can print it with the values in force.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "plugin/base/hca_list.h"
#include "plugin/base/name_list.h"
#include "plugin/net/process/address.h"

namespace meshbed::net {

enum class Variable : std::uint8_t {
  kDebug,
  kSeed,
  kConnectTimeoutSec,
  kAcceptTimeoutSec,
  kTimeoutMs,
  kRetryCount,
  kTimeoutSec,
  kFatalOnTimeout,
  kFastFail,
  kFailoverTimeoutSec,
  kMeshGidIndex,
  kUseManagement,
  kIbHca,
  kIbGidIndex,
  kIbRoceVersion,
  kIbTimeout,
  kIbRetryCount,
  kIbTrafficClass,
  kIbServiceLevel,
  kIbRelaxedOrdering,
  kIbAddressFamily,
  kIbAddressRange,
  kIbPkey,
  kIbFifoTrafficClass,
  kIbUseInline,
  kIbReturnAsyncEvents,
  kIbAdaptiveRouting,
  kIbArThreshold,
  kIbEce,
  kIbMergeNics,
  kIbMergeVfs,
  kIbSubnetAwareRouting,
  kIbSubnetPrefixLength,
  kIbPortFailover,
  kIbPortRecovery,
  kIbDisable,
  kGdrFlushDisable,
  kSocketIfname,
  kSocketFamily,
  kOobIfname,
  kDisableRdma,
  kConnPool,
  kAsyncConnect,
  kEnableRelay,
  kMaxRelayHops,
  kMaxHops,
  kRelayPort,
  kStripeBytes,
  kIbQueuePairs,
  kIbSplitData,
  kAllowRouted,
  kTunerTimeoutMs,
  kTunerPlugin,
  kRingLoadBalance,
  kRingPreferShort,
  kRingBalanceThreshold,
  kHybridTcp,
  kHealthCheckIntervalMs,
  kMetrics,
  kMetricsIntervalSec,
  kTopology,
  kStateSocket,
  kReport,
  kCount
};

enum class ValueKind : std::uint8_t { kNumber, kText };

struct VariableInfo {
  Variable id;
  const char* name;
  ValueKind kind;
  std::int64_t default_value;  // numbers
  std::int64_t min, max;
  bool effective;  // false: read and checked for compatibility with the ancestor, without effect
  const char* meaning;
  bool (*accepts)(std::string_view) = nullptr;  // texts; nullptr: anything
  const char* wanted = "";                      // what it accepts
  /// For lists, whose valid entries are used: what is wrong with the others; empty: nothing.
  std::string (*problem)(std::string_view) = nullptr;
  Variable zero_means = Variable::kCount;  // 0 stands for this one's value; kCount: for itself
};

inline bool is_family(std::string_view text) { return text == "AF_INET" || text == "AF_INET6"; }
inline bool is_prefix(std::string_view text) { return parse_prefix(text).has_value(); }

/// Whether NCCL uses this file's tuner if NCCL_TUNER_PLUGIN is `name`, as far as the name shows. NCCL opens that file,
/// else libnccl-tuner-NAME.so, and if neither exists the net plugin's tuner. Unset or empty: libnccl-tuner.so, else the
/// net plugin's. "none", in upper or lower case: no tuner (NCCL: ncclTunerPluginLoad of src/plugin/tuner.cc,
/// openPluginLib of plugin_open.cc). So it is ours under our own name, which is also this file's name in
/// NCCL_NET_PLUGIN.
bool is_our_tuner(std::string_view name);

inline constexpr std::int64_t kLargestNumber = INT64_MAX;
inline constexpr std::int64_t kUnset = -1;
/// The room of a ROUTE message (wire.h).
inline constexpr std::int64_t kMaxRelayHopsMost = 8;

inline constexpr std::array<VariableInfo, static_cast<std::size_t>(Variable::kCount)> kVariables{{
    {Variable::kDebug, "NCCL_MESH_DEBUG", ValueKind::kNumber, 0, 0, 2, true,
     "2 adds a line for each step of a handshake, at NCCL_DEBUG=TRACE"},
    {Variable::kSeed, "NCCL_MESH_SEED", ValueKind::kNumber, kUnset, kUnset, kLargestNumber, true,
     "seed of sequence numbers and cookies, which others can then guess; -1: each from the kernel"},
    {Variable::kConnectTimeoutSec, "NCCL_MESH_CONNECT_TIMEOUT_SEC", ValueKind::kNumber, 10, 0, 86400, true,
     "to reach the peer's address over TCP; 0: for ever"},
    {Variable::kAcceptTimeoutSec, "NCCL_MESH_ACCEPT_TIMEOUT_SEC", ValueKind::kNumber, 30, 0, 86400, true,
     "for the handshake once TCP is connected, at both ends; 0: for ever"},
    {Variable::kTimeoutMs, "NCCL_MESH_TIMEOUT_MS", ValueKind::kNumber, 5000, 100, 3600000, true,
     "one attempt to reach the peer's address over TCP"},
    {Variable::kRetryCount, "NCCL_MESH_RETRY_COUNT", ValueKind::kNumber, 3, 1, 1000, true,
     "attempts to reach the peer's address over TCP"},
    {Variable::kTimeoutSec, "NCCL_MESH_TIMEOUT_SEC", ValueKind::kNumber, 0, 0, 86400, true,
     "a send or receive without completion is reported after this; 0: never (model loading takes minutes)"},
    {Variable::kFatalOnTimeout, "NCCL_MESH_FATAL_ON_TIMEOUT", ValueKind::kNumber, 1, 0, 1, true,
     "1: the report is an error; 0: it is one warning"},
    {Variable::kFastFail, "NCCL_MESH_FAST_FAIL", ValueKind::kNumber, 0, 0, 1, true,
     "1: queue pairs give up early (timeout 14, 3 retries) unless NCCL_IB_TIMEOUT or NCCL_IB_RETRY_CNT is set"},
    {Variable::kFailoverTimeoutSec, "NCCL_MESH_FAILOVER_TIMEOUT_SEC", ValueKind::kNumber, 30, 0, 86400, true,
     "how long a connection whose cable failed may be resumed over another cable or relays; 0: it ends"},
    {Variable::kMeshGidIndex, "NCCL_MESH_GID_INDEX", ValueKind::kNumber, kUnset, kUnset, 255, true,
     "last resort where no GID holds the NIC's address; -1: none (the ancestor guessed 3)"},
    {Variable::kUseManagement, "NCCL_MESH_USE_MANAGEMENT", ValueKind::kNumber, 0, 0, 1, true,
     "1: ports of 25 Gb/s and less carry data, too, on nodes that have some of 50 Gb/s and more"},
    {Variable::kIbHca, "NCCL_IB_HCA", ValueKind::kText, 0, 0, 0, true,
     "devices to use: [^][=]name[:port[:rail[:plane]]],...; empty: all", nullptr, "", &hca_list_problem},
    {Variable::kIbGidIndex, "NCCL_IB_GID_INDEX", ValueKind::kNumber, kUnset, kUnset, 255, true,
     "this GID on every port; -1: the one that holds the NIC's address"},
    {Variable::kIbRoceVersion, "NCCL_IB_ROCE_VERSION_NUM", ValueKind::kNumber, 2, 1, 2, true,
     "preferred among GIDs with the same address"},
    {Variable::kIbTimeout, "NCCL_IB_TIMEOUT", ValueKind::kNumber, 18, 1, 31, true,
     "acknowledgement timeout, 4.096 us * 2^n"},
    {Variable::kIbRetryCount, "NCCL_IB_RETRY_CNT", ValueKind::kNumber, 6, 0, 7, true,
     "transport retries; soft-RoCE takes 7 for ever"},
    {Variable::kIbTrafficClass, "NCCL_IB_TC", ValueKind::kNumber, 0, 0, 255, true, "traffic class of the packets"},
    {Variable::kIbServiceLevel, "NCCL_IB_SL", ValueKind::kNumber, 0, 0, 15, true, "service level of the packets"},
    {Variable::kIbRelaxedOrdering, "NCCL_IB_PCI_RELAXED_ORDERING", ValueKind::kNumber, 2, 0, 2, true,
     "PCI relaxed ordering for users' buffers: 0 off, 1 and 2 where the device has it"},
    {Variable::kIbAddressFamily, "NCCL_IB_ADDR_FAMILY", ValueKind::kText, 0, 0, 0, true,
     "AF_INET or AF_INET6: which of a NIC's addresses and their GIDs are used, where it has such; empty: all",
     &is_family, "AF_INET or AF_INET6"},
    {Variable::kIbAddressRange, "NCCL_IB_ADDR_RANGE", ValueKind::kText, 0, 0, 0, true,
     "likewise, those inside this prefix: 192.168.0.0/16, fd00::/8; empty: all", &is_prefix,
     "an address with a prefix length"},
    {Variable::kIbPkey, "NCCL_IB_PKEY", ValueKind::kNumber, 0, 0, 65535, true,
     "index of the partition key; RoCE ports have one, at 0"},
    {Variable::kIbFifoTrafficClass, "NCCL_IB_FIFO_TC", ValueKind::kNumber, kUnset, kUnset, 255, true,
     "traffic class of clear-to-sends; -1: that of the data"},
    {Variable::kIbUseInline, "NCCL_IB_USE_INLINE", ValueKind::kNumber, 1, 0, 1, true,
     "clear-to-sends and messages of 32 bytes go out within the work request; 0: the adapter fetches them"},
    {Variable::kIbReturnAsyncEvents, "NCCL_IB_RETURN_ASYNC_EVENTS", ValueKind::kNumber, 1, 0, 1, false,
     "failures show on the connections that they hit, which then look for another path"},
    {Variable::kIbAdaptiveRouting, "NCCL_IB_ADAPTIVE_ROUTING", ValueKind::kNumber, 0, 0, 1, false,
     "a cable has no adaptive routing: packets arrive in order"},
    {Variable::kIbArThreshold, "NCCL_IB_AR_THRESHOLD", ValueKind::kNumber, 8192, 0, kLargestNumber, false,
     "see ADAPTIVE_ROUTING: the last write of a message carries its size"},
    {Variable::kIbEce, "NCCL_IB_ECE_ENABLE", ValueKind::kNumber, 1, 0, 1, false,
     "nothing is negotiated beyond the path MTU"},
    {Variable::kIbMergeNics, "NCCL_IB_MERGE_NICS", ValueKind::kNumber, 1, 0, 1, false,
     "NICs are never fused: a cable is a subnet, and each has its own connections"},
    {Variable::kIbMergeVfs, "NCCL_IB_MERGE_VFS", ValueKind::kNumber, 1, 0, 1, false, "see MERGE_NICS"},
    {Variable::kIbSubnetAwareRouting, "NCCL_IB_SUBNET_AWARE_ROUTING", ValueKind::kNumber, 0, 0, 1, false,
     "always so: the NIC is the one that shares a subnet with the peer"},
    {Variable::kIbSubnetPrefixLength, "NCCL_IB_SUBNET_PREFIX_LEN", ValueKind::kNumber, 24, 0, 128, false,
     "each address has its own prefix length, which counts"},
    {Variable::kIbPortFailover, "NCCL_IB_RESILIENCY_PORT_FAILOVER", ValueKind::kNumber, 0, 0, 1, false,
     "always so, without fused NICs: see NCCL_MESH_FAILOVER_TIMEOUT_SEC"},
    {Variable::kIbPortRecovery, "NCCL_IB_RESILIENCY_PORT_RECOVERY", ValueKind::kNumber, 0, 0, 1, false,
     "always so: a connection returns to its first cable when that is back"},
    {Variable::kIbDisable, "NCCL_IB_DISABLE", ValueKind::kNumber, 0, 0, 1, false,
     "turns off NCCL's own transport, not this one; use NCCL_NET=Socket"},
    {Variable::kGdrFlushDisable, "NCCL_GDR_FLUSH_DISABLE", ValueKind::kNumber, 0, 0, 1, true,
     "1: received GPU memory is not flushed by a read; safe only if something else orders the writes"},
    {Variable::kSocketIfname, "NCCL_SOCKET_IFNAME", ValueKind::kText, 0, 0, 0, true,
     "interfaces for data over TCP: [^][=]name,...; empty: all except cables, docker* and virbr*", nullptr, "",
     &name_list_problem},
    {Variable::kSocketFamily, "NCCL_SOCKET_FAMILY", ValueKind::kText, 0, 0, 0, true,
     "AF_INET or AF_INET6, for data over TCP; empty: both, IPv4 first", &is_family, "AF_INET or AF_INET6"},
    {Variable::kOobIfname, "NCCL_OOB_NET_IFNAME", ValueKind::kText, 0, 0, 0, false,
     "NCCL's own bootstrap uses it, before this plugin connects"},
    {Variable::kDisableRdma, "NCCL_MESH_DISABLE_RDMA", ValueKind::kNumber, 0, 0, 1, true,
     "1: everything goes over TCP; each interface that NCCL_SOCKET_IFNAME allows is a device"},
    {Variable::kConnPool, "NCCL_MESH_CONN_POOL", ValueKind::kNumber, 1, 0, 1, false,
     "every connection has its own handshake"},
    {Variable::kAsyncConnect, "NCCL_MESH_ASYNC_CONNECT", ValueKind::kNumber, 1, 0, 1, false,
     "connect and accept never block"},
    {Variable::kEnableRelay, "NCCL_MESH_ENABLE_RELAY", ValueKind::kNumber, 1, 0, 1, true,
     "1: peers without a shared subnet are reached through other nodes of the job; 0: they are refused"},
    {Variable::kMaxRelayHops, "NCCL_MESH_MAX_RELAY_HOPS", ValueKind::kNumber, 0, 0, kMaxRelayHopsMost, true,
     "cables from sender to receiver at most, 1 to 8; 0: as NCCL_MESH_MAX_HOPS", nullptr, "", nullptr,
     Variable::kMaxHops},
    {Variable::kMaxHops, "NCCL_MESH_MAX_HOPS", ValueKind::kNumber, 8, 1, kMaxRelayHopsMost, true,
     "other name of MAX_RELAY_HOPS; 8, so that no small mesh needs a setting (the ancestor counted 4 nodes)"},
    {Variable::kRelayPort, "NCCL_MESH_RELAY_PORT", ValueKind::kNumber, 27180, 1, 65535, true,
     "UDP port on which nodes look for chains of cables; the same on all nodes of a job"},
    {Variable::kStripeBytes, "NCCL_MESH_STRIPE_BYTES", ValueKind::kNumber, 8192, 0, kLargestNumber, true,
     "messages from this size on are striped over all cables to the peer; 0: none is"},
    {Variable::kIbQueuePairs, "NCCL_IB_QPS_PER_CONNECTION", ValueKind::kNumber, 1, 1, 128, true,
     "queue pairs of a connection on each cable, at most seven on all cables: long messages are striped over them"},
    {Variable::kIbSplitData, "NCCL_IB_SPLIT_DATA_ON_QPS", ValueKind::kNumber, 0, 0, 1, false,
     "long messages are always striped, see NCCL_MESH_STRIPE_BYTES"},
    {Variable::kAllowRouted, "NCCL_MESH_ALLOW_ROUTED", ValueKind::kNumber, kUnset, kUnset, 1, true,
     "peers in other subnets are dialled through a router, before relays; -1: where the NIC's interface has a route to "
     "them by a gateway; 1: wherever no subnet is shared; 0: never"},
    {Variable::kTunerTimeoutMs, "NCCL_MESH_TUNER_TIMEOUT_MS", ValueKind::kNumber, 90000, 0, 600000, true,
     "how long the tuner waits for ranks that are coming before it leaves algorithms to NCCL; 0: it always does"},
    {Variable::kTunerPlugin, "NCCL_TUNER_PLUGIN", ValueKind::kText, 0, 0, 0, true,
     "the tuner that NCCL loads; if it is not this file's, ranks of this process are not announced to other tuners"},
    {Variable::kRingLoadBalance, "NCCL_MESH_RING_LOAD_BALANCE", ValueKind::kNumber, 1, 0, 1, true,
     "1: a cable with more bytes in flight gets smaller stripes, and of equally short chains a new connection takes "
     "the less loaded one; 0: only rates count, and chains take turns"},
    {Variable::kRingPreferShort, "NCCL_MESH_RING_PREFER_SHORT", ValueKind::kNumber, 0, 0, 1, false,
     "the shortest chain is always taken; among equal ones see RING_LOAD_BALANCE"},
    {Variable::kRingBalanceThreshold, "NCCL_MESH_RING_BALANCE_THRESHOLD", ValueKind::kNumber, 1048576, 0,
     kLargestNumber, true,
     "bytes in flight that two cables, or chains, may differ by before stripes are cut unequally, or a new connection "
     "takes the other chain"},
    {Variable::kHybridTcp, "NCCL_MESH_HYBRID_TCP", ValueKind::kNumber, 0, 0, 1, true,
     "1, on both ends: peers that neither a cable nor relays reach are reached over TCP, with one warning each"},
    {Variable::kHealthCheckIntervalMs, "NCCL_MESH_HEALTH_CHECK_INTERVAL_MS", ValueKind::kNumber, 1000, 100, 3600000,
     false, "failures are seen on the connection itself"},
    {Variable::kMetrics, "NCCL_MESH_METRICS", ValueKind::kNumber, 1, 0, 1, false,
     "no thread prints metrics; a connection logs what it carried when it is closed (INFO)"},
    {Variable::kMetricsIntervalSec, "NCCL_MESH_METRICS_INTERVAL_SEC", ValueKind::kNumber, 10, 1, 86400, false,
     "see METRICS"},
    {Variable::kTopology, "NCCL_MESH_TOPOLOGY", ValueKind::kText, 0, 0, 0, false,
     "the topology follows from the subnets"},
    {Variable::kStateSocket, "NCCL_MESH_STATE_SOCKET", ValueKind::kText, 0, 0, 0, true,
     "folder of the Unix socket that meshbed state reads; empty: /tmp/meshbed-<uid>, @: an abstract name, 0: none"},
    {Variable::kReport, "NCCL_MESH_REPORT", ValueKind::kText, 0, 0, 0, true,
     "file that a process writes at its end, with what it carried and over which cables (JSON); %h is the host, %p the "
     "process, and without %p .HOST-PROCESS is added; empty: none"},
}};

enum class ValueSource : std::uint8_t { kDefault, kEnvironment, kRefused };  // refused: the default is in force

struct Setting {
  const VariableInfo* variable = nullptr;
  ValueSource source = ValueSource::kDefault;
  std::int64_t number = 0;
  std::string text;     // the value in force; numbers too
  std::string problem;  // what is wrong: kRefused, or a list with invalid entries
};

inline const char* to_text(ValueSource source) {
  switch (source) {
    case ValueSource::kDefault:
      return "default";
    case ValueSource::kEnvironment:
      return "environment";
    case ValueSource::kRefused:
      return "default (environment refused)";
  }
  return "";
}

/// The value in force where the environment holds `raw` (nullptr: unset).
inline Setting evaluate(const VariableInfo& variable, const char* raw) {
  Setting setting{.variable = &variable,
                  .source = ValueSource::kDefault,
                  .number = variable.default_value,
                  .text = variable.kind == ValueKind::kNumber ? std::to_string(variable.default_value) : "",
                  .problem = ""};
  if (raw == nullptr || raw[0] == '\0') return setting;
  if (variable.kind == ValueKind::kText) {
    if (variable.accepts != nullptr && !variable.accepts(raw)) {
      setting.source = ValueSource::kRefused;
      setting.problem = std::string(variable.name) + "=" + raw + " is not " + variable.wanted;
      return setting;
    }
    setting.source = ValueSource::kEnvironment;
    setting.text = raw;
    const std::string problem = variable.problem != nullptr ? variable.problem(raw) : "";
    if (!problem.empty()) setting.problem = std::string(variable.name) + "=" + raw + ": " + problem;
    return setting;
  }
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(raw, &end, 0);
  if (*end != '\0' || errno != 0 || number < variable.min || number > variable.max) {
    setting.source = ValueSource::kRefused;
    setting.problem = std::string(variable.name) + "=" + raw + " is not a number from " + std::to_string(variable.min) +
                      " to " + std::to_string(variable.max);
    return setting;
  }
  setting.source = ValueSource::kEnvironment;
  setting.number = number;
  setting.text = std::to_string(number);
  return setting;
}

/// The text after "<value>: " in the meaning, up to the next ";" or remark in parentheses; empty: none.
inline std::string meaning_of(const VariableInfo& variable, const std::string& value) {
  const std::string_view meaning = variable.meaning;
  for (std::size_t begin = 0; begin < meaning.size();) {
    const std::size_t end = std::min(meaning.find("; ", begin), meaning.size());
    const std::string_view clause = meaning.substr(begin, end - begin);
    if (clause.substr(0, value.size() + 2) == value + ": ") {
      const std::string_view said = clause.substr(value.size() + 2);
      return std::string(said.substr(0, said.find(" (")));
    }
    begin = end + 2;
  }
  return "";
}

/// A setting's value with its meaning: "8 (as NCCL_MESH_MAX_HOPS)", "0 (for ever)", "3"; "the default (all)" for a text
/// that is not set. `of`: the setting of another variable.
template <typename Of>
std::string value_text(const Setting& setting, const Of& of) {
  const VariableInfo& variable = *setting.variable;
  if (variable.kind == ValueKind::kNumber && setting.number == 0 && variable.zero_means != Variable::kCount) {
    const Setting& other = of(variable.zero_means);
    return other.text + " (as " + other.variable->name + ")";
  }
  const std::string means = meaning_of(variable, setting.text.empty() ? "empty" : setting.text);
  return (setting.text.empty() ? "the default" : setting.text) + (means.empty() ? "" : " (" + means + ")");
}

/// The warning for a setting; empty: nothing is wrong.
template <typename Of>
std::string complaint_of(const Setting& setting, const Of& of) {
  const bool refused = setting.source == ValueSource::kRefused;
  return setting.problem + (refused ? ": using " + value_text(setting, of) : "");
}

/// True for names that start with NCCL_MESH_ and are not in the table: a typo, most likely.
inline bool is_unknown_mesh_variable(std::string_view name) {
  if (name.substr(0, 10) != "NCCL_MESH_") return false;
  for (const VariableInfo& variable : kVariables) {
    if (name == variable.name) return false;
  }
  return true;
}

/// All settings of this process, read once.
class Config {
 public:
  /// From the environment; one WARN for each unknown NCCL_MESH_ name, each refused value and each value that has no
  /// effect here.
  static Config from_environment();
  /// As if the environment held nothing but the given values.
  Config();

  std::int64_t number(Variable variable) const { return at(variable).number; }
  bool flag(Variable variable) const { return number(variable) != 0; }
  const std::string& text(Variable variable) const { return at(variable).text; }
  const Setting& at(Variable variable) const { return settings_[static_cast<std::size_t>(variable)]; }
  const auto& all() const { return settings_; }

  /// MESHBED_RESULTS: the folder of files that are named without one; empty: the process's own.
  const std::string& results_folder() const { return results_folder_; }

  /// Cables from sender to receiver at most.
  int max_relay_hops() const;
  std::uint8_t queue_pair_timeout() const;
  std::uint8_t queue_pair_retries() const;

 private:
  void set(const VariableInfo& variable, const char* raw);

  std::array<Setting, static_cast<std::size_t>(Variable::kCount)> settings_;
  std::string results_folder_;
};

}  // namespace meshbed::net
