// What a process sees of its node's NICs.
#include <doctest/doctest.h>

#include <cstring>

#include "sim/engine/network.h"
#include "sim/host/identity.h"
#include "tests/verbs/pair.h"

namespace device_test {

using namespace meshbed;
using namespace meshbed::test;

// ibv_get_device_list(3), ibv_get_device_name(3), ibv_get_device_guid(3)
TEST_CASE("a node's devices come in the scenario's order, with their names and GUIDs") {
  run_pair({.cluster = ring_cluster(3)}, [](Side& side) {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    CHECK(count == 2);
    CHECK(devices[2] == nullptr);
    for (int index = 0; index < count; ++index) {
      CHECK(std::string(ibv_get_device_name(devices[index])) == "rocep1s0f" + std::to_string(index));
      CHECK(ibv_get_device_guid(devices[index]) == __builtin_bswap64(sim::node_guid_of({side.process->node, index})));
      CHECK(devices[index]->transport_type == IBV_TRANSPORT_IB);
      CHECK(std::string(devices[index]->ibdev_path) == "/sys/class/infiniband/rocep1s0f" + std::to_string(index));
    }
    ibv_free_device_list(devices);
  });
}

// ibv_query_device(3), ibv_query_device_ex(3)
TEST_CASE("device attributes: the extended query begins with the plain one") {
  run_pair([](Side& side) {
    ibv_device_attr plain{};
    ibv_device_attr_ex extended{};
    CHECK(ibv_query_device(side.context, &plain) == 0);
    CHECK(ibv_query_device_ex(side.context, nullptr, &extended) == 0);
    CHECK(std::memcmp(&plain, &extended.orig_attr, sizeof(plain)) == 0);
    CHECK(plain.phys_port_cnt == 1);
    CHECK(plain.max_qp_rd_atom == 16);
    CHECK(plain.atomic_cap == IBV_ATOMIC_HCA);
    CHECK(extended.odp_caps.general_caps == 0);
  });
}

// ibv_query_port(3)
TEST_CASE("port attributes follow the scenario: rate, MTU, state, Ethernet") {
  auto cluster = ring_cluster(2, 200'000'000'000);
  cluster.nodes[1].nics[0].mtu_bytes = 1500;
  run_pair({.cluster = cluster, .configure = [](Setup& setup, int) { setup.path_mtu = IBV_MTU_1024; }}, [](Side& side) {
    ibv_port_attr attr{};
    CHECK(ibv_query_port(side.context, 1, &attr) == 0);
    CHECK(attr.state == IBV_PORT_ACTIVE);
    CHECK(attr.phys_state == 5);
    CHECK(attr.link_layer == IBV_LINK_LAYER_ETHERNET);
    CHECK(attr.active_width == 2);   // 4 lanes
    CHECK(attr.active_speed == 64);  // 50 Gb/s each
    CHECK(attr.active_mtu == (side.index == 0 ? IBV_MTU_4096 : IBV_MTU_1024));
    CHECK(attr.max_msg_sz == 1U << 30);
    CHECK((attr.flags & IBV_QPF_GRH_REQUIRED) != 0);
    CHECK(attr.lid == 0);
    CHECK(ibv_query_port(side.context, 2, &attr) == EINVAL);
  });
}

// ibv_query_port(3): state, phys_state; Linux mlx5_query_port_roce: DOWN and 3 (disabled) without a carrier.
TEST_CASE("a port without link is DOWN on both ends of the cable") {
  run_pair([](Side& side) {
    side.barrier();
    if (side.index == 0) {
      sim::World::get().network().set_port_up({0, 0}, false);
      sim::port_changed({0, 0});
    }
    side.barrier();
    ibv_port_attr attr{};
    CHECK(ibv_query_port(side.context, 1, &attr) == 0);
    CHECK(attr.state == IBV_PORT_DOWN);
    CHECK(attr.phys_state == 3);
  });
}

// ibv_query_gid_ex(3): ENODATA is "within the table, but there is no data in this index".
TEST_CASE("GID entries carry address, type and interface; empty ones are ENODATA, others EINVAL") {
  run_pair([](Side& side) {
    ibv_gid_entry entry{};
    for (std::uint32_t index = 0; index < 2; ++index) {
      CHECK(ibv_query_gid_ex(side.context, 1, index, &entry, 0) == 0);
      CHECK(entry.gid_type == (index == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2));
      CHECK(entry.gid_index == index);
      CHECK(entry.gid.raw[10] == 0xff);
      CHECK(entry.gid.raw[12] == 192);
      CHECK(entry.gid.raw[15] == side.index + 1);
      CHECK(entry.ndev_ifindex > 0);
    }
    CHECK(ibv_query_gid_ex(side.context, 1, 5, &entry, 0) == ENODATA);
    CHECK(ibv_query_gid_ex(side.context, 1, 4096, &entry, 0) == EINVAL);
    CHECK(ibv_query_gid_ex(side.context, 2, 0, &entry, 0) == EINVAL);
    ibv_gid_entry table[8];
    CHECK(ibv_query_gid_table(side.context, table, 8, 0) == 2);
    CHECK(ibv_query_gid_table(side.context, table, 1, 0) == -EINVAL);  // ibv_query_gid_table(3): too small fails
    union ibv_gid gid {};
    CHECK(ibv_query_gid(side.context, 1, 5, &gid) == 0);  // an empty entry reads as zero there
    CHECK(gid.global.interface_id == 0);
    CHECK(ibv_query_gid(side.context, 1, -1, &gid) == -1);
  });
}

// ibv_query_pkey(3), ibv_get_pkey_index(3)
TEST_CASE("a port has the default partition key and no other") {
  run_pair([](Side& side) {
    __be16 pkey = 0;
    CHECK(ibv_query_pkey(side.context, 1, 0, &pkey) == 0);
    CHECK(pkey == 0xffff);
    CHECK(ibv_query_pkey(side.context, 1, 1, &pkey) == -1);
    CHECK(ibv_get_pkey_index(side.context, 1, 0xffff) == 0);
    CHECK(ibv_get_pkey_index(side.context, 1, 0x8001) == -1);
  });
}

// ibv_reg_mr(3): "If IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_ATOMIC is set, then IBV_ACCESS_LOCAL_WRITE must be
// set too"; optional access flags (IBV_ACCESS_RELAXED_ORDERING) are ignored where they are not supported.
TEST_CASE("memory registration checks its access flags") {
  run_pair([](Side& side) {
    char bytes[64];
    CHECK(ibv_reg_mr(side.pd, bytes, sizeof(bytes), IBV_ACCESS_REMOTE_WRITE) == nullptr);
    CHECK(errno == EINVAL);
    CHECK(ibv_reg_mr(side.pd, bytes, sizeof(bytes), IBV_ACCESS_ON_DEMAND) == nullptr);
    CHECK(errno == EINVAL);  // as Linux answers for a device that has none
    ibv_mr* relaxed = ibv_reg_mr(side.pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    REQUIRE(relaxed != nullptr);
    CHECK(relaxed->addr == bytes);
    CHECK(relaxed->length == sizeof(bytes));
    CHECK(ibv_dereg_mr(relaxed) == 0);
  });
}

}  // namespace device_test
