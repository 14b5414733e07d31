// meshbed models: the profiles there are, and what one is made of.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ostream>
#include <stdexcept>

#include "cli/command/commands.h"
#include "models/queue.h"
#include "models/time/collective_time.h"
#include "models/time/interval.h"
#include "models/time/message_time.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/units.h"
#include "testbed/fidelity/decode_step.h"
#include "testbed/fidelity/profiles.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

std::string range_text(const models::Value& value, const models::ParameterInfo& info) {
  if (value.range) return fmt::format("{:g} to {:g}", value.range->first, value.range->second);
  return fmt::format("({:g} to {:g})", info.low, info.high);
}

void explain_values(const models::Machine& machine, bool with_defaults, std::ostream& out) {
  const auto list = [](const std::vector<std::string>& texts) {
    return texts.empty() ? std::string("-") : fmt::format("{}", fmt::join(texts, "; "));
  };
  out << fmt::format("{}: {}\n  cabling     {}, {} ranks a node, transport {}\n  classes     {}\n  fitted on   {}\n\n",
                     machine.name, machine.description, name_of(machine.cabling), machine.ranks_per_node,
                     name_of(machine.transport), list(machine.classes), list(machine.fitted_on));
  const std::string fitted_on = fmt::format("{}", fmt::join(machine.fitted_on, ", "));
  out << fmt::format("  {:<22} {:>11}  {:<13} {:<20} {}\n", "value", "", "basis", "range (plausible)",
                     "what it is; source");
  std::size_t silent = 0;
  for (std::size_t index = 0; index < models::kParameters; ++index) {
    const bool is_default = !machine.values.at(index);
    if (is_default && !with_defaults) {
      ++silent;
      continue;
    }
    const auto parameter = static_cast<models::MachineParameter>(index);
    const models::ParameterInfo& info = models::info_of(parameter);
    const models::Value value = machine.value_of(parameter);
    const bool is_fitted = value.basis == models::Basis::kCalibrated && value.source == fitted_on;
    out << fmt::format("  {:<22} {:>11g}  {:<13} {:<20} {}; {}{}\n", info.name, value.value, name_of(value.basis),
                       range_text(value, info), info.meaning, is_fitted ? "the files it was fitted on" : value.source,
                       is_default ? " (default)" : "");
  }
  if (silent > 0) out << fmt::format("  and {} defaults; --all shows them\n", silent);
}

/// Of a profile that is no class of machines: its values, which other models read.
void list_values(const models::Profile& profile, std::ostream& out) {
  out << fmt::format("{}: {}\n\n", profile.name(), profile.description());
  for (const auto& [name, value] : profile.parameters()) {
    const bool has_range = value.range.first != value.range.second;
    out << fmt::format("  {:<22} {:>11g} {:<5} {:<13} {:<20} {}\n", name, value.value, value.unit, name_of(value.basis),
                       has_range ? fmt::format("{:g} to {:g}", value.range.first, value.range.second) : "",
                       value.source);
  }
}

double us_of(Picoseconds time_ps) {
  return static_cast<double>(time_ps) / static_cast<double>(kPicosecondsPerMicrosecond);
}

/// A part that two decimals would show as nothing is left out.
void add_part(std::ostream& out, const std::string& name, double us, double whole_us) {
  constexpr double kShownLeast_us = 0.005;
  if (us < kShownLeast_us) return;
  out << fmt::format("    {:<20} {:>12.2f} us  {:>5.1f} %\n", name, us, 100 * us / whole_us);
}

void explain_interval(const models::Interval& interval, double us, std::ostream& out) {
  out << fmt::format(
      "  9 of 10 measurements lie between {:.2f} and {:.2f} us ({}), half within {:.1f} %\n  {} ({} points "
      "of {} files that were left out)\n",
      interval.low_us, interval.high_us, models::range_text(interval, us), 100 * interval.half,
      models::basis_text(interval), interval.left_out, interval.left_from);
}

void explain_collective(const models::Machine& machine, const models::CollectiveCall& call, std::ostream& out);

/// Of a profile of device rings: a slot's and a message's way, and a one-shot exchange as the class of such exchanges
/// has it. Nothing where it is of something else.
void explain_rings(const models::Profile& profile, models::Collective collective, std::uint64_t bytes, int ranks,
                   std::ostream& out) {
  const auto queue = models::queue_model(profile);
  const auto nic_GBps = profile.value("nic_rate", "GB/s");
  if (!queue || !nic_GBps) return;
  constexpr std::uint64_t kDepth = 64;
  const models::Wire wire{.bytes_per_second = *nic_GBps * 1e9};
  out << fmt::format(
      "\n  a slot, from its publication to its first instruction: {:.2f} us; a message of {} bytes, from SIGNAL to "
      "WAIT: "
      "{:.2f} us without the wire's latency\n  a ring of {} slots, each with such a message: {:.0f} slots/s at most\n",
      us_of(queue->publish_ps + models::slot_ps(*queue)), bytes, us_of(models::message_ps(*queue, wire, bytes)), kDepth,
      models::slots_per_second(*queue, wire, bytes, kDepth));
  if (collective != models::Collective::kAllReduce && collective != models::Collective::kAllGather) {
    throw std::runtime_error(
        fmt::format("--collective {}: a one-shot exchange is all_reduce or all_gather", name_of(collective)));
  }
  if (ranks != 2 && ranks != 4) {
    throw std::runtime_error(
        fmt::format("--ranks {}: one-shot exchanges are known of a pair and of a ring of 4", ranks));
  }
  // One mechanism: whole exchanges are predicted from the class that was fitted to them.
  for (const models::Machine& machine : shipped_machines()) {
    const auto cabling = ranks == 2 ? models::Cabling::kMesh : models::Cabling::kRing;
    if (!is_one_shot(machine) || machine.cabling != cabling) continue;
    out << fmt::format("\n  one-shot, by profile {}:", machine.name);
    explain_collective(machine,
                       {.collective = collective,
                        .ranks = ranks,
                        .nodes = ranks,
                        .bytes = bytes,
                        .algorithm = models::CollectiveAlgorithm::kDirect},
                       out);
  }
}

void explain_collective(const models::Machine& machine, const models::CollectiveCall& call, std::ostream& out) {
  const models::CollectiveTime time = models::collective_time(machine, call);
  out << fmt::format("\n  {} of {} bytes, {} ranks on {} nodes: {:.2f} us, {} {}\n", name_of(call.collective),
                     call.bytes, call.ranks, call.nodes, time.us, name_of(time.algorithm), name_of(time.protocol));
  for (const models::TimePart& part : time.parts) {
    add_part(out, part.name, part.us, time.us);
  }
  const models::Interval interval = models::interval_of(machine, call, time.us);
  explain_interval(interval, time.us, out);
  const auto bar = models::error_bar(machine, fmt::format("{}, {} ranks", name_of(call.collective), call.ranks));
  if (!bar) return;
  out << fmt::format("  the class's own points: 9 of 10 of {} within {:.1f} %, half within {:.1f} %\n", bar->of,
                     100 * bar->errors.p90, 100 * bar->errors.median);
}

}  // namespace

int models_command(const Arguments& arguments, std::ostream& out, std::ostream& /*err*/) {
  std::string name, collective = "all_reduce", bytes, ranks;
  bool all = false, decode = false;
  std::string layers = "62", calls = "2";
  Syntax syntax("models [options]");
  syntax.options.add_options()  //
      ("explain", po::value(&name)->value_name("PROFILE"),
       "a profile's values, each with its source, and one prediction in parts; without it: which profiles there are")
      //
      ("decode", po::bool_switch(&decode),
       "the communication of a decode step on DGX Sparks around a ring, for each kind of software: --layers, --calls, "
       "--bytes (default 48K), --ranks (4)")                                                                      //
      ("layers", po::value(&layers)->value_name("N")->default_value(layers), "with --decode")                     //
      ("calls", po::value(&calls)->value_name("N")->default_value(calls), "with --decode: all_reduces a layer")   //
      ("all", po::bool_switch(&all), "values on which the profile is silent, too")                                //
      ("collective", po::value(&collective)->value_name("NAME")->default_value(collective), "that is predicted")  //
      ("bytes", po::value(&bytes)->value_name("SIZE"), "its size; default: 1M")                                   //
      ("ranks", po::value(&ranks)->value_name("N"), "how many; default: two nodes full, four around a ring of nodes");
  syntax.only_with({"decode"}, {"layers", "calls"});
  syntax.only_with({"explain"}, {"all", "collective"});
  syntax.only_with({"explain", "decode"}, {"bytes", "ranks"});
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  if (bytes.empty()) bytes = decode ? "48K" : "1M";
  const Result<std::uint64_t> size = parse_size_bytes(bytes);
  if (!size) throw std::runtime_error("--bytes " + bytes + ": " + size.error().text);
  if (decode) {
    if (!name.empty()) throw std::runtime_error("--decode is of several profiles: leave --explain out");
    constexpr std::uint64_t kMost = 100'000;
    out << decode_table({.layers = static_cast<int>(parse_count("--layers", layers, 1, kMost)),
                         .calls_per_layer = static_cast<int>(parse_count("--calls", calls, 1, kMost)),
                         .bytes = *size,
                         .ranks = ranks.empty() ? 4 : static_cast<int>(parse_count("--ranks", ranks, 2, kMost))},
                        shipped_machines());
    return kExitOk;
  }
  if (name.empty()) {
    for (const models::Profile& profile : shipped_profiles()) {
      out << fmt::format("{:<24} {}\n", profile.name(), profile.description());
    }
    return kExitOk;
  }
  require_choice("--collective", "collective", collective, models::collective_names());
  const models::Profile profile = find_profile(name);
  const std::uint64_t size_bytes = *size;
  constexpr std::uint64_t kRanksMost = 1'000'000;
  std::optional<int> asked_ranks;
  if (!ranks.empty()) asked_ranks = static_cast<int>(parse_count("--ranks", ranks, 2, kRanksMost));
  if (!profile.machine_class()) {
    list_values(profile, out);
    explain_rings(profile, *models::parse_collective(collective), size_bytes, asked_ranks.value_or(4), out);
    return kExitOk;
  }
  const models::Machine machine = machine_of_profile(profile);
  explain_values(machine, all, out);
  if (machine.transport == models::MachineTransport::kMessage) {
    out << fmt::format("\n  one message of {} bytes: {:.2f} us one way; in a stream, {:.3f} us from one to the next\n",
                       size_bytes, models::message_us(machine, {.latency = true}, size_bytes),
                       models::message_us(machine, {}, size_bytes));
    for (const bool latency : {true, false}) {
      const models::MessageTest test{.latency = latency};
      const double us = models::message_us(machine, test, size_bytes);
      out << (latency ? "  one way:\n" : "  in a stream:\n");
      explain_interval(models::interval_of(machine, test, size_bytes, us), us, out);
    }
    return kExitOk;
  }
  explain_collective(machine, call_on(machine, *models::parse_collective(collective), size_bytes, asked_ranks), out);
  return kExitOk;
}

}  // namespace meshbed::testbed
