#pragma once
// RingWorld: a few ranks' rings under a program, stepped one action at a time in the order that a walk chooses. It
// runs the product's own functions: queue/live_steps.h for hosts, kernel/step.h for lanes, kernel/mesh_ops.h for their
// operations, and kernel/wait_chain.h for chains of waits.
//
// The actions
//   host    rank r's host writes its next slot's words, then its STATUS (weak programs: in either order)
//   place   a block gets a place on the GPU
//   lane    a step of a lane with a place (by_turns: all steps that no other rank can observe)
//   proxy   rank r's proxy polls, and posts one message
//   data    a message's data lands at the other rank
//   flag    its flag is raised there
//   mask    tenant 1 is masked, or unmasked

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/ring/kernel/step.h"
#include "testbed/verify/ring_program.h"

namespace meshbed::testbed {

enum class RingActionKind : std::uint8_t { kHostWords, kHostStatus, kPlace, kLane, kProxy, kData, kFlag, kMask };

struct RingAction {
  RingActionKind kind = RingActionKind::kLane;
  std::uint8_t rank = 0;
  std::uint8_t index = 0;       // lane, or message
  std::uint8_t connection = 0;  // of the message, at its receiver; of kProxy at its sender
};

class RingWorld {
 public:
  /// The program must outlive it.
  explicit RingWorld(const RingExploreProgram& program);
  RingWorld(const RingWorld&) = delete;
  RingWorld& operator=(const RingWorld&) = delete;

  /// The actions that may be tried now; some have no effect.
  std::vector<RingAction> options() const;
  /// Executes one action. Returns a finding, or "". `description` receives the step in words.
  std::string take(const RingAction& action, std::string* description = nullptr);

  /// The complete state, which restore() accepts.
  std::string state() const;
  void restore(const std::string& state);

  /// Whether every slot to be published has been executed exactly once.
  bool ended_well() const;
  /// If not, and no action is possible: the reason.
  std::string stuck() const;

 private:
  struct Message {
    bool has_landed = false, is_flagged = false;
  };
  struct Rank {
    std::vector<ring::Word> control, slots;
    ring::Kernel kernel;
    std::vector<ring::KernelLane> lanes;
    std::vector<std::uint8_t> executed, published;     // by slot, how often
    std::uint8_t placed = 0;                           // lanes, a bit each
    std::uint8_t items = 0;                            // that the host has published
    bool wrote_words = false, wrote_status = false;    // of the next one
    std::vector<std::uint8_t> put, signalled, posted;  // by sending connection
    std::vector<std::vector<Message>> arrivals;        // by receiving connection: messages that their rank has posted
    std::vector<std::size_t> items_by_id;              // of operations
  };
  /// The interface that MeshOperations needs.
  struct Port {
    RingWorld* world;
    std::uint8_t rank;
    bool put(ring::Word connection, ring::Word space, ring::Word offset, ring::Word bytes, ring::Word message);
    void signal(ring::Word connection, ring::Word puts);
    ring::Word completed(ring::Word connection) const;
    void reduce(const ring::Word* args);
    void copy(const ring::Word* args);
  };

  std::string message_words(std::uint8_t rank, std::uint8_t connection, int message) const;
  bool may_place(const Rank& rank) const;
  void host_options(std::size_t rank, std::vector<RingAction>& into) const;
  void wire_options(std::size_t rank, std::vector<RingAction>& into) const;
  void write(Rank& rank, bool words, bool status);
  std::string lane_step(const RingAction& action, std::string* description);
  std::string one_step(std::uint8_t rank, ring::KernelLane& lane, ring::Step& now);
  /// A finding if the operation in those words reads a landing that is not valid now, or "".
  std::string stale_read(std::uint8_t rank, const ring::Word* words) const;
  std::string words_of(const RingAction& action) const;

  const RingExploreProgram& program_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<ring::Word>> first_control_, first_slots_;
  std::vector<std::vector<RingEnd>> sends_, receives_;  // by rank and connection
  ring::MeshBoard board_;                               // of each rank
  std::uint8_t masks_ = 0;
};

}  // namespace meshbed::testbed
