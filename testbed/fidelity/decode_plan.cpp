#include "testbed/fidelity/decode_plan.h"

#include <algorithm>
#include <cmath>

#include "models/time/collective_time.h"
#include "models/time/concurrent_time.h"
#include "models/time/expert_time.h"
#include "testbed/fidelity/nearest_expert.h"

namespace meshbed::testbed {
namespace {

constexpr double kElementBytes = 2;

double call_us(const models::Machine& machine, models::Collective collective, int ranks, double bytes) {
  models::CollectiveCall call{.collective = collective, .ranks = ranks};
  call.nodes = models::nodes_of(machine, ranks);
  call.bytes = static_cast<std::uint64_t>(std::max(1.0, bytes));
  if (models::is_one_shot(machine)) call.algorithm = models::CollectiveAlgorithm::kDirect;
  return models::collective_us(machine, call);
}

}  // namespace

DecodeTime decode_time(const DecodePlan& plan, const models::Machine& machine,
                       const std::vector<models::Machine>& profiles, const DecodeShares& shares) {
  DecodeTime time;
  const double weights = std::min(plan.weights_us, plan.compute_us), rest = plan.compute_us - weights;
  const double ranks = std::max(plan.tensor, plan.expert);
  const auto split = [&](double whole, double repeated) { return whole * (repeated + (1 - repeated) / ranks); };
  time.compute_us = split(weights, shares.weights_repeated) + split(rest, shares.rest_repeated);
  const double token_bytes = plan.hidden * kElementBytes, bytes = plan.batch * token_bytes;
  if (plan.tensor > 1) {
    const double calls = plan.layers * (plan.calls_per_layer - (plan.expert > 1 ? 1.0 : 0.0));
    time.reduces_us = calls * call_us(machine, models::Collective::kAllReduce, plan.tensor, bytes);
  }
  if (plan.pipeline > 1) {
    time.pipeline_us = (plan.pipeline - 1) * call_us(machine, models::Collective::kSendRecv, 2, bytes) +
                       call_us(machine, models::Collective::kSendRecv, 2, 8 * plan.batch);
  }
  if (plan.expert > 1) {
    const models::Machine expert = as_expert(machine, profiles);
    models::ExpertCall call{.combine = false, .ranks = plan.expert};
    call.nodes = models::nodes_of(expert, plan.expert);
    call.tokens = std::max(1.0, plan.batch / plan.expert);
    call.token_bytes = token_bytes;
    call.top_k = plan.top_k;
    call.experts = std::max(plan.experts, plan.expert);
    double both = models::expert_time(expert, call).us;
    call.combine = true;
    both += models::expert_time(expert, call).us;
    time.experts_us = plan.layers * both;
  }
  time.exposed_us = models::exposed_us(time.communication_us(),
                                       {.compute_us = time.compute_us, .share = plan.overlap, .held = plan.held});
  return time;
}

double weights_us(double total_b, double active_b, double bits, double batch, double memory_bytes_per_second) {
  constexpr double kBillion = 1e9, kBitsPerByte = 8, kUsPerSecond = 1e6;
  if (memory_bytes_per_second <= 0 || bits <= 0) return 0;
  const double active = active_b > 0 ? active_b : total_b, total = std::max(total_b, active);
  // Each further token reaches the same share of the experts that no other token has reached.
  const double read = active >= total ? total : total * (1 - std::pow(1 - active / total, std::max(1.0, batch)));
  return read * kBillion * bits / kBitsPerByte / memory_bytes_per_second * kUsPerSecond;
}

}  // namespace meshbed::testbed
