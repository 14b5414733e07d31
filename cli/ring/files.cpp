#include "cli/ring/files.h"

#include <ostream>
#include <stdexcept>

#include "plugin/ring/abi/control.h"
#include "plugin/ring/abi/debug_log.h"
#include "plugin/ring/abi/io_queue.h"
#include "plugin/ring/abi/packed.h"
#include "plugin/ring/queue/live_ring.h"
#include "plugin/ring/queue/recording.h"
#include "testbed/base/files.h"

namespace meshbed::testbed {
namespace po = boost::program_options;

const ring::Layout& RingOptions::layout() const {
  return abi == ring::kLayout2026_04.name ? ring::kLayout2026_04 : ring::kLayout2026_05;
}

void add_ring_options(po::options_description& options, RingOptions& values) {
  options.add_options()  //
      ("abi", po::value(&values.abi)->value_name("2026-04|2026-05"),
       "layout of the buffers, which do not contain it; default: 2026-05, and a recording's own")  //
      ("mode", po::value(&values.mode)->value_name("strict|safe")->default_value(values.mode),
       "strict: all quirks of the ancestor (ring quirks lists them)")  //
      ("json", po::bool_switch(&values.json), "one JSON object");
}

void add_ring_files(po::options_description& options, RingOptions& values) {
  options.add_options()  //
      ("control", po::value(&values.control)->value_name("FILE"), "the control buffer")(
          "debug", po::value(&values.debug)->value_name("FILE"), "the debug log")(
          "io", po::value(&values.io)->value_name("FILE"), "the IO queue");
}

void require_ring_options(const RingOptions& values) {
  if (!values.abi.empty()) require_choice("--abi", "ABI", values.abi, {"2026-04", "2026-05"});
  require_choice("--mode", "mode", values.mode, {"strict", "safe"});
}

void warn_of_layout(const std::vector<std::uint8_t>& control, const RingOptions& options, std::ostream& err) {
  if (const auto doubt = ring::doubt_of_layout(control, options.layout())) err << "WARN: " << *doubt << "\n";
}

void write_ring_example(const std::string& folder) {
  const ring::Layout& layout = ring::kLayout2026_05;
  constexpr ring::Word kSlots = 8;
  const std::string place = "ring dump --example";
  auto control =
      value_or_throw(ring::encode_control(layout, ring::Mode::kSafe, {.tenants = 2, .observables = 4}), place);
  auto slots = value_or_throw(ring::encode_empty_ring(kSlots), place);
  const ring::RecordingShape shape{.slots = kSlots,
                                   .control_words = static_cast<ring::Word>(control.size() / ring::kWordBytes)};
  auto recording = value_or_throw(ring::begin_recording(shape), place);
  std::uint64_t time_ns = 0;
  const auto snapshot = [&] {
    const Result<void> added = ring::add_snapshot(recording, shape, time_ns += 1000, control, slots);
    if (!added) throw std::runtime_error(place + ": " + added.error().text);
  };
  ring::LiveRing live = value_or_throw(ring::LiveRing::over(control, slots, layout), place);
  const auto publish = [&](const ring::Publication& what) {
    if (const Result<void> done = live.publish(what); !done) throw std::runtime_error(place + ": " + done.error().text);
  };
  snapshot();
  publish({.slot = 0, .opcode = ring::opcode::kAtomicAdd, .args = {1, 5}});
  publish({.slot = 1, .tenant = 1, .opcode = 0xf101, .args = {7, ring::kWindowRequired}});
  publish(
      {.slot = 2,
       .opcode = ring::opcode::kPackedSlot,
       .args = value_or_throw(ring::encode_packed(layout, ring::Mode::kSafe, {{1, {160, 3}}, {2, {161, 4}}}), place)});
  publish({.slot = 3, .tenant = 5, .opcode = ring::opcode::kNop});  // tenant 5 has no permission
  snapshot();
  live.claim();
  snapshot();
  (void)live.finish(0);
  live.claim();
  snapshot();
  (void)live.finish(1, ring::status::kRequeue);
  snapshot();
  auto debug = value_or_throw(ring::encode_debug_log(ring::kDebugRecords), place);
  (void)ring::append(debug, {.format = 1, .arg1 = 2, .arg2 = 3, .slot_base = 16});
  auto io = ring::encode_io_queue();
  (void)value_or_throw(ring::IoQueue::over(io, ring::Mode::kSafe), place).submit_load_miss(42);
  const auto write = [&](const char* name, const std::vector<std::uint8_t>& bytes) {
    write_text_file(folder + "/" + name, {bytes.begin(), bytes.end()});
  };
  write("control.bin", control);
  write("ring.bin", slots);
  write("debug.bin", debug);
  write("io.bin", io);
  write("life.ring", recording);
}

}  // namespace meshbed::testbed
