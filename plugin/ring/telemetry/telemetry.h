#pragma once
// Telemetry of a ring: snapshots, tallies, the counters derived from them, and the watchdog (vyre, commit ca35047).

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "plugin/ring/abi/control.h"
#include "plugin/ring/abi/slot.h"
#include "plugin/ring/telemetry/policy.h"

namespace meshbed::ring {

/// What telemetry keeps of a slot: 32 bytes.
struct SlotSnapshot {
  Word status = status::kEmpty;  // from here on in the order of the newer layout: they are copied at once
  Word opcode = 0;
  Word tenant = 0;
  Word priority = 0;
  std::array<Word, kArgsRead> args{};
  Word index = 0;

  bool operator==(const SlotSnapshot&) const = default;
};

/// Slots by status.
struct Occupancy {
  std::array<std::uint64_t, status::kCount + 1> tally{};  // the last: unknown

  std::uint64_t of(Word value) const { return tally[status::is_known(value) ? value : status::kCount]; }
  std::uint64_t unknown() const { return tally[status::kCount]; }
  std::uint64_t total() const;
  std::uint64_t queue_depth() const;  // neither EMPTY nor DONE
  std::uint64_t active() const;       // and neither FAULT nor unknown
  bool operator==(const Occupancy&) const = default;
};

/// Decodes into `slots`, whose memory is used again, as many as the ring has. Errors: as slot_count(); `slots` is as it
/// was then. Cost: one pass, half of each slot's words read and kept.
Result<Occupancy> decode_ring(Bytes ring, const Layout& layout, std::vector<SlotSnapshot>& slots);
/// The tallies alone.
Result<Occupancy> occupancy_of(Bytes ring);

struct RingTelemetry {
  ControlSnapshot control;
  std::vector<SlotSnapshot> slots;
  Occupancy occupancy;
  std::uint64_t masked = 0;  // PUBLISHED slots whose tenant may not run
};

/// Errors: as decode_control() and slot_count().
Result<RingTelemetry> decode_telemetry(Bytes control, Bytes ring, const Layout& layout, Mode mode);

struct RuntimeCounters {
  std::uint64_t gpu_idle_slots = 0;
  std::uint64_t gpu_idle_ppm = 0;
  std::uint64_t frontier_density_bps = 0;  // of 10,000
  std::uint64_t occupancy_proxy_bps = 0;   // of 10,000
  std::uint64_t drained_slots = 0;         // the done count
  std::uint64_t unreclaimed_done = 0;      // slots
  std::uint64_t tenant_fairness = 0;       // sum
  std::uint64_t tenant_fairness_skew = 0;  // most less the least that is not 0
  std::uint64_t priority_fairness = 0;     // sum
  bool operator==(const RuntimeCounters&) const = default;
};
RuntimeCounters counters_of(const RingTelemetry& telemetry);

/// What the watchdog makes of two snapshots. Strict knows kIdle, kProgress, kSuspectedStall and kFaulted, which is no
/// stall to it; safe names what stands behind a stall.
enum class WatchdogVerdict { kIdle, kProgress, kSuspectedStall, kFaulted, kTenantMasked };
/// "suspected-stall".
const char* name_of(WatchdogVerdict verdict);

struct Health {
  std::uint64_t queue_depth = 0;
  std::uint64_t done_delta = 0;  // since the snapshot before
  bool suspected_stall = false;
  WatchdogVerdict verdict = WatchdogVerdict::kIdle;
};
/// Errors: strict: a done count that went back.
Result<Health> health_since(const RingTelemetry& before, const RingTelemetry& now, Mode mode);

/// Slots of one ticket and opcode.
struct WindowTelemetry {
  Word ticket = 0, opcode = 0;
  Word tenant = 0;  // the first slot's
  std::uint64_t required = 0, lookahead = 0;
  std::uint64_t published = 0, claimed = 0, done = 0, wait_io = 0, yield = 0, requeue = 0, fault = 0;

  bool is_active() const { return published + claimed + wait_io + yield + requeue > 0; }
  bool is_hot() const { return required + lookahead >= kHotWindowSlots; }
  bool operator==(const WindowTelemetry&) const = default;
};
/// By ticket and opcode. `opcodes`: those of windows, in any order. Strict: an EMPTY slot counts too.
std::vector<WindowTelemetry> windows_of(std::span<const SlotSnapshot> slots, std::vector<Word> opcodes, Mode mode);

struct PriorityAccounting {
  std::uint64_t requeue_count = 0;
  std::uint64_t aged_promotions = 0;
  Word max_priority_age = 0;  // ticks

  /// Errors: strict: a counter that is full.
  Result<void> record_requeue(Word age, Mode mode);
  Result<void> record_aged_promotion(Word age, Mode mode);
  bool operator==(const PriorityAccounting&) const = default;
};
/// Requeued slots; what a snapshot does not say is 0.
PriorityAccounting priority_accounting(const RingTelemetry& telemetry);

/// `request`, filled in from the ring's telemetry.
LaunchRequest launch_request(const RingTelemetry& telemetry, std::span<const WindowTelemetry> windows,
                             LaunchRequest request, Mode mode);
/// And the policy's answer to it. Errors: the policy's.
Result<LaunchRecommendation> recommend_launch(const RingTelemetry& telemetry, std::span<const WindowTelemetry> windows,
                                              const LaunchRequest& request, Mode mode);

}  // namespace meshbed::ring
