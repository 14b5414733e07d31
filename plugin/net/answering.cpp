#include "plugin/net/answering.h"

#include "plugin/net/ring.h"
#include "plugin/net/transport.h"

namespace meshbed::net {

bool is_of_cable(const Transport& transport, const IpAddress& own) {
  for (const Nic& nic : transport.nics()) {
    if (nic.device < 0) continue;  // an interface, for TCP
    for (const IpPrefix& address : nic.addresses) {
      if (address.address == own) return true;
    }
  }
  return false;
}

Result<LocalEnd> local_end_for(Transport& transport, const IpAddress& own, const IpAddress& client,
                               const WireEnd& peer) {
  if (client != peer.address.address) {
    return handshake_error("it says that it is " + to_text(peer.address.address) + ", but it came from " +
                           to_text(client));
  }
  if (peer.memory_entries != kRingEntries) {
    return handshake_error("its ring has " + std::to_string(peer.memory_entries) + " entries, ours " +
                           std::to_string(kRingEntries));
  }
  const std::vector<Nic> nics = transport.current_nics();
  for (const Nic& nic : nics) {
    for (const IpPrefix& address : nic.addresses) {
      if (address.address != own) continue;
      if (!shared_bits(address, peer.address)) {
        return handshake_error("it is in " + subnet_text(peer.address) + ", but " + nic.device_name + " is in " +
                               subnet_text(address) + ": both prefixes must agree");
      }
      GidPreference preference = transport.gid_preference();
      if (!gid_may_answer(nic, peer.gid, peer.address.address, preference)) {
        return handshake_error(foreign_gid_text(peer.gid, peer.address.address));
      }
      preference.roce_v2 = peer.gid_type == verbs::GidType::kRoceV2;
      const auto gid = find_gid(nic, address.address, preference);
      if (!gid || gid->type != peer.gid_type) {
        return handshake_error("it uses a " + std::string(verbs::to_text(peer.gid_type)) + " GID, but " +
                               nic.device_name + " has none for " + to_text(address.address));
      }
      return transport.local_end(nic, address, *gid);
    }
  }
  return handshake_error("it came in on " + to_text(own) +
                         ", which is no RDMA address of this node: " + describe_subnets(nics));
}

}  // namespace meshbed::net
