// Conformance: grouped receives, tags, flush, and receives whose completion is not awaited.

#include <fmt/format.h>

#include <algorithm>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/verify/conformance_cases.h"

namespace meshbed::testbed {
namespace {

/// `parts` receives of `room_bytes` each, with tags 100, 101, ...
struct MessageGroup {
  MessageGroup(CaseRank& rank, void* comm, int count, std::uint64_t room_bytes)
      : comm(comm), buffers(static_cast<std::size_t>(count), CaseBuffer(room_bytes)) {
    for (std::size_t part = 0; part < buffers.size(); ++part) {
      parts.push_back({.data = buffers[part].data(),
                       .size_bytes = room_bytes,
                       .tag = 100 + static_cast<int>(part),
                       .handle = rank.register_memory(comm, buffers[part])});
    }
  }
  void release(CaseRank& rank) const {
    for (const coll::ReceivePart& part : parts) rank.deregister_memory(comm, part.handle);
  }

  void* comm;
  std::vector<CaseBuffer> buffers;
  std::vector<coll::ReceivePart> parts;
};

std::uint64_t size_of(int group, int part) {
  return part == 2 ? 0 : static_cast<std::uint64_t>(10'000 * part + 100 * group + 1);
}
std::uint64_t seed_of(int group, int part) { return static_cast<std::uint64_t>(16 * group + part); }

void check_group(CaseRank& rank, const MessageGroup& group, int number, const int* sizes) {
  for (std::size_t part = 0; part < group.buffers.size(); ++part) {
    const int index = static_cast<int>(part);
    const std::uint64_t size = size_of(number, index);
    rank.require(static_cast<std::uint64_t>(sizes[part]) == size,
                 fmt::format("group {}: test says {} bytes of tag {}, where {} were sent", number, sizes[part],
                             100 + index, size));
    rank.require(
        group.buffers[part].first_wrong(seed_of(number, index), 0, size) == size,
        fmt::format("group {}: a message goes to the part with its tag, {} got another one's", number, 100 + index));
    rank.require(group.buffers[part].untouched_outside(0, size),
                 fmt::format("group {}: nothing is written outside the message of tag {}", number, 100 + index));
  }
}

/// The number of parts in the groups of a case. With one part tags make no difference, and no rule applies.
int parts_of_groups(CaseRank& rank) {
  const int count = rank.group_size();
  if (count < 2) rank.not_looked_at("maxRecvs is 1: no receive is grouped");
  return count;
}

/// The sends of a group, the last tag first.
void send_backwards(CaseRank& rank, void* comm, int count, int number) {
  for (int part = count - 1; part >= 0; --part) {
    rank.send_one(comm, size_of(number, part), seed_of(number, part), 100 + part);
  }
}

void tags(CaseRank& rank) {
  const int count = parts_of_groups(rank);
  const CasePair pair = rank.connect_both();
  if (rank.first()) {
    // All at once: a send that is posted alone could complete before the others are posted.
    std::vector<CaseBuffer> buffers;
    std::vector<void*> memories, requests;
    buffers.reserve(static_cast<std::size_t>(count));
    for (int part = count - 1; part >= 0; --part) {
      const std::uint64_t size = size_of(0, part);
      CaseBuffer& buffer = buffers.emplace_back(size);
      buffer.fill(seed_of(0, part), 0, size);
      memories.push_back(rank.register_memory(pair.send, buffer));
      requests.push_back(rank.send(pair.send, buffer.data(), size, 100 + part, memories.back()));
    }
    rank.finish_all(requests);
    for (void* memory : memories) rank.deregister_memory(pair.send, memory);
  } else {
    MessageGroup group(rank, pair.receive, count, 100'000);
    int sizes[nccl::kMaxGroupedReceives]{};
    rank.finish(rank.receive_group(pair.receive, group.parts), sizes);
    check_group(rank, group, 0, sizes);
    group.release(rank);
  }
  rank.meet("carried");
  rank.close(pair);
}

void part_missing(CaseRank& rank) {
  const int count = parts_of_groups(rank);
  const CasePair pair = rank.connect_both();
  if (rank.first()) {
    for (int part = count - 1; part > 0; --part) {
      rank.send_one(pair.send, size_of(0, part), seed_of(0, part), 100 + part);
    }
    rank.meet("all but one");
    rank.meet("looked");
    rank.send_one(pair.send, size_of(0, 0), seed_of(0, 0), 100);
  } else {
    MessageGroup group(rank, pair.receive, count, 100'000);
    void* request = rank.receive_group(pair.receive, group.parts);
    rank.meet("all but one");
    int sizes[nccl::kMaxGroupedReceives]{};
    for (int look = 0; look < 50; ++look) {
      rank.require(!rank.is_done(request, sizes), "a grouped receive is done when all its parts are");
    }
    rank.meet("looked");
    rank.finish(request, sizes);
    check_group(rank, group, 0, sizes);
    group.release(rank);
  }
  rank.meet("carried");
  rank.close(pair);
}

void groups_in_order(CaseRank& rank) {
  // Tags choose among the parts of the first group that is not full, never among later ones: all groups have the same.
  constexpr int kGroups = 6;
  const int count = parts_of_groups(rank);
  const CasePair pair = rank.connect_both();
  if (rank.first()) {
    for (int number = 0; number < kGroups; ++number) send_backwards(rank, pair.send, count, number);
  } else {
    std::vector<MessageGroup> groups;
    std::vector<void*> requests;
    groups.reserve(kGroups);
    for (int number = 0; number < kGroups; ++number) {
      groups.emplace_back(rank, pair.receive, count, 100'000);
      requests.push_back(rank.receive_group(pair.receive, groups.back().parts));
    }
    for (int number = 0; number < kGroups; ++number) {
      int sizes[nccl::kMaxGroupedReceives]{};
      rank.finish(requests[static_cast<std::size_t>(number)], sizes);
      check_group(rank, groups[static_cast<std::size_t>(number)], number, sizes);
    }
    for (const MessageGroup& group : groups) group.release(rank);
  }
  rank.meet("carried");
  rank.close(pair);
}

void flush(CaseRank& rank) {
  if (!rank.net().has_flush()) return rank.not_looked_at("the plugin has no iflush, which it may lack");
  const CasePair pair = rank.connect_both();
  constexpr std::uint64_t kBytes = 50'000;
  if (rank.first()) {
    rank.send_one(pair.send, kBytes, 3);
  } else {
    CaseBuffer buffer(kBytes);
    const coll::ReceivePart part{
        .data = buffer.data(), .size_bytes = kBytes, .tag = 0, .handle = rank.register_memory(pair.receive, buffer)};
    rank.finish(rank.receive_group(pair.receive, {part}));
    void* request = nullptr;
    const std::uint64_t warns = coll::warn_count();
    rank.succeeded(rank.net().flush(pair.receive, {&part, 1}, &request), "iflush", warns);
    if (request != nullptr) rank.finish(request);
    rank.require(buffer.first_wrong(3, 0, kBytes) == kBytes, "after the flush the bytes are there");
    rank.deregister_memory(pair.receive, part.handle);
  }
  rank.meet("carried");
  rank.close(pair);
}

void optional_completion(CaseRank& rank) {
  if (rank.net().version() < 11) return rank.not_looked_at("NCCL says so from v11 of the table on only");
  // Since v11, NCCL sets *request to 1 if the data contain flags (LL, LL128). The receive still has a request, which
  // may complete early.
  const CasePair pair = rank.connect_both();
  constexpr std::uint64_t kBytes = 4096;
  for (std::uint64_t message = 0; message < 40; ++message) {
    if (rank.first()) {
      rank.send_one(pair.send, kBytes, message);
      continue;
    }
    CaseBuffer buffer(kBytes);
    void* memory = rank.register_memory(pair.receive, buffer);
    const coll::ReceivePart part{.data = buffer.data(), .size_bytes = kBytes, .tag = 0, .handle = memory};
    void* request = nullptr;
    rank.wait("irecv gives a request", [&] {
      request = reinterpret_cast<void*>(nccl::kOptionalRecvCompletion);
      const std::uint64_t warns = coll::warn_count();
      rank.succeeded(rank.net().receive_group(pair.receive, {&part, 1}, &request), "irecv, completion optional", warns);
      return request != nullptr;
    });
    rank.require(request != reinterpret_cast<void*>(nccl::kOptionalRecvCompletion), "irecv gives a request of its own");
    rank.finish(request);
    // The flags are in the data: the reader waits for them, not for the request.
    rank.wait("the bytes of a receive without completion",
              [&] { return buffer.first_wrong(message, 0, kBytes) == kBytes; });
    rank.deregister_memory(pair.receive, memory);
  }
  rank.meet("carried");
  rank.close(pair);
}

}  // namespace

std::vector<ConformanceCase> conformance_group_cases() {
  return {
      {"tags", "a message goes to the part of the grouped receive that has its tag", tags},
      {"part-missing", "a grouped receive is done when all its parts are", part_missing},
      {"groups-in-order", "grouped receives are filled one after the other, whatever their tags", groups_in_order},
      {"flush", "iflush after a receive succeeds, and its request completes", flush},
      {"optional-completion", "a receive without wanted completion has a request that completes (v11 on)",
       optional_completion},
  };
}

}  // namespace meshbed::testbed
