// Completion queues, channels and asynchronous events: ibv_create_cq(3), ibv_resize_cq(3), ibv_req_notify_cq(3),
// ibv_get_cq_event(3), ibv_create_comp_channel(3), ibv_get_async_event(3).
#include <doctest/doctest.h>

#include "sim/engine/network.h"
#include "sim/host/file/descriptors.h"
#include "tests/verbs/pair.h"

namespace completion_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

PairOptions with_channel() {
  return {.configure = [](Setup& setup, int) { setup.channel = true; }};
}

ibv_async_event get_event(const Side& side) {
  ibv_async_event event{};
  CHECK(ibv_get_async_event(side.context, &event) == 0);
  return event;
}

void take_cq_event(const Side& side) {
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  CHECK(ibv_get_cq_event(side.channel, &cq, &cq_context) == 0);
  CHECK(cq == side.cq);
  CHECK(cq_context == &side);
  ibv_ack_cq_events(cq, 1);
}

void set_link(bool up) {
  sim::World::get().network().set_port_up({0, 0}, up);
  sim::port_changed({0, 0});
}

}  // namespace

// ibv_poll_cq(3): "In case of a CQ overrun, the async event IBV_EVENT_CQ_ERR will be triggered, and the CQ cannot be
// used."
TEST_CASE("a completion queue that overruns fails: CQ_ERR, its queue pairs to ERR, polling -1 once it is drained") {
  run_pair({.configure = [](Setup& setup, int) { setup.cqe = 4; }}, [](Side& side) {
    if (side.index != 0) return;
    for (std::uint64_t id = 1; id <= 5; ++id) CHECK(side.post_write(id, 0, 8) == 0);
    const ibv_async_event failed = get_event(side);
    CHECK(failed.event_type == IBV_EVENT_CQ_ERR);
    CHECK(failed.element.cq == side.cq);
    const ibv_async_event fatal = get_event(side);
    CHECK(fatal.event_type == IBV_EVENT_QP_FATAL);
    CHECK(fatal.element.qp == side.qp);
    CHECK(side.state() == IBV_QPS_ERR);
    ibv_wc wc[8];
    CHECK(ibv_poll_cq(side.cq, 8, wc) == 4);
    CHECK(ibv_poll_cq(side.cq, 8, wc) == -1);
  });
}

// ibv_resize_cq(3): "cqe must be at least the number of unpolled entries in the CQ"; "at least cqe entries".
TEST_CASE("a completion queue can be resized, not below what it holds") {
  run_pair({.configure = [](Setup& setup, int) { setup.cqe = 2; }}, [](Side& side) {
    if (side.index != 0) return;
    CHECK(side.cq->cqe == 2);
    CHECK(ibv_resize_cq(side.cq, 4) == 0);
    CHECK(side.cq->cqe == 4);
    side.setup.cqe = 4;
    for (std::uint64_t id = 1; id <= 4; ++id) CHECK(side.post_write(id, 0, 8) == 0);
    sleep(kPicosecondsPerMillisecond);
    CHECK(ibv_resize_cq(side.cq, 3) == EINVAL);
    CHECK(side.drain_after(0).size() == 4);
    CHECK(ibv_resize_cq(side.cq, 1) == 0);
  });
}

// ibv_req_notify_cq(3): "Only one completion event will be generated for each call to ibv_req_notify_cq()."
TEST_CASE("a thread sleeps in ibv_get_cq_event until the completion it asked for, one event a request") {
  run_pair(with_channel(), [](Side& side) {
    if (side.index != 0) return;
    CHECK(ibv_req_notify_cq(side.cq, 0) == 0);
    const Picoseconds start = now();
    CHECK(side.post_write(1, 0, 64) == 0);
    CHECK(side.post_write(2, 0, 64) == 0);
    take_cq_event(side);
    CHECK(now() - start == wire_time_ps(64 + 82 + 16, 100'000'000'000) + 2 * kPicosecondsPerMicrosecond);
    CHECK(side.wait().wr_id == 1);
    CHECK(side.wait().wr_id == 2);
    // One shot: the second completion came without an event. A non-blocking channel says so.
    CHECK(side.channel->fd >= sim::kFirstDescriptor);
    CHECK(ibv_req_notify_cq(side.cq, 0) == 0);
    CHECK(side.post_write(3, 0, 64) == 0);
    take_cq_event(side);
    CHECK(side.wait().wr_id == 3);
  });
}

// ibv_req_notify_cq(3): with solicited_only an event needs "a message with the Solicited Event header bit set".
TEST_CASE("solicited only: a send without IBV_SEND_SOLICITED completes and announces nothing") {
  run_pair(with_channel(), [](Side& side) {
    if (side.index == 1) {
      for (std::uint64_t id = 1; id <= 2; ++id) CHECK(side.post_recv(id, 0, 64) == 0);
      CHECK(ibv_req_notify_cq(side.cq, 1) == 0);
      side.barrier();
      const Picoseconds start = now();
      take_cq_event(side);
      CHECK(now() - start > kPicosecondsPerMillisecond);  // it was the second one
      CHECK(side.wait().wr_id == 1);
      CHECK(side.wait().wr_id == 2);
      return;
    }
    side.barrier();
    CHECK(side.post_send(1, 0, 64) == 0);
    sleep(kPicosecondsPerMillisecond);
    CHECK(side.post_send(2, 0, 64, IBV_SEND_SOLICITED) == 0);
  });
}

// ibv_req_notify_cq(3): a completion is solicited also "if the status is not successful".
TEST_CASE("an error is announced although only solicited completions were asked for") {
  run_pair(with_channel(), [](Side& side) {
    if (side.index != 0) return;
    CHECK(ibv_req_notify_cq(side.cq, 1) == 0);
    ibv_sge sge = side.sge(0, 8);
    sge.lkey = 0;
    CHECK(side.post(side.write_wr(1, &sge)) == 0);
    take_cq_event(side);
    CHECK(side.wait().status == IBV_WC_LOC_PROT_ERR);
  });
}

// ibv_get_async_event(3): IBV_EVENT_PORT_ERR "link became unavailable on a port", IBV_EVENT_PORT_ACTIVE.
TEST_CASE("a cable that is pulled and put back: PORT_ERR and PORT_ACTIVE at both ends, once each") {
  run_pair([](Side& side) {
    side.barrier();
    if (side.index == 0) {
      set_link(false);
      set_link(false);
      sleep(kPicosecondsPerMillisecond);
      set_link(true);
    }
    for (const ibv_event_type expected : {IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE}) {
      ibv_async_event event = get_event(side);
      CHECK(event.event_type == expected);
      CHECK(event.element.port_num == 1);
      ibv_ack_async_event(&event);
    }
  });
}

// ibv_get_async_event(3): IBV_EVENT_COMM_EST; destroying waits for acknowledgements there, is EBUSY here.
TEST_CASE("the first message before RTS raises COMM_EST") {
  const auto receiver_waits = [](Setup& setup, int index) { setup.until = index == 0 ? IBV_QPS_RTS : IBV_QPS_RTR; };
  run_pair({.configure = receiver_waits}, [](Side& side) {
    if (side.index == 0) {
      CHECK(side.post_write(1, 0, 8) == 0);
      CHECK(side.wait().status == IBV_WC_SUCCESS);  // a responder works in RTR
      side.barrier();
      return;
    }
    ibv_async_event event = get_event(side);
    CHECK(event.event_type == IBV_EVENT_COMM_EST);
    CHECK(event.element.qp == side.qp);
    side.barrier();
    CHECK(ibv_destroy_qp(side.qp) == EBUSY);  // not acknowledged yet
    ibv_ack_async_event(&event);
    CHECK(ibv_destroy_qp(side.qp) == 0);
  });
}

// ibv_create_comp_channel(3): a channel is "essentially file descriptor"; an event that one thread reads is gone.
TEST_CASE("two threads in ibv_get_cq_event share the events between them") {
  run_pair(with_channel(), [](Side& side) {
    if (side.index != 0) return;
    auto& world = sim::World::get();
    int taken = 0;
    std::vector<sim::Thread*> threads;
    for (int index = 0; index < 2; ++index) {
      threads.push_back(&world.spawn(*side.process, "waiter", [&side, &taken] {
        take_cq_event(side);
        ++taken;
      }));
    }
    for (int id = 1; id <= 2; ++id) {
      CHECK(ibv_req_notify_cq(side.cq, 0) == 0);
      CHECK(side.post_write(static_cast<std::uint64_t>(id), 0, 8) == 0);
      sleep(kPicosecondsPerMillisecond);
      CHECK(taken == id);
    }
    for (sim::Thread* thread : threads) thread->join();
  });
}

// ibv_get_cq_event(3): it "waits for the next completion event"; where none can come, virtual time cannot go on.
TEST_CASE("waiting for a completion that cannot come is a deadlock that names queue pairs and peers") {
  PairOptions options = with_channel();
  const auto waiting = run_world(
      {.cluster = options.cluster},
      [](sim::World& world) {
        sim::install_verbs(world, libibverbs_path(), nullptr);
        auto& process = world.add_process(0, 0, "rank 0");
        world.spawn(process, "main", [] {
          ibv_device** devices = ibv_get_device_list(nullptr);
          ibv_context* context = ibv_open_device(devices[0]);
          ibv_comp_channel* channel = ibv_create_comp_channel(context);
          ibv_cq* cq = ibv_create_cq(context, 4, nullptr, channel, 0);
          ibv_qp_init_attr init{};
          init.send_cq = init.recv_cq = cq;
          init.qp_type = IBV_QPT_RC;
          CHECK(ibv_create_qp(ibv_alloc_pd(context), &init) != nullptr);
          void* cq_context = nullptr;
          ibv_get_cq_event(channel, &cq, &cq_context);
        });
      },
      true);
  CHECK(waiting.outcome == sim::OutcomeKind::kDeadlock);
  CHECK(waiting.waiters.find("ibv_get_cq_event") != std::string::npos);
  CHECK(waiting.waiters.find("QP 0x000100") != std::string::npos);
  CHECK(waiting.waiters.find("node0/rocep1s0f0") != std::string::npos);
}

}  // namespace completion_test
