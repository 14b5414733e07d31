// An interface that gets another address while programs run (sim/fault/inject.h: change_address) as a verbs program
// sees it. The table: ib_cache_gid_add() and ib_cache_gid_del() in the RDMA core's cache.c. The event:
// ibv_get_async_event(3), IBV_EVENT_GID_CHANGE "GID table change".
#include <doctest/doctest.h>

#include <cerrno>

#include "sim/fault/inject.h"
#include "tests/verbs/pair.h"

namespace address_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::World;

namespace {

constexpr models::PortRef kPort{0, 0};
const models::IpPrefix kOld = *models::read_prefix("192.168.100.1/24");
const models::IpPrefix kNew = *models::read_prefix("192.168.100.77/24");

/// Faults are carried out by events; the caller goes on a picosecond later.
void change_address(const models::IpPrefix& from, const models::IpPrefix& to) {
  static const models::IpPrefix *leaves, *comes;  // one at a time, in a process of its own
  leaves = &from;
  comes = &to;
  const auto call = [](void*, std::uint64_t) { sim::change_address(World::get(), kPort, *leaves, *comes); };
  World::get().never_hold(call);
  World::get().after(0, 0, call, nullptr, 0);
  meshbed::test::sleep(Picoseconds{1});
}

/// The last byte of the address at `index`; 0: the entry is empty.
int host_at(const Side& side, std::uint32_t index) {
  ibv_gid_entry entry{};
  const int error = ibv_query_gid_ex(side.context, 1, index, &entry, 0);
  CHECK((error == 0 || error == ENODATA));
  return error == 0 ? entry.gid.raw[15] : 0;
}

PairOptions impatient() {
  return {.configure = [](Setup& setup, int) {
    setup.timeout = 10;
    setup.retry_cnt = 2;
  }};
}

void wait_for_gid_change(const Side& side) {
  ibv_async_event event{};
  CHECK(ibv_get_async_event(side.context, &event) == 0);
  CHECK(event.event_type == IBV_EVENT_GID_CHANGE);
  CHECK(event.element.port_num == 1);
  ibv_ack_async_event(&event);
}

}  // namespace

TEST_CASE(
    "the old address leaves the GID table, the new one comes to the next free places, and each context gets an event") {
  run_pair([](Side& side) {
    if (side.index == 0) change_address(kOld, kNew);
    side.barrier();
    ibv_gid_entry table[8];
    CHECK(ibv_query_gid_table(side.context, table, 8, 0) == 2);
    if (side.index == 1) {
      CHECK(host_at(side, 1) == 2);
      return;
    }
    for (const std::uint32_t index : {0U, 1U}) CHECK(host_at(side, index) == 0);
    for (const std::uint32_t index : {2U, 3U}) CHECK(host_at(side, index) == 77);
    CHECK(table[0].gid_type == IBV_GID_TYPE_ROCE_V1);
    CHECK(table[1].gid_type == IBV_GID_TYPE_ROCE_V2);
    wait_for_gid_change(side);
    change_address(kNew, kOld);
    for (const std::uint32_t index : {0U, 1U}) CHECK(host_at(side, index) == 1);
    for (const std::uint32_t index : {2U, 3U}) CHECK(host_at(side, index) == 0);
    wait_for_gid_change(side);
  });
}

TEST_CASE("between GIDs of which one is gone nothing gets through in either direction: RETRY_EXC_ERR") {
  for (const int sender : {0, 1}) {
    CAPTURE(sender);
    run_pair(impatient(), [sender](Side& side) {
      if (side.index != sender) return;
      CHECK(side.post_write(1, 0, 64) == 0);
      CHECK(side.wait().status == IBV_WC_SUCCESS);
      change_address(kOld, kNew);
      side.memory[0] = 'Z';
      CHECK(side.post_write(2, 0, 64) == 0);
      CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
      CHECK(side.peer().memory[0] != 'Z');
      CHECK(sim::verbs_counters().delivered == 1);
    });
  }
}

TEST_CASE("what is on the way when its address goes does not arrive, nor does the answer to what has") {
  // A write of 1 MiB takes 86 us, the cable 1 us; its last packets are on the cable, or its acknowledgement is.
  for (const Picoseconds after : {86'000'000, 87'400'000}) {
    CAPTURE(after);
    run_pair(impatient(), [after](Side& side) {
      if (side.index != 0) return;
      CHECK(side.post_write(1, 0, 1U << 20U) == 0);
      sleep(after);
      change_address(kOld, kNew);
      CHECK(side.wait().status == IBV_WC_RETRY_EXC_ERR);
    });
  }
}

TEST_CASE("an address that comes back in time: the queue pair's retries find it") {
  run_pair([](Side& side) {
    if (side.index != 0) return;
    change_address(kOld, kNew);
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.drain_after(kPicosecondsPerMillisecond).empty());
    change_address(kNew, kOld);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
    CHECK(sim::verbs_counters().retransmissions > 0);
  });
}

TEST_CASE("a queue pair anew: the old GID index is an empty entry, the new GID works in both directions") {
  run_pair([](Side& side) {
    if (side.index == 0) change_address(kOld, kNew);
    side.barrier();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RESET;
    CHECK(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE) == 0);
    CHECK(side.to_init() == 0);
    if (side.index == 0) {
      CHECK(side.to_rtr() == ENODATA);
      side.barrier();
      side.setup.gid_index = 3;
      CHECK(ibv_query_gid(side.context, 1, 3, &side.gid) == 0);
    } else {
      const Picoseconds start = now();
      CHECK(side.to_rtr() == ETIMEDOUT);  // no node replies for the old one
      CHECK(now() - start == kPicosecondsPerSecond);
      side.barrier();
    }
    side.barrier();
    CHECK(side.to_rtr() == 0);
    CHECK(side.to_rts() == 0);
    side.barrier();
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.wait().status == IBV_WC_SUCCESS);
  });
}

}  // namespace address_test
