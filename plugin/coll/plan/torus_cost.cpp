#include "plugin/coll/plan/torus_cost.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "plugin/coll/plan/cable_load.h"
#include "plugin/coll/plan/mesh.h"
#include "plugin/coll/plan/schedule.h"
#include "plugin/coll/plan/schedule_torus.h"
#include "plugin/coll/plan/torus_shape.h"
#include "plugin/coll/plan/transfer_list.h"

namespace meshbed::coll {
namespace {

/// What one part's rings take, and what they put on each dimension's cables.
class PartCost {
 public:
  PartCost(const PlanRequest& request, const CostModel& model, double lined)
      : request_(request), torus_(*request.torus), model_(model) {
    const double element_bytes = static_cast<double>(request.element_bytes) * lined;
    bytes_ = static_cast<double>(request.count) * element_bytes * (has_blocks(request) ? request.ranks : 1);
    block_bytes_ = static_cast<double>(request.count) * element_bytes;
    slice_bytes_ =
        static_cast<double>(scheduled_slice_count(Algorithm::kTorus, request)) * element_bytes * request.channels;
  }

  double bytes() const { return bytes_; }

  /// What a part does in one dimension: chunks of so many bytes, slice by slice.
  struct Step {
    int dimension = 0, length = 0;
    double chunk_ns = 0, slice_ns = 0;
  };
  std::vector<Step> steps_of(int part) const {
    std::vector<Step> steps;
    double left = bytes_ * torus_.portion(part);
    for (int number = 0; number < torus_.dimensions(); ++number) {
      const int dimension = torus_.dimension(part, number),
                length = torus_.lengths[static_cast<std::size_t>(dimension)];
      left /= length;
      const double piece =
          has_blocks(request_) ? std::min(left, block_bytes_ * torus_.portion(part)) : left / torus_pieces(request_);
      const double slice = std::min(piece, slice_bytes_), rate = ns_per_byte(dimension, slice / request_.channels);
      steps.push_back({.dimension = dimension, .length = length, .chunk_ns = left * rate, .slice_ns = slice * rate});
    }
    return steps;
  }

  double latency_ns() const {
    double steps = 0;
    for (const int length : torus_.lengths) steps += length - 1;
    return steps * model_.message_ns;
  }

  /// By how much cables of rings that differ in length are idle at one time and wanted by two parts at another: the
  /// smaller the pieces that take turns, the more (2 x 8 ranks, an all_reduce of 1 MiB: 82.1 us instead of 60.3; of 16
  /// MiB 931 instead of 905).
  double held_up() const {
    constexpr double kMost = 0.56, kPieceBytes = 32768;
    const std::vector<int>& lengths = torus_.lengths;
    const bool are_alike =
        std::all_of(lengths.begin(), lengths.end(), [&](int each) { return each == lengths.front(); });
    if (are_alike || !torus_.by_cables || has_blocks(request_)) return 0;
    const double rails =
        std::max(1.0, *std::max_element(torus_.mbps.begin(), torus_.mbps.end()) / link_mbps_of(model_));
    const double piece_bytes = static_cast<double>(torus_chunk(request_)) / torus_pieces(request_) *
                               static_cast<double>(request_.element_bytes);
    const double part = std::min(1.0, kPieceBytes * rails / std::max(piece_bytes, 1.0));
    return kMost * part * part;
  }

  /// Steps one after the other: within a ring the next one begins when the first slice has come, behind the last one
  /// when all of the chunk has.
  double path_ns(const std::vector<Step>& steps) const {
    const double message_ns = model_.message_ns * (torus_.by_cables ? 1 : std::max(model_.hops, 1.0));
    double ns = 0;
    for (const Step& each : steps) {
      ns += (each.length - 2) * std::max(each.chunk_ns, message_ns + each.slice_ns) + message_ns + each.chunk_ns;
    }
    return ns;
  }

 private:
  /// Short messages go over one of several parallel cables.
  double ns_per_byte(int dimension, double message_bytes) const {
    if (!torus_.by_cables) return 8 / model_.gigabits_per_s * std::max(model_.hops, 1.0);
    const double mbps = torus_.mbps[static_cast<std::size_t>(dimension)];
    return kNsPerByteAtOneMbps / (message_bytes < kStripedFromBytes ? std::min(mbps, link_mbps_of(model_)) : mbps);
  }

  const PlanRequest& request_;
  const TorusShape& torus_;
  const CostModel& model_;
  double bytes_ = 0, block_bytes_ = 0, slice_bytes_ = 0;
};

}  // namespace

double torus_ns(const PlanRequest& request, const CostModel& model, double lined) {
  const TorusShape& torus = *request.torus;
  if (request.mesh != nullptr && !torus.by_cables) return std::numeric_limits<double>::infinity();
  const PartCost cost(request, model, lined);
  const double halves = request.collective == Collective::kAllReduce ? 2 : 1;
  double longest_ns = 0;
  std::vector<double> up_ns(torus.lengths.size()), down_ns(torus.lengths.size());
  for (int part = 0; part < torus.parts(); ++part) {
    const std::vector<PartCost::Step> steps = cost.steps_of(part);
    longest_ns = std::max(longest_ns, cost.path_ns(steps));
    for (const PartCost::Step& each : steps) {
      const auto dimension = static_cast<std::size_t>(each.dimension);
      const bool is_up = torus.is_up(part) || each.length == 2;
      (is_up ? up_ns : down_ns)[dimension] += (each.length - 1) * each.chunk_ns;
    }
  }
  double busiest_ns =
      std::max(*std::max_element(up_ns.begin(), up_ns.end()), *std::max_element(down_ns.begin(), down_ns.end()));
  if (request.mesh != nullptr) {
    for (const int mbps : request.mesh->rank_mbps) {
      if (mbps == 0) continue;
      const double n = request.ranks;
      busiest_ns = std::max(busiest_ns, (n - 1) / n * cost.bytes() * kNsPerByteAtOneMbps / mbps);
    }
  }
  const double ns = std::max(longest_ns, busiest_ns + model.message_ns);
  return halves * (ns + std::max(ns - cost.latency_ns(), 0.0) * cost.held_up());
}

}  // namespace meshbed::coll
