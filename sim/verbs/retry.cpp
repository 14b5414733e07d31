// Retries: the local acknowledgement timer, go-back-N, and waiting for a receiver that was not ready.
//
// The timer belongs to the oldest unfinished request and runs from when its last bit left, or from the last progress.
// Its event is lazy: it is queued once, and looks again at the deadline of that moment.

#include "sim/verbs/system.h"

namespace meshbed::sim::verbs {
namespace {

constexpr std::uint8_t kRnrRetryForever = 7;  // ibv_modify_qp(3), rnr_retry: 7 is infinite; retry_cnt 7 is seven

void timer_due(void*, std::uint64_t number);

void queue_timer_event(System& system, QueuePair& qp) {
  if (qp.timer_event_ps >= 0 && qp.timer_event_ps <= qp.timer_ps) return;
  qp.timer_event_ps = qp.timer_ps;
  system.world.at(qp.timer_ps, qp.context->port.node, timer_due, nullptr, qp.number);
}

void timer_due(void*, std::uint64_t number) {
  System& owner = system();
  QueuePair* qp = owner.queue_pairs.find(static_cast<std::uint32_t>(number));
  if (qp == nullptr) return;
  if (qp->timer_event_ps <= owner.world.now()) qp->timer_event_ps = -1;  // earlier: the node stood still
  if (qp->timer_ps < 0) return;
  if (qp->timer_ps > owner.world.now()) return queue_timer_event(owner, *qp);
  qp->timer_ps = -1;
  // A response that is coming in restarts the timer with every packet (specification, 9.7.6.1.3). None comes from a
  // node that stands still.
  if (qp->send.front().responding && !owner.world.stopped(qp->route.peer.node)) return restart_timer(owner, *qp);
  retry(owner, *qp);
}

/// Sends again from the oldest unfinished request on. What is answered, or being answered, need not be.
void go_back(QueuePair& qp) {
  qp.timer_ps = -1;
  ++qp.round;
  for (std::uint64_t sequence = qp.send.begin(); sequence < qp.next; ++sequence) {
    SendEntry& entry = qp.send[sequence];
    if (entry.done || entry.responding) continue;
    entry.sent = false;
    uncount(qp, entry);
  }
  qp.next = qp.send.begin();
}

void receiver_wait_over(void*, std::uint64_t number) {
  System& owner = system();
  QueuePair* qp = owner.queue_pairs.find(static_cast<std::uint32_t>(number));
  if (qp == nullptr || qp->rnr_until_ps < 0 || qp->rnr_until_ps > owner.world.now()) return;  // reset meanwhile
  qp->rnr_until_ps = -1;
  pump(owner, *qp);
}

}  // namespace

void restart_timer(System& system, QueuePair& qp) {
  qp.timer_ps = -1;
  const Picoseconds timeout = ack_timeout_ps(qp.attr.timeout);
  if (timeout < 0 || qp.state != IBV_QPS_RTS || qp.rnr_until_ps >= 0) return;
  if (qp.send.empty() || !qp.send.front().sent) return;
  qp.timer_ps = system.world.now() + timeout;
  queue_timer_event(system, qp);
}

void ensure_timer(System& system, QueuePair& qp) {
  if (qp.timer_ps < 0) restart_timer(system, qp);
}

void retry(System& system, QueuePair& qp) {
  if (qp.state != IBV_QPS_RTS || qp.send.empty()) return;
  if (qp.retries_left == 0) return fail_request(system, qp, qp.send.begin(), IBV_WC_RETRY_EXC_ERR);
  --qp.retries_left;
  go_back(qp);
  pump(system, qp);
  ensure_timer(system, qp);  // where the oldest is being answered, nothing was sent
}

void wait_for_receiver(System& system, QueuePair& qp, std::uint64_t sequence, std::uint8_t timer_code) {
  ++system.counters.rnr_naks;
  if (qp.attr.rnr_retry != kRnrRetryForever) {
    if (qp.rnr_retries_left == 0) return fail_request(system, qp, sequence, IBV_WC_RNR_RETRY_EXC_ERR);
    --qp.rnr_retries_left;
  }
  go_back(qp);
  qp.rnr_until_ps = system.world.now() + rnr_timer_ps(timer_code);
  system.world.at(qp.rnr_until_ps, qp.context->port.node, receiver_wait_over, nullptr, qp.number);
}

}  // namespace meshbed::sim::verbs
