#include "plugin/net/connect/answering.h"

#include "plugin/net/connect/routed_ways.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/wire/ring.h"

namespace meshbed::net {

namespace {

/// A sender to a link-local address is on the link of the interface that received its packets.
Result<LocalEnd> link_local_end_for(ProcessLinks& process, const IpAddress& own, const WireEnd& peer) {
  for (const Nic& nic : process.current_link_local_nics()) {
    if (nic.link_local->address != own) continue;
    if (!is_link_local(peer.address.address) || peer.gid != gid_of(peer.address.address)) {
      return handshake_error(foreign_gid_text(peer.gid, peer.address.address));
    }
    const auto gid = find_gid(nic, own, {.roce_v2 = peer.gid_type == verbs::GidType::kRoceV2});
    if (!gid || gid->type != peer.gid_type) {
      return handshake_error("it uses a " + std::string(verbs::to_text(peer.gid_type)) + " GID, but " +
                             nic.device_name + " has none for " + to_text(own));
    }
    return process.local_end(nic, *nic.link_local, *gid);
  }
  return handshake_error("it came in on " + to_text(own) + ", which is no link-local address that is used here");
}

}  // namespace

bool Neighbours::include(const IpAddress& own, const IpAddress& client) {
  const bool changed = !looked_ || events_ != process_.port_events();
  if (changed) look();
  if (is_over_cable(nics_, own, client)) return true;
  if (changed || !next_look_.passed()) return false;
  look();
  return is_over_cable(nics_, own, client);
}

void Neighbours::look() {
  looked_ = true;
  events_ = process_.port_events();
  nics_ = process_.current_ports();
  next_look_ = Deadline::after_ms_or_never(kLookPauseMs);
}

Result<LocalEnd> local_end_for(ProcessLinks& process, const IpAddress& own, const IpAddress& client,
                               const WireEnd& peer) {
  if (client != peer.address.address) {
    return handshake_error("it claims to be " + to_text(peer.address.address) + ", but it came from " +
                           to_text(client));
  }
  if (peer.memory_entries != kRingEntries) {
    return handshake_error("its ring has " + std::to_string(peer.memory_entries) + " entries, ours " +
                           std::to_string(kRingEntries));
  }
  if (is_link_local(own) && own.family == Family::kIpv6) return link_local_end_for(process, own, peer);
  const std::vector<Nic> nics = process.current_nics();
  for (const Nic& nic : nics) {
    for (const IpPrefix& address : nic.addresses) {
      if (address.address != own) continue;
      const bool overlap = contains(address, client) || contains(peer.address, own);
      const bool is_near = shared_bits(address, peer.address).has_value();
      if (!is_near && !overlap && !is_routed_to(process, nic, client)) {
        return handshake_error("it is in " + subnet_text(peer.address) + ", " + nic.device_name + " in " +
                               subnet_text(address) + ": if a router joins them, " + nic.netdev +
                               " needs a route back by way of it, or this node NCCL_MESH_ALLOW_ROUTED=1");
      }
      if (!is_near && overlap) {
        return handshake_error("it is in " + subnet_text(peer.address) + ", but " + nic.device_name + " is in " +
                               subnet_text(address) + ": both prefixes must agree");
      }
      GidPreference preference = process.gid_preference();
      if (!gid_may_answer(nic, peer.gid, peer.address.address, preference)) {
        return handshake_error(foreign_gid_text(peer.gid, peer.address.address));
      }
      preference.roce_v2 = peer.gid_type == verbs::GidType::kRoceV2;
      const auto gid = find_gid(nic, address.address, preference);
      if (!gid || gid->type != peer.gid_type) {
        return handshake_error("it uses a " + std::string(verbs::to_text(peer.gid_type)) + " GID, but " +
                               nic.device_name + " has none for " + to_text(address.address));
      }
      return process.local_end(nic, address, *gid);
    }
  }
  return handshake_error("it came in on " + to_text(own) +
                         ", which is no RDMA address of this node: " + describe_subnets(nics));
}

}  // namespace meshbed::net
