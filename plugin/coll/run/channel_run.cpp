#include "plugin/coll/run/channel_run.h"

#include <algorithm>
#include <cstring>

#include "plugin/base/check.h"
#include "plugin/base/counted.h"
#include "plugin/coll/run/gpu_sums.h"
#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::coll {
namespace {

// Copied per pass, so that a large copy does not keep the network waiting.
constexpr std::uint64_t kCopyBytes = 1U << 20U;

}  // namespace

bool ChannelRun::copy_some(const LocalCopy& copy, std::uint64_t element_bytes, const char* input, char* output) {
  if (copied(copy, element_bytes)) return false;
  const std::uint64_t size_bytes = copy.count * element_bytes;
  const char* from = input + copy.input_offset * element_bytes;
  char* to = output + copy.output_offset * element_bytes;
  if (from == to) {  // in place
    copied_bytes_ = size_bytes;
    return true;
  }
  const std::uint64_t bytes = std::min(kCopyBytes, size_bytes - copied_bytes_);
  std::memcpy(to + copied_bytes_, from + copied_bytes_, bytes);
  copied_bytes_ += bytes;
  counters_.copied_bytes += bytes;
  return true;
}

bool ChannelRun::fail_sum(const Error& error) {
  failure_ = {error.code, error.scope, "a sum on the GPU: " + error.text};
  return false;
}

bool ChannelRun::fail(const char* what, int peer, int channel, std::uint64_t slice, const std::string& why) {
  failed_peer_ = peer;
  failure_ = {ErrorCode::kRemote, Scope::kQueuePair,
              std::string(what) + " rank " + std::to_string(peer) + ", channel " + std::to_string(channel) +
                  ", slice " + std::to_string(slice) + ": " + why};
  return false;
}

std::string ChannelRun::wrong_size(std::uint64_t arrived_bytes, std::uint64_t due_bytes) {
  return counted(arrived_bytes, "byte") + " arrived where " + std::to_string(due_bytes) +
         " are due; do both ranks call the same operation with the same counts?";
}

std::string ChannelRun::slices_of(std::uint64_t done, std::uint64_t posted) {
  return " (" + std::to_string(done) + " slices done, " + std::to_string(posted) + " posted)";
}

PlanRun::PlanRun(Messages* net, const Plan& plan, const ChannelMemory& memory)
    : net_(net),
      plan_(plan),
      memory_(memory),
      window_(static_cast<std::uint64_t>(plan.request.slots)),
      warns_before_(warn_count()),
      send_tag_(memory.tag != kTagOfSender ? memory.tag : plan.request.rank),
      recv_tag_(memory.tag != kTagOfSender ? memory.tag : plan.recv_peer) {
  MESHBED_CHECK(window_ >= 1 && window_ <= kWindowMax);
  if (plan_.send_steps > 0) send_ = send_step(plan_, 0);
  if (plan_.recv_steps > 0) recv_ = recv_step(plan_, 0);
  // An empty first step has no slice.
  if (plan_.send_steps > 0 && send_.count == 0) next_send_step();
  if (plan_.recv_steps > 0 && recv_.count == 0) next_recv_step();
}

Result<bool> PlanRun::advance() {
  bool moved = complete_receives();
  if (!failure_) moved |= post_receives();
  if (!failure_) moved |= complete_sends();
  if (!failure_) moved |= post_sends();
  if (failure_) return *failure_;
  return copy_some(plan_.copy, plan_.request.element_bytes, memory_.input, memory_.output) || moved;
}

void PlanRun::next_send_step() {
  send_offset_ = 0;
  while (++send_index_ < plan_.send_steps) {
    send_ = send_step(plan_, send_index_);
    if (send_.count > 0) return;
  }
}

void PlanRun::next_recv_step() {
  recv_offset_ = 0;
  while (++recv_index_ < plan_.recv_steps) {
    recv_ = recv_step(plan_, recv_index_);
    if (recv_.count > 0) return;
  }
}

/// Whether the receive with that number has ended; false as well where it has failed.
[[gnu::always_inline]] inline bool PlanRun::has_arrived(const PendingReceive& receive, std::uint64_t number) {
  if (receive.slice.arrival == Arrival::kStoreBehindSend && !sent_beyond(receive.slice)) return false;
  bool done = false;
  std::uint64_t size_bytes = 0;
  const int code = net_->test(receive.request, &done, &size_bytes);
  if (code != nccl::kNcclSuccess) {
    return fail("receive from", plan_.recv_peer, plan_.request.channel, number, explain_net_error(code, warns_before_));
  }
  if (!done) return false;
  if (size_bytes != receive.size_bytes) {
    return fail("receive from", plan_.recv_peer, plan_.request.channel, number,
                wrong_size(size_bytes, receive.size_bytes));
  }
  return true;
}

[[gnu::always_inline]] inline void PlanRun::finish_receive() {
  const PendingReceive& oldest = pending_receives_[receives_done_ % window_];
  digest(oldest);
  ++receives_done_;
  ++counters_.messages_received;
  counters_.bytes_received += oldest.size_bytes;
}

bool PlanRun::complete_receives() {
  if (memory_.sums != nullptr) return complete_summed();
  bool moved = false;
  while (receives_done_ < receives_posted_) {
    const PendingReceive& oldest = pending_receives_[receives_done_ % window_];
    if (!has_arrived(oldest, receives_done_)) break;
    if (reduces(oldest.slice)) reduce(oldest);
    finish_receive();
    moved = true;
  }
  return moved;
}

/// Where the GPU reduces: as many receives are with it as have arrived.
bool PlanRun::complete_summed() {
  bool moved = false;
  for (; receives_begun_ < receives_posted_; ++receives_begun_, moved = true) {
    PendingReceive& oldest = pending_receives_[receives_begun_ % window_];
    if (!has_arrived(oldest, receives_begun_) || !begin_sum(oldest)) break;
  }
  for (; receives_done_ < receives_begun_ && !failure_; moved = true) {
    const auto ended = memory_.sums->has_ended(pending_receives_[receives_done_ % window_].sum);
    if (!ended) return fail_sum(ended.error());
    if (!*ended) break;
    finish_receive();
  }
  return moved;
}

// send_recv sends one contiguous part, in order: what has been sent is a length.
bool PlanRun::sent_beyond(const RecvStep& slice) const {
  if (sends_finished()) return true;
  return plan_.part_begin * plan_.request.element_bytes + counters_.bytes_sent >=
         (slice.output_offset + slice.count) * plan_.request.element_bytes;
}

/// What has been reduced, or needs no reduction.
void PlanRun::digest(const PendingReceive& receive) {
  const RecvStep& slice = receive.slice;
  const bool keeps_slot = slice.arrival == Arrival::kReduceInSlot;
  if (slice.arrival == Arrival::kStoreBehindSend && memory_.staging != nullptr) {
    std::memcpy(memory_.output + slice.output_offset * plan_.request.element_bytes, receive.data, receive.size_bytes);
    counters_.copied_bytes += receive.size_bytes;
  } else if (reduces(slice) && !keeps_slot) {
    counters_.copied_bytes += slice.count * plan_.request.element_bytes;
  }
  if (receive.slot >= 0 && !keeps_slot) slots_busy_ &= ~(1U << static_cast<unsigned>(receive.slot));
  if (!slice.forward) return;
  if (keeps_slot) partial_slots_[partials_ready_++ % window_] = receive.slot;
  ++forwards_ready_;
}

void PlanRun::reduce(const PendingReceive& receive) const {
  const RecvStep& slice = receive.slice;
  const ReduceKernels& kernels = memory_.kernels;
  const ReduceFunction kernel = slice.form == Form::kFirst     ? kernels.first
                                : slice.form == Form::kBetween ? kernels.between
                                : slice.form == Form::kLast    ? kernels.last
                                                               : kernels.only;
  kernel(result_of(receive), receive.data, own_of(slice), slice.count, static_cast<std::uint32_t>(plan_.request.ranks));
}

bool PlanRun::begin_sum(PendingReceive& receive) {
  const RecvStep& slice = receive.slice;
  receive.sum = 0;
  if (!reduces(slice)) return true;
  const ReduceForm form = slice.form == Form::kFirst     ? ReduceForm::kFirst
                          : slice.form == Form::kBetween ? ReduceForm::kBetween
                          : slice.form == Form::kLast    ? ReduceForm::kLast
                                                         : ReduceForm::kOnly;
  const auto begun = memory_.sums->begin({.form = form,
                                          .result = result_of(receive),
                                          .arrived = receive.data,
                                          .own = own_of(slice),
                                          .count = slice.count,
                                          .ranks = static_cast<std::uint32_t>(plan_.request.ranks)});
  if (!begun) return fail_sum(begun.error());
  receive.sum = *begun;
  return true;
}

char* PlanRun::result_of(const PendingReceive& receive) const {
  const RecvStep& slice = receive.slice;
  return slice.arrival == Arrival::kReduceInSlot ? slot_data(receive.slot)
                                                 : memory_.output + slice.output_offset * plan_.request.element_bytes;
}

const char* PlanRun::own_of(const RecvStep& slice) const {
  return memory_.own + slice.input_offset * plan_.request.element_bytes;
}

char* PlanRun::slot_data(int slot) const {
  return memory_.staging + static_cast<std::uint64_t>(slot) * memory_.slot_bytes;
}

char* PlanRun::landing_of(const PendingReceive& receive) const {
  const RecvStep& slice = receive.slice;
  if (receive.slot < 0) return memory_.output + slice.output_offset * plan_.request.element_bytes;
  const bool widens = slice.arrival == Arrival::kReduceInSlot && slice.form == Form::kFirst;
  return slot_data(receive.slot) + (widens ? plan_.widened_from_bytes : 0);
}

bool PlanRun::post_receives() {
  bool moved = false;
  while (recv_index_ < plan_.recv_steps && receives_posted_ - receives_done_ < window_) {
    PendingReceive& next = pending_receives_[receives_posted_ % window_];
    next.slice = recv_;
    next.slice.count = std::min(recv_.count - recv_offset_, plan_.recv_slice_count);
    next.slice.output_offset += recv_offset_;
    next.slice.input_offset += recv_offset_;
    next.size_bytes = next.slice.count * wire_bytes_of(plan_.request, recv_);
    const bool staged = recv_.arrival != Arrival::kStore;
    next.slot = staged ? static_cast<int>(slots_posted_ % window_) : -1;
    if (staged && (slots_busy_ >> static_cast<unsigned>(next.slot) & 1U) != 0) break;
    next.data = landing_of(next);
    next.request = nullptr;
    const int code = net_->receive(memory_.recv_comm, next.data, next.size_bytes, recv_tag_,
                                   staged ? memory_.staging_handle : memory_.output_handle, &next.request);
    if (code != nccl::kNcclSuccess) {
      return fail("receive from", plan_.recv_peer, plan_.request.channel, receives_posted_,
                  explain_net_error(code, warns_before_));
    }
    if (next.request == nullptr) break;
    if (staged) {
      slots_busy_ |= 1U << static_cast<unsigned>(next.slot);
      ++slots_posted_;
    }
    ++receives_posted_;
    recv_offset_ += next.slice.count;
    if (recv_offset_ == recv_.count) next_recv_step();
    moved = true;
  }
  return moved;
}

bool PlanRun::complete_sends() {
  bool moved = false;
  while (sends_done_ < sends_posted_) {
    const PendingSend& oldest = pending_sends_[sends_done_ % window_];
    bool done = false;
    std::uint64_t size_bytes = 0;
    const int code = net_->test(oldest.request, &done, &size_bytes);
    if (code != nccl::kNcclSuccess) {
      return fail("send to", plan_.send_peer, plan_.request.channel, sends_done_,
                  explain_net_error(code, warns_before_));
    }
    if (!done) break;
    if (oldest.slot >= 0) slots_busy_ &= ~(1U << static_cast<unsigned>(oldest.slot));
    ++sends_done_;
    ++counters_.messages_sent;
    counters_.bytes_sent += oldest.size_bytes;
    moved = true;
  }
  return moved;
}

bool PlanRun::post_sends() {
  bool moved = false;
  while (send_index_ < plan_.send_steps && sends_posted_ - sends_done_ < window_) {
    if (send_.forwarded && forwards_posted_ == forwards_ready_) break;
    PendingSend& next = pending_sends_[sends_posted_ % window_];
    const std::uint64_t count = std::min(send_.count - send_offset_, plan_.slice_count);
    next.size_bytes = count * wire_bytes_of(plan_.request, send_);
    next.slot = send_.source == Source::kPartial ? partial_slots_[partials_posted_ % window_] : -1;
    const std::uint64_t offset_bytes = (send_.offset + send_offset_) * plan_.request.element_bytes;
    // The table takes void*; a send only reads.
    char* data = send_.source == Source::kInput    ? const_cast<char*>(memory_.input) + offset_bytes
                 : send_.source == Source::kOutput ? memory_.output + offset_bytes
                                                   : slot_data(next.slot);
    next.request = nullptr;
    const int code = net_->send(memory_.send_comm, data, next.size_bytes, send_tag_,
                                memory_.send_handles[static_cast<std::size_t>(send_.source)], &next.request);
    if (code != nccl::kNcclSuccess) {
      return fail("send to", plan_.send_peer, plan_.request.channel, sends_posted_,
                  explain_net_error(code, warns_before_));
    }
    if (next.request == nullptr) break;
    if (send_.forwarded) ++forwards_posted_;
    if (next.slot >= 0) ++partials_posted_;
    ++sends_posted_;
    send_offset_ += count;
    if (send_offset_ == send_.count) next_send_step();
    moved = true;
  }
  return moved;
}

std::string PlanRun::waiting_for() const {
  std::string text = "channel " + std::to_string(plan_.request.channel) + ":";
  if (!receives_finished()) {
    text += " receive from rank " + std::to_string(plan_.recv_peer) + slices_of(receives_done_, receives_posted_);
  }
  if (!sends_finished()) {
    text += receives_finished() ? "" : ",";
    text += " send to rank " + std::to_string(plan_.send_peer) + slices_of(sends_done_, sends_posted_);
  }
  return text;
}

}  // namespace meshbed::coll
