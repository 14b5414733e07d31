// ring check and ring replay: checks recordings and buffers against the rules, and prints their telemetry.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <stdexcept>

#include "cli/ring/files.h"
#include "cli/ring/ring.h"
#include "plugin/base/counted.h"
#include "plugin/ring/abi/debug_log.h"
#include "plugin/ring/abi/io_queue.h"
#include "plugin/ring/abi/packed.h"
#include "plugin/ring/queue/recording.h"
#include "plugin/ring/telemetry/transitions.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

/// A recording's file and what is in it. It says its own ABI.
struct Recorded {
  Recorded(const std::string& path, RingOptions& options) : bytes(read_bytes(path)) {
    recording = value_or_throw(ring::read_recording(bytes), path);
    const std::string own = ring::layout_of(recording.shape.abi).name;
    if (!options.abi.empty() && options.abi != own) {
      throw std::runtime_error(
          fmt::format("{}: a recording of ABI {}, and --abi says {}; leave --abi out", path, own, options.abi));
    }
    options.abi = own;
    if (recording.snapshots.empty()) {
      throw std::runtime_error(path + ": a recording without a snapshot: there is nothing to look at");
    }
  }
  ring::RingTelemetry telemetry(std::size_t index, const RingOptions& options) const {
    const auto& snapshot = recording.snapshots[index];
    return value_or_throw(
        ring::decode_telemetry(snapshot.control, snapshot.ring, options.layout(), options.ring_mode()),
        fmt::format("snapshot {}", index));
  }
  std::vector<std::uint8_t> bytes;
  ring::Recording recording;
};

/// What is wrong with the slots of a ring by themselves.
void look_at_slots(const std::vector<std::uint8_t>& bytes, const RingOptions& options,
                   std::vector<std::string>& found) {
  const ring::Word count = value_or_throw(ring::slot_count(bytes.size()), options.ring);
  for (ring::Word index = 0; index < count; ++index) {
    const auto slot = value_or_throw(ring::decode_slot(bytes, options.layout(), index), options.ring);
    const auto say = [&](const std::string& what) {
      found.push_back(fmt::format("{}: slot {}: {}", options.ring, index, what));
    };
    if (!ring::status::is_known(slot.status)) say("status " + ring::status_name(slot.status));
    if (slot.status == ring::status::kEmpty) continue;
    if (!ring::opcode::is_publishable(slot.opcode) && slot.opcode != ring::opcode::kLoadMiss) {
      say("opcode " + ring::opcode_name(slot.opcode) + " means nothing");
    }
    if (slot.opcode != ring::opcode::kPackedSlot) continue;
    const auto packed = ring::decode_packed(slot, options.layout());
    if (!packed) say(packed.error().text);
    if (packed && packed->beyond_kernel) say("packs more operations than the kernel runs");
    if (packed && packed->misaligned) say("the kernel looks for its packed arguments in another place");
    if (packed && packed->skips) say("the kernel skips a packed operation");
  }
}

std::vector<std::uint8_t> bytes_or_throw(const std::string& path, const char* what) {
  std::vector<std::uint8_t> bytes = read_bytes(path);
  if (bytes.empty()) throw std::runtime_error(fmt::format("{}: the file is empty, not a {}", path, what));
  return bytes;
}

/// What no host and no kernel leaves in a control buffer.
void look_at_control(const std::vector<std::uint8_t>& bytes, const RingOptions& options,
                     std::optional<ring::Word> slots, std::vector<std::string>& found) {
  const ring::Layout& layout = options.layout();
  const auto control = value_or_throw(ring::decode_control(bytes, layout), options.control);
  const auto say = [&](const std::string& what) { found.push_back(options.control + ": " + what); };
  const ring::Word shutdown = ring::load_word(bytes.data(), ring::control_word::kShutdown);
  if (shutdown > 1)
    say(fmt::format("word {} (SHUTDOWN) is {}, and not 0 or 1", +ring::control_word::kShutdown, shutdown));
  if (control.tenant_base != ring::control_word::kTenantMasks) {
    say(fmt::format("word {} (TENANT_BASE) is {}; hosts write {}", +ring::control_word::kTenantBase,
                    control.tenant_base, +ring::control_word::kTenantMasks));
  }
  if (layout.priority_offsets == ring::Layout::kNone) return;
  const auto& offsets = control.priority_offsets;
  const bool unset = std::all_of(offsets.begin(), offsets.end(), [](ring::Word one) { return one == 0; });
  if (unset) return;  // of the plain kernel's host
  if (!std::is_sorted(offsets.begin(), offsets.end())) {
    say(fmt::format("the levels' first slots run back: {}", fmt::join(offsets, ", ")));
  } else if (slots && offsets.back() != *slots) {
    say(fmt::format("the levels end at slot {}, and the ring has {}", offsets.back(), *slots));
  }
}

void look_at_io(const std::vector<std::uint8_t>& bytes, const RingOptions& options, std::vector<std::string>& found) {
  const auto entries = value_or_throw(ring::decode_io_queue(bytes), options.io);
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const ring::IoRequest& one = entries[index];
    const auto say = [&](const std::string& what) {
      found.push_back(fmt::format("{}: entry {}: {}", options.io, index, what));
    };
    const bool known =
        ring::status::is_known(one.status) || one.status == ring::status::kIoOk || one.status == ring::status::kIoError;
    if (!known) say("status " + ring::io_status_name(one.status));
    if (one.status == ring::status::kEmpty) continue;
    if (one.op < ring::io_op::kRead || one.op > ring::io_op::kFence) {
      say(fmt::format("operation {}; there are {} to {}", one.op, +ring::io_op::kRead, +ring::io_op::kFence));
    }
  }
}

void look_at_buffers(const RingOptions& options, std::ostream& err, std::vector<std::string>& found) {
  std::vector<std::uint8_t> control, slots;
  std::optional<ring::Word> count;
  if (!options.ring.empty()) {
    slots = bytes_or_throw(options.ring, "ring");
    count = value_or_throw(ring::slot_count(slots.size()), options.ring);
  }
  if (!options.control.empty()) {
    control = bytes_or_throw(options.control, "control buffer");
    warn_of_layout(control, options, err);
    look_at_control(control, options, count, found);
  }
  if (!options.ring.empty()) look_at_slots(slots, options, found);
  if (!control.empty() && !options.ring.empty()) {
    const auto telemetry =
        value_or_throw(ring::decode_telemetry(control, slots, options.layout(), options.ring_mode()), options.ring);
    ring::SnapshotChecker checker(options.ring_mode());
    checker.add(telemetry);
    if (checker.first()) found.push_back(ring::to_text(*checker.first()));
  }
  if (!options.debug.empty()) {
    const auto log = value_or_throw(
        ring::decode_debug_log(bytes_or_throw(options.debug, "debug log"), options.ring_mode()), options.debug);
    if (log.dropped > 0) found.push_back(fmt::format("{}: {} dropped", options.debug, counted(log.dropped, "record")));
    if (log.torn) found.push_back(options.debug + ": the cursor is within a record");
  }
  if (!options.io.empty()) look_at_io(bytes_or_throw(options.io, "queue of IO requests"), options, found);
}

int verdict(const std::vector<std::string>& found, std::ostream& err) {
  for (const std::string& one : found) err << "FAILED: " << one << "\n";
  return found.empty() ? kExitOk : kExitBroken;
}

void take_recording(Syntax& syntax, std::string& path) {
  syntax.operands.add_options()("recording", po::value(&path)->value_name("FILE"),
                                "a recording (plugin/ring/queue/recording.h)");
  syntax.positions.add("recording", 1);
}

}  // namespace

int ring_check_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RingOptions options;
  std::string path;
  Syntax syntax("ring check [RECORDING] [--control FILE] [--ring FILE] [--debug FILE] [--io FILE] [options]");
  take_recording(syntax, path);
  add_ring_files(syntax.options, options);
  syntax.options.add_options()("ring", po::value(&options.ring)->value_name("FILE"), "the slots");
  add_ring_options(syntax.options, options);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  require_ring_options(options);
  if (path.empty() && options.control.empty() && options.ring.empty() && options.debug.empty() && options.io.empty()) {
    throw std::runtime_error("ring check: give a recording, or at least one of --control, --ring, --debug and --io");
  }
  std::vector<std::string> found;
  look_at_buffers(options, err, found);
  std::size_t snapshots = 0;
  if (!path.empty()) {
    const Recorded recorded(path, options);
    ring::SnapshotChecker checker(options.ring_mode());
    for (; snapshots < recorded.recording.snapshots.size(); ++snapshots) {
      checker.add(recorded.telemetry(snapshots, options));
    }
    if (checker.first()) found.push_back(path + ": " + ring::to_text(*checker.first()));
  }
  if (options.json) {
    out << json_text(Json{{"ok", found.empty()}, {"snapshots", snapshots}, {"found", found}}) << "\n";
  } else if (found.empty()) {
    out << "ok" << (path.empty() ? "" : ": " + counted(snapshots, "snapshot") + ", every step legal") << "\n";
  }
  return verdict(found, err);
}

int ring_replay_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RingOptions options;
  std::string path;
  Syntax syntax("ring replay RECORDING [options]");
  take_recording(syntax, path);
  std::string threshold;
  syntax.options.add_options()("threshold", po::value(&threshold)->value_name("TIME"),
                               "a stall is suspected once nothing was done for so long, as in 4s, which lets lost "
                               "messages be sent again; before that the verdict is waiting; default: at each snapshot");
  add_ring_options(syntax.options, options);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  require_ring_options(options);
  if (path.empty()) throw std::runtime_error("ring replay: give a recording");
  const Result<Picoseconds> patience_ps = parse_time_ps(threshold.empty() ? "0s" : threshold);
  if (!patience_ps) throw std::runtime_error("--threshold: " + patience_ps.error().text);
  const Recorded recorded(path, options);
  ring::SnapshotChecker checker(options.ring_mode());
  Json rows = Json::array();
  if (!options.json) out << "snapshot     time_ns   depth    done  density  verdict          topology\n";
  ring::RingTelemetry before;
  std::uint64_t moved_ns = recorded.recording.snapshots.front().time_ns;  // when a slot was last seen to have ended
  for (std::size_t index = 0; index < recorded.recording.snapshots.size(); ++index) {
    const std::uint64_t time_ns = recorded.recording.snapshots[index].time_ns;
    ring::RingTelemetry now = recorded.telemetry(index, options);
    checker.add(now);
    const auto health = ring::health_since(index == 0 ? now : before, now, options.ring_mode());
    if (health && health->verdict != ring::WatchdogVerdict::kSuspectedStall) moved_ns = time_ns;
    const bool is_patient = health && health->verdict == ring::WatchdogVerdict::kSuspectedStall &&
                            time_ns - moved_ns < static_cast<std::uint64_t>(*patience_ps / kPicosecondsPerNanosecond);
    const auto counters = ring::counters_of(now);
    const auto depth = static_cast<std::uint32_t>(now.occupancy.queue_depth());
    const auto launch =
        ring::recommend_launch(now, {}, ring::LaunchRequest::direct(depth, 64, 256), options.ring_mode());
    rows.push_back({{"time_ns", recorded.recording.snapshots[index].time_ns},
                    {"queue_depth", depth},
                    {"done_count", now.control.done_count},
                    {"frontier_density_bps", counters.frontier_density_bps},
                    {"verdict", index == 0   ? "first"
                                : is_patient ? "waiting"
                                : health     ? name_of(health->verdict)
                                             : health.error().text.c_str()},
                    {"topology", launch ? name_of(launch->topology) : launch.error().text.c_str()},
                    {"mode", launch ? name_of(launch->mode) : ""}});
    const Json& row = rows.back();
    if (!options.json) {
      out << fmt::format("{:>8} {:>11} {:>7} {:>7} {:>8}  {:<16} {}\n", index, row["time_ns"].get<std::uint64_t>(),
                         depth, now.control.done_count, counters.frontier_density_bps,
                         row["verdict"].get<std::string>(), row["topology"].get<std::string>());
    }
    before = std::move(now);
  }
  std::vector<std::string> found;
  if (checker.first()) found.push_back(path + ": " + ring::to_text(*checker.first()));
  if (options.json) out << json_text(Json{{"ok", found.empty()}, {"snapshots", rows}, {"found", found}}) << "\n";
  return verdict(found, err);
}

}  // namespace meshbed::testbed
