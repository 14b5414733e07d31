// Chains of waits: graphs made by hand, each with its shortest cycle or its path to an end that will never act.
#include "plugin/ring/kernel/wait_chain.h"

#include <doctest/doctest.h>

#include <memory>

#include "tests/ring/launch.h"

namespace wait_chain_test {

using namespace meshbed::ring;
using meshbed::test::Launch;

namespace {

constexpr MeshBoard kBoard{.connections = 2, .ids = 16};

/// Rings of ranks 0, 1, ..., whose connection 0 leads to the next rank and comes from the one before.
class Ranks {
 public:
  Ranks(int count, const meshbed::test::Options& options) {
    for (int rank = 0; rank < count; ++rank) {
      launches_.push_back(std::make_unique<Launch>(options));
      RingWaits waits;
      waits.rank = rank;
      waits.board = kBoard;
      waits.sends = {{.rank = (rank + 1) % count, .ring = 0, .connection = 0}};
      waits.receives = {{.rank = (rank + count - 1) % count, .ring = 0, .connection = 0}};
      waits.completed = {0};
      waits_.push_back(waits);
    }
    for (std::size_t rank = 0; rank < launches_.size(); ++rank) {
      waits_[rank].kernel = &launches_[rank]->kernel;
      waits_[rank].lanes = launches_[rank]->lanes;
    }
  }

  Launch& operator[](std::size_t rank) { return *launches_[rank]; }
  RingWaits& waits(std::size_t rank) { return waits_[rank]; }

  /// `count`: of messages; `after`: an id, which is a slot here.
  void publish(std::size_t rank, Word slot, Word op, Word count = 0, Word after = kNoId) {
    launches_[rank]->publish(slot, op, {0, 0, 0, 0, count, count - 1, 0, 0, slot, after, kNoId, 1});
  }
  /// That lane has claimed it, and waits in it.
  void hold(std::size_t rank, Word lane, Word slot) {
    launches_[rank]->lanes[lane].phase = LanePhase::kRun;
    launches_[rank]->lanes[lane].slot = slot;
    slot_at(launches_[rank]->kernel, slot)[slot_word::kStatus] = status::kClaimed;
  }
  void set(std::size_t rank, Word slot, Word status) {
    slot_at(launches_[rank]->kernel, slot)[slot_word::kStatus] = status;
  }
  WaitChain chain() const { return shortest_wait_chain(waits_); }
  std::string text() const { return chain().text(); }

 private:
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<RingWaits> waits_;
};

}  // namespace

TEST_CASE("where nothing is queued nothing waits") {
  const Ranks ranks(2, {.slots = 2});
  CHECK(ranks.chain().links.empty());
  CHECK(ranks.text().empty());
}

TEST_CASE("one block a rank, WAIT before SIGNAL: a cycle over both ranks, link by link") {
  Ranks ranks(2, {.slots = 2, .lanes = 1});
  for (const std::size_t rank : {0U, 1U}) {
    ranks.publish(rank, 0, opcode::kWait, 5);
    ranks.publish(rank, 1, opcode::kSignal, 5);
    ranks.hold(rank, 0, 0);
  }
  const WaitChain chain = ranks.chain();
  CHECK(chain.is_cycle);
  REQUIRE(chain.links.size() == 4);
  CHECK(chain.links[0].rank == 0);
  CHECK(chain.links[0].block == 0);
  CHECK(chain.links[1].rank == 1);
  CHECK_FALSE(chain.links[1].block);
  CHECK(chain.text() ==
        "rank 0 ring 0 slot 0 (WAIT, block 0) waits for message 4 of connection 0 in epoch 1 from rank 1's slot 1; "
        "rank 1 ring 0 slot 1 (SIGNAL) is not claimed: its block 0 is in slot 0; "
        "rank 1 ring 0 slot 0 (WAIT, block 0) waits for message 4 of connection 0 in epoch 1 from rank 0's slot 1; "
        "rank 0 ring 0 slot 1 (SIGNAL) is not claimed: its block 0 is in slot 0: a cycle");
  CHECK(ranks.text() == chain.text());
}

TEST_CASE("of two cycles the shorter one is reported, wherever it is") {
  Ranks ranks(3, {.slots = 4, .lanes = 1});
  for (const std::size_t rank : {0U, 1U, 2U}) {
    ranks.publish(rank, 0, opcode::kWait, 1);
    ranks.publish(rank, 1, opcode::kSignal, 1);
    ranks.hold(rank, 0, 0);
  }
  CHECK(ranks.chain().links.size() == 6);
  // Rank 2's block is in a slot that needs the one behind it.
  ranks.publish(2, 2, opcode::kCopy, 0, 3);
  ranks.publish(2, 3, opcode::kCopy);
  ranks.set(2, 0, status::kDone);
  ranks.hold(2, 0, 2);
  const WaitChain chain = ranks.chain();
  CHECK(chain.is_cycle);
  CHECK(chain.text() ==
        "rank 2 ring 0 slot 2 (COPY, block 0) waits for slot 3; rank 2 ring 0 slot 3 (COPY) is not claimed: its block "
        "0 is in slot 2: a cycle");
}

TEST_CASE("a chain ends at the one who will never act: a kernel that stands still, an end that is gone") {
  Ranks ranks(3, {.slots = 4, .lanes = 2});
  ranks.publish(0, 0, opcode::kWait, 1);
  ranks.hold(0, 0, 0);
  ranks.publish(2, 1, opcode::kSignal, 1);
  ranks.waits(2).stands_still = "stopped after 5 slots";
  CHECK(ranks.text() ==
        "rank 0 ring 0 slot 0 (WAIT, block 0) waits for message 0 of connection 0 in epoch 1 from rank 2's slot 1; "
        "rank 2 ring 0 slot 1 (SIGNAL) is not gone on with: its kernel stands still, stopped after 5 slots");
  CHECK_FALSE(ranks.chain().is_cycle);
  ranks.set(2, 1, status::kDone);
  CHECK(ranks.text().find("slot 1, which has signalled it: its queue pair does not deliver") != std::string::npos);
  ranks.set(2, 1, status::kEmpty);
  CHECK(ranks.text().find("from rank 2, which has published no SIGNAL of it") != std::string::npos);
  ranks.waits(0).receives[0].rank = 7;
  CHECK(ranks.text().find("from rank 7, whose kernel has ended") != std::string::npos);
}

TEST_CASE("a chain within one rank: faulted, masked, abandoned, without a place, unpublished") {
  Ranks ranks(1, {.slots = 4, .lanes = 2, .mode = Mode::kSafe});
  ranks.publish(0, 0, opcode::kCopy, 0, 1);
  ranks.publish(0, 1, opcode::kCopy);
  ranks.hold(0, 0, 0);
  const std::string waits = "rank 0 ring 0 slot 0 (COPY, block 0) waits for slot 1";
  ranks.set(0, 1, status::kFault);
  CHECK(ranks.text() == waits + "; rank 0 ring 0 slot 1 (COPY) has faulted");
  ranks.set(0, 1, status::kClaimed);
  CHECK(ranks.text() == waits + "; rank 0 ring 0 slot 1 (COPY) is claimed, and no block has it");
  ranks.set(0, 1, status::kPublished);
  ranks[0].mask(0, 0);
  CHECK(ranks.text() == waits + "; rank 0 ring 0 slot 1 (COPY) is not claimed: its tenant 0 is masked");
  ranks[0].mask(0, kTenantMaskAll);
  ranks.waits(0).resident = {true, false};
  CHECK(ranks.text() ==
        waits +
            "; rank 0 ring 0 slot 1 (COPY) is not claimed: its block 1 has no place on the GPU, which those that "
            "wait hold");
  ranks.set(0, 1, status::kEmpty);
  CHECK(ranks.text() == waits + ", which is not published");
}

TEST_CASE("a long ring of unclaimed slots costs as many steps as it has slots") {
  constexpr Word kSlots = 1U << 18U;
  Ranks ranks(1, {.slots = kSlots, .lanes = 1});
  ranks.publish(0, 0, opcode::kCopy, 0, kBoard.ids - 1);
  ranks.hold(0, 0, 0);
  for (Word slot = 1; slot < kSlots; ++slot) ranks.publish(0, slot, opcode::kNop);
  CHECK(ranks.text() == "rank 0 ring 0 slot 0 (COPY, block 0) waits for operation 15, which is not published");
  ranks.waits(0).stands_still = "stopped after 0 slots";
  CHECK(ranks.chain().links.size() == 1);
  CHECK(ranks.chain().links.front().slot == 0);
}

TEST_CASE("a FENCE waits for its queue pair, or for the SIGNAL that lets its puts go") {
  Ranks ranks(2, {.slots = 2, .lanes = 2});
  ranks.publish(0, 0, opcode::kFence, 1);
  ranks.hold(0, 0, 0);
  CHECK(ranks.text() ==
        "rank 0 ring 0 slot 0 (FENCE, block 0) waits until 1 puts of connection 0 to rank 1 are complete: its queue "
        "pair does not say so");
  ranks.publish(0, 1, opcode::kSignal, 1, 0);
  ranks.hold(0, 1, 1);
  const WaitChain chain = ranks.chain();
  CHECK(chain.is_cycle);
  CHECK(chain.links.size() == 2);
}

}  // namespace wait_chain_test
