#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/common/exit_status.h"
#include "cli/common/json_text.h"
#include "cli/ring/files.h"
#include "cli/ring/ring.h"
#include "plugin/ring/debug_log.h"
#include "plugin/ring/io_queue.h"
#include "plugin/ring/packed.h"
#include "plugin/ring/telemetry.h"

namespace meshbed::cli {
namespace {

using Json = nlohmann::ordered_json;

Json control_json(const std::vector<std::uint8_t>& bytes, const RingOptions& options) {
  const auto control = value_or_throw(ring::decode_control(bytes, options.layout()), options.control);
  Json metrics = Json::object();
  for (const auto& [op, count] : control.metrics) metrics[ring::opcode_name(op)] = count;
  return {{"shutdown", control.shutdown},
          {"done_count", control.done_count},
          {"tenant_base", control.tenant_base},
          {"epoch", control.epoch},
          {"metrics", metrics},
          {"tenant_fairness", control.tenant_fairness},
          {"priority_fairness", control.priority_fairness},
          {"priority_offsets", control.priority_offsets},
          {"starvation_counter", control.starvation_counter}};
}

Json packed_json(const ring::PackedSlot& packed) {
  Json ops = Json::array();
  for (const auto& op : packed.ops) {
    ops.push_back(
        {{"opcode", ring::opcode_name(op.opcode)}, {"args", op.args}, {"runs", op.runs}, {"skipped", op.skipped}});
  }
  return {{"ops", ops},
          {"beyond_kernel", packed.beyond_kernel},
          {"misaligned", packed.misaligned},
          {"skips", packed.skips}};
}

/// EMPTY slots are left out: a ring has a million.
Json ring_json(const std::vector<std::uint8_t>& bytes, const RingOptions& options) {
  const ring::Word count = value_or_throw(ring::slot_count(bytes.size()), options.ring);
  const auto occupancy = value_or_throw(ring::occupancy_of(bytes), options.ring);
  Json slots = Json::array();
  for (ring::Word index = 0; index < count; ++index) {
    const auto slot = value_or_throw(ring::decode_slot(bytes, options.layout(), index), options.ring);
    if (slot.status == ring::status::kEmpty) continue;
    Json row = {
        {"index", index},
        {"status", ring::status_name(slot.status)},
        {"opcode", ring::opcode_name(slot.opcode)},
        {"tenant", slot.tenant},
        {"priority", slot.priority},
        {"args", std::vector<ring::Word>(slot.args.begin(), slot.args.begin() + options.layout().args_per_slot)}};
    if (slot.opcode == ring::opcode::kPackedSlot) {
      const auto packed = ring::decode_packed(slot, options.layout());
      row["packed"] = packed ? packed_json(*packed) : Json{{"error", packed.error().text}};
    }
    slots.push_back(std::move(row));
  }
  return {{"slots", count}, {"queue_depth", occupancy.queue_depth()}, {"not_empty", slots}};
}

Json debug_json(const std::vector<std::uint8_t>& bytes, const RingOptions& options) {
  const auto log = value_or_throw(ring::decode_debug_log(bytes, options.ring_mode()), options.debug);
  Json records = Json::array();
  for (const auto& one : log.records) records.push_back({one.format, one.arg1, one.arg2, one.slot_base});
  return {{"capacity", log.capacity}, {"dropped", log.dropped}, {"torn", log.torn}, {"records", records}};
}

Json io_json(const std::vector<std::uint8_t>& bytes, const RingOptions& options) {
  const auto entries = value_or_throw(ring::decode_io_queue(bytes), options.io);
  Json list = Json::array();
  for (std::size_t index = 0; index < entries.size(); ++index) {
    const ring::IoRequest& one = entries[index];
    if (one.status == ring::status::kEmpty) continue;
    list.push_back({{"index", index},
                    {"status", ring::io_status_name(one.status)},
                    {"op", one.op},
                    {"source", one.source},
                    {"destination", one.destination},
                    {"offset_bytes", one.offset_bytes},
                    {"size_bytes", one.size_bytes},
                    {"tag", one.tag}});
  }
  return {{"entries", entries.size()}, {"not_empty", list}};
}

}  // namespace

int ring_dump_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RingOptions options;
  std::string example;
  Syntax syntax("ring dump [--control FILE] [--ring FILE] [--debug FILE] [--io FILE] [options]");
  add_ring_files(syntax.options, options);
  add_ring_options(syntax.options, options);
  syntax.options.add_options()("example", boost::program_options::value(&example)->value_name("FOLDER"),
                               "write such files there: control.bin, ring.bin, debug.bin, io.bin, and the recording "
                               "life.ring");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  require_ring_options(options);
  if (!example.empty()) write_ring_example(example);
  Json dump = Json::object();
  if (!options.control.empty()) {
    const auto control = read_bytes(options.control);
    warn_of_layout(control, options, err);
    dump["control"] = control_json(control, options);
  }
  if (!options.ring.empty()) dump["ring"] = ring_json(read_bytes(options.ring), options);
  if (!options.debug.empty()) dump["debug"] = debug_json(read_bytes(options.debug), options);
  if (!options.io.empty()) dump["io"] = io_json(read_bytes(options.io), options);
  if (dump.empty() && example.empty()) {
    throw std::runtime_error(
        "ring dump: give at least one of --control, --ring, --debug and --io, or --example FOLDER");
  }
  if (options.json) {
    out << json_text(dump) << "\n";
    return kExitOk;
  }
  for (const auto& [buffer, fields] : dump.items()) {
    out << buffer << "\n";
    for (const auto& [name, value] : fields.items()) {
      if (!value.is_array() || value.empty() || !value.front().is_structured()) {
        out << fmt::format("  {:<20}{}\n", name, json_text(value));
        continue;
      }
      for (const Json& row : value) out << "  " << json_text(row) << "\n";
    }
  }
  return kExitOk;
}

}  // namespace meshbed::cli
