#include "tests/cuda/program/ring_twins.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>

#include "plugin/ring/gpu/gpu_ring.h"
#include "plugin/ring/queue/wait.h"
#include "tests/ring/launch.h"

namespace meshbed::test {
namespace {

using ring::GpuRing;
namespace opcode = ring::opcode;
namespace arg = ring::mesh_arg;

constexpr Word kObservables = ring::kLayout2026_05.observables;
constexpr std::int64_t kWait_ms = 20'000;

/// A part of a twin: something is written into the buffers, then lanes take so many turns.
struct Part {
  std::function<void(Launch&)> write;
  Word turns = 8;
  bool by_step = false;
};
struct Twin {
  const char* name;
  Options options;
  std::vector<Part> parts;
};

void copy_words(const std::vector<Word>& from, std::span<Word> to) { std::copy(from.begin(), from.end(), to.begin()); }

class Twins {
 public:
  explicit Twins(const cuda::Driver& driver) : driver_(driver) {}

  TwinReport report;

  void differ(const std::string& text) { report.differences.push_back(text); }
  bool good(const Result<void>& result, const std::string& name) {
    if (!result) differ(name + ": " + result.error().text);
    return result.has_value();
  }

  void compare(const std::string& name, const char* what, std::span<const Word> ours, std::span<const Word> its) {
    if (ours.size() != its.size()) return differ(name + ": " + what + " of another size");
    for (std::size_t at = 0; at < ours.size(); ++at) {
      if (ours[at] == its[at]) continue;
      return differ(name + ": word " + std::to_string(at) + " of " + what + " is " + std::to_string(its[at]) +
                    " on the GPU, " + std::to_string(ours[at]) + " in C++");
    }
    ++report.compared;
  }

  std::unique_ptr<GpuRing> ring_of(const std::string& name, const Launch& launch, const ring::GpuRingShape& more) {
    ring::GpuRingShape shape = more;
    shape.slots = launch.kernel.slots;
    shape.lanes = launch.kernel.lanes;
    shape.observables = launch.kernel.control_words - kObservables;
    shape.mode = launch.kernel.mode;
    shape.by_priority = launch.kernel.by_priority;
    shape.has_io = launch.kernel.io != nullptr;
    shape.polls_most = launch.kernel.polls_most;
    auto made = GpuRing::create(driver_, shape);
    if (!made) {
      differ(name + ": " + made.error().text);
      return nullptr;
    }
    return std::move(made).value();
  }
  bool store(const std::string& name, const Launch& launch, GpuRing& gpu) {
    copy_words(launch.control, gpu.control());
    copy_words(launch.slots, gpu.slots());
    copy_words(launch.debug, gpu.debug());
    copy_words(launch.io, gpu.io());
    return good(gpu.store(), name);
  }

  /// Every lane in turn on both sides: the same order, so the same words, each of them.
  void in_turn(const Twin& twin, ring::Mode mode, ring::GpuPlace place) {
    const std::string name = std::string(twin.name) + (mode == ring::Mode::kStrict ? ", strict" : ", safe") +
                             (place == ring::GpuPlace::kDevice ? ", control on the GPU" : "");
    Options options = twin.options;
    options.mode = mode;
    Launch launch(options);
    const auto gpu = ring_of(name, launch, {.lanes_are = ring::GpuLanes::kInTurn, .place = place});
    if (gpu == nullptr) return;
    for (const Part& part : twin.parts) {
      part.write(launch);
      if (!store(name, launch, *gpu) || !good(gpu->launch(part.turns, part.by_step), name)) return;
      ring::NoUserOperations nothing;
      for (Word turn = 0; turn < part.turns; ++turn) {
        for (ring::KernelLane& lane : launch.lanes) {
          if (part.by_step) {
            ring::step<ring::AtomicWords>(launch.kernel, lane, nothing);
          } else {
            ring::turn<ring::AtomicWords>(launch.kernel, lane, nothing);
          }
        }
      }
      if (!good(gpu->wait_for_end(kWait_ms), name) || !good(gpu->fetch(), name)) return;
      compare(name, "control", launch.control, gpu->control());
      compare(name, "slots", launch.slots, gpu->slots());
      compare(name, "debug", launch.debug, gpu->debug());
      compare(name, "io", launch.io, gpu->io());
    }
  }

  /// Lanes at once, published into while they run, until SHUTDOWN: words that do not depend on who was first.
  void at_once(ring::GpuLanes lanes_are, Word lanes, ring::GpuPlace place) {
    const std::string name = std::to_string(lanes) + (lanes_are == ring::GpuLanes::kBlocks ? " blocks" : " threads") +
                             (place == ring::GpuPlace::kDevice ? ", control on the GPU" : "");
    constexpr Word kSlots = 48, kRounds = 3;
    Launch launch({.slots = kSlots, .lanes = lanes});
    const auto gpu =
        ring_of(name, launch,
                {.lanes_are = lanes_are, .threads = lanes_are == ring::GpuLanes::kBlocks ? 1U : 32U, .place = place});
    if (gpu == nullptr || !store(name, launch, *gpu) || !good(gpu->launch(), name)) return;
    for (Word round = 0; round < kRounds; ++round) {
      for (Word slot = 0; slot < kSlots; ++slot) {
        const std::array<Word, 3> args = arguments(slot, round);
        const Word op = kOps[slot % std::size(kOps)];
        launch.publish(slot, op, {args[0], args[1], args[2]});
        if (!good(gpu->publish_within({.slot = slot, .opcode = op, .args = {args.begin(), args.end()}}, kWait_ms),
                  name))
          return;
      }
      launch.run();
    }
    for (Word slot = 0; slot < kSlots; ++slot) {
      if (!good(gpu->done_within(slot, kWait_ms), name)) return;
    }
    launch.control[ring::control_word::kShutdown] = 1;
    if (!good(gpu->shut_down(), name) || !good(gpu->wait_for_end(kWait_ms), name) || !good(gpu->fetch(), name)) return;
    compare(name, "control", launch.control, gpu->control());
    compare(name, "slots", launch.slots, gpu->slots());
    // The order of the prints is not defined; the log has room for all.
    compare(name, "debug", sorted(launch.debug), sorted({gpu->debug().begin(), gpu->debug().end()}));
  }

  /// PUT, SIGNAL, WAIT, REDUCE, COPY and FENCE against a proxy that sends a rank's messages back to itself.
  void mesh(Word threads, ring::GpuPlace spaces);

 private:
  static constexpr Word kOps[] = {opcode::kAtomicAdd, opcode::kNop, opcode::kPrintf, opcode::kStoreU32};
  static std::array<Word, 3> arguments(Word slot, Word round) {
    switch (kOps[slot % std::size(kOps)]) {
      case opcode::kAtomicAdd:  // word, amount: see handlers.h
        return {slot + round, kObservables + slot % 8, 0};
      case opcode::kPrintf:
        return {round, slot, 7};
      case opcode::kStoreU32:
        return {slot * 3 + round, kObservables + 8 + slot, 0};
      default:
        return {0, 0, 0};
    }
  }
  static std::vector<Word> sorted(std::vector<Word> debug) {
    using Record = std::array<Word, ring::kDebugRecordWords>;
    std::vector<Record> records(ring::kDebugRecords);
    std::memcpy(records.data(), debug.data() + ring::kDebugRecordsWord, records.size() * sizeof(Record));
    std::sort(records.begin(), records.end());
    std::memcpy(debug.data() + ring::kDebugRecordsWord, records.data(), records.size() * sizeof(Record));
    return debug;
  }

  const cuda::Driver& driver_;
};

/// The proxy and the memories of the C++ side.
struct LoopPort {
  std::vector<std::vector<char>>* spaces;
  std::vector<ring::FifoTrigger>* given;
  Word* arrivals;
  Word done = 0;
  bool put(Word connection, Word space, Word offset, Word bytes, Word message) {
    given->push_back({.size_bytes = bytes,
                      .source_offset = offset,
                      .destination_offset = message,
                      .source_memory = static_cast<std::uint16_t>(space),
                      .type = ring::fifo_type::kData,
                      .semaphore = static_cast<std::uint16_t>(connection)});
    return true;
  }
  void signal(Word connection, Word puts) {
    given->push_back({.destination_offset = puts,
                      .type = ring::fifo_type::kFlag,
                      .semaphore = static_cast<std::uint16_t>(connection)});
    arrive(*spaces, *given);
    ++*arrivals;
    done = puts;
  }
  Word completed(Word) const { return done; }
  void reduce(const Word* args) const {
    const auto* arrived =
        reinterpret_cast<const float*>((*spaces)[args[arg::kSpaces] >> 8U & 0xffU].data() + args[arg::kFirst]);
    const auto* own =
        reinterpret_cast<const float*>((*spaces)[args[arg::kSpaces] >> 16U & 0xffU].data() + args[arg::kSecond]);
    auto* result = reinterpret_cast<float*>((*spaces)[args[arg::kSpaces] >> 24U].data() + args[arg::kThird]);
    for (Word at = 0; at < args[arg::kCount]; ++at) result[at] = arrived[at] + own[at];
  }
  void copy(const Word* args) const {
    std::memcpy((*spaces)[args[arg::kSpaces] >> 24U].data() + args[arg::kThird],
                (*spaces)[args[arg::kSpaces] >> 8U & 0xffU].data() + args[arg::kFirst], args[arg::kCount]);
  }
  /// The last PUT's bytes land in space 2, at the same offset.
  static void arrive(std::vector<std::vector<char>>& spaces, const std::vector<ring::FifoTrigger>& given) {
    const ring::FifoTrigger& data = given[given.size() - 2];
    std::memcpy(spaces[2].data() + data.source_offset, spaces[data.source_memory].data() + data.source_offset,
                data.size_bytes);
  }
};

constexpr Word kElements = 1000, kSpaceBytes = kElements * sizeof(float);

/// Input (0) is sent, arrives in 2, is added to 1 into 3, and copied to 4.
std::vector<ring::MeshSlot> mesh_slots() {
  const auto spaces = [](Word first, Word second, Word third) { return first << 8U | second << 16U | third << 24U; };
  const auto slot = [](Word op, Word first, Word second, Word third, Word where, Word count, Word id, Word after) {
    ring::MeshSlot made{.opcode = op};
    made.args[arg::kSpaces] = where;
    made.args[arg::kFirst] = first;
    made.args[arg::kSecond] = second;
    made.args[arg::kThird] = third;
    made.args[arg::kCount] = count;
    made.args[arg::kId] = id;
    made.args[arg::kAfter] = after;
    made.args[arg::kAlsoAfter] = ring::kNoId;
    made.args[arg::kEpoch] = 1;
    return made;
  };
  const Word none = ring::kNoId;
  return {slot(opcode::kPut, 0, 0, 0, spaces(0, 0, 0), kSpaceBytes, 0, none),
          slot(opcode::kSignal, 0, 0, 0, 0, 1, 1, 0),
          slot(opcode::kWait, 0, 0, 0, 0, 1, 2, none),
          slot(opcode::kReduce, 0, 0, 0, spaces(2, 1, 3), kElements, 3, 2),
          slot(opcode::kCopy, 0, 0, 0, spaces(3, 0, 4), kSpaceBytes - 1, 4, 3),
          slot(opcode::kFence, 0, 0, 0, 0, 1, 5, 4)};
}

void Twins::mesh(Word threads, ring::GpuPlace where) {
  const std::string name = "mesh operations, " + std::to_string(threads) + " threads a block" +
                           (where == ring::GpuPlace::kDevice ? ", spaces on the GPU" : "");
  constexpr Word kSpaces = 5, kDepth = 4;
  const auto program = mesh_slots();
  const ring::MeshBoard board{.connections = 1, .ids = static_cast<Word>(program.size())};
  Launch launch({.slots = board.ids, .lanes = 3});
  std::vector<std::vector<char>> spaces(kSpaces, std::vector<char>(kSpaceBytes));
  for (Word space = 0; space < 2; ++space) {
    auto* const values = reinterpret_cast<float*>(spaces[space].data());
    for (Word at = 0; at < kElements; ++at) values[at] = 0.1F * static_cast<float>(at + space * 7);
  }
  // The GPU's, one behind the other; the proxy follows their addresses only where they are the host's.
  auto pinned = cuda::PinnedMemory::allocate(driver_, kSpaces * kSpaceBytes);
  auto device = cuda::DeviceMemory::allocate(driver_, kSpaces * kSpaceBytes);
  auto stream = cuda::Stream::create(driver_);
  if (!pinned || !device || !stream) return differ(name + ": no memory");
  for (Word space = 0; space < kSpaces; ++space) {
    std::memcpy(pinned->data() + space * kSpaceBytes, spaces[space].data(), kSpaceBytes);
  }
  const bool on_gpu = where == ring::GpuPlace::kDevice;
  const auto copy = [&](char* to, const char* from, std::size_t bytes) {
    return good(stream->copy(to, from, bytes), name) && good(stream->synchronize(), name);
  };
  if (on_gpu && !copy(device->data(), pinned->data(), kSpaces * kSpaceBytes)) return;
  char* const base = on_gpu ? device->data() : reinterpret_cast<char*>(pinned->device_address());
  ring::GpuRingShape shape{.threads = threads, .board = board, .depth = kDepth};
  for (Word space = 0; space < kSpaces; ++space) shape.spaces[space] = base + space * kSpaceBytes;
  const auto gpu = ring_of(name, launch, shape);
  if (gpu == nullptr) return;
  for (Word slot = 0; slot < board.ids; ++slot) {
    Word* const words = ring::slot_at(launch.kernel, slot);
    words[ring::slot_word::kOpcode] = program[slot].opcode;
    words[ring::kLayout2026_05.priority_word] = ring::priority::kNormal;
    std::copy(std::begin(program[slot].args), std::end(program[slot].args), words + ring::kLayout2026_05.arg0_word);
    words[ring::slot_word::kStatus] = ring::status::kPublished;
  }
  if (!store(name, launch, *gpu) || !good(gpu->launch(), name)) return;

  std::vector<ring::FifoTrigger> given, its;
  Word* const arrivals = launch.control.data() + kObservables + board.arrivals_of(0);
  LoopPort port{&spaces, &given, arrivals};
  launch.run(ring::MeshOperations<ring::AtomicWords, LoopPort>(launch.kernel, board, port));

  auto taker = ring::ProxyQueueConsumer<ring::FifoScheme>::over(gpu->triggers());
  if (!taker) return differ(name + ": " + taker.error().text);
  bool is_good = true;
  ring::wait_until(kWait_ms, 1, [&] {
    const auto taken = taker->take();
    if (!taken || !*taken) return false;
    its.push_back(ring::decode_trigger((*taken)->item));
    taker->posted((*taken)->position);
    if (its.back().type != ring::fifo_type::kFlag) return false;
    if (on_gpu) {
      is_good = copy(device->data() + 2 * kSpaceBytes, device->data(), kSpaceBytes);
    } else {
      std::memcpy(pinned->data() + 2 * kSpaceBytes, pinned->data(), kSpaceBytes);
    }
    ring::AtomicWords::release(gpu->completed(0), 1);
    ring::AtomicWords::release(gpu->control().data() + kObservables + board.arrivals_of(0), 1);
    return true;
  });
  for (Word slot = 0; slot < board.ids; ++slot) is_good = is_good && good(gpu->done_within(slot, kWait_ms), name);
  if (!is_good || !good(gpu->shut_down(), name) || !good(gpu->wait_for_end(kWait_ms), name)) return;
  launch.control[ring::control_word::kShutdown] = 1;
  compare(name, "control", launch.control, gpu->control());
  compare(name, "slots", launch.slots, gpu->slots());
  if (its != given) differ(name + ": other triggers reached the proxy");
  if (on_gpu && !copy(pinned->data(), device->data(), kSpaces * kSpaceBytes)) return;
  for (Word space = 0; space < kSpaces; ++space) {
    if (std::memcmp(pinned->data() + space * kSpaceBytes, spaces[space].data(), kSpaceBytes) != 0) {
      differ(name + ": other bytes in space " + std::to_string(space));
    }
  }
  ++report.compared;
}

Word packed(Word first, Word second, Word third, Word fourth) {
  return first | second << 8U | third << 16U | fourth << 24U;
}

std::vector<Twin> twins() {
  const auto builtins = [](Launch& launch) {
    launch.control[kObservables + 9] = 4711;
    launch.publish(0, opcode::kStoreU32, {17, kObservables + 1});
    launch.publish(1, opcode::kAtomicAdd, {5, kObservables + 1});
    launch.publish(2, opcode::kLoadU32, {kObservables + 9, 2});
    launch.publish(3, opcode::kCompareSwap, {kObservables + 1, 22, 33});
    launch.publish(4, opcode::kMemcpy, {kObservables + 1, kObservables + 20, 4});
    launch.publish(5, opcode::kDfaStep, {1});
    launch.publish(6, opcode::kBatchFence, {6, 99});
    launch.publish(7, opcode::kPrintf, {1, 2, 3});
    launch.publish(8, 40, {1, 2, 3});  // an unknown opcode
    launch.publish(9, opcode::kNop, {}, 1);
  };
  const auto astray = [](Launch& launch) {
    launch.publish(0, opcode::kStoreU32, {0, ring::control_word::kTenantMasks + 1});  // strict: masks a tenant
    launch.publish(1, opcode::kNop, {}, 1);
    launch.publish(2, opcode::kStoreU32, {1, 0x7fff'ffff});  // beyond the buffer
    launch.publish(3, opcode::kMemcpy, {kObservables, kObservables + 60, 20});
    launch.publish(4, opcode::kNop, {}, ring::kTenantMasksMost);       // strict: a quota is its mask
    launch.publish(5, opcode::kNop, {}, ring::kTenantMasksMost + 40);  // strict: a counter is
    launch.publish(6, opcode::kLoadU32, {0x7fff'ffff, 1});
    launch.mask(0, ring::kTenantMaskAll);
  };
  const auto packs = [](Launch& launch) {
    const Word x = kObservables + 1;
    launch.publish(0, opcode::kPackedSlot, {packed(2, 4, 1, 0), packed(2, 2, 0, 0), 7, x, 8, x});
    // Five operations, of which the ancestor's kernel runs four; and six, whose arguments it takes from elsewhere.
    launch.publish(1, opcode::kPackedSlot, {packed(5, 2, 2, 0), packed(2, 0, 2, 0), packed(2, 0, 2, 0), 3, x + 1, 0});
    launch.publish(2, opcode::kPackedSlot,
                   {packed(6, 2, 2, 0), packed(2, 0, 2, 0), packed(2, 0, 2, 0), packed(2, 0, 0, 0), 3, x + 2});
    launch.publish(3, opcode::kPackedSlot, {packed(1, 2, 1, 9), 0, 3, x});
  };
  const auto prints = [](Launch& launch) {
    for (Word slot = 0; slot < 70; ++slot) launch.publish(slot, opcode::kPrintf, {slot, 1, 2});
  };
  const auto urgent = [](Launch& launch) {
    for (Word slot = 0; slot < 30; ++slot) launch.publish(slot, opcode::kNop, {}, slot % 2);
  };
  const auto idle = [](Launch& launch) { launch.publish(70, opcode::kNop); };
  const auto misses = [](Launch& launch) {
    launch.publish(0, opcode::kLoadMiss, {42, 1});
    launch.publish(1, opcode::kLoadMiss, {43, 0});
  };
  const auto serve = [](Launch& launch) {
    launch.io[ring::io_word::kStatus] = ring::status::kIoOk;
    launch.io[ring::kIoEntryWords + ring::io_word::kStatus] = ring::status::kIoError;
  };
  const auto claimed = [](Launch& launch) { launch.publish(0, opcode::kNop, {}, 1); };
  const auto masked = [](Launch& launch) { launch.mask(1, 0); };
  const auto unmasked = [](Launch& launch) { launch.mask(1, ring::kTenantMaskAll); };
  const auto shutdown = [](Launch& launch) {
    launch.publish(0, opcode::kShutdown);
    launch.publish(1, opcode::kNop);
  };
  return {{"builtin operations", {.slots = 12, .lanes = 12}, {{builtins}}},
          {"indexes that lead astray", {.slots = 8, .lanes = 8}, {{astray}}},
          {"packed slots", {.slots = 4, .lanes = 4}, {{packs}}},
          {"a debug log that is full", {.slots = 70, .lanes = 70}, {{prints, 3}}},
          {"levels", {.slots = 80, .lanes = 3, .by_priority = true}, {{urgent, 12}, {idle, 12}}},
          {"load misses", {.slots = 2, .lanes = 2, .has_io = true}, {{misses, 4}, {serve, 4}}},
          // Claimed by the second step; masked before the third one, which asks again.
          {"masked after the claim",
           {.slots = 2, .lanes = 1, .by_priority = true},
           {{claimed, 2, true}, {masked, 2, true}, {unmasked, 6, true}}},
          {"masked after the plain kernel's claim", {.slots = 2, .lanes = 1}, {{claimed, 2, true}, {masked, 4, true}}},
          {"shutdown", {.slots = 2, .lanes = 2}, {{shutdown}}}};
}

}  // namespace

TwinReport run_ring_twins(const cuda::Driver& driver) {
  Twins all(driver);
  for (const Twin& twin : twins()) {
    for (const ring::Mode mode : kModes) {
      all.in_turn(twin, mode, ring::GpuPlace::kPinned);
      all.in_turn(twin, mode, ring::GpuPlace::kDevice);
    }
  }
  for (const ring::GpuPlace place : {ring::GpuPlace::kPinned, ring::GpuPlace::kDevice}) {
    all.at_once(ring::GpuLanes::kBlocks, 1, place);
    all.at_once(ring::GpuLanes::kBlocks, 6, place);
    all.at_once(ring::GpuLanes::kThreads, 40, place);
    for (const Word threads : {1U, 64U}) all.mesh(threads, place);
  }
  return all.report;
}

}  // namespace meshbed::test
