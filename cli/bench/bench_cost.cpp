#include "cli/bench/bench_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/bench/callgrind.h"
#include "cli/bench/cost/null_net.h"
#include "cli/bench/cost/null_pair.h"
#include "cli/bench/cost/null_relay.h"
#include "cli/bench/cost/null_wire.h"
#include "cli/common/document_output.h"
#include "emu/process.h"
#include "emu/scratch.h"
#include "plugin/base/units.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/files.h"
#include "testbed/workload/result.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

// Only the second run's additional messages are counted, so that the set-up of a connection cancels out. Their number
// is a multiple of all periods of extra work (a signalled clear-to-send, the ring's end).
constexpr std::uint64_t kFewMessages = 1024, kManyMessages = 3072;
constexpr std::size_t kFunctionsShown = 12;
// A relay reports credits for every fourth piece and signals every sixteenth write back.
constexpr std::uint64_t kFewRelayed = 64, kManyRelayed = 320, kRelayedBytes = 128 * kKiB;

// Each run measures the CPU time of a burst of one, two and eight messages. Results differ from run to run with the
// machine's other load.
constexpr int kRuns = 9;
constexpr std::uint64_t kBursts = 400;
constexpr double kFewInBurst = 2;

constexpr const char* kCommand = "bench cost";

/// Instructions by function, for each message.
struct Cost {
  std::map<std::string, double> entries;    // of the plugin's entry points, with all functions that they call: "isend"
  std::map<std::string, double> functions;  // without the functions that they call
};

/// `kind`: the last argument of meshbed-cost.
void count_messages(const std::string& file, std::vector<std::string> options, std::uint64_t messages,
                    std::uint64_t bytes, const std::string& kind) {
  const BuiltFiles files = built_files();
  options.push_back(toggle_collect(cost::kNullWirePrefix));
  run_under_callgrind(kCommand, file, options,
                      {files.cost_program, files.net_plugin, std::to_string(messages), std::to_string(bytes), kind});
}

std::vector<CountedFunction> count(const emu::Scratch& scratch, std::uint64_t messages, std::uint64_t bytes, int vain) {
  const std::string file = fmt::format("{}/{}-{}", scratch.path(), messages, vain);
  count_messages(file, {toggle_collect(cost::kCountedPrefix)}, messages, bytes, std::to_string(vain));
  return read_callgrind(read_text_file(file));
}

/// The cost of the plugin's service thread, the first that the program starts, including all calls.
std::vector<CountedFunction> count_relay(const emu::Scratch& scratch, std::uint64_t messages) {
  const std::string file = fmt::format("{}/relay-{}", scratch.path(), messages);
  count_messages(file,
                 {"--separate-threads=yes", fmt::format("--toggle-collect={}", cost::kServiceThread),
                  "--toggle-collect=ibv_get_cq_event", "--toggle-collect=ibv_ack_cq_events"},
                 messages, kRelayedBytes, "relay");
  return read_callgrind(read_text_file(file + "-02"));
}

Cost cost_of_message(const emu::Scratch& scratch, std::uint64_t bytes, int vain) {
  Cost cost;
  const auto add = [&](std::uint64_t messages, double share) {
    for (const CountedFunction& function : count(scratch, messages, bytes, vain)) {
      if (function.name.rfind(cost::kCountedPrefix, 0) == 0) {
        const std::string entry = function.name.substr(std::string(cost::kCountedPrefix).size());
        cost.entries[entry] += share * static_cast<double>(function.called);
      } else {
        cost.functions[function.name] += share * static_cast<double>(function.self);
      }
    }
  };
  constexpr double kShare = 1.0 / static_cast<double>(kManyMessages - kFewMessages);
  add(kManyMessages, kShare);
  add(kFewMessages, -kShare);
  return cost;
}

/// The cost of one relayed message, by function.
std::map<std::string, double> cost_of_relayed_message(const emu::Scratch& scratch) {
  std::map<std::string, double> functions;
  const auto add = [&](std::uint64_t messages, double share) {
    for (const CountedFunction& function : count_relay(scratch, messages)) {
      functions[function.name] += share * static_cast<double>(function.self);
    }
  };
  constexpr double kShare = 1.0 / static_cast<double>(kManyRelayed - kFewRelayed);
  add(kManyRelayed, kShare);
  add(kFewRelayed, -kShare);
  return functions;
}

/// The cost of both ranks' engines for one message, without the null net: from the second run's additional messages.
double cost_in_engine(const emu::Scratch& scratch, const std::string& call, std::uint64_t bytes) {
  const BuiltFiles files = built_files();
  double instructions = 0, messages = 0;
  const auto add = [&](std::uint64_t asked, double sign) {
    const std::string file = fmt::format("{}/engine-{}-{}", scratch.path(), call, asked);
    const std::string sent = run_under_callgrind(
        kCommand, file, {toggle_collect(cost::kEngineWorkPrefix), toggle_collect(cost::kNullNetPrefix)},
        {files.engine_cost_program, files.engine, call, std::to_string(asked), std::to_string(bytes)});
    messages += sign * std::stod(sent);
    for (const CountedFunction& function : read_callgrind(read_text_file(file))) {
      instructions += sign * static_cast<double>(function.self);
    }
  };
  add(kManyMessages, 1);
  add(kFewMessages, -1);
  return instructions / messages;
}

/// CPU time of a relay's service for one message.
struct RelayTime {
  double one_more_ns = 0;  // of several messages for which it is woken once
  double alone_ns = 0;     // if it sleeps and is woken for each step
};

/// Medians of kRuns runs, without valgrind.
RelayTime time_of_relayed_message() {
  const BuiltFiles files = built_files();
  std::vector<double> one_more, alone;
  for (int run = 0; run < kRuns; ++run) {
    const emu::ProgramResult result = emu::run_program(
        {files.cost_program, files.net_plugin, std::to_string(kBursts), std::to_string(kRelayedBytes), "bursts"});
    std::istringstream figures(result.output);
    double one = 0, few = 0, many = 0;
    if (result.status != 0 || !(figures >> one >> few >> many)) {
      throw std::runtime_error(fmt::format("bench cost: {} ended with status {}: {}", files.cost_program, result.status,
                                           emu::last_line(result.errors)));
    }
    alone.push_back(one);
    one_more.push_back((many - few) / (static_cast<double>(cost::NullRelay::kBurstMost) - kFewInBurst));
  }
  return {.one_more_ns = median(one_more), .alone_ns = median(alone)};
}

std::string shortened(const std::string& name) { return name.size() > 88 ? name.substr(0, 85) + "..." : name; }

/// "functions": the most expensive first.
document::Table by_cost(const std::map<std::string, double>& costs) {
  document::Table table{
      .key = "functions",
      .meaning = "instructions of a function itself for each message, the most first",
      .columns = {document::text("name", "of the function"),
                  document::number("instructions", "", "for each message").shown(" ", 10, "").rounded(1),
                  document::in_text(" ", 0, "  ").left()},
      .all_in = "--json"};
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, instructions] : costs) {
    if (instructions >= 1) sorted.emplace_back(instructions, name);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  for (const auto& [instructions, name] : sorted) table.add({name, instructions, shortened(name)});
  return table;
}

double sum_of(const std::map<std::string, double>& costs) {
  double sum = 0;
  for (const auto& [name, instructions] : costs) sum += instructions;
  return sum;
}

/// What was measured of messages of `bytes` bytes.
struct Costs {
  std::uint64_t bytes = 0;
  Cost message;
  double test_in_vain = 0, send_recv = 0, all_reduce = 0;
  std::map<std::string, double> relayed;
  RelayTime relay_time;
};

void add_message(document::Section& section, const Costs& costs) {
  using document::number;
  section.with({document::integer("message_bytes", "B", "of each message"),
                number("instructions_per_pair", "", "of a sending and a receiving end together"),
                document::any("entries", "by entry of the plugin's table: instructions with all that it calls"),
                number("test_in_vain", "", "instructions of a test of a receive that is not done")});
  section.with(by_cost(costs.message.functions));
  section.set("message_bytes", costs.bytes);
  section.set("instructions_per_pair", sum_of(costs.message.entries));
  section.set("entries", costs.message.entries);
  section.set("test_in_vain", costs.test_in_vain);
  section.line("instructions for a message of {} bytes on the null wire, callgrind", costs.bytes);
  for (const auto& [entry, cost] : costs.message.entries) section.line("{:10.1f}  {}", cost, entry);
  section.line("{:10.1f}  the pair", sum_of(costs.message.entries));
  section.blank();
  section.line("{:10.1f}  and for each test of a receive in vain", costs.test_in_vain);
  section.blank();
  section.line("by function");
  section.show_rows("functions", kFunctionsShown);
}

document::Section engine_section(const Costs& costs) {
  document::Section section{.key = "engine", .title = "Engine"};
  section.with({document::number("send_recv", "", "instructions of both ends for each message"),
                document::number("all_reduce", "", "likewise, with the sums of its elements")});
  section.set("send_recv", costs.send_recv);
  section.set("all_reduce", costs.all_reduce);
  section.blank();
  section.line("{:10.1f}  the engine's, at both ends, in a send_recv", costs.send_recv);
  section.line("{:10.1f}  and in an all_reduce, with the sums of its elements", costs.all_reduce);
  return section;
}

document::Section relay_section(const Costs& costs) {
  using document::number;
  document::Section section{.key = "relay", .title = "Relay"};
  section.with({document::integer("message_bytes", "B", "of each message"),
                number("instructions", "", "of the service for each message"),
                number("cpu_ns", "ns", "for one more of several that it is woken for together"),
                number("cpu_ns_alone", "ns", "for one alone, with sleep and wake in the kernel")});
  section.with(by_cost(costs.relayed));
  section.set("message_bytes", kRelayedBytes);
  section.set("instructions", sum_of(costs.relayed));
  section.set("cpu_ns", costs.relay_time.one_more_ns);
  section.set("cpu_ns_alone", costs.relay_time.alone_ns);
  section.blank();
  section.line("{:10.1f}  a relay's service for a message of {} bytes", sum_of(costs.relayed), kRelayedBytes);
  section.line("{:10.0f}  ns of its CPU for one more of several that it is woken for together",
               costs.relay_time.one_more_ns);
  section.line("{:10.0f}  ns for one alone, with what it takes the kernel to let it sleep and wake",
               costs.relay_time.alone_ns);
  return section;
}

}  // namespace

int bench_cost_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax("bench cost [options]");
  std::string bytes_text = "4096";
  DocumentOutput output;
  syntax.options.add_options()  //
      ("message-bytes", po::value(&bytes_text)->value_name("N")->default_value(bytes_text), "size of a message");
  output.describe(syntax.options);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const std::uint64_t bytes = parse_count("--message-bytes", bytes_text, 1, 64 * kMiB);

  const emu::Scratch scratch(std::filesystem::temp_directory_path(), "meshbed-cost");
  const Costs costs{.bytes = bytes,
                    .message = cost_of_message(scratch, bytes, 0),
                    .test_in_vain = cost_of_message(scratch, bytes, 1).entries.at("test_in_vain"),
                    .send_recv = cost_in_engine(scratch, "send_recv", bytes),
                    .all_reduce = cost_in_engine(scratch, "all_reduce", bytes),
                    .relayed = cost_of_relayed_message(scratch),
                    .relay_time = time_of_relayed_message()};
  document::Document report = bench_document("cost");
  add_message(report.sections.front(), costs);
  report.sections.push_back(engine_section(costs));
  report.sections.push_back(relay_section(costs));
  report.sections.push_back(bench_provenance());
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
