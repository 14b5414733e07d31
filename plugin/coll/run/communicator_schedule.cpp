// An operation that goes by a schedule: its connections, its memory and its channel runs. Service thread only.
#include <algorithm>
#include <set>

#include "plugin/coll/run/channel_schedule.h"
#include "plugin/coll/run/communicator.h"
#include "plugin/coll/run/gpu.h"

namespace meshbed::coll {
namespace {

Edge edge_of(const Transfer& transfer, const PlanRequest& request) {
  return {transfer.peer, request.channel + request.channels * transfer.way,
          transfer.receives ? Direction::kReceive : Direction::kSend};
}

/// Of a slot, where the stream needs slots.
std::uint64_t slot_bytes_of(const Schedule& schedule, const StreamMemory& stream) {
  std::uint64_t bytes = 0;
  for (const Transfer& transfer : schedule.transfers) {
    if (!transfer.reduces || !goes_over(transfer, stream)) continue;
    const std::uint64_t count = std::min(transfer.range.count, schedule.slice_count);
    bytes = std::max(bytes, count * wire_bytes_of(schedule.request, transfer));
  }
  return in_slots(bytes);
}

bool uses(const Schedule& schedule, const StreamMemory& stream, BufferRole place) {
  return std::any_of(schedule.transfers.begin(), schedule.transfers.end(), [&](const Transfer& transfer) {
    // What is reduced lands in a slot; of an empty range there is nothing to send, and may be no memory. No round has
    // longer ones than the first.
    return goes_over(transfer, stream) && transfer.place == place && !transfer.reduces && transfer.range.count > 0;
  });
}

/// The plugin's.
void* comm_behind(const StreamMemory& stream, const ScheduleMemory& memory) {
  return memory.gpu == nullptr ? stream.comm : static_cast<const DirectStream*>(stream.comm)->comm;
}

}  // namespace

Result<void> Communicator::prepare_schedules(AlgorithmProtocol way, PlanRequest request, const Operation& operation,
                                             std::int64_t connect_timeout_ms, ChannelRuns* channel_runs) {
  std::vector<Schedule> schedules;
  std::set<Edge> edges;
  for (request.channel = 0; request.channel < request.channels; ++request.channel) {
    schedules.push_back(make_schedule(way.algorithm, request));
    for (const Transfer& transfer : schedules.back().transfers) edges.insert(edge_of(transfer, request));
  }
  if (!edges.empty()) {
    auto connected = connections_->establish({edges.begin(), edges.end()}, connect_timeout_ms);
    if (!connected) return connected;
  }
  PlanRecord record{operation.collective, way};
  for (Schedule& schedule : schedules) {
    if (schedule.part.count == 0) continue;
    ++record.channels;
    if (operation.direct != nullptr) schedule.copy = {};  // the streams' own
    ScheduleMemory memory{
        .input = static_cast<const char*>(operation.input),
        .output = static_cast<char*>(operation.output),
        .gpu = operation.direct,
        .own = operation.sums == nullptr ? static_cast<const char*>(operation.input) : operation.sums->input,
        .sums = operation.sums == nullptr ? nullptr : operation.sums->of_a_run(),
        .kernels = reduce_kernels(operation.type, operation.op),
        .partial_kernels = partial_kernels(operation.type, operation.op),
        .tag = tag_,
        .streams = streams_of(schedule)};
    auto given = give_memory(schedule, way.protocol, &memory);
    if (!given) return given;
    channel_runs->push_back(std::make_unique<ChannelSchedule>(messages_by(way.protocol, operation.direct != nullptr),
                                                              std::move(schedule), std::move(memory)));
  }
  note_plan(record);
  return ok();
}

/// Slots and work memory, then what is registered on each connection.
Result<void> Communicator::give_memory(const Schedule& schedule, Protocol protocol, ScheduleMemory* memory) {
  const PlanRequest& request = schedule.request;
  const auto slots = static_cast<std::uint64_t>(request.slots);
  const bool registers = protocol == Protocol::kSimple;
  // Work memory lies behind the slots of the first connection that has any: without those there is nothing to keep.
  const std::uint64_t work_bytes =
      schedule.has_work && !schedule.works_in_output ? work_count(schedule) * request.partial_bytes : 0;
  for (StreamMemory& stream : memory->streams) {
    Connection* connection =
        connections_->find(edge_of({.peer = stream.peer, .way = stream.way, .receives = stream.receives}, request));
    auto comm = comm_of(*connection, protocol, schedule.slice_count * widest_bytes(request), request.slots,
                        memory->gpu != nullptr);
    if (!comm) return comm.error();
    stream.comm = *comm;
    stream.slot_bytes = slot_bytes_of(schedule, stream);
    if (stream.slot_bytes == 0) continue;
    const bool keeps_work = work_bytes > 0 && memory->work == nullptr;
    const std::uint64_t slots_bytes = slots * stream.slot_bytes;
    const std::uint64_t staging_bytes = slots_bytes + (keeps_work ? work_bytes : 0);
    auto staging = connections_->staging_of(*connection, staging_bytes);
    if (!staging) return staging.error();
    stream.staging = *staging;
    if (keeps_work) memory->work = stream.staging + slots_bytes;
    if (!registers) continue;
    auto handle = memory_->handle_of(comm_behind(stream, *memory), stream.staging, staging_bytes);
    if (!handle) return handle.error();
    stream.staging_handle = *handle;
    connection->direct.host_handle = *handle;
  }
  for (StreamMemory& stream : memory->streams) {
    if (!registers) break;
    if (auto done = register_for_stream(schedule, *memory, work_bytes, &stream); !done) return done;
  }
  return ok();
}

Result<void> Communicator::register_for_stream(const Schedule& schedule, const ScheduleMemory& memory,
                                               std::uint64_t work_bytes, StreamMemory* stream) {
  void* const comm = comm_behind(*stream, memory);
  const auto registered = [&](BufferRole place, const void* data, std::uint64_t bytes, void** handle,
                              const GpuAccess* gpu) -> Result<void> {
    if (!uses(schedule, *stream, place)) return ok();
    auto found = memory_->handle_of(comm, const_cast<void*>(data), bytes, gpu);
    if (!found) return found.error();
    *handle = *found;
    return ok();
  };
  const std::uint64_t input_bytes = input_bytes_of(schedule.request), output_bytes = output_bytes_of(schedule.request);
  auto done = registered(BufferRole::kInput, memory.input, input_bytes, &stream->input_handle, memory.gpu);
  if (done) done = registered(BufferRole::kOutput, memory.output, output_bytes, &stream->output_handle, memory.gpu);
  if (!done) return done;
  // Memory of its own is pinned, as slots are.
  return schedule.works_in_output
             ? registered(BufferRole::kWork, memory.output, output_bytes, &stream->work_handle, memory.gpu)
             : registered(BufferRole::kWork, memory.work, work_bytes, &stream->work_handle, nullptr);
}

}  // namespace meshbed::coll
