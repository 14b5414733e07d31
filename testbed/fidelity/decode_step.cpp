#include "testbed/fidelity/decode_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/time/concurrent_time.h"

namespace meshbed::testbed {
namespace {

constexpr double kUsPerMs = 1e3;

struct Kind {
  const char *software, *profile;
  bool is_direct;
};
constexpr Kind kSoftware[] = {{"NCCL, eager", "spark-ring-nccl-eager", false},
                              {"NCCL, CUDA graph", "spark-ring-nccl-graph", false},
                              {"one-shot, host proxy, CUDA graph", "spark-ring-oneshot", true},
                              {"persistent kernels (libsircl)", "spark-ring-sircl", false}};

/// "37 to 46 %": of a token that computes for so long besides.
std::string share_text(const DecodeStep& step, const DecodeRow& row, double computing_ms) {
  const models::Overlap overlap{.compute_us = computing_ms * kUsPerMs, .share = step.overlap, .held = row.held};
  const auto share = [&](double step_ms) {
    const double exposed_ms = models::exposed_us(step_ms * kUsPerMs, overlap) / kUsPerMs;
    return 100 * exposed_ms / (exposed_ms + computing_ms);
  };
  const double step_ms = row.step_us / kUsPerMs;
  return fmt::format("{:.0f} % ({:.0f} to {:.0f})", share(step_ms), share(step_ms * row.interval.low_us / row.call_us),
                     share(step_ms * row.interval.high_us / row.call_us));
}

}  // namespace

std::vector<DecodeRow> decode_rows(const DecodeStep& step, const std::vector<models::Machine>& machines) {
  std::vector<DecodeRow> rows;
  for (const Kind& kind : kSoftware) {
    const auto machine = std::find_if(machines.begin(), machines.end(),
                                      [&](const models::Machine& each) { return each.name == kind.profile; });
    if (machine == machines.end()) continue;
    models::CollectiveCall call{
        .collective = models::Collective::kAllReduce, .ranks = step.ranks, .nodes = step.ranks, .bytes = step.bytes};
    if (kind.is_direct) call.algorithm = models::CollectiveAlgorithm::kDirect;
    const double us = models::collective_us(*machine, call);
    rows.push_back({.software = kind.software,
                    .profile = kind.profile,
                    .call_us = us,
                    .step_us = us * step.layers * step.calls_per_layer,
                    .held = std::min(1.0, models::held_sms(*machine, call).expected / step.gpu_sms),
                    .interval = models::interval_of(*machine, call, us)});
  }
  return rows;
}

std::string decode_table(const DecodeStep& step, const std::vector<models::Machine>& machines) {
  constexpr double kShortMs = 20, kLongMs = 40;
  std::string text =
      "| software | profile | one call | a step | share beside 20 ms | beside 40 ms | basis of the interval |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const DecodeRow& row : decode_rows(step, machines)) {
    const double step_ms = row.step_us / kUsPerMs;
    text += fmt::format("| {} | `{}` | {:.1f} us | {:.2f} ms ({:.2f} to {:.2f}) | {} | {} | {} |\n", row.software,
                        row.profile, row.call_us, step_ms, step_ms * row.interval.low_us / row.call_us,
                        step_ms * row.interval.high_us / row.call_us, share_text(step, row, kShortMs),
                        share_text(step, row, kLongMs), models::basis_text(row.interval));
  }
  return text;
}

}  // namespace meshbed::testbed
