#include "cli/bench/bench_perftest.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <stdexcept>

#include "cli/bench/bench_measure.h"
#include "cli/bench/net_link.h"
#include "cli/bench/perftest.h"
#include "cli/common/document_output.h"
#include "cli/common/run_options.h"
#include "emu/cluster.h"
#include "emu/config.h"
#include "testbed/base/environment.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/json_text.h"
#include "testbed/scenario/placement.h"
#include "testbed/workload/outcome.h"
#include "testbed/world/emulate.h"
#include "testbed/world/metal.h"
#include "testbed/world/metal_session.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

constexpr int kPerftestPort = 3;  // beyond MASTER_PORT
constexpr std::uint64_t kSmallest = 64 * kKiB, kLargest = 8 * kMiB;
constexpr std::uint64_t kStreamBytes = 32 * kMiB, kStreamMessagesMin = 5;
constexpr std::uint64_t kLatencyBytes = 8, kLatencyMessages = 1000;
// A repetition consists of alternating slices, because the machine's speed varies by 30 % from one second to the next.
// A slice of perftest is compared with the mean of our slices before and after it; the result is the median ratio.
constexpr int kStreamSlices = 4;
constexpr int kLatencyRounds = 3;  // a repetition: each takes a second
constexpr double kBandwidthWanted = 0.95, kLatencyWanted = 1.15;

struct PerftestOptions {
  RunOptions run;
  std::string repetitions_text = "5";
  DocumentOutput output;
};

/// One side's results for one size, by repetition.
struct Series {
  std::uint64_t size_bytes = 0;
  std::vector<double> plugin, perftest;  // bytes/s, or microseconds
};

/// Both ranks run the same rounds; each keeps the values measured at its own end.
struct Rounds {
  MetalHost& host;
  NetLink& link;
  const PerftestPeer& peer;

  Result<void> bandwidth(Series& series) const {
    const std::uint64_t count = std::max(kStreamBytes / series.size_bytes, kStreamMessagesMin);
    const PerftestCase wanted{
        .program = "ib_write_bw", .size_bytes = series.size_bytes, .iterations = count, .depth = NetLink::kDepth};
    Result<double> before = link.stream(series.size_bytes, count);
    for (int slice = 0; slice < kStreamSlices; ++slice) {
      if (!before) return before.error();
      const auto figures = theirs(wanted);
      if (!figures) return figures.error();
      constexpr std::size_t kAverage = 1;  // peak, average [MiB/s], message rate
      if (figures->size() > kAverage) series.perftest.push_back(figures->at(kAverage) * static_cast<double>(kMiB));
      const Result<double> after = link.stream(series.size_bytes, count);
      if (!after) return after.error();
      series.plugin.push_back((*before + *after) / 2);
      before = after;
    }
    return ok();
  }

  Result<void> latency(Series& series) const {
    const auto times_ns = link.one_by_one(series.size_bytes, kLatencyMessages);
    if (!times_ns) return times_ns.error();
    std::vector<double> times_us;
    for (const std::int64_t time_ns : *times_ns) times_us.push_back(static_cast<double>(time_ns) / 1e3);
    if (!times_us.empty()) series.plugin.push_back(median(times_us));
    const auto figures =
        theirs({.program = "ib_write_lat", .size_bytes = series.size_bytes, .iterations = kLatencyMessages});
    if (!figures) return figures.error();
    constexpr std::size_t kTypical = 2;  // min, max, typical [us], ...: the median of half round trips
    if (figures->size() > kTypical) series.perftest.push_back(figures->at(kTypical));
    return ok();
  }

 private:
  Result<std::vector<double>> theirs(const PerftestCase& wanted) const {
    if (const Result<void> all = host.rendezvous(); !all) return all.error();
    return run_perftest(peer, wanted);
  }
};

/// The verbs device that this rank's plugin uses, with the GID that the scenario gives it.
Result<PerftestPeer> peer_of(const Scenario& scenario, const MetalPlace& place, const NetLink& link) {
  PerftestPeer peer{.address = place.address,
                    .port = place.port + kPerftestPort,
                    .device = link.device(),
                    .gid_index = -1,
                    .writes = place.rank == 1};
  for (const models::Nic& nic : scenario.cluster.at(place.rank).nics) {
    for (const models::IpPrefix& address : nic.addresses) {
      peer.gid_index = std::max(peer.gid_index, gid_index_of(peer.device, emu::gid_text(to_text(address))));
    }
  }
  if (peer.gid_index >= 0) return peer;
  return Error{.code = ErrorCode::kUnreachable,
               .scope = Scope::kDevice,
               .text = fmt::format("{} has none of the addresses that {} gives node {}", peer.device, scenario.name,
                                   place.rank)};
}

nlohmann::json to_json(const Series& series) {
  return {{"size_bytes", series.size_bytes}, {"plugin", series.plugin}, {"perftest", series.perftest}};
}

/// All rounds, alternating: plugin, perftest, plugin, ... Rank 1, the sender, passes its measurements to rank 0.
Result<void> run_rounds(MetalHost& host, const Scenario& scenario, const MetalPlace& place, int repetitions,
                        nlohmann::json& result) {
  auto link = NetLink::open(host, net_plugin_of(scenario, built_files()), kLargest);
  if (!link) return link.error();
  const Result<PerftestPeer> peer = peer_of(scenario, place, **link);
  if (!peer) return peer.error();
  const Rounds rounds{host, **link, *peer};
  Series latency{.size_bytes = kLatencyBytes, .plugin = {}, .perftest = {}};
  std::vector<Series> bandwidth;
  for (std::uint64_t bytes = kSmallest; bytes <= kLargest; bytes *= 2) bandwidth.push_back({bytes, {}, {}});
  // Not counted: the first messages fault pages in.
  if (const Result<double> warm = (*link)->stream(kLargest, kStreamMessagesMin); !warm) return warm.error();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (int round = 0; round < kLatencyRounds; ++round) {
      if (const Result<void> done = rounds.latency(latency); !done) return done;
    }
    for (Series& series : bandwidth) {
      if (const Result<void> done = rounds.bandwidth(series); !done) return done;
    }
  }
  nlohmann::json ours{{"latency", to_json(latency)}, {"bandwidth", nlohmann::json::array()}};
  for (const Series& series : bandwidth) ours["bandwidth"].push_back(to_json(series));
  constexpr const char* kKey = "perftest rounds";
  if (place.rank == 1) {
    if (const Result<void> sent = host.hand_over(kKey, json_text(ours)); !sent) return sent;
    return host.rendezvous();
  }
  const Result<std::string> text = host.take_over(kKey);
  if (!text) return text.error();
  // The sender measures streams and runs perftest; the receiver measures the time of a message.
  result = nlohmann::json::parse(*text);
  result["latency"]["plugin"] = ours["latency"]["plugin"];
  return host.rendezvous();
}

/// Medians, and the median of the pairs' ratios, beside the figures of all repetitions.
void conclude(nlohmann::json& result) {
  const auto add = [](nlohmann::json& row, double factor) {
    const auto plugin = row.at("plugin").get<std::vector<double>>();
    const auto perftest = row.at("perftest").get<std::vector<double>>();
    std::vector<double> ratios;
    for (std::size_t pair = 0; pair < std::min(plugin.size(), perftest.size()); ++pair) {
      ratios.push_back(plugin[pair] / (factor * perftest[pair]));
    }
    row["plugin_median"] = median(plugin);
    row["perftest_median"] = median(perftest);
    row["ratio"] = median(ratios);
  };
  add(result["latency"], 2);
  for (nlohmann::json& row : result["bandwidth"]) add(row, 1);
}

std::vector<document::Field> series_fields(const std::string& unit) {
  using document::number;
  return {document::integer("size_bytes", "B", "of a message"),
          document::any("plugin", "by repetition, [" + unit + "]"),
          document::any("perftest", "by repetition, [" + unit + "]"),
          number("plugin_median", unit, "of all repetitions"),
          number("perftest_median", unit, "of all repetitions"),
          number("ratio", "", "plugin to perftest, median of neighbours")};
}

/// `result`: what conclude() made, with the keys of the document.
document::Document perftest_document(const nlohmann::json& result) {
  using document::in_text, document::text;
  document::Document report = bench_document("perftest");
  report.sections.front().with({text("world", "where it was run"),
                                document::integer("messages_under_way", "", "in a stream"),
                                document::any("emu", "the emulated machines").or_absent()});
  document::Section latency{.key = "latency", .title = "Latency"};
  latency.with(series_fields("us"));
  document::Section streams{.title = "Bandwidth"};
  document::Table table{.key = "bandwidth", .meaning = "streams of messages", .columns = series_fields("B/s")};
  table.columns.insert(table.columns.end(), {in_text("size (B)", 10, ""), in_text("plugin", 14, "  "),
                                             in_text("perftest", 14, "  "), in_text("ratio", 6, "  ")});
  // One heading for both.
  latency.with(document::Table{.key = "", .meaning = "", .columns = {table.columns.end() - 4, table.columns.end()}});
  const nlohmann::json& one = result.at("latency");
  latency.set_all(one);
  latency.table("").add({std::to_string(one.at("size_bytes").get<std::uint64_t>()),
                         fmt::format("{:.1f} us", one.at("plugin_median").get<double>()),
                         fmt::format("{:.1f} x 2 us", one.at("perftest_median").get<double>()),
                         fmt::format("{:.3f}", one.at("ratio").get<double>())},
                        fmt::format("latency, wanted: at most {}", kLatencyWanted));
  latency.show("");
  for (const nlohmann::json& row : result.at("bandwidth")) {
    table.add_object(row,
                     {std::to_string(row.at("size_bytes").get<std::uint64_t>()),
                      fmt::format("{:.2f} MB/s", row.at("plugin_median").get<double>() / 1e6),
                      fmt::format("{:.2f} MB/s", row.at("perftest_median").get<double>() / 1e6),
                      fmt::format("{:.3f}", row.at("ratio").get<double>())},
                     fmt::format("bandwidth, wanted: at least {}", kBandwidthWanted));
  }
  streams.with(std::move(table));
  streams.show_rows("bandwidth");
  report.sections.push_back(std::move(latency));
  report.sections.push_back(std::move(streams));
  return report;
}

int repetitions_of(const PerftestOptions& options) {
  return static_cast<int>(parse_count("--repetitions", options.repetitions_text, 1, 1000));
}

/// null on failure, which is reported, and at rank 1.
int run_perftest_on_metal(const Scenario& scenario, const PerftestOptions& options, std::ostream& err,
                          nlohmann::json& result) {
  const MetalPlace place = metal_place(from_environment);
  const int repetitions = repetitions_of(options);
  MetalSession session(scenario, place, time_limit_of(options.run));
  nlohmann::json common = common_ground(scenario, built_files());
  common["--repetitions"] = repetitions;
  const std::vector<RankError> errors =
      session.run(common, [&](MetalHost& host) { return run_rounds(host, scenario, place, repetitions, result); });
  for (const RankError& error : errors) err << "meshbed: rank " << error.rank << ": " << error.text << "\n";
  if (!errors.empty()) return kExitBroken;
  if (place.rank == 0) conclude(result);
  return kExitOk;
}

int run_perftest_emulated(const Scenario& scenario, const PerftestOptions& options, std::ostream& err,
                          nlohmann::json& result) {
  std::vector<std::string> words{"bench",  "perftest",      std::filesystem::absolute(scenario.path).string(),
                                 "--json", "--repetitions", std::to_string(repetitions_of(options))};
  for (const std::string& each : metal_words(options.run)) words.push_back(each);
  const Emulation emulation =
      emulate(scenario, {.command = words,
                         .rank_bytes = 4 * kLargest,
                         .time_limit_s = time_limit_of(options.run),
                         .say = [&err](const std::string& line) { err << "meshbed: " << line << "\n"
                                                                      << std::flush; },
                         .collect = {}});
  for (const std::string& trouble : emulation.troubles) err << "meshbed: " << trouble << "\n";
  if (emulation.interrupted) return kExitInterrupted;
  if (emulation.exit_code != kExitOk) return emulation.exit_code;
  result = nlohmann::json::parse(emulation.report);
  result["emu"] = emulation.machines;
  return kExitOk;
}

void require_pair(const Scenario& scenario) {
  if (scenario.cluster.nodes.size() == 2 && ranks_of(scenario) == 2) return;
  throw std::runtime_error(fmt::format("bench perftest: {} has {} nodes and {} ranks; it needs a pair, one rank a node",
                                       scenario.path, scenario.cluster.nodes.size(), ranks_of(scenario)));
}

void require_perftest() {
  for (const char* program : {"ib_write_bw", "ib_write_lat"}) {
    if (!emu::find_program(program).empty()) continue;
    throw std::runtime_error(
        fmt::format("bench perftest: there is no {} in PATH; install the package perftest", program));
  }
}

}  // namespace

int bench_perftest_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  PerftestOptions options;
  std::string world = name_of(WorldKind::kEmulated);
  options.run.time_limit_text = "1200";
  Syntax syntax("bench perftest SCENARIO [options]");
  syntax.operands.add_options()  //
      ("scenario", po::value(&options.run.scenario_path)->required()->value_name("SCENARIO"), "two nodes on a cable");
  syntax.positions.add("scenario", 1);
  syntax.options.add_options()  //
      ("world", po::value(&world)->value_name("emu|metal")->default_value(world),
       "world to run in")                                                                                     //
      ("set", po::value(&options.run.overrides)->value_name("KEY=VALUE"), "override a key; may be repeated")  //
      ("repetitions", po::value(&options.repetitions_text)->value_name("N")->default_value("5"),
       "repetitions, alternating between plugin and perftest; medians are reported")  //
      ("time-limit", po::value(&options.run.time_limit_text)->value_name("SECONDS")->default_value("1200"),
       "give up after this time");
  options.output.describe(syntax.options);
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  require_choice("--world", "world", world, world_names(/*real_only=*/true));
  options.run.world = parse_world(world);
  const Scenario scenario = scenario_for(options.run);
  require_pair(scenario);
  require_perftest();

  nlohmann::json result;
  const int status = run_world(options.run.world).boots_nodes() ? run_perftest_emulated(scenario, options, err, result)
                                                                : run_perftest_on_metal(scenario, options, err, result);
  if (result.is_null()) return status;
  document::Document report = perftest_document(result);
  document::Section& section = report.sections.front();
  section.set("world", world);
  section.set("messages_under_way", NetLink::kDepth);
  if (result.contains("emu")) section.set("emu", result.at("emu"));
  report.sections.push_back(bench_provenance());
  options.output.finish(report, out);
  return status;
}

}  // namespace meshbed::testbed
