// What this rank has called: the numbers of its collective operations, which all ranks count alike, and its last calls,
// for the case that the ranks do not meet (call_ledger.h).
#include "plugin/coll/run/communicator.h"

namespace meshbed::coll {

void Communicator::turn_to(const Operation& operation) {
  const bool is_pair = operation.collective == Collective::kSendRecv;
  const CallSignature call = is_pair ? pairs_signature()
                                     : signature_of(++collectives_, operation.collective, operation.type, operation.op,
                                                    operation.root, operation.count);
  tag_ = is_pair ? kTagOfSender : tag_of(call);
  note_call(call);
}

void Communicator::turn_to_barrier() { note_call(barrier_signature(++collectives_)); }

void Communicator::note_call(const CallSignature& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Pairs have no number that another rank could compare: of these only the last one matters.
  if (!recent_calls_.empty() && recent_calls_.front().kind == CallSignature::Kind::kPairs) recent_calls_.pop_front();
  recent_calls_.push_front(call);
  if (recent_calls_.size() > kCallsReported) recent_calls_.pop_back();
}

std::vector<CallSignature> Communicator::recent_calls() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {recent_calls_.begin(), recent_calls_.end()};
}

}  // namespace meshbed::coll
