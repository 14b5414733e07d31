// What a device and its port say of themselves.

#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

constexpr std::uint8_t kPhysicalLinkUp = 5;  // ibv_query_port(3): phys_state; include/rdma/ib_verbs.h
constexpr std::uint32_t kLargestMessage = 1U << 31U;

ibv_port_attr port_of(End& end) {
  end.open_device();
  ibv_port_attr port{};
  need(ibv_query_port(end.context, 1, &port), "ibv_query_port");
  return port;
}

const Contract kDeviceContracts[] = {
    {"the device list says its length and ends in NULL", "ibv_get_device_list(3)",
     [](End& end) {
       int count = -1;
       ibv_device** list = ibv_get_device_list(&count);
       need(list, "ibv_get_device_list");
       end.sees("devices", std::to_string(count), "1");
       end.sees("the entry after the last", list[count] == nullptr ? "NULL" : "something", "NULL");
       end.sees("node type", std::to_string(list[0]->node_type), std::to_string(IBV_NODE_CA));
       end.sees("transport type", std::to_string(list[0]->transport_type), std::to_string(IBV_TRANSPORT_IB));
       end.sees("name", ibv_get_device_name(list[0]), list[0]->name);
       ibv_free_device_list(list);
     }},
    {"a device is used after its list was freed", "ibv_get_device_list(3), ibv_open_device(3)",
     [](End& end) {
       ibv_device** list = ibv_get_device_list(nullptr);
       need(list, "ibv_get_device_list");
       const std::uint64_t guid = ibv_get_device_guid(list[0]);
       end.context = ibv_open_device(list[0]);
       ibv_free_device_list(list);
       need(end.context, "ibv_open_device");
       ibv_device_attr device{};
       need(ibv_query_device(end.context, &device), "ibv_query_device");
       end.sees("GUID of list and attributes", guid == device.node_guid && guid != 0 ? "one" : "two", "one");
       end.sees("completion vectors, at least one", yes_or_no(end.context->num_comp_vectors >= 1), "yes");
       end.sees("descriptor for events", yes_or_no(end.context->async_fd >= 0), "yes");
       end.sees("close", answer(ibv_close_device(end.context)), "0");
       end.context = nullptr;
     }},
    {"a device reports limits that a program can live with", "ibv_query_device(3)",
     [](End& end) {
       end.open_device();
       ibv_device_attr device{};
       end.sees("call", answer(ibv_query_device(end.context, &device)), "0");
       const bool positive = device.max_qp > 0 && device.max_qp_wr > 0 && device.max_cq > 0 && device.max_cqe > 0 &&
                             device.max_mr > 0 && device.max_pd > 0 && device.max_sge > 0 && device.max_mr_size > 0;
       end.sees("limits above 0", yes_or_no(positive), "yes");
       end.sees("ports", std::to_string(device.phys_port_cnt), "1");
       end.sees("outstanding reads, at least one each way",
                yes_or_no(device.max_qp_rd_atom > 0 && device.max_qp_init_rd_atom > 0), "yes");
       end.sees("atomics", std::to_string(device.atomic_cap), std::to_string(IBV_ATOMIC_HCA));
       const unsigned events = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID;
       end.sees("reports events of ports, RNR and image", yes_or_no((device.device_cap_flags & events) == events),
                "yes");
     }},
    {"the extended query of a device says the same", "ibv_query_device_ex(3)",
     [](End& end) {
       end.open_device();
       ibv_device_attr plain{};
       ibv_device_attr_ex extended{};
       need(ibv_query_device(end.context, &plain), "ibv_query_device");
       end.sees("call", answer(ibv_query_device_ex(end.context, nullptr, &extended)), "0");
       const ibv_device_attr& same = extended.orig_attr;
       end.sees("the same limits",
                yes_or_no(same.max_qp == plain.max_qp && same.max_cqe == plain.max_cqe &&
                          same.node_guid == plain.node_guid && same.max_qp_rd_atom == plain.max_qp_rd_atom),
                "yes");
     }},
    {"a cabled port is active Ethernet that needs a GRH", "ibv_query_port(3)",
     [](End& end) {
       const ibv_port_attr port = port_of(end);
       end.sees("state", ibv_port_state_str(port.state), ibv_port_state_str(IBV_PORT_ACTIVE));
       end.sees("physical state", std::to_string(port.phys_state), std::to_string(kPhysicalLinkUp));
       end.sees("link layer", std::to_string(port.link_layer), std::to_string(IBV_LINK_LAYER_ETHERNET));
       end.sees("flags", std::to_string(port.flags), std::to_string(IBV_QPF_GRH_REQUIRED));
       end.sees("LID", std::to_string(port.lid), "0");
       end.sees("GIDs by IP addresses", yes_or_no((port.port_cap_flags & IBV_PORT_IP_BASED_GIDS) != 0), "yes",
                {"no",
                 "drivers/infiniband/sw/rxe/rxe.c, rxe_init_port_param: leaves ib_port_attr::ip_gids 0, which "
                 "core/uverbs.h, make_port_cap_flags, turns into the flag"});
       end.sees("partition keys", std::to_string(port.pkey_tbl_len), "1");
     }},
    {"the active MTU is the largest that the interface's carries", "ibv_query_port(3); Linux iboe_get_mtu",
     [](End& end) {
       const ibv_port_attr port = port_of(end);
       end.sees("active MTU of 1500 bytes", std::to_string(port.active_mtu), std::to_string(IBV_MTU_1024));
       end.sees("largest MTU", std::to_string(port.max_mtu), std::to_string(IBV_MTU_4096));
     }},
    {"a port's longest message is a legal one", "ibv_query_port(3)",
     [](End& end) {
       const ibv_port_attr port = port_of(end);
       end.sees("at least one MTU, at most 2 GiB",
                yes_or_no(port.max_msg_sz >= 4096 && port.max_msg_sz <= kLargestMessage), "yes");
     }},
    {"ports that a device does not have are refused", "ibv_query_port(3)",
     [](End& end) {
       end.open_device();
       ibv_port_attr port{};
       end.sees("port 0", answer(ibv_query_port(end.context, 0, &port)), "EINVAL");
       end.sees("port 2", answer(ibv_query_port(end.context, 2, &port)), "EINVAL");
     }},
    {"the one partition key is the default one", "ibv_query_pkey(3), ibv_get_pkey_index(3)",
     [](End& end) {
       end.open_device();
       __be16 pkey = 0;
       end.sees("index 0", std::to_string(ibv_query_pkey(end.context, 1, 0, &pkey)), "0");
       end.sees("its key", std::to_string(pkey), std::to_string(0xffff));
       end.sees("index 1", std::to_string(ibv_query_pkey(end.context, 1, 1, &pkey)), "-1");
       end.sees("index of 0xffff", std::to_string(ibv_get_pkey_index(end.context, 1, 0xffff)), "0");
       end.sees("index of another key", std::to_string(ibv_get_pkey_index(end.context, 1, 0x1234)), "-1");
     }},
    {"states, statuses and events have rdma-core's names", "ibv_event_type_str(3), ibv_wc_status_str",
     [](End& end) {
       end.sees("port error", ibv_event_type_str(IBV_EVENT_PORT_ERR), "port error");
       end.sees("communication established", ibv_event_type_str(IBV_EVENT_COMM_EST), "communication established");
       end.sees("GID table change", ibv_event_type_str(IBV_EVENT_GID_CHANGE), "GID table change");
       end.sees("an event that is none", ibv_event_type_str(static_cast<ibv_event_type>(99)), "unknown");
       end.sees("flush", ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
       end.sees("retries", ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
       end.sees("RNR", ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR), "RNR retry counter exceeded");
       end.sees("active", ibv_port_state_str(IBV_PORT_ACTIVE), "active");
       end.sees("adapter", ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
     }},
    {"rates are reported as multiples and in Mb/s", "ibv_rate_to_mult(3), ibv_rate_to_mbps(3)",
     [](End& end) {
       end.sees("10 Gb/s", std::to_string(ibv_rate_to_mult(IBV_RATE_10_GBPS)), "4");
       end.sees("200 Gb/s", std::to_string(ibv_rate_to_mbps(IBV_RATE_200_GBPS)), "206250");
       end.sees("4 times 2.5 Gb/s", std::to_string(mult_to_ibv_rate(4)), std::to_string(IBV_RATE_10_GBPS));
       end.sees("no such rate", std::to_string(ibv_rate_to_mbps(static_cast<ibv_rate>(99))), "-1");
     }},
};

}  // namespace

std::span<const Contract> device_contracts() { return kDeviceContracts; }

}  // namespace meshbed::contract
