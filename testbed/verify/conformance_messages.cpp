// Conformance: sends and receives of one part.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/verify/conformance_cases.h"

namespace meshbed::testbed {
namespace {

/// Rank 0 sends, rank 1 receives, over a pair of connections that is closed afterwards.
void one_way(CaseRank& rank, const std::function<void(void* comm)>& sender,
             const std::function<void(void* comm)>& receiver) {
  const CasePair pair = rank.connect_both();
  rank.first() ? sender(pair.send) : receiver(pair.receive);
  rank.meet("carried");
  rank.close(pair);
}

void sizes(CaseRank& rank) {
  const std::vector<std::uint64_t> all{1, 2, 7, 8, 64, 127, 128, 129, 4095, 4096, 4097, 65'536, 1'000'003, 8U << 20U};
  one_way(
      rank,
      [&](void* comm) {
        for (const std::uint64_t size : all) rank.send_one(comm, size, size);
      },
      [&](void* comm) {
        for (const std::uint64_t size : all) rank.receive_one(comm, size, size);
      });
}

void longer_receives(CaseRank& rank) {
  // NCCL posts 1 MiB and receives half of it: test() must return the true size.
  const std::vector<std::uint64_t> all{0, 1, 100, 4096, 300'000};
  one_way(
      rank,
      [&](void* comm) {
        for (const std::uint64_t size : all) rank.send_one(comm, size, size + 1);
      },
      [&](void* comm) {
        for (const std::uint64_t size : all) rank.receive_one(comm, size, size + 1, 1'000'000);
      });
}

void empty_messages(CaseRank& rank) {
  // Half of the sends of a small all-reduce have no bytes; they match and complete like others.
  constexpr int kMessages = 30;
  const auto size_of = [](int message) { return message % 3 == 0 ? 0U : 1000U * static_cast<unsigned>(message); };
  one_way(
      rank,
      [&](void* comm) {
        for (int message = 0; message < kMessages; ++message) {
          rank.send_one(comm, size_of(message), static_cast<std::uint64_t>(message));
        }
      },
      [&](void* comm) {
        for (int message = 0; message < kMessages; ++message) {
          rank.receive_one(comm, size_of(message), static_cast<std::uint64_t>(message), 64);
        }
      });
}

/// `messages` of them, with up to `depth` under way at both ends; message k has `size_of(k)` bytes of pattern k.
struct Stream {
  int messages = 0;
  std::size_t depth = 8;
  std::uint64_t largest_bytes = 0;
  std::function<std::uint64_t(int)> size_of;
};

void run_stream(CaseRank& rank, const Stream& stream) {
  const CasePair pair = rank.connect_both();
  const bool sends = rank.first();
  void* comm = sends ? pair.send : pair.receive;
  std::vector<CaseBuffer> buffers(stream.depth, CaseBuffer(stream.largest_bytes));
  std::vector<void*> memories;
  for (CaseBuffer& buffer : buffers) memories.push_back(rank.register_memory(comm, buffer));
  struct UnderWay {
    void* request;
    int message;
  };
  std::deque<UnderWay> under_way;
  int posted = 0, done = 0;
  rank.wait("a stream of messages", [&] {
    while (posted < stream.messages && under_way.size() < stream.depth) {
      const std::size_t slot = static_cast<std::size_t>(posted) % stream.depth;
      CaseBuffer& buffer = buffers[slot];
      const std::uint64_t size = sends ? stream.size_of(posted) : stream.largest_bytes;
      if (sends) buffer.fill(static_cast<std::uint64_t>(posted), 0, size);
      void* request = sends ? rank.try_send(comm, buffer.data(), size, 0, memories[slot])
                            : rank.try_receive(comm, buffer.data(), size, 0, memories[slot]);
      if (request == nullptr) break;
      under_way.push_back({request, posted++});
    }
    // In any order: a completed request stays completed until it is tested.
    while (!under_way.empty()) {
      const UnderWay oldest = under_way.front();
      int arrived[nccl::kMaxGroupedReceives]{};
      if (!rank.is_done(oldest.request, arrived)) break;
      under_way.pop_front();
      ++done;
      if (sends) continue;
      const std::uint64_t size = stream.size_of(oldest.message);
      const CaseBuffer& buffer = buffers[static_cast<std::size_t>(oldest.message) % stream.depth];
      rank.require(static_cast<std::uint64_t>(arrived[0]) == size,
                   fmt::format("messages come in the order in which they were sent: receive {} got {} bytes, not {}",
                               oldest.message, arrived[0], size));
      rank.require(buffer.first_wrong(static_cast<std::uint64_t>(oldest.message), 0, size) == size,
                   fmt::format("messages come in the order in which they were sent: receive {} got another one's bytes",
                               oldest.message));
    }
    return done == stream.messages;
  });
  for (void* memory : memories) rank.deregister_memory(comm, memory);
  rank.meet("carried");
  rank.close(pair);
}

void in_order(CaseRank& rank) {
  run_stream(rank, {.messages = 300, .largest_bytes = 40'000, .size_of = [](int message) -> std::uint64_t {
                      return static_cast<std::uint64_t>(message * 7919 % 40'000);
                    }});
}

void large_stream(CaseRank& rank) {
  run_stream(rank, {.messages = 24, .largest_bytes = 4U << 20U, .size_of = [](int) { return 4U << 20U; }});
}

void requests_32(CaseRank& rank) {
  run_stream(rank, {.messages = 200,
                    .depth = nccl::kMaxRequests,
                    .largest_bytes = 3000,
                    .size_of = [](int message) -> std::uint64_t { return static_cast<std::uint64_t>(message * 13); }});
}

void more_than_fits(CaseRank& rank) {
  // A full plugin returns a NULL request, never an error. NCCL's own transport has room for 256.
  constexpr std::size_t kPosts = 512;
  const CasePair pair = rank.connect_both();
  CaseBuffer buffer(kPosts * 16);
  void* comm = rank.first() ? pair.send : pair.receive;
  void* memory = rank.register_memory(comm, buffer);
  std::vector<void*> requests;
  bool met_null = false;
  const auto post = [&] {
    std::uint8_t* data = buffer.data() + 16 * requests.size();
    void* request =
        rank.first() ? rank.try_send(comm, data, 16, 0, memory) : rank.try_receive(comm, data, 16, 0, memory);
    if (request != nullptr) requests.push_back(request);
    met_null = met_null || request == nullptr;
    return request != nullptr;
  };
  if (!rank.first()) {
    for (std::size_t post_number = 0; post_number < kPosts && post(); ++post_number) continue;
    rank.require(requests.size() >= nccl::kMaxRequests, "32 receives may be posted before one completes");
  }
  rank.meet("receives posted");
  if (rank.first()) {
    std::size_t taken = 0;
    rank.wait("32 sends are taken before one is tested", [&] {
      if (post()) ++taken;
      return taken >= nccl::kMaxRequests;
    });
    for (std::size_t more = requests.size(); more < kPosts; ++more) {
      if (!post()) break;
    }
    rank.publish("sent", std::to_string(requests.size()));
    const std::size_t posted = std::stoul(rank.await("posted"));
    rank.require(requests.size() <= posted, "no send is taken without a receive for it, or it waits");
    rank.finish_all(requests);
  } else {
    rank.publish("posted", std::to_string(requests.size()));
    const std::size_t sent = std::stoul(rank.await("sent"));
    requests.resize(std::min(requests.size(), sent));
    rank.finish_all(requests);
  }
  rank.publish("met NULL", met_null ? "yes" : "no");
  const bool other_met_null = rank.await("met NULL") == "yes";
  if (!met_null && !other_met_null) rank.not_looked_at(fmt::format("all {} requests fit at both ends", kPosts));
  rank.meet("carried");
  rank.deregister_memory(comm, memory);
  rank.close(pair);
}

void left_alone(CaseRank& rank) {
  // A plugin must not postpone work until its next call, because there may be none. Tested after a stream of messages,
  // because a plugin may adapt to frequent calls.
  constexpr std::size_t kAhead = 8, kBytes = 65'536;
  constexpr std::size_t kOnly = 5, kElsewhere = 6;  // rounds
  const CasePair pair = rank.connect_both(0, 0, "listener 0"), other = rank.connect_both(0, 0, "listener 1");
  void* comm = rank.first() ? pair.send : pair.receive;
  std::vector<CaseBuffer> buffers(kAhead, CaseBuffer(kBytes));
  std::vector<void*> memories;
  for (CaseBuffer& buffer : buffers) memories.push_back(rank.register_memory(comm, buffer));
  for (std::size_t round = 0; round <= kElsewhere; ++round) {
    std::vector<void*> requests;
    for (std::size_t slot = 0; slot < kAhead; ++slot) {
      CaseBuffer& buffer = buffers[slot];
      if (rank.first()) buffer.fill(kAhead * round + slot, 0, kBytes);
      requests.push_back(rank.first() ? rank.send(comm, buffer.data(), kBytes, 0, memories[slot])
                                      : rank.receive(comm, buffer.data(), kBytes, 0, memories[slot]));
    }
    if (round == kOnly) rank.meet("all sends are taken");
    if (round == kElsewhere) rank.first() ? rank.send_one(other.send, 1, 0) : rank.receive_one(other.receive, 1, 0);
    rank.finish_all(requests);
    for (std::size_t slot = 0; slot < kAhead && !rank.first(); ++slot) {
      rank.require(buffers[slot].first_wrong(kAhead * round + slot, 0, kBytes) == kBytes,
                   "data in a receive that is not tested is the data that was sent");
    }
  }
  for (void* memory : memories) rank.deregister_memory(comm, memory);
  rank.meet("carried");
  rank.close(pair);
  rank.close(other);
}

void send_first(CaseRank& rank) {
  // A send without a receive is not an error: NULL, or a request that completes when the receive is posted.
  const CasePair pair = rank.connect_both();
  if (rank.first()) {
    CaseBuffer buffer(10'000);
    buffer.fill(5, 0, 10'000);
    void* memory = rank.register_memory(pair.send, buffer);
    void* request = nullptr;
    for (int look = 0; look < 50; ++look) {
      if (request == nullptr) request = rank.try_send(pair.send, buffer.data(), 10'000, 0, memory);
    }
    rank.meet("sent early");
    if (request == nullptr) request = rank.send(pair.send, buffer.data(), 10'000, 0, memory);
    rank.finish(request);
    rank.deregister_memory(pair.send, memory);
  } else {
    rank.meet("sent early");
    rank.receive_one(pair.receive, 10'000, 5);
  }
  rank.meet("carried");
  rank.close(pair);
}

void both_ways(CaseRank& rank) {
  const CasePair pair = rank.connect_both();
  for (int message = 0; message < 20; ++message) {
    rank.exchange(pair, static_cast<std::uint64_t>(message) * 50'001, static_cast<std::uint64_t>(2 * message));
  }
  rank.meet("carried");
  rank.close(pair);
}

void too_long(CaseRank& rank) {
  // The documentation calls it an error; net_ib truncates the message. Both are accepted, but not a write beyond the
  // receive, a wrong size, or no result.
  const CasePair pair = rank.connect_both();
  constexpr std::uint64_t kSent = 100'000, kPosted = 40'000;
  const auto ends = [&](void* comm, bool sends) {
    CaseBuffer buffer(sends ? kSent : kPosted);
    if (sends) buffer.fill(7, 0, kSent);
    void* memory = rank.register_memory(comm, buffer);
    void* request = nullptr;
    int code = nccl::kNcclSuccess;
    bool done = false;
    int arrived[nccl::kMaxGroupedReceives]{};
    rank.wait("a send that is longer than its receive ends somehow", [&] {
      if (request == nullptr) {
        const coll::ReceivePart part{.data = buffer.data(), .size_bytes = kPosted, .tag = 0, .handle = memory};
        code = sends ? rank.net().send(comm, buffer.data(), kSent, 0, memory, &request)
                     : rank.net().receive_group(comm, {&part, 1}, &request);
      }
      if (code == nccl::kNcclSuccess && request != nullptr) code = rank.net().test_group(request, &done, arrived);
      return done || code != nccl::kNcclSuccess;
    });
    if (!sends && code == nccl::kNcclSuccess) {
      rank.require(arrived[0] >= 0 && static_cast<std::uint64_t>(arrived[0]) <= kPosted,
                   fmt::format("a receive of {} bytes says that {} have come", kPosted, arrived[0]));
    }
    if (!sends) rank.require(buffer.untouched_outside(0, kPosted), "nothing is written behind the receive's end");
    rank.meet("ended");
    if (code == nccl::kNcclSuccess) rank.deregister_memory(comm, memory);
  };
  rank.first() ? ends(pair.send, true) : ends(pair.receive, false);
  rank.close(pair);
}

void memory_shared(CaseRank& rank) {
  // The same memory on several connections, in parts, and repeatedly.
  const CasePair pair = rank.connect_both(0, 0, "listener 0");
  const CasePair other = rank.connect_both(0, 0, "listener 1");
  CaseBuffer buffer(1U << 20U);
  void* first = rank.register_memory(pair.send, buffer);
  void* second = rank.register_memory(pair.receive, buffer);
  void* third = rank.register_memory(other.send, buffer);
  void* again = rank.register_memory(pair.send, buffer);
  rank.deregister_memory(pair.send, first);
  rank.deregister_memory(other.send, third);
  // `again` outlives the others, and offsets need no alignment.
  const std::uint64_t out_at = 12'345, in_at = 600'001, size = 77'777;
  buffer.fill(static_cast<std::uint64_t>(rank.rank()), out_at, size);
  void* in = rank.receive(pair.receive, buffer.data() + in_at, size, 0, second);
  void* out = rank.send(pair.send, buffer.data() + out_at, size, 0, again);
  rank.finish_all({in, out});
  rank.require(buffer.first_wrong(static_cast<std::uint64_t>(1 - rank.rank()), in_at, size) == size,
               "what is sent from the middle of registered memory arrives in the middle of other");
  rank.deregister_memory(pair.send, again);
  rank.deregister_memory(pair.receive, second);
  rank.meet("carried");
  rank.close(pair);
  rank.close(other);
}

void threads(CaseRank& rank) {
  // Made by one thread, used by another, closed by a third; as many threads as a process with several GPUs has.
  constexpr int kThreads = 4;
  std::vector<CasePair> pairs;
  for (int index = 0; index < kThreads; ++index) {
    pairs.push_back(rank.connect_both(0, 0, fmt::format("listener {}", index)));
  }
  std::vector<std::string> failures(kThreads);
  std::atomic<bool> peer_failed = false;
  std::vector<RankThread> bodies;
  for (int index = 0; index < kThreads; ++index) {
    bodies.push_back({"progress", [&, index] {
                        const auto place = static_cast<std::size_t>(index);
                        try {
                          CaseRank own(rank.host(), rank.net(), fmt::format("{} thread {}", rank.name(), index));
                          for (std::uint64_t message = 0; message < 10; ++message) {
                            own.exchange(pairs[place], 20'000 * message, 100 * place + 2 * message);
                          }
                        } catch (const CaseFailed& failed) {
                          failures[place] = failed.text;
                        } catch (const PeerFailed&) {
                          peer_failed = true;
                        }
                      }});
  }
  rank.host().run_together(std::move(bodies));
  if (peer_failed.load()) throw PeerFailed{};
  for (const std::string& failure : failures) rank.require(failure.empty(), failure);
  rank.meet("carried");
  std::string failure;
  rank.host().run_together({{"closer", [&] {
                               try {
                                 for (const CasePair& pair : pairs) rank.close(pair);
                               } catch (const CaseFailed& failed) {
                                 failure = failed.text;
                               }
                             }}});
  rank.require(failure.empty(), failure);
}

}  // namespace

std::vector<ConformanceCase> conformance_message_cases() {
  return {
      {"sizes", "messages of 1 byte to 8 MiB arrive whole, and nothing else is written", sizes},
      {"longer-receives", "a receive may be longer than what comes; test says the true size", longer_receives},
      {"empty-messages", "messages of no bytes match and complete", empty_messages},
      {"in-order", "messages come in the order in which they were sent", in_order},
      {"large-stream", "8 messages of 4 MiB are under way at once", large_stream},
      {"requests-32", "32 requests are under way at once", requests_32},
      {"more-than-fits", "what does not fit now gets a NULL request, never an error", more_than_fits},
      {"left-alone", "receives accept their sends though their owner makes no more calls, or tests other requests",
       left_alone},
      {"send-first", "a send before its receive is not an error", send_first},
      {"both-ways", "both directions carry messages at once", both_ways},
      {"too-long", "a send that is longer than its receive corrupts no memory, and is reported", too_long},
      {"memory", "memory is registered several times, in parts, at any offset", memory_shared},
      {"threads", "a connection is made, used and closed by three threads; four work at once", threads},
  };
}

}  // namespace meshbed::testbed
