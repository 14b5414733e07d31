#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "cli/ring/files.h"
#include "cli/ring/ring.h"
#include "plugin/ring/abi/debug_log.h"
#include "plugin/ring/abi/io_queue.h"
#include "plugin/ring/abi/packed.h"
#include "plugin/ring/kernel/wait_chain.h"
#include "plugin/ring/telemetry/sketch_telemetry.h"
#include "plugin/ring/telemetry/telemetry.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/result/ring_counters.h"

namespace meshbed::testbed {
namespace {

using Json = nlohmann::ordered_json;

/// A user's opcode has another meaning in each kernel; what it is to the kernels of this project stands beside it.
std::string name_of_operation(ring::Word op) {
  if (!ring::opcode::is_mesh(op)) return ring::opcode_name(op);
  return ring::opcode_name(op) + " (" + ring::operation_name(op) + ")";
}

Json control_json(const std::vector<std::uint8_t>& bytes, const RingOptions& options) {
  const auto control = value_or_throw(ring::decode_control(bytes, options.layout()), options.control);
  Json metrics = Json::object();
  for (const auto& [op, count] : control.metrics) metrics[name_of_operation(op)] = count;
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
        {{"opcode", name_of_operation(op.opcode)}, {"args", op.args}, {"runs", op.runs}, {"skipped", op.skipped}});
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
        {"opcode", name_of_operation(slot.opcode)},
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

Json counters_json(const ring::RingTelemetry& telemetry) {
  const ring::RuntimeCounters counters = ring::counters_of(telemetry);
  const ring::Occupancy& slots = telemetry.occupancy;
  Json json{{"total_slots", slots.total()},
            {"queue_depth", slots.queue_depth()},
            {"gpu_idle_slots", counters.gpu_idle_slots}};
  const std::vector<document::Field> fields = document::ring_counter_fields();
  const std::vector<document::Value> values = document::ring_counter_values(counters);
  for (std::size_t index = 0; index < fields.size(); ++index) json[fields[index].key] = values[index];
  json["requeue_slots"] = slots.of(ring::status::kRequeue);
  json["fault_slots"] = slots.of(ring::status::kFault);
  return json;
}

Json windows_json(const std::vector<ring::WindowTelemetry>& windows) {
  Json list = Json::array();
  for (const ring::WindowTelemetry& one : windows) {
    list.push_back({{"ticket", one.ticket},
                    {"opcode", name_of_operation(one.opcode)},
                    {"tenant", one.tenant},
                    {"required", one.required},
                    {"lookahead", one.lookahead},
                    {"published", one.published},
                    {"claimed", one.claimed},
                    {"done", one.done},
                    {"wait_io", one.wait_io},
                    {"yield", one.yield},
                    {"requeue", one.requeue},
                    {"fault", one.fault},
                    {"active", one.is_active()}});
  }
  return list;
}

/// How often each key that occurs was seen, by the sketch: never too seldom.
Json sketch_json(const ring::RingTelemetry& telemetry, const std::string& place) {
  constexpr ring::CountMinSketch::Shape kShape{.depth = 4, .width = 1024};
  const auto sketch = value_or_throw(ring::sketch_of(telemetry, kShape), place);
  Json opcodes = Json::object(), active = Json::object(), tenants = Json::object(), statuses = Json::object();
  for (const ring::SlotSnapshot& slot : telemetry.slots) {
    const std::string opcode = name_of_operation(slot.opcode);
    opcodes[opcode] = sketch.ring_opcode.estimate(slot.opcode);
    if (const auto count = sketch.active_opcode.estimate(slot.opcode); count > 0) active[opcode] = count;
    tenants[std::to_string(slot.tenant)] = sketch.tenant.estimate(slot.tenant);
    statuses[ring::status_name(slot.status)] = sketch.status.estimate(slot.status);
  }
  Json metrics = Json::object();
  for (const auto& [op, count] : telemetry.control.metrics) {
    metrics[name_of_operation(op)] = sketch.dispatch_metrics.estimate(op);
  }
  return {{"depth", kShape.depth},
          {"width", kShape.width},
          {"total_slots", sketch.total_slots},
          {"active_slots", sketch.active_slots},
          {"ring_opcode", opcodes},
          {"active_opcode", active},
          {"tenant", tenants},
          {"status", statuses},
          {"dispatch_metrics", metrics}};
}

/// "0xF101,7": the opcodes of windows.
std::vector<ring::Word> window_opcodes(const std::string& text) {
  std::vector<ring::Word> opcodes;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) {
    std::size_t used = 0;
    unsigned long long value = 0;
    try {
      value = std::stoull(one, &used, 0);
    } catch (const std::logic_error&) {
      used = 0;
    }
    if (used == 0 || used != one.size() || value > std::numeric_limits<ring::Word>::max()) {
      throw std::runtime_error("--windows " + text + ": \"" + one +
                               "\" is not an opcode; expects numbers of 32 bits, as in 0xF101,7");
    }
    opcodes.push_back(static_cast<ring::Word>(value));
  }
  return opcodes;
}

}  // namespace

int ring_dump_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  RingOptions options;
  std::string example, windows;
  Syntax syntax("ring dump [RING] [--control FILE] [--debug FILE] [--io FILE] [options]");
  syntax.operands.add_options()("ring", boost::program_options::value(&options.ring)->value_name("RING"), "the slots");
  syntax.positions.add("ring", 1);
  add_ring_files(syntax.options, options);
  add_ring_options(syntax.options, options);
  syntax.options.add_options()("windows", boost::program_options::value(&windows)->value_name("OP,..."),
                               "opcodes of route windows: a ring and its control buffer are shown by window, too");
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
  const std::vector<ring::Word> opcodes = window_opcodes(windows);
  if (!options.ring.empty()) {
    const auto slots = read_bytes(options.ring);
    if (!options.control.empty()) {
      const auto telemetry = value_or_throw(
          ring::decode_telemetry(read_bytes(options.control), slots, options.layout(), options.ring_mode()),
          options.ring);
      dump["counters"] = counters_json(telemetry);
      if (!windows.empty()) {
        dump["windows"]["list"] = windows_json(ring::windows_of(telemetry.slots, opcodes, options.ring_mode()));
      }
      dump["sketch"] = sketch_json(telemetry, options.ring);
    }
    dump["ring"] = ring_json(slots, options);
  }
  if (!windows.empty() && dump.find("windows") == dump.end()) {
    throw std::runtime_error("ring dump: --windows needs RING and --control FILE");
  }
  if (!options.debug.empty()) dump["debug"] = debug_json(read_bytes(options.debug), options);
  if (!options.io.empty()) dump["io"] = io_json(read_bytes(options.io), options);
  if (dump.empty() && example.empty()) {
    throw std::runtime_error("ring dump: give at least one of RING, --control, --debug and --io, or --example FOLDER");
  }
  if (options.json) {
    out << json_text(dump) << "\n";
    return kExitOk;
  }
  for (const auto& [buffer, fields] : dump.items()) {
    out << buffer << "\n";
    for (const auto& [name, value] : fields.items()) {
      if (!value.is_array() || value.empty() || !value.front().is_structured()) {
        out << fmt::format("  {:<24}{}\n", name, json_text(value));
        continue;
      }
      for (const Json& row : value) out << "  " << json_text(row) << "\n";
    }
  }
  return kExitOk;
}

}  // namespace meshbed::testbed
