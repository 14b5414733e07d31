#pragma once
// What runs: the grid, its resident blocks, their warps, and the frames of a warp.
//
// Each lane of a warp has its own position and its own frame. Lanes that stand at the same instruction of the same
// frame are a group and run together; the group at the lowest position of the innermost frame goes first, so that
// lanes meet again behind a branch, and a group that has waited long takes its turn, so that a lane that spins never
// starves the one that it waits for. One thread, no blocking calls: everything here belongs to one Execution.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "sim/cuda/ptx/program.h"

namespace meshbed::sim::ptx {

inline constexpr std::uint32_t kAllLanes = 0xffffffffU;

struct Grid;
struct Block;
class Races;

struct Frame {
  const Function* function = nullptr;
  Frame* parent = nullptr;
  Frame* child = nullptr;    // the last frame that was entered from this one
  Frame* sibling = nullptr;  // the one entered from the same frame before
  std::unique_ptr<std::byte[]> registers;
  std::size_t capacity = 0;
  const std::byte* pool = nullptr;
  std::uint32_t local_base = 0, depth = 0;
  std::uint32_t lanes = 0;  // whose it is, those in frames within it too
  std::array<std::uint32_t, kLanes> return_position{};
  std::array<const Call*, kLanes> call{};  // what brought the lane here

  std::byte* at(std::uint32_t place) const {
    return ((place & kPoolBit) != 0 ? const_cast<std::byte*>(pool) : registers.get()) + (place & ~kPoolBit);
  }
};

/// What the polls of a warp saw, each of an instruction, its lanes and their places: of which a loop that looks at many
/// words in turn has many.
class Polls {
 public:
  enum class Sight : std::uint8_t { kFirst, kSame, kNew };
  /// What this poll sees against what it saw before. `key`: not 0.
  Sight look(std::uint64_t key, std::uint64_t seen);
  void forget();

 private:
  struct Poll {
    std::uint64_t key = 0, seen = 0;  // hashes; 0: free
  };
  void grow();
  std::vector<Poll> all_;  // open addressing; at most half full
  std::size_t used_ = 0;
};

/// A word of far memory as a poll saw it last.
struct FarWord {
  std::uint64_t address, bytes, value;
  std::uint64_t look;  // Warp::far_looks then
};
inline constexpr std::size_t kFarWords = 16;

/// Lanes that run together and have seen nothing new since the first of these polls.
struct PollCircle {
  std::uint32_t lanes = 0, count = 0;
  std::uint64_t first = 0;  // its key
  std::uint64_t since = 0;  // Grid::changes + 1 then
};

/// What a warp begins with as it stands here; no member of it has memory of its own.
struct WarpState {
  std::byte* base[2] = {nullptr, nullptr};  // registers of the frame, its pool
  std::uint32_t position = 0, active = 0;
  std::uint32_t idle = 0;  // lanes that do not exist or have ended: what is written for them is never read
  bool event = false;      // the group changed: select the running lanes again
  Frame* frame = nullptr;
  Block* block = nullptr;
  Grid* grid = nullptr;

  std::uint32_t index = 0;
  std::uint32_t alive = 0, barrier_waiting = 0, warp_waiting = 0;
  std::array<std::uint32_t, kLanes> lane_position{};
  std::array<Frame*, kLanes> lane_frame{};
  std::array<std::uint64_t, kLanes> last_run{};
  std::array<std::uint8_t, kLanes> barrier{};           // number of the barrier that a lane waits at
  std::array<const Instruction*, kLanes> barrier_at{};  // what it waits at, a barrier or an exchange
  std::array<std::uint32_t, kLanes> exchange_mask{};
  std::uint32_t local_stride = 0;  // bytes of a lane's local memory
  std::uint64_t turn = 0, starving = 0;
  // Lanes at the cluster's barrier, and those that arrived there, it has let go since, and have not waited yet.
  std::uint32_t cluster_arrived = 0, cluster_passed = 0;

  std::uint32_t circle_next = 0;
  std::uint32_t polled_lanes = 0;  // that have looked at all that they poll, and saw nothing new since `polled_at`
  std::uint64_t polled_at = 0;     // Grid::changes + 1 then
  bool yields = false;
  bool waits_far = false;                   // until far_until_ps
  bool pays_far = false, paid_far = false;  // for its next access; that may be done now
  std::int64_t far_until_ps = 0;
  std::uint64_t far_first = 0;  // key of the poll of far memory that began the circle; 0: none
  std::uint64_t far_round = 0;  // Grid::far_round when it began
  std::uint32_t far_seen = 0;   // how often it has come since, with nothing new in between
};

struct Warp : WarpState {
  std::vector<std::unique_ptr<Frame>> frames;
  std::vector<std::byte> local;
  Polls polls;
  std::vector<PollCircle> circles;
  std::uint64_t far_looks = 0;     // at words of far memory, by its first lanes
  std::vector<FarWord> far_words;  // of those that its first lanes have polled, at most kFarWords

  /// As a new one, but for memory that serves again.
  void begin(Grid& of, Block& in, std::uint32_t at, std::uint32_t lanes);
  std::uint32_t runnable() const { return alive & ~(barrier_waiting | warp_waiting); }
  /// Nothing but polls, and none of them will see anything new until something changes.
  bool spins() const;
  /// It waits for far memory and has looked at all that it looks at since Grid::far_round grew, and nothing was new.
  bool idles_far() const;
  /// A word of far memory that it looks at, be it seldom, is no more what it saw. `forget`: those that are not are
  /// forgotten, for it has had the time to look at them and does not.
  bool has_stale_word(bool forget);
  /// The lane's view for what looks at lanes one by one.
  std::byte* base_of(std::uint32_t lane, std::uint32_t place) const { return lane_frame[lane]->at(place); }
  void enter(Frame* now) {
    frame = now;
    base[0] = now->registers.get();
    base[1] = const_cast<std::byte*>(now->pool);
  }
};

struct Barrier {
  std::uint32_t lanes = 0, votes = 0;       // that arrived, and those of them with a true predicate
  std::uint32_t expected = 0;               // threads; 0: all that live
  std::array<std::uint32_t, 32> arrived{};  // by warp
};

struct Block {
  std::uint64_t index = 0;
  std::array<std::uint32_t, 3> at{};
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::byte> shared;
  std::array<Barrier, 16> barriers{};
  std::uint32_t waited_at = 0;  // barriers at which lanes are, by bit
  std::uint32_t live = 0, slot = 0;
  std::vector<Block*> cluster;  // by rank; empty: the block is alone
};

/// Each resident block has its turn once a round. A step may end within one.
struct Round {
  std::size_t blocks = 0, at = 0;  // of which so many have had it
  std::size_t first = 0;           // the block that it began with
  bool progress = false;           // a block of it did more than poll
};

/// As WarpState.
struct GridState {
  Memory* memory = nullptr;
  Program* program = nullptr;
  const Kernel* kernel = nullptr;
  Counts counts;
  std::uint64_t blocks = 0, next_block = 0;
  Round round;
  std::uint32_t shared_bytes = 0, threads = 0, warps = 0;
  std::array<std::byte, kWorkspaceBytes> workspace{};
  std::uint64_t changes = 0;     // grows with each change that another lane may see
  std::uint64_t step_began = 0;  // at so many changes
  std::uint64_t news = 0;        // grows with each poll that sees something new, and with each look at a clock
  std::uint64_t step_news = 0;   // when the step began
  std::uint64_t far_round = 0;   // grows where something else may have changed far memory
  std::uint32_t cluster_blocks = 1;
  bool has_cluster_barrier = false;  // a lane has arrived at one
  bool shuffled = false;
  bool asked_workspace = false;  // a thread has read where the grid's workspace is
};

struct Grid : GridState {
  LaunchRequest request;
  std::optional<Fault> fault;
  std::vector<const std::byte*> pools;  // by function; nullptr: not entered yet
  std::vector<std::unique_ptr<std::byte[]>> own_pools;
  std::vector<std::unique_ptr<Block>> resident;
  std::vector<std::unique_ptr<Frame>> free_frames;
  std::vector<std::unique_ptr<Block>> free_blocks;
  std::string printed;
  Prng prng{1};
  std::shared_ptr<Races> races;  // where they are looked for

  const std::byte* pool_of(const Function& function);
  /// Nothing of its kernel is left, but memory that serves the next one: not more than kSpareBytes.
  void clear();
};

/// Does at most about so many warp instructions of the warp; ends early where all wait or all polls saw nothing new.
void run_warp(Warp& warp, std::uint64_t instructions);

/// Calls, returns and exits (frame.cpp).
Frame* enter_frame(Warp& warp, const Function& function, Frame* parent, std::uint32_t lanes);
void leave_frame(Warp& warp, Frame* frame, std::uint32_t lanes);
void exit_lanes(Warp& warp, std::uint32_t lanes);
/// Barriers of the block that are complete now let their lanes go.
void settle_barriers(Block& block);
/// Lanes that wait for others of their warp: those whose partners are all there do their exchange.
void settle_exchanges(Warp& warp);

/// Records the first fault of the grid; the warp stops.
void fail(Warp& warp, const Instruction& in, std::uint32_t lane, Fault::Kind kind, const std::string& what);

inline std::uint64_t poll_hash(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ hash >> 32U;
}
/// What is added to such a hash for one of many values, `which`: sums need not wait for one another.
inline std::uint64_t poll_part(std::uint64_t value, std::uint64_t which) {
  return poll_hash(which * 0xbf58476d1ce4e5b9ULL, value);
}
/// A load that may be a poll: hashes of where it reads, lane by lane, and of what it sees there.
void note_poll(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint64_t places, std::uint64_t seen);

/// The same of a load of far memory, which has waited: news take longer.
void note_far_poll(Warp& warp, const Instruction& in, std::uint32_t lanes, std::uint64_t places, std::uint64_t seen);

/// Where a lane's value of a call lies in the caller.
std::byte* call_value_at(Warp& warp, const Frame& caller, const CallValue& value, std::uint32_t lane);
void call_builtin(Warp& warp, const Instruction& in, const Call& call, const Function& function, std::uint32_t lanes);

}  // namespace meshbed::sim::ptx
