#include "plugin/net/link/process_links.h"

#include <algorithm>

namespace meshbed::net {

std::vector<std::uint64_t> ProcessLinks::in_flight_bytes() const {
  std::vector<std::uint64_t> bytes;
  for (std::size_t nic = 0; nic < nics().size(); ++nic)
    bytes.push_back(loads_[nic].bytes.load(std::memory_order_relaxed));
  return bytes;
}

LocalEnd ProcessLinks::local_end(const Nic& nic, const IpPrefix& address, const verbs::GidEntry& gid) {
  const auto is_it = [&](const Nic& known) { return known.device == nic.device && known.port == nic.port; };
  const auto ours = std::find_if(nics().begin(), nics().end(), is_it);
  const auto among_others = std::find_if(link_local_nics().begin(), link_local_nics().end(), is_it);
  PortLoad* load = nullptr;
  if (ours != nics().end()) {
    load = &loads_[static_cast<std::size_t>(ours - nics().begin())];
  } else if (among_others != link_local_nics().end()) {
    load = &loads_[nics().size() + static_cast<std::size_t>(among_others - link_local_nics().begin())];
  }
  return {.device = &device_of(nic),
          .nic = nic,
          .address = address,
          .gid = gid,
          .node = node(),
          .psn = static_cast<std::uint32_t>(random() & 0xffffffU),
          .service_port = service_port_,
          .load = load,
          .spent = &retired_links_};
}

ConnectionSettings ProcessLinks::settings_for(int traffic_class) const {
  const std::int64_t configured = config().number(Variable::kIbTrafficClass);
  const bool balances = config().flag(Variable::kRingLoadBalance);
  return {.qp_link = {.queue_pair_timeout = config().queue_pair_timeout(),
                      .queue_pair_retries = config().queue_pair_retries(),
                      .traffic_class = static_cast<std::uint8_t>(traffic_class >= 0 ? traffic_class : configured),
                      .service_level = static_cast<std::uint8_t>(config().number(Variable::kIbServiceLevel)),
                      .pkey_index = static_cast<std::uint16_t>(config().number(Variable::kIbPkey)),
                      .inline_data = config().flag(Variable::kIbUseInline),
                      .striped = config().number(Variable::kStripeBytes) > 0},
          .stripes = {.from_bytes = static_cast<std::uint64_t>(config().number(Variable::kStripeBytes)),
                      .hysteresis_bytes =
                          balances ? static_cast<std::uint64_t>(config().number(Variable::kRingBalanceThreshold))
                                   : UINT64_MAX,
                      .queue_pairs = static_cast<unsigned>(config().number(Variable::kIbQueuePairs))},
          .operation_timeout_ns = config().number(Variable::kTimeoutSec) * 1'000'000'000,
          .fatal_on_timeout = config().flag(Variable::kFatalOnTimeout),
          .failover_ms = config().number(Variable::kFailoverTimeoutSec) * 1000,
          .flushes = !config().flag(Variable::kGdrFlushDisable)};
}

ConnectionSettings ProcessLinks::receiving_settings_for(int traffic_class) const {
  const std::int64_t fifo = config().number(Variable::kIbFifoTrafficClass);
  return settings_for(fifo != kUnset ? static_cast<int>(fifo) : traffic_class);
}

}  // namespace meshbed::net
