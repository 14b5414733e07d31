// The workload's time, bandwidth and data.

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "testbed/base/units.h"
#include "testbed/result/fault_phases.h"
#include "testbed/result/run_document.h"

namespace meshbed::testbed::document {
namespace {

double nanoseconds(Picoseconds time_ps) { return static_cast<double>(time_ps) / 1e3; }

/// XXH3-64.
std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::vector<std::string> hash_texts(const std::vector<std::uint64_t>& hashes) {
  std::vector<std::string> texts;
  for (const std::uint64_t hash : hashes) texts.push_back(hash_text(hash));
  return texts;
}

Section result_shape() {
  Section section{.title = "Result"};
  section.with(
      {number("time_ns", "ns", "of one iteration, on average; without iterations of the whole workload"),
       number("algbw_GBps", "GB/s", "bytes by time"),
       number("busbw_GBps", "GB/s", "that times the collective's factor, as nccl-tests defines it"),
       integer("wrong", "", "elements that are wrong; null if none were checked").or_null(),
       integer("checked", "", "elements"), integer("messages", "", "of the whole run"),
       integer("iterations", "", "timed"), integer("warmup_iterations", "", "before those"),
       number("bound_ns", "ns", "closed-form lower bound of the time on this cabling").or_null(),
       number("over_bound", "", "time over bound").or_null(), integer("connections", "", "that the workload made"),
       number("connect_ns", "ns", "in which calls waited for connections; null if not known").or_null(),
       integer("retransmissions", "", "of packets"), integer("management_bytes", "B", "over the management network"),
       texts("data", "of each rank, XXH3-64 of what it received, 16 hexadecimal digits")});
  section.with(
      Table{.key = "fault_phases",
            .meaning = "the iterations before, during and after the faults",
            .columns = {text("phase", "before, during or after"), integer("iterations", "", "in the phase"),
                        number("time_ns", "ns", "of one, on average"), number("algbw_GBps", "GB/s", "bytes by time"),
                        number("busbw_GBps", "GB/s", "that times the collective's factor")}});
  section.with(Table{.key = "cases",
                     .meaning = "the cases of a matrix",
                     .columns = {text("case", "collective, type, reduction, size and root"),
                                 integer("wrong", "", "elements"), integer("checked", "", "elements"),
                                 number("time_ns", "ns", "of the case"), texts("data", "as above, of each rank")},
                     .may_be_absent = true});
  return section;
}

/// A line for each collective; each case is a row of the table.
void fill_matrix(Section& section, const RunResult& result) {
  section.blank();
  section.line("{:<16} {:>8} {:>12} {:>8} {:>14}", "workload", "cases", "elements", "#wrong", "time (us)");
  MatrixOutcome all;
  std::map<std::string, std::pair<std::size_t, MatrixOutcome>> sums;
  const auto add = [](MatrixOutcome& sum, const MatrixOutcome& each) {
    sum.wrong += each.wrong;
    sum.checked += each.checked;
    sum.time_ps += each.time_ps;
  };
  const auto line = [&](const std::string& name, std::size_t cases, const MatrixOutcome& sum) {
    section.line("{:<16} {:>8} {:>12} {:>8} {:>14.3f}", name, cases, sum.checked, sum.wrong,
                 static_cast<double>(sum.time_ps) / 1e6);
  };
  for (const MatrixOutcome& each : result.matrix) {
    section.table("cases").add({each.text, each.wrong, each.checked, nanoseconds(each.time_ps), hash_texts(each.data)});
    auto& [cases, sum] = sums[each.collective];
    ++cases;
    add(sum, each);
    add(all, each);
  }
  for (const auto& [name, sum] : sums) line(name, sum.first, sum.second);
  line("matrix", result.matrix.size(), all);
  if (!result.first_wrong.empty()) section.line("first wrong element: {}", result.first_wrong);
}

void fill_result_lines(Section& section, const RunView& run) {
  const RunResult& result = run.result;
  const auto figures = [&](Picoseconds time_ps) {
    const double algbw_GBps = result.algbw_GBps(time_ps);
    return fmt::format("{:<16} {:>12} {:>12.3f} {:>9.3f} {:>9.3f}", result.workload, result.bytes,
                       static_cast<double>(time_ps) / 1e6, algbw_GBps, algbw_GBps * result.busbw_factor);
  };
  section.blank();
  section.line("{:<16} {:>12} {:>12} {:>9} {:>9} {:>8} {:>10}", "workload", "size (B)", "time (us)", "algbw", "busbw",
               "#wrong", "messages");
  for (const FaultPhase& phase : fault_phases(run.scenario, result)) {  // a mean over all is the time of none
    section.line("{}  {} the fault, {}", figures(phase.time_ps), phase.name,
                 counted(static_cast<std::uint64_t>(phase.iterations), "iteration"));
  }
  section.line("{} {:>8} {:>10}", figures(result.time_ps), result.wrong, result.messages.messages);
  if (!result.first_wrong.empty()) section.line("first wrong element: {}", result.first_wrong);
  if (result.connect_ps >= 0) {
    section.line("connecting took {}{}", duration_text(result.connect_ps),
                 result.warmup > 0 ? ", before what is timed" : ", within the first timed iteration");
  }
  if (result.warmup > 0) {
    section.line("messages, payload and wire bytes are of the whole run: {} warm-up and {}", result.warmup,
                 counted(static_cast<std::uint64_t>(result.iterations), "timed iteration"));
  }
}

void fill_result(Section& section, const RunView& run) {
  const RunResult& result = run.result;
  section.set("time_ns", nanoseconds(result.time_ps));
  section.set("algbw_GBps", result.algbw_GBps());
  section.set("busbw_GBps", result.busbw_GBps());
  section.set("wrong", known_value(result.checked > 0, result.wrong));
  section.set("checked", result.checked);
  section.set("messages", result.messages.messages);
  section.set("iterations", result.iterations);
  section.set("warmup_iterations", result.warmup);
  section.set("bound_ns", known_value(result.bound_ps > 0, nanoseconds(result.bound_ps)));
  section.set("over_bound", known_value(result.bound_ps > 0, result.over_bound()));
  section.set("connections", result.connections);
  section.set("connect_ns", known_value(result.connect_ps >= 0, nanoseconds(result.connect_ps)));
  section.set("retransmissions", result.simulation.verbs.retransmissions);
  section.set("management_bytes", result.simulation.host.management_bytes);
  section.set("data", hash_texts(result.data));
  for (const FaultPhase& phase : fault_phases(run.scenario, result)) {
    const double algbw_GBps = result.algbw_GBps(phase.time_ps);
    section.table("fault_phases")
        .add({phase.name, phase.iterations, nanoseconds(phase.time_ps), algbw_GBps, algbw_GBps * result.busbw_factor});
  }
  if (!result.matrix.empty()) return fill_matrix(section, result);
  if (result.simulation.ended_well()) fill_result_lines(section, run);
}

const RunSection result_here(400, result_shape, fill_result);

}  // namespace
}  // namespace meshbed::testbed::document
