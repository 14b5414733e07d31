// Conformance: closing of connections, listeners and requests, in any state.

#include <fmt/format.h>

#include <algorithm>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/verify/conformance_cases.h"

namespace meshbed::testbed {
namespace {

/// Requires that the plugin still works: a new connection carries bytes.
void works_on(CaseRank& rank) {
  const CasePair pair = rank.connect_both(0, 0, "listener afterwards");
  rank.exchange(pair, 30'000, 1000);
  rank.meet("exchanged afterwards");
  rank.close(pair);
}

void nothing(CaseRank& rank) {
  // After a set-up that failed half-way, NCCL calls close with NULL.
  const std::uint64_t warns = coll::warn_count();
  rank.succeeded(rank.net().close_send(nullptr), "closeSend(NULL)", warns);
  rank.succeeded(rank.net().close_receive(nullptr), "closeRecv(NULL)", warns);
  rank.succeeded(rank.net().close_listen(nullptr), "closeListen(NULL)", warns);
  works_on(rank);
}

void receives_in_flight(CaseRank& rank) {
  // The abort of a communicator: receives are posted, nothing has arrived, and everything is closed.
  const CasePair pair = rank.connect_both();
  CaseBuffer buffer(1U << 20U);
  void* memory = rank.register_memory(pair.receive, buffer);
  for (int post = 0; post < 8; ++post) rank.receive(pair.receive, buffer.data(), 100'000, 0, memory);
  rank.meet("posted");
  rank.deregister_memory(pair.receive, memory);
  rank.close(pair);
  rank.meet("closed");
  rank.require(buffer.untouched_outside(0, 0), "nothing is written without a send");
  works_on(rank);
}

void sends_in_flight(CaseRank& rank) {
  const CasePair pair = rank.connect_both();
  constexpr std::uint64_t kBytes = 1U << 20U;
  CaseBuffer buffer(kBytes);
  if (rank.first()) {
    void* memory = rank.register_memory(pair.send, buffer);
    rank.meet("posted");
    // The first send must be accepted, since there is room for it; of the others, those that are accepted at once.
    rank.send(pair.send, buffer.data(), kBytes, 0, memory);
    int more = 0;
    while (more < nccl::kMaxRequests && rank.try_send(pair.send, buffer.data(), kBytes, 0, memory) != nullptr) ++more;
    rank.meet("under way");
    rank.deregister_memory(pair.send, memory);
    rank.close(pair);
  } else {
    void* memory = rank.register_memory(pair.receive, buffer);
    for (int post = 0; post < 4; ++post) rank.receive(pair.receive, buffer.data(), kBytes, 0, memory);
    rank.meet("posted");
    rank.meet("under way");
    rank.deregister_memory(pair.receive, memory);
    rank.close(pair);
  }
  rank.meet("closed");
  works_on(rank);
}

void peer_closed(CaseRank& rank) {
  // The peer has closed: requests under way end with an error, or their owner closes them; new connections work.
  const CasePair pair = rank.connect_both();
  CaseBuffer buffer(200'000);
  if (rank.first()) {
    rank.meet("posted");
    rank.close(pair);
    rank.meet("closed");
  } else {
    void* memory = rank.register_memory(pair.receive, buffer);
    void* request = rank.receive(pair.receive, buffer.data(), 100'000, 0, memory);
    rank.meet("posted");
    rank.meet("closed");
    // An error or "not yet", but not done: nothing was sent.
    for (int look = 0; look < 100; ++look) {
      bool done = false;
      int sizes[nccl::kMaxGroupedReceives]{};
      if (rank.net().test_group(request, &done, sizes) != nccl::kNcclSuccess) break;
      rank.require(!done, "a receive without a send is not done");
    }
    rank.deregister_memory(pair.receive, memory);
    rank.close(pair);
  }
  works_on(rank);
}

void sent_is_sent(CaseRank& rank) {
  // A completed send has arrived, or will: closing the connection afterwards does not cancel it.
  const CasePair pair = rank.connect_both();
  constexpr std::uint64_t kBytes = 700'000;
  if (rank.first()) {
    rank.send_one(pair.send, kBytes, 9);
    rank.succeeded(rank.net().close_send(pair.send), "closeSend", coll::warn_count());
    rank.meet("closed");
    rank.meet("carried");
    rank.succeeded(rank.net().close_receive(pair.receive), "closeRecv", coll::warn_count());
  } else {
    CaseBuffer buffer(kBytes);
    void* memory = rank.register_memory(pair.receive, buffer);
    void* request = rank.receive(pair.receive, buffer.data(), kBytes, 0, memory);
    rank.meet("closed");
    rank.finish(request);
    rank.require(buffer.first_wrong(9, 0, kBytes) == kBytes, "what was sent before closeSend is there");
    rank.deregister_memory(pair.receive, memory);
    rank.meet("carried");
    rank.close(pair);
  }
}

/// Receives posted, and the number of them that the sender serves before a side closes.
constexpr int kAnnounced = 8, kServed = 3;
constexpr std::uint64_t kUnreadBytes = 100'000;

void unread_by_receiver(CaseRank& rank) {
  // As in an abort of NCCL: the receiver closes with unread bytes, and the sender, which does not know it yet, serves
  // the announced receives. aws-ofi-nccl tests the same (tests/functional/inflight_close.cpp).
  const CasePair pair = rank.connect_both();
  CaseBuffer buffer(kUnreadBytes);
  if (rank.first()) {
    buffer.fill(1, 0, kUnreadBytes);
    void* memory = rank.register_memory(pair.send, buffer);
    rank.meet("posted");
    int sent = 0;
    for (; sent < kServed; ++sent) rank.send(pair.send, buffer.data(), kUnreadBytes, 0, memory);
    rank.meet("sent");
    rank.meet("closed");
    for (; sent < kAnnounced; ++sent) {
      // One test only: done or not yet. If an adapter waits for an acknowledgement, the failure comes much later.
      rank.is_done(rank.send(pair.send, buffer.data(), kUnreadBytes, 0, memory));
    }
    rank.deregister_memory(pair.send, memory);
    rank.close(pair);
  } else {
    void* memory = rank.register_memory(pair.receive, buffer);
    for (int post = 0; post < kAnnounced; ++post) rank.receive(pair.receive, buffer.data(), kUnreadBytes, 0, memory);
    rank.meet("posted");
    rank.meet("sent");
    rank.deregister_memory(pair.receive, memory);
    rank.close(pair);
    rank.meet("closed");
  }
  works_on(rank);
}

void unread_by_sender(CaseRank& rank) {
  // The sender closes with announcements that it has not served: data that it sent still arrives.
  const CasePair pair = rank.connect_both();
  if (rank.first()) {
    rank.meet("posted");
    for (int sent = 0; sent < kServed; ++sent) {
      rank.send_one(pair.send, kUnreadBytes, static_cast<std::uint64_t>(sent));
    }
    rank.meet("announced");
    rank.close(pair);
    rank.meet("closed");
  } else {
    std::vector<CaseBuffer> buffers;
    std::vector<void*> memories, requests;
    buffers.reserve(2 * kAnnounced);
    for (int post = 0; post < 2 * kAnnounced; ++post) {
      CaseBuffer& buffer = buffers.emplace_back(kUnreadBytes);
      memories.push_back(rank.register_memory(pair.receive, buffer));
      // Posts the second half after the sender has served its part of the first half.
      if (post == kAnnounced) {
        rank.meet("posted");
        for (int served = 0; served < kServed; ++served) rank.finish(requests[static_cast<std::size_t>(served)]);
      }
      requests.push_back(rank.receive(pair.receive, buffer.data(), kUnreadBytes, 0, memories.back()));
    }
    rank.meet("announced");
    rank.meet("closed");
    for (std::size_t served = 0; served < kServed; ++served) {
      rank.require(buffers[served].first_wrong(served, 0, kUnreadBytes) == kUnreadBytes,
                   "what was sent before closeSend is there");
    }
    for (void* memory : memories) rank.deregister_memory(pair.receive, memory);
    rank.close(pair);
  }
  works_on(rank);
}

void listener_unused(CaseRank& rank) {
  // A peer is connecting to the listener, or none ever has.
  if (rank.first()) {
    void* unused = rank.listen(0, "listener");
    rank.meet("the other is on the way");
    rank.close_listener(unused);
    rank.meet("closed");
    rank.meet("given up");
  } else {
    const std::string handle_text = rank.await("listener");
    CaseHandle handle;
    std::copy_n(handle_text.begin(), nccl::kHandleBytes, handle.bytes.begin());
    void* comm = nullptr;
    int code = rank.net().connect(0, handle.bytes.data(), &comm);
    rank.meet("the other is on the way");
    rank.meet("closed");
    // The connect must fail, or return an unusable connection. Plugins that wait for ever rely on NCCL's abort.
    for (int look = 0; look < 2000 && code == nccl::kNcclSuccess && comm == nullptr; ++look) {
      code = rank.net().connect(0, handle.bytes.data(), &comm);
      rank.host().idle("a conformance case");
    }
    if (comm != nullptr) rank.succeeded(rank.net().close_send(comm), "closeSend", coll::warn_count());
    rank.meet("given up");
  }
  works_on(rank);
}

}  // namespace

std::vector<ConformanceCase> conformance_closing_cases() {
  return {
      {"close-nothing", "closing NULL is not an error and has no effect", nothing},
      {"receives-in-flight", "a connection is closed with receives posted", receives_in_flight},
      {"sends-in-flight", "a connection is closed at both ends while bytes are under way", sends_in_flight},
      {"peer-closed", "the other end closes first: no receive completes without a send", peer_closed},
      {"sent-is-sent", "closeSend does not cancel completed sends", sent_is_sent},
      {"unread-by-receiver", "a receiver closes with bytes unread: its sender can send what was announced",
       unread_by_receiver},
      {"unread-by-sender", "a sender closes with receives that it never served: the sent messages still arrive",
       unread_by_sender},
      {"listener-unused", "a listener is closed while a peer connects to it", listener_unused},
  };
}

std::vector<ConformanceCase> conformance_cases() {
  std::vector<ConformanceCase> all;
  for (const auto& part : {conformance_setup_cases(), conformance_message_cases(), conformance_group_cases(),
                           conformance_gpu_cases(), conformance_closing_cases()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace meshbed::testbed
