#pragma once
// Operations of slots that talk to other rings: user opcodes (vyre, commit ca35047) for put, signal, wait,
// reduce, copy, fence and compute. What a stream of them comes to is its author's business.
//
// Nomenclature
//   connection  one direction to one other ring; messages on it arrive in the order in which they were put
//   space       one of the memories that a rank's slots name: offsets in it are bytes below 4 GiB
//   id          of an operation in its stream; when it is done it leaves the stream's epoch in a word of its own, for
//               which others wait (kAfter, kAlsoAfter): lanes may run a stream in any order that this leaves them
//   epoch       how often the stream has been published, from 1 on
//
// An operation whose time has not come is called again (End::kAgain). Numbers only, no allocation: for GPUs as well.

#include "plugin/ring/kernel/kernel.h"

namespace meshbed::ring {

namespace opcode {
inline constexpr Word kPut = 16;     // [space << 8, offset, connection, -, bytes, message]: gives it to the proxy
inline constexpr Word kSignal = 17;  // [-, -, connection, -, puts, message]: so many may go, and raise the other's flag
inline constexpr Word kWait = 18;    // [-, -, connection, -, arrivals, message]: until so many have come
inline constexpr Word kReduce = 19;  // [form and spaces, arrived, own, result, elements, message]
inline constexpr Word kCopy = 20;    // [spaces, from, -, to, bytes, message]
inline constexpr Word kFence = 21;   // [-, -, connection, -, puts]: until so many puts may be overwritten
inline constexpr Word kCompute = 22;  // [-, -, -, -, nanoseconds]: takes its time
inline constexpr Word kMeshFirst = kPut, kMeshLast = kCompute;
static_assert(is_user(kMeshFirst) && is_user(kMeshLast) && kMeshLast < kMetricsSlots);  // counted by metrics

constexpr bool is_mesh(Word op) { return op >= kMeshFirst && op <= kMeshLast; }
}  // namespace opcode

/// Where a mesh operation's arguments stand, from ARG0 on.
namespace mesh_arg {
inline constexpr Word kSpaces = 0;       // form | first << 8 | second << 16 | third << 24
inline constexpr Word kFormMask = 0x7f;  // of that byte; the bit above it:
inline constexpr Word kOnChip = 0x80;    // a partial result stays on the chip: it takes no time in memory
inline constexpr Word kFirst = 1;        // offsets, bytes
inline constexpr Word kConnection = 2, kSecond = 2;
inline constexpr Word kThird = 3;
inline constexpr Word kCount = 4;
inline constexpr Word kMessage = 5;  // of the connection, from 0 on in each epoch; for the trace
inline constexpr Word kId = 8;
inline constexpr Word kAfter = 9, kAlsoAfter = 10;  // ids; kNoId
inline constexpr Word kEpoch = 11;
inline constexpr Word kWords = 12;
}  // namespace mesh_arg
inline constexpr Word kNoId = 0xffff'ffff;

/// A slot before it is published.
struct MeshSlot {
  Word opcode = opcode::kNop;
  Word args[mesh_arg::kWords] = {};
};

/// Where a stream's words stand among the observables; the first is BATCH_FENCE's.
struct MeshBoard {
  Word connections = 0;
  Word ids = 0;
  constexpr Word arrivals_of(Word connection) const { return 1 + connection; }
  constexpr Word done_of(Word id) const { return 1 + connections + id; }
  constexpr Word observables() const { return 1 + connections + ids; }
};

/// Counts go round after 2^32.
MESHBED_DEVICE inline bool count_reached(Word now, Word wanted) { return static_cast<std::int32_t>(now - wanted) >= 0; }

/// What an operation may lack: another operation's end, an arrival, that puts may be overwritten.
enum class MeshNeed : Word { kNothing, kAfter, kAlsoAfter, kArrival, kCompletion };

/// `Port` moves and adds up the bytes:
///   bool put(Word connection, Word space, Word offset, Word bytes, Word message)   false: no room now
///   void signal(Word connection, Word puts)
///   Word completed(Word connection)                                        puts that may be overwritten
///   void reduce(const Word* args), void copy(const Word* args)
template <typename Words, typename Port>
class MeshOperations {
 public:
  MESHBED_DEVICE MeshOperations(const Kernel& kernel, const MeshBoard& board, Port& port)
      : observables_(kernel.control + kLayout2026_05.observables), board_(board), port_(&port) {}

  /// What the operation lacks, the first of it.
  MESHBED_DEVICE MeshNeed need_of(Word op, const Word* args) const {
    if (!is_done(args[mesh_arg::kAfter], args[mesh_arg::kEpoch])) return MeshNeed::kAfter;
    if (!is_done(args[mesh_arg::kAlsoAfter], args[mesh_arg::kEpoch])) return MeshNeed::kAlsoAfter;
    const Word connection = args[mesh_arg::kConnection];
    if (op == opcode::kWait) {
      return count_reached(Words::acquire(observables_ + board_.arrivals_of(connection)), args[mesh_arg::kCount])
                 ? MeshNeed::kNothing
                 : MeshNeed::kArrival;
    }
    if (op != opcode::kFence || count_reached(port_->completed(connection), args[mesh_arg::kCount])) {
      return MeshNeed::kNothing;
    }
    return MeshNeed::kCompletion;
  }
  /// Whether the operation can be done now.
  MESHBED_DEVICE bool is_ready(Word op, const Word* args) const { return need_of(op, args) == MeshNeed::kNothing; }

  MESHBED_DEVICE End operator()(const Operation& op) {
    if (!opcode::is_mesh(op.opcode)) return End::kUnknown;
    const Word* const args = op.args;
    if (op.args_count < mesh_arg::kWords || !names_something(op.opcode, args)) return End::kFault;
    if (!is_ready(op.opcode, args)) return End::kAgain;
    const Word connection = args[mesh_arg::kConnection];
    switch (op.opcode) {
      case opcode::kPut:
        if (!port_->put(connection, args[mesh_arg::kSpaces] >> 8U & 0xffU, args[mesh_arg::kFirst],
                        args[mesh_arg::kCount], args[mesh_arg::kMessage])) {
          return End::kAgain;
        }
        break;
      case opcode::kSignal:
        port_->signal(connection, args[mesh_arg::kCount]);
        break;
      case opcode::kReduce:
        port_->reduce(args);
        break;
      case opcode::kCopy:
        port_->copy(args);
        break;
      default:
        break;
    }
    Words::release(observables_ + board_.done_of(args[mesh_arg::kId]), args[mesh_arg::kEpoch]);
    return End::kDone;
  }

 private:
  MESHBED_DEVICE bool is_done(Word id, Word epoch) const {
    return id == kNoId || count_reached(Words::acquire(observables_ + board_.done_of(id)), epoch);
  }

  MESHBED_DEVICE bool names_something(Word op, const Word* args) const {
    const auto known = [this](Word id) { return id < board_.ids; };
    if (!known(args[mesh_arg::kId])) return false;
    for (const Word word : {mesh_arg::kAfter, mesh_arg::kAlsoAfter}) {
      if (args[word] != kNoId && !known(args[word])) return false;
    }
    const bool connects = op == opcode::kPut || op == opcode::kSignal || op == opcode::kWait || op == opcode::kFence;
    return !connects || args[mesh_arg::kConnection] < board_.connections;
  }

  Word* observables_;
  MeshBoard board_;
  Port* port_;
};

}  // namespace meshbed::ring
