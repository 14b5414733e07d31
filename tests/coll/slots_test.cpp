// A plan as slots: every slot needs only earlier ones, both ends of a connection have the same messages, and what comes
// out is the serial result, bit for bit, whatever the lanes.
#include "plugin/coll/plan/slots.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "plugin/coll/reduce/reduce.h"
#include "plugin/ring/kernel/step.h"

namespace slots_test {

using namespace meshbed::coll;
using meshbed::ring::Word;
namespace ring = meshbed::ring;
namespace arg = meshbed::ring::mesh_arg;

namespace {

constexpr std::uint64_t kFloat = sizeof(float);

PlanRequest request_of(Collective collective, int rank, int ranks, std::uint64_t count, std::uint64_t slice_bytes) {
  return {.collective = collective,
          .rank = rank,
          .ranks = ranks,
          .count = count,
          .element_bytes = kFloat,
          .partial_bytes = kFloat,
          .slice_bytes_max = slice_bytes};
}

/// Ranks whose messages arrive as soon as they are signalled; every lane steps in turn.
class SlotMesh {
 public:
  SlotMesh(Collective collective, int ranks, std::uint64_t count, std::uint64_t slice_bytes, Word lanes) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto program = slots_of(request_of(collective, rank, ranks, count, slice_bytes));
      REQUIRE(program.has_value());
      nodes_.push_back(std::make_unique<Node>(*this, rank, std::move(*program), lanes, count, ranks));
    }
  }

  std::vector<float>& input(int rank) { return nodes_[static_cast<std::size_t>(rank)]->spaces[0]; }
  std::vector<float>& output(int rank) { return nodes_[static_cast<std::size_t>(rank)]->spaces[1]; }

  /// True where every slot of every rank was done.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& node : nodes_) moved = node->turn_all() || moved;
    }
    bool done = true;
    for (auto& node : nodes_) {
      done = done && node->control[ring::control_word::kDoneCount] == node->program.slots.size();
    }
    return done;
  }

 private:
  struct Node {
    Node(SlotMesh& owner, int own_rank, SlotProgram&& own_program, Word lane_count, std::uint64_t count, int ranks)
        : mesh(&owner), rank(own_rank), program(std::move(own_program)), lanes(lane_count) {
      const auto world = static_cast<std::uint64_t>(ranks);
      spaces = {std::vector<float>(count * world), std::vector<float>(count * world),
                std::vector<float>(program.staging_bytes / kFloat)};
      control.resize(ring::kLayout2026_05.observables + program.board().observables());
      control[ring::control_word::kTenantBase] = ring::control_word::kTenantMasks;
      control[ring::control_word::kTenantMasks] = ring::kTenantMaskAll;
      words.resize(program.slots.size() * ring::kSlotWords);
      kernel.control = control.data();
      kernel.control_words = static_cast<Word>(control.size());
      kernel.ring = words.data();
      kernel.slots = static_cast<Word>(program.slots.size());
      kernel.lanes = lane_count;
      for (Word slot = 0; slot < kernel.slots; ++slot) {
        Word* const to = ring::slot_at(kernel, slot);
        to[ring::slot_word::kStatus] = ring::status::kPublished;
        to[ring::slot_word::kOpcode] = program.slots[slot].opcode;
        std::memcpy(to + ring::kLayout2026_05.arg0_word, program.slots[slot].args, sizeof program.slots[slot].args);
        to[ring::kLayout2026_05.arg0_word + arg::kEpoch] = 1;
      }
      for (Word index = 0; index < lane_count; ++index) lanes[index].index = index;
      puts.resize(program.sends.size());
      sent.resize(program.sends.size());
    }

    bool turn_all() {
      ring::MeshOperations<ring::PlainWords, Node> operations(kernel, program.board(), *this);
      bool moved = false;
      for (ring::KernelLane& lane : lanes) {
        const ring::Step now = ring::turn<ring::PlainWords>(kernel, lane, operations);
        moved = moved || now == ring::Step::kEnded;
      }
      return moved;
    }

    char* at(Word space, Word offset) { return reinterpret_cast<char*>(spaces[space].data()) + offset; }
    bool put(Word connection, Word space, Word offset, Word bytes, Word /*message*/) {
      puts[connection].emplace_back(at(space, offset), at(space, offset) + bytes);
      return true;
    }
    void signal(Word connection, Word wanted) {
      const auto& send = program.sends[connection];
      for (; sent[connection] < wanted; ++sent[connection]) {
        mesh->deliver(rank, send.peer, sent[connection], puts[connection][sent[connection]]);
      }
    }
    Word completed(Word connection) const { return sent[connection]; }
    void reduce(const Word* args) {
      const Word packed = args[arg::kSpaces];
      const ReduceKernels kernels = reduce_kernels(DataType::kFloat32, ReduceOp::kSum, VectorLevel::kBaseline);
      const ReduceFunction forms[] = {kernels.first, kernels.between, kernels.last, kernels.only};
      forms[packed & 0xffU](at(packed >> 24U, args[arg::kThird]), at(packed >> 8U & 0xffU, args[arg::kFirst]),
                            at(packed >> 16U & 0xffU, args[arg::kSecond]), args[arg::kCount], 2);
    }
    void copy(const Word* args) {
      const Word packed = args[arg::kSpaces];
      std::memcpy(at(packed >> 24U, args[arg::kThird]), at(packed >> 8U & 0xffU, args[arg::kFirst]), args[arg::kCount]);
    }

    SlotMesh* mesh;
    int rank;
    SlotProgram program;
    std::vector<ring::KernelLane> lanes;
    std::vector<std::vector<float>> spaces;
    std::vector<Word> control, words;
    ring::Kernel kernel{};
    std::vector<std::vector<std::vector<char>>> puts;
    std::vector<Word> sent;
  };

  void deliver(int from, int to, Word message, const std::vector<char>& bytes) {
    Node& node = *nodes_[static_cast<std::size_t>(to)];
    for (std::size_t connection = 0; connection < node.program.receives.size(); ++connection) {
      const auto& receive = node.program.receives[connection];
      if (receive.peer != from) continue;
      REQUIRE(message < receive.landings.size());
      const Landing& landing = receive.landings[message];
      REQUIRE(landing.size_bytes == bytes.size());  // both ends have the same slices
      std::memcpy(node.at(static_cast<Word>(landing.area.space), static_cast<Word>(landing.area.offset_bytes)),
                  bytes.data(), bytes.size());
      ++node.control[ring::kLayout2026_05.observables +
                     node.program.board().arrivals_of(static_cast<Word>(connection))];
      return;
    }
    FAIL("rank ", to, " expects nothing from rank ", from);
  }

  std::vector<std::unique_ptr<Node>> nodes_;
};

float number(int rank, std::uint64_t element) {
  return static_cast<float>(rank * 7 + 1) / 3.0F + static_cast<float>(element % 13) / 7.0F;
}

/// The sum in the ring's order: chunk c starts at rank c + 1 (plan.h).
float ring_sum(int ranks, std::uint64_t count, std::uint64_t element) {
  int chunk = 0;
  for (; chunk < ranks; ++chunk) {
    const Range range = part_of(count, static_cast<std::uint64_t>(ranks), static_cast<std::uint64_t>(chunk));
    if (element >= range.begin && element < range.begin + range.count) break;
  }
  float sum = number((chunk + 1) % ranks, element);
  for (int step = 2; step <= ranks; ++step) sum += number((chunk + step) % ranks, element);
  return sum;
}

}  // namespace

TEST_CASE("every slot needs only slots before it, and leaves its own word") {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter,
                                      Collective::kBroadcast, Collective::kReduce, Collective::kAllToAll}) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto program = slots_of(request_of(collective, rank, ranks, 100, 64));
        REQUIRE(program.has_value());
        for (Word slot = 0; slot < program->slots.size(); ++slot) {
          const Word* const args = program->slots[slot].args;
          CHECK(args[arg::kId] == slot);
          for (const Word word : {arg::kAfter, arg::kAlsoAfter}) {
            CHECK((args[word] == ring::kNoId || args[word] < slot));
          }
        }
      }
    }
  }
}

TEST_CASE("an all-reduce by slots is the sum in the ring's order, bit for bit: 2 to 16 ranks, one lane and many") {
  for (int ranks = 2; ranks <= 16; ++ranks) {
    for (const Word lanes : {1U, 3U, 64U}) {
      constexpr std::uint64_t kCount = 150;
      SlotMesh mesh(Collective::kAllReduce, ranks, kCount, 16, lanes);
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::uint64_t element = 0; element < kCount; ++element) mesh.input(rank)[element] = number(rank, element);
      }
      REQUIRE(mesh.run());
      for (int rank = 0; rank < ranks; ++rank) {
        bool same = true;
        for (std::uint64_t element = 0; element < kCount; ++element) {
          same = same && mesh.output(rank)[element] == ring_sum(ranks, kCount, element);
        }
        CHECK(same);
      }
    }
  }
}

TEST_CASE("an all-gather by slots has every rank's block, and an all-to-all every pair's") {
  for (const Collective collective : {Collective::kAllGather, Collective::kAllToAll}) {
    for (int ranks = 2; ranks <= 9; ++ranks) {
      constexpr std::uint64_t kCount = 40;
      SlotMesh mesh(collective, ranks, kCount, 64, 4);
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::uint64_t element = 0; element < mesh.input(rank).size(); ++element) {
          mesh.input(rank)[element] = static_cast<float>(rank * 10'000) + static_cast<float>(element);
        }
      }
      REQUIRE(mesh.run());
      for (int rank = 0; rank < ranks; ++rank) {
        for (int source = 0; source < ranks; ++source) {
          const std::uint64_t first =
              collective == Collective::kAllToAll ? static_cast<std::uint64_t>(rank) * kCount : 0;
          bool same = true;
          for (std::uint64_t element = 0; element < kCount; ++element) {
            same = same && mesh.output(rank)[static_cast<std::uint64_t>(source) * kCount + element] ==
                               static_cast<float>(source * 10'000) + static_cast<float>(first + element);
          }
          CHECK(same);
        }
      }
    }
  }
}

TEST_CASE("what no word can name is refused, and so is a send_recv in place") {
  CHECK(slots_of(request_of(Collective::kAllReduce, 0, 2, 1ULL << 31U, 1 << 20)).error().code ==
        meshbed::ErrorCode::kInvalidArgument);
  PlanRequest request = request_of(Collective::kSendRecv, 0, 2, 100, 64);
  request.to = request.from = 1;
  request.receive_count = 100;
  request.in_place = true;
  CHECK(slots_of(request).error().code == meshbed::ErrorCode::kUnsupported);
}

}  // namespace slots_test
