#include "testbed/workload/operations.h"

#include <algorithm>
#include <utility>

namespace meshbed::testbed {
namespace {

bool same_pairs(const Carried& one, const Carried& other) {
  return one.size() == other.size() &&
         std::equal(one.begin(), one.end(), other.begin(),
                    [](const auto& left, const auto& right) { return left.first == right.first; });
}

}  // namespace

void OperationLog::begin(RankHost& host, const OperationName& operation, int iteration) {
  if (begun_++ > 0) return;
  ended_ = 0;
  open_ = {.operation = operation, .first = iteration, .count = 1, .plan = {}, .failed = false, .paths = {}};
  (void)host.take_carried();  // what came between the operations
}

void OperationLog::end(RankHost& host, const Engine& engine, bool ended_well) {
  if (const Result<EnginePlan> plan = engine.last_plan(); plan && plan->channels >= open_.plan.channels) {
    open_.plan = *plan;
  }
  open_.failed = open_.failed || !ended_well;
  if (++ended_ < ranks_ && ended_well) return;
  // After a failure the other ranks may never come here.
  if (auto carried = host.take_carried()) open_.paths = std::move(*carried);
  if (begun_ > 0) add(std::move(open_));
  begun_ = 0;
}

void OperationLog::add(OperationRecord record) {
  if (!records_.empty()) {
    OperationRecord& last = records_.back();
    const bool goes_on = last.operation == record.operation && last.plan == record.plan && !last.failed &&
                         !record.failed && last.first + last.count == record.first &&
                         same_pairs(last.paths, record.paths);
    if (goes_on) {
      ++last.count;
      for (const auto& [key, usage] : record.paths) {
        sim::PairUsage& sum = last.paths[key];
        sum.messages += usage.messages;
        sum.payload_bytes += usage.payload_bytes;
        sum.wire_bytes += usage.wire_bytes;
      }
      return;
    }
  }
  records_.push_back(std::move(record));
}

}  // namespace meshbed::testbed
