// Where a connection may lead: the GIDs of RTR's address vector.

#include <cerrno>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

/// What RTR gives with another destination, or another attribute of the address vector.
template <typename Change>
std::string rtr_with(End& end, GidKind gid, Change change) {
  end.open({.gid = gid});
  end.exchange();
  need(end.to_init(), "ibv_modify_qp to INIT");
  ibv_qp_attr attr = end.rtr_attributes();
  change(attr.ah_attr);
  return answer(end.modify_once(attr, kRtrMask));
}

std::string rtr_to(End& end, GidKind gid, const std::string& address) {
  return rtr_with(end, gid, [&](ibv_ah_attr& attr) { attr.grh.dgid = parse_gid(address); });
}

void carries_a_message(End& end, GidKind gid) {
  end.connect({.gid = gid});
  if (end.active()) {
    end.fill(4);
    end.meet();
    need(end.post(Send{.opcode = IBV_WR_SEND, .id = 3, .bytes = 3000}), "ibv_post_send");
    end.sees("the send", end.next(), "3 SUCCESS SEND");
    return;
  }
  need(end.post(Receive{.id = 8}), "ibv_post_recv");
  end.meet();
  end.sees("the receive", end.next(), "8 SUCCESS RECV 3000 bytes");
  end.sees("the bytes", end.data(4, 0, 3000), "as sent");
}

const Contract kAddressContracts[] = {
    {"mapped IPv4 GIDs carry a connection", "RoCE v2 annex (A17)",
     [](End& end) { carries_a_message(end, GidKind::kIpv4); }},
    {"IPv6 GIDs carry a connection", "RoCE v2 annex (A17)", [](End& end) { carries_a_message(end, GidKind::kIpv6); }},
    {"link-local GIDs carry a connection", "RoCE v2 annex (A17)",
     [](End& end) { carries_a_message(end, GidKind::kLinkLocal); }},
    {"two queue pairs of one port are connected", "ibv_modify_qp(3): ah_attr",
     [](End& end) {
       end.open();
       end.exchange();
       end.peer = {.gid = end.peer.gid,
                   .qp_num = end.qp->qp_num,
                   .psn = end.rts_attributes().sq_psn,
                   .rkey = end.mr->rkey,
                   .address = reinterpret_cast<std::uint64_t>(end.memory.data())};
       end.peer.gid = parse_gid(kAddresses[end.rank()]);
       need(end.to_init(), "ibv_modify_qp to INIT");
       end.sees("RTR", answer(end.to_rtr()), "0");
       need(end.to_rts(), "ibv_modify_qp to RTS");
       end.fill(2);
       need(end.post(Receive{.id = 6, .to = 8192}), "ibv_post_recv");
       need(end.post(Send{.opcode = IBV_WR_SEND, .id = 5, .bytes = 100}), "ibv_post_send");
       const std::string both = end.next(2);
       end.sees("both completions",
                both == "5 SUCCESS SEND, 6 SUCCESS RECV 100 bytes" || both == "6 SUCCESS RECV 100 bytes, 5 SUCCESS SEND"
                    ? "a send and a receive"
                    : both,
                "a send and a receive");
       end.sees("the bytes", end.data(2, 8192, 100, 8192), "as sent");
     }},
    {"an address that no node has on the wire is not found in time", "Linux core/addr.c: rdma_resolve_ip",
     [](End& end) { end.sees("RTR", rtr_to(end, GidKind::kIpv4, "192.168.100.77"), "ETIMEDOUT"); }},
    {"an IPv6 address that no node has on the wire is not found in time", "Linux core/addr.c: rdma_resolve_ip",
     [](End& end) { end.sees("RTR", rtr_to(end, GidKind::kIpv6, "fd00:64::77"), "ETIMEDOUT"); }},
    {"an IPv4 address of a foreign subnet is looked for on the wire in vain",
     "Linux net/ipv4/route.c, ip_route_output_key_hash_rcu: an interface without a route is taken to be on the link",
     [](End& end) { end.sees("RTR", rtr_to(end, GidKind::kIpv4, "192.168.77.1"), "ETIMEDOUT"); }},
    {"an IPv6 address of a foreign subnet is unreachable", "Linux net/ipv6/route.c; core/addr.c, addr6_resolve",
     [](End& end) { end.sees("RTR", rtr_to(end, GidKind::kIpv6, "fd00:77::1"), "ENETUNREACH"); }},
    {"the peer's other family is not reached from this GID", "Linux core/addr.c, rdma_resolve_ip",
     [](End& end) {
       end.sees("IPv6 from IPv4", rtr_to(end, GidKind::kIpv4, kSixAddresses[1 - end.rank()]), "EINVAL");
       need(end.to_state(IBV_QPS_RESET), "ibv_modify_qp to RESET");
     }},
    {"an empty entry of the GID table is no source", "ibv_query_gid_ex(3): ENODATA; Linux rdma_get_gid_attr",
     [](End& end) {
       end.sees("RTR from index 12", rtr_with(end, GidKind::kIpv4, [](ibv_ah_attr& attr) { attr.grh.sgid_index = 12; }),
                "ENODATA");
     }},
    {"an address vector without a GRH is refused", "ibv_modify_qp(3): IBV_QPF_GRH_REQUIRED",
     [](End& end) {
       end.sees("RTR", rtr_with(end, GidKind::kIpv4, [](ibv_ah_attr& attr) { attr.is_global = 0; }), "EINVAL");
     }},
};

}  // namespace

std::span<const Contract> address_contracts() { return kAddressContracts; }

}  // namespace meshbed::contract
