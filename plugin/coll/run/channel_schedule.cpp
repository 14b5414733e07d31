#include "plugin/coll/run/channel_schedule.h"

#include <algorithm>
#include <utility>

#include "plugin/base/check.h"
#include "plugin/coll/run/gpu_sums.h"
#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::coll {

std::vector<StreamMemory> streams_of(const Schedule& schedule) {
  std::vector<StreamMemory> streams;
  for (const Transfer& transfer : schedule.transfers) {
    if (std::none_of(streams.begin(), streams.end(),
                     [&](const StreamMemory& stream) { return goes_over(transfer, stream); })) {
      streams.push_back({.peer = transfer.peer, .way = transfer.way, .receives = transfer.receives});
    }
  }
  return streams;
}

ChannelSchedule::ChannelSchedule(Messages* net, Schedule schedule, ScheduleMemory memory)
    : net_(net),
      schedule_(std::move(schedule)),
      memory_(std::move(memory)),
      window_(static_cast<std::uint64_t>(schedule_.request.slots)),
      warns_before_(warn_count()) {
  for (const StreamMemory& stream : memory_.streams) {
    streams_.push_back({.memory = stream, .pending = std::vector<Pending>(window_)});
  }
  digested_.resize(schedule_.transfers.size());
  begin_round();
}

void ChannelSchedule::begin_round() {
  MESHBED_CHECK(digested_.size() == schedule_.transfers.size());
  earlier_.find(schedule_.transfers);
  for (std::size_t index = 0; index < digested_.size(); ++index) {
    digested_[index] = schedule_.transfers[index].range.begin;
  }
  for (Stream& stream : streams_) {
    stream.transfer = 0;
    find_transfer(stream);
  }
}

void ChannelSchedule::find_transfer(Stream& stream) const {
  stream.offset = 0;
  for (; stream.transfer < schedule_.transfers.size(); ++stream.transfer) {
    const Transfer& transfer = schedule_.transfers[stream.transfer];
    if (transfer.range.count > 0 && goes_over(transfer, stream.memory)) return;
  }
}

Result<bool> ChannelSchedule::advance() {
  bool moved = false;
  for (Stream& stream : streams_) {
    if (!failure_) moved |= complete(stream);
    if (!failure_) moved |= post(stream);
  }
  if (failure_) return *failure_;
  moved |= copy_some(schedule_.copy, schedule_.request.element_bytes, memory_.input, memory_.output);
  if (last_round_ended_ || unfinished() != nullptr) return moved;
  last_round_ended_ = !next_round(schedule_);
  if (!last_round_ended_) begin_round();
  return true;
}

bool ChannelSchedule::finished() const {
  return last_round_ended_ && copied(schedule_.copy, schedule_.request.element_bytes);
}

const ChannelSchedule::Stream* ChannelSchedule::unfinished() const {
  const Stream* found = nullptr;  // receives first: a send waits for the peer to want it
  for (const Stream& stream : streams_) {
    if (finished(stream)) continue;
    if (stream.memory.receives) return &stream;
    if (found == nullptr) found = &stream;
  }
  return found;
}

bool ChannelSchedule::may_touch(std::size_t transfer, const Range& slice) const {
  return earlier_.have_digested(transfer, slice, schedule_.transfers, digested_);
}

bool ChannelSchedule::complete(Stream& stream) {
  bool moved = false;
  const bool receives = stream.memory.receives, sums = receives && memory_.sums != nullptr;
  while (stream.begun < stream.posted) {
    Pending& oldest = stream.pending[stream.begun % window_];
    if (receives && !may_touch(oldest.transfer, oldest.slice)) break;
    bool done = false;
    std::uint64_t size_bytes = 0;
    const int code = net_->test(oldest.request, &done, &size_bytes);
    if (code != nccl::kNcclSuccess) return fail(stream, stream.begun, explain_net_error(code, warns_before_));
    if (!done) break;
    if (receives) {
      if (size_bytes != oldest.size_bytes) return fail(stream, stream.begun, wrong_size(size_bytes, oldest.size_bytes));
      if (schedule_.transfers[oldest.transfer].reduces && !reduce(stream, oldest)) return false;
    }
    ++stream.begun;
    if (!sums) finish(stream);
    moved = true;
  }
  if (!sums) return moved;
  for (; stream.done < stream.begun; moved = true) {
    const auto ended = memory_.sums->has_ended(stream.pending[stream.done % window_].sum);
    if (!ended) return fail_sum(ended.error());
    if (!*ended) break;
    finish(stream);
  }
  return moved;
}

void ChannelSchedule::finish(Stream& stream) {
  const Pending& oldest = stream.pending[stream.done % window_];
  const bool receives = stream.memory.receives;
  if (receives) digest(oldest);
  ++(receives ? counters_.messages_received : counters_.messages_sent);
  (receives ? counters_.bytes_received : counters_.bytes_sent) += oldest.size_bytes;
  ++stream.done;
}

bool ChannelSchedule::post(Stream& stream) {
  bool moved = false;
  const StreamMemory& memory = stream.memory;
  while (stream.transfer < schedule_.transfers.size() && stream.posted - stream.done < window_) {
    const Transfer& transfer = schedule_.transfers[stream.transfer];
    Pending& next = stream.pending[stream.posted % window_];
    next.transfer = stream.transfer;
    next.slice = {transfer.range.begin + stream.offset,
                  std::min(transfer.range.count - stream.offset, schedule_.slice_count)};
    next.size_bytes = next.slice.count * wire_bytes_of(schedule_.request, transfer);
    next.request = nullptr;
    next.sum = 0;
    int code = nccl::kNcclSuccess;
    if (memory.receives) {
      char* const data =
          transfer.reduces ? slot_of(stream, stream.posted) : address_of(BufferRole::kOutput, next.slice);
      code = net_->receive(memory.comm, data, next.size_bytes, memory_.tag,
                           transfer.reduces ? memory.staging_handle : memory.output_handle, &next.request);
    } else {
      if (!may_touch(stream.transfer, next.slice)) break;
      void* const handle = transfer.place == BufferRole::kInput  ? memory.input_handle
                           : transfer.place == BufferRole::kWork ? memory.work_handle
                                                                 : memory.output_handle;
      code = net_->send(memory.comm, address_of(transfer.place, next.slice), next.size_bytes, memory_.tag, handle,
                        &next.request);
    }
    if (code != nccl::kNcclSuccess) return fail(stream, stream.posted, explain_net_error(code, warns_before_));
    if (next.request == nullptr) break;
    ++stream.posted;
    stream.offset += next.slice.count;
    if (stream.offset == transfer.range.count) {
      ++stream.transfer;
      find_transfer(stream);
    }
    moved = true;
  }
  return moved;
}

/// What has been reduced, or needs no reduction.
void ChannelSchedule::digest(const Pending& receive) {
  const Transfer& transfer = schedule_.transfers[receive.transfer];
  if (transfer.reduces && (transfer.place == BufferRole::kOutput || schedule_.works_in_output)) {
    counters_.copied_bytes += receive.slice.count * schedule_.request.element_bytes;
  }
  digested_[receive.transfer] = end_of(receive.slice);
}

bool ChannelSchedule::reduce(const Stream& stream, Pending& receive) {
  const Transfer& transfer = schedule_.transfers[receive.transfer];
  const ReduceKernels& kernels = memory_.kernels;
  const PartialKernels& partial = memory_.partial_kernels;
  const bool own_partial = transfer.own == BufferRole::kWork, ends = transfer.place == BufferRole::kOutput;
  const void* arrived = slot_of(stream, stream.begun);
  const void* own =
      transfer.own == BufferRole::kInput ? own_of(receive.slice) : address_of(transfer.own, receive.slice);
  char* result = address_of(transfer.place, receive.slice);
  const std::uint64_t count = receive.slice.count;
  const auto ranks = static_cast<std::uint32_t>(schedule_.request.ranks);
  const bool both_partial = transfer.partial && own_partial;
  const bool narrows = both_partial && ends && partial.narrow != nullptr;
  ReduceFunction kernel = ends ? kernels.only : kernels.first;
  ReduceForm form = ends ? ReduceForm::kOnly : ReduceForm::kFirst;
  if (narrows) {
    kernel = partial.join;
    form = ReduceForm::kJoin;
    result = address_of(BufferRole::kWork, receive.slice);
  } else if (both_partial) {
    kernel = ends ? kernels.last : partial.join;
    form = ends ? ReduceForm::kLast : ReduceForm::kJoin;
  } else if (transfer.partial || own_partial) {
    kernel = ends ? kernels.last : kernels.between;
    form = ends ? ReduceForm::kLast : ReduceForm::kBetween;
    if (own_partial) std::swap(arrived, own);  // the kernel's partial result comes first
  }
  char* const narrowed = narrows ? address_of(BufferRole::kOutput, receive.slice) : nullptr;
  if (memory_.sums == nullptr) {
    kernel(result, arrived, own, count, ranks);
    if (narrows) partial.narrow(narrowed, result, nullptr, count, ranks);
    return true;
  }
  const GpuReduction first{
      .form = form, .result = result, .arrived = arrived, .own = own, .count = count, .ranks = ranks};
  const GpuReduction then{
      .form = ReduceForm::kNarrow, .result = narrowed, .arrived = result, .count = narrows ? count : 0, .ranks = ranks};
  const auto begun = memory_.sums->begin(first, then);
  if (!begun) return fail_sum(begun.error());
  receive.sum = *begun;
  return true;
}

const char* ChannelSchedule::own_of(const Range& slice) const {
  return memory_.own + (slice.begin - schedule_.input_begin) * schedule_.request.element_bytes;
}

char* ChannelSchedule::address_of(BufferRole place, const Range& slice) const {
  const PlanRequest& request = schedule_.request;
  // The table takes void*; a send only reads.
  if (place == BufferRole::kInput) {
    return const_cast<char*>(memory_.input) + (slice.begin - schedule_.input_begin) * request.element_bytes;
  }
  if (place == BufferRole::kOutput || schedule_.works_in_output) {
    return memory_.output + (slice.begin - schedule_.output_begin) * request.element_bytes;
  }
  return memory_.work + work_index(schedule_, slice.begin) * request.partial_bytes;
}

char* ChannelSchedule::slot_of(const Stream& stream, std::uint64_t slice) const {
  return stream.memory.staging + slice % window_ * stream.memory.slot_bytes;
}

bool ChannelSchedule::fail(const Stream& stream, std::uint64_t slice, const std::string& why) {
  return ChannelRun::fail(stream.memory.receives ? "receive from" : "send to", stream.memory.peer,
                          schedule_.request.channel, slice, why);
}

std::string ChannelSchedule::waiting_for() const {
  std::string text = "channel " + std::to_string(schedule_.request.channel) + ":";
  const char* separator = " ";
  for (const Stream& stream : streams_) {
    if (finished(stream)) continue;
    text += separator + std::string(stream.memory.receives ? "receive from" : "send to") + " rank " +
            std::to_string(stream.memory.peer) + slices_of(stream.done, stream.posted);
    separator = ", ";
  }
  return text;
}

int ChannelSchedule::awaited() const {
  const Stream* stream = unfinished();
  return stream != nullptr ? stream->memory.peer : -1;
}

}  // namespace meshbed::coll
