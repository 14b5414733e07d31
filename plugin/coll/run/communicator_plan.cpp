// What an operation asks of its plan, by which algorithm and protocol it goes, and the record of how it went.
#include "plugin/coll/run/communicator.h"

namespace meshbed::coll {

PlanRequest Communicator::request_of(const Operation& operation) {
  const bool rooted = pattern_of(operation.collective) == CollectivePattern::kChain;
  const RootTrees* from_root = nullptr;
  if (rooted && !mesh_.trees.empty()) {
    const std::lock_guard<std::mutex> lock(choice_mutex_);
    auto found = root_trees_.find(operation.root);
    if (found == root_trees_.end()) {
      found = root_trees_.emplace(operation.root, root_trees(mesh_, operation.root)).first;
    }
    from_root = &found->second;
  }
  return {.collective = operation.collective,
          .rank = options_.rank,
          .ranks = options_.world,
          .root = operation.root,
          .to = operation.to,
          .from = operation.from,
          .count = operation.count,
          .receive_count = operation.receive_count,
          .element_bytes = size_of(operation.type),
          .partial_bytes = size_of(accumulator_of(operation.type)),
          .channels = options_.channels,
          .slice_bytes_max = options_.slice_bytes,
          .slots = options_.steps,
          .mesh = mesh_.trees.empty() ? nullptr : &mesh_,
          .root_trees = from_root,
          .torus = torus_.lengths.empty() ? nullptr : &torus_};
}

AlgorithmProtocol Communicator::way_of(const PlanRequest& request) {
  const std::lock_guard<std::mutex> lock(choice_mutex_);
  const ChoiceKey key{request.collective, request.root, request.count, request.element_bytes};
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second;
  // A program mostly repeats a few operations; one that does not must not fill the memory.
  constexpr std::size_t kChoicesMost = 256;
  if (choices_.size() >= kChoicesMost) choices_.clear();
  return choices_.emplace(key, choose_way(options_.way, request)).first->second;
}

const char* algorithm_name(const PlanRecord& record) {
  const CollectivePattern pattern = pattern_of(record.collective);
  const bool in_pairs = pattern == CollectivePattern::kPairs || pattern == CollectivePattern::kMessage;
  if (in_pairs && record.way.algorithm == Algorithm::kRing) return "pairs";
  return name_of(record.way.algorithm);
}

PlanRecord Communicator::plan_of(const Operation& operation) {
  return {operation.collective, way_of(request_of(operation)), options_.channels};
}

std::optional<PlanRecord> Communicator::last_plan() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_plan_;
}

void Communicator::note_plan(const PlanRecord& record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_plan_ = record;
}

Protocol Communicator::protocol_of(const Operation& operation) {
  const ProtocolChoice& wanted = options_.way.protocol;
  return wanted.automatic ? way_of(request_of(operation)).protocol : wanted.protocol;
}

}  // namespace meshbed::coll
