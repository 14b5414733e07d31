#include "cli/bench/bench_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "cli/bench/bench_measure.h"
#include "cli/bench/callgrind.h"
#include "cli/bench/cost/null_net.h"
#include "cli/bench/cost/null_pair.h"
#include "cli/bench/cost/null_relay.h"
#include "cli/bench/cost/null_wire.h"
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

/// The most expensive first.
nlohmann::json by_cost(const std::map<std::string, double>& costs) {
  nlohmann::json functions = nlohmann::json::array();
  for (const auto& [name, instructions] : costs) {
    if (instructions >= 1) functions.push_back({{"name", name}, {"instructions", instructions}});
  }
  std::sort(functions.begin(), functions.end(),
            [](const auto& one, const auto& other) { return one["instructions"] > other["instructions"]; });
  return functions;
}

std::string shortened(const std::string& name) { return name.size() > 88 ? name.substr(0, 85) + "..." : name; }

void print(const nlohmann::json& result, std::ostream& out) {
  out << fmt::format("instructions for a message of {} bytes on the null wire, callgrind\n",
                     result.at("message_bytes").get<std::uint64_t>());
  for (const auto& [entry, cost] : result.at("entries").items()) {
    out << fmt::format("{:10.1f}  {}\n", cost.get<double>(), entry);
  }
  out << fmt::format("{:10.1f}  the pair\n\n{:10.1f}  and for each test of a receive in vain\n\nby function\n",
                     result.at("instructions_per_pair").get<double>(), result.at("test_in_vain").get<double>());
  std::size_t shown = 0;
  for (const nlohmann::json& function : result.at("functions")) {
    if (shown++ == kFunctionsShown) break;
    out << fmt::format("{:10.1f}  {}\n", function.at("instructions").get<double>(),
                       shortened(function.at("name").get<std::string>()));
  }
  out << fmt::format(
      "\n{:10.1f}  the engine's, at both ends, in a send_recv\n{:10.1f}  and in an all_reduce, with the "
      "sums of its elements\n",
      result.at("engine").at("send_recv").get<double>(), result.at("engine").at("all_reduce").get<double>());
  const nlohmann::json& relay = result.at("relay");
  out << fmt::format(
      "\n{:10.1f}  a relay's service for a message of {} bytes\n{:10.0f}  ns of its CPU for one more of several that "
      "it "
      "is woken for together\n{:10.0f}  ns for one alone, with what it takes the kernel to let it sleep and wake\n",
      relay.at("instructions").get<double>(), relay.at("message_bytes").get<std::uint64_t>(),
      relay.at("cpu_ns").get<double>(), relay.at("cpu_ns_alone").get<double>());
}

}  // namespace

int bench_cost_command(const Arguments& arguments, std::ostream& out) {
  Syntax syntax("bench cost [options]");
  std::string bytes_text = "4096";
  std::string keep;
  bool json = false;
  syntax.options.add_options()                                                                                    //
      ("message-bytes", po::value(&bytes_text)->value_name("N")->default_value(bytes_text), "size of a message")  //
      ("keep", po::value(&keep)->value_name("FILE"), "also write the result, with its provenance, to this file")  //
      ("json", po::bool_switch(&json), "print JSON instead of the table");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const std::uint64_t bytes = parse_count("--message-bytes", bytes_text, 1, 64 * kMiB);

  const emu::Scratch scratch(std::filesystem::temp_directory_path(), "meshbed-cost");
  const Cost cost = cost_of_message(scratch, bytes, 0);
  double pair = 0;
  for (const auto& [entry, instructions] : cost.entries) pair += instructions;
  const std::map<std::string, double> relayed = cost_of_relayed_message(scratch);
  double relay = 0;
  for (const auto& [name, instructions] : relayed) relay += instructions;
  const RelayTime time = time_of_relayed_message();
  const nlohmann::json result = {{"benchmark", "cost"},
                                 {"message_bytes", bytes},
                                 {"instructions_per_pair", pair},
                                 {"entries", cost.entries},
                                 {"test_in_vain", cost_of_message(scratch, bytes, 1).entries.at("test_in_vain")},
                                 {"functions", by_cost(cost.functions)},
                                 {"engine",
                                  {{"send_recv", cost_in_engine(scratch, "send_recv", bytes)},
                                   {"all_reduce", cost_in_engine(scratch, "all_reduce", bytes)}}},
                                 {"relay",
                                  {{"message_bytes", kRelayedBytes},
                                   {"instructions", relay},
                                   {"cpu_ns", time.one_more_ns},
                                   {"cpu_ns_alone", time.alone_ns},
                                   {"functions", by_cost(relayed)}}},
                                 {"provenance", bench_provenance()}};
  if (json) {
    out << result.dump(2) << "\n";
  } else {
    print(result, out);
  }
  if (!keep.empty()) write_text_file(keep, result.dump(2) + "\n");
  return kExitOk;
}

}  // namespace meshbed::testbed
