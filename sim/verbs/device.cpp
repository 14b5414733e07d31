#include "sim/verbs/device.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>

#include "models/lan/bond.h"
#include "sim/host/file/descriptors.h"
#include "sim/host/identity.h"
#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

// Physical port states and the lane count, which verbs.h does not name (ibv_query_port(3); Linux rdma/ib_verbs.h).
constexpr std::uint8_t kPhysicalDisabled = 3, kPhysicalLinkUp = 5;
constexpr std::uint8_t kOneVirtualLane = 1;

/// The encoding of a rate in ibv_port_attr: lanes (active_width: 1, 2, 4, 8 lanes are 1, 16, 2, 4) times speed per
/// lane.
struct RateCode {
  std::uint64_t rate_bps;
  std::uint8_t width, speed;
};
constexpr std::uint64_t kGbitPerSecond = 1'000'000'000;
constexpr std::array kRateCodes{RateCode{2'500'000'000, 1, 1},          RateCode{10 * kGbitPerSecond, 1, 4},
                                RateCode{25 * kGbitPerSecond, 1, 32},   RateCode{40 * kGbitPerSecond, 2, 4},
                                RateCode{50 * kGbitPerSecond, 1, 64},   RateCode{56 * kGbitPerSecond, 2, 16},
                                RateCode{100 * kGbitPerSecond, 2, 32},  RateCode{200 * kGbitPerSecond, 2, 64},
                                RateCode{400 * kGbitPerSecond, 2, 128}, RateCode{800 * kGbitPerSecond, 4, 128}};

/// The fastest code that promises no more than the port's rate.
RateCode rate_code(std::uint64_t rate_bps) {
  RateCode best = kRateCodes.front();
  for (const RateCode& code : kRateCodes) {
    if (code.rate_bps <= rate_bps) best = code;
  }
  return best;
}

}  // namespace

const models::Nic& nic_of(const System& system, models::PortRef port) { return system.world.cluster().nic_of(port); }

const models::GidEntry* gid_at(const models::Nic& nic, std::uint32_t index) {
  const auto found = std::find_if(nic.gids.begin(), nic.gids.end(),
                                  [&](const models::GidEntry& entry) { return entry.index == index; });
  return found != nic.gids.end() ? &*found : nullptr;
}

bool has_gid(const models::Nic& nic, const models::RawGid& gid) {
  return std::any_of(nic.gids.begin(), nic.gids.end(), [&](const models::GidEntry& entry) { return entry.gid == gid; });
}

ibv_mtu active_mtu(const models::Nic& nic) {
  return static_cast<ibv_mtu>(std::bit_width(models::rdma_mtu_bytes(nic.mtu_bytes)) - std::bit_width(128U));
}

int query_device(const System& system, models::PortRef port, ibv_device_attr& attr) {
  attr = {};
  std::snprintf(attr.fw_ver, sizeof(attr.fw_ver), "meshbed");
  attr.node_guid = __builtin_bswap64(node_guid_of(port));
  attr.sys_image_guid = attr.node_guid;
  attr.max_mr_size = UINT64_MAX;
  attr.page_size_cap = 0xfffff000;
  attr.vendor_id = 0xffffff;  // no assigned vendor, as soft-RoCE
  attr.max_qp = kQueuePairsMax;
  attr.max_qp_wr = static_cast<int>(kWorkRequestsMax);
  attr.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                          IBV_DEVICE_RC_RNR_NAK_GEN;
  attr.max_sge = kBackendMaxSge;
  attr.max_sge_rd = kBackendMaxSge;
  attr.max_cq = kQueuePairsMax;
  attr.max_cqe = kCompletionsMax;
  attr.max_mr = kMemoryRegionsMax;
  attr.max_pd = kQueuePairsMax;
  attr.max_qp_rd_atom = kReadAtomicMax;
  attr.max_qp_init_rd_atom = kReadAtomicMax;
  attr.max_res_rd_atom = kQueuePairsMax;
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_pkeys = 1;
  attr.phys_port_cnt = nic_of(system, port).port;
  return 0;
}

int query_port(const System& system, models::PortRef port, std::uint8_t number, ibv_port_attr& attr) {
  const models::Nic& nic = nic_of(system, port);
  if (number < 1 || number > nic.port) return EINVAL;
  // The scenario gives the number of the cabled port; the device's lower ports exist and are down.
  const bool ours = number == nic.port;
  const bool up = ours && system.network.port_up(port);
  const RateCode rate = rate_code(nic.rate_bps);
  attr = {};
  attr.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attr.max_mtu = IBV_MTU_4096;
  attr.active_mtu = active_mtu(nic);
  attr.gid_tbl_len = ours ? static_cast<int>(gid_table_length(nic)) : 0;
  attr.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
  attr.max_msg_sz = kMessageBytesMax;
  attr.pkey_tbl_len = 1;
  attr.max_vl_num = kOneVirtualLane;
  attr.active_width = rate.width;
  attr.active_speed = rate.speed;
  attr.phys_state = up ? kPhysicalLinkUp : kPhysicalDisabled;
  attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  attr.flags = IBV_QPF_GRH_REQUIRED;
  return 0;
}

int query_gid(const System& system, models::PortRef port, std::uint8_t number, int index, ibv_gid_entry& entry) {
  const models::Nic& nic = nic_of(system, port);
  if (number != nic.port || index < 0 || index >= static_cast<int>(gid_table_length(nic))) return EINVAL;
  const models::GidEntry* found = gid_at(nic, static_cast<std::uint32_t>(index));
  if (found == nullptr) return ENODATA;
  entry = {};
  std::copy(found->gid.begin(), found->gid.end(), entry.gid.raw);
  entry.gid_index = found->index;
  entry.port_num = number;
  entry.gid_type = found->type == models::GidType::kRoceV1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
  const std::size_t nics = system.world.cluster().at(port.node).nics.size();
  entry.ndev_ifindex = found->vlan == 0 ? interface_index_of(port) : vlan_interface_index_of(port, nics);
  return 0;
}

int open_device(System& system, Process& process, int device, std::uint32_t& handle) {
  const std::size_t devices = models::rdma_devices(system.world.node_at(process.node));
  if (device < 0 || static_cast<std::size_t>(device) >= devices) return ENODEV;
  handle = system.contexts.next();
  Context& context = system.contexts.add(std::make_unique<Context>());
  context.handle = handle;
  context.process = &process;
  context.port = {process.node, device};
  context.async_fd = make_event_descriptor(process);
  return 0;
}

int close_device(System& system, Context& context) {
  system.queue_pairs.for_each([&](QueuePair& qp) {
    if (qp.context == &context) destroy_qp(system, qp);
  });
  for (const std::uint32_t key : system.memory.keys_of(context)) dereg_mr(system, key);
  system.domains.for_each([&](ProtectionDomain& domain) {
    if (domain.context == &context) dealloc_pd(system, domain);
  });
  system.completion_queues.for_each([&](CompletionQueue& queue) {
    if (queue.context == &context) destroy_cq(system, queue);
  });
  system.channels.for_each([&](Channel& channel) {
    if (channel.context == &context) destroy_channel(system, channel);
  });
  for (Thread* thread : context.waiting) system.world.wake(*thread);
  close_descriptor(*context.process, context.async_fd);
  system.contexts.remove(context.handle);
  return 0;
}

}  // namespace meshbed::sim::verbs
