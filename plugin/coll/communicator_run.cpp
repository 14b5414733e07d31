// One operation, from the caller's thread over the service thread to the progress thread and back.
#include <algorithm>

#include "plugin/coll/communicator.h"

namespace meshbed::coll {
PlanRequest Communicator::request_of(const Operation& operation) const {
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
          .slots = options_.steps};
}

Result<void> Communicator::usable() const {
  if (!broken_) return ok();
  Error error = *broken_;
  error.text = "the communicator is broken since an earlier error: " + error.text;
  return error;
}

Result<void> Communicator::run(const Operation& operation) {
  auto usable_now = usable();
  if (!usable_now) return usable_now;
  const std::string name = std::string(name_of(operation.collective)) + " " + std::to_string(++operations_);
  Lanes lanes;
  Result<void> result;
  Completion done;
  service_->submit([&] {
    result = prepare(operation, &lanes);
    if (!result) {
      done.finish();
      return;
    }
    progress_->submit([&] {
      result = execute(lanes, {.store = store_.get(),
                               .timeout_ms = options_.operation_timeout_ms,
                               .long_wait_ms = options_.connect_timeout_ms / 2});
      done.finish();
    });
  });
  done.wait();
  for (const auto& lane : lanes) {
    counters_.messages_sent += lane->counters().messages_sent;
    counters_.messages_received += lane->counters().messages_received;
    counters_.bytes_sent += lane->counters().bytes_sent;
    counters_.bytes_received += lane->counters().bytes_received;
    counters_.copied_bytes += lane->counters().copied_bytes;
  }
  if (result) return ok();
  Error error = result.error();
  error.text = name + ": " + error.text;
  if (!leaves_peers_unharmed(operation, error)) service_->call([&] { break_down(error); });
  return error;
}

Result<void> Communicator::barrier() {
  auto usable_now = usable();
  if (!usable_now || options_.world == 1) return usable_now;
  Result<void> result;
  service_->call([&] { result = store_->barrier(options_.operation_timeout_ms, options_.connect_timeout_ms / 2); });
  if (result) return ok();
  Error error = result.error();
  error.text = "barrier: " + error.text;
  service_->call([&] { break_down(error); });
  return error;
}

Result<void> Communicator::prepare(const Operation& operation, Lanes* lanes) {
  if (memory_ != nullptr) memory_->drop_temporary();
  const PlanRequest wanted = request_of(operation);
  const Algorithm algorithm = choose_algorithm(options_.algorithm, wanted, options_.network);
  if (algorithm != Algorithm::kRing) return prepare_schedules(algorithm, wanted, operation, lanes);
  const std::vector<Leg> legs = legs_of(wanted);
  auto connected = connect_peers(legs);
  if (!connected) return connected;
  const std::size_t element_bytes = size_of(operation.type);
  lanes->reserve(legs.size() * static_cast<std::size_t>(options_.channels));
  for (const Leg& leg : legs) {
    LaneMemory buffers;
    buffers.input = static_cast<const char*>(operation.input) + leg.input_offset * element_bytes;
    buffers.output = static_cast<char*>(operation.output) + leg.output_offset * element_bytes;
    buffers.kernels = reduce_kernels(operation.type, operation.op);
    PlanRequest request = leg.request;
    request.in_place = buffers.input == buffers.output && request.to >= 0 && request.from >= 0;
    for (request.channel = 0; request.channel < options_.channels; ++request.channel) {
      const Plan plan = make_plan(request);
      if (plan.send_steps == 0 && plan.recv_steps == 0 && plan.copy.count == 0) continue;
      LaneMemory memory = buffers;
      auto receives = register_for_receives(plan, &memory);
      if (!receives) return receives;
      auto sends = register_for_sends(plan, &memory);
      if (!sends) return sends;
      // A lane alone in the world has no plugin, and never calls one.
      lanes->push_back(
          std::make_unique<PlanLane>(transport_ != nullptr ? &transport_->table() : nullptr, plan, memory));
    }
  }
  return ok();
}

Result<void> Communicator::connect_peers(const std::vector<Leg>& legs) {
  std::vector<Edge> edges;
  for (const Leg& leg : legs) {
    const Peers peers = peers_of(leg.request);
    for (int channel = 0; channel < options_.channels; ++channel) {
      if (peers.recv >= 0) edges.push_back({peers.recv, channel, Direction::kReceive});
      if (peers.send >= 0) edges.push_back({peers.send, channel, Direction::kSend});
    }
  }
  return edges.empty() ? ok() : connections_->establish(edges, options_.connect_timeout_ms);
}

Result<void> Communicator::register_for_receives(const Plan& plan, LaneMemory* memory) {
  if (plan.recv_steps == 0) return ok();
  Connection* connection = connections_->find({plan.recv_peer, plan.request.channel, Direction::kReceive});
  memory->recv_comm = connection->comm;
  // The first and the last step show every kind of step that a plan has.
  for (const std::uint64_t index : {std::uint64_t{0}, plan.recv_steps - 1}) {
    if (recv_step(plan, index).arrival != Arrival::kStore) continue;  // through a slot
    auto handle = memory_->handle_of(connection->comm, memory->output, output_bytes_of(plan.request));
    if (!handle) return handle.error();
    memory->output_handle = *handle;
  }
  if (plan.slot_bytes == 0) return ok();
  memory->slot_bytes = in_slots(plan.slot_bytes);
  const std::uint64_t staging_bytes = memory->slot_bytes * static_cast<std::uint64_t>(plan.request.slots);
  auto staging = connections_->staging_of(*connection, staging_bytes);
  if (!staging) return staging.error();
  memory->staging = *staging;
  auto handle = memory_->handle_of(connection->comm, *staging, staging_bytes);
  if (!handle) return handle.error();
  memory->staging_handle = *handle;
  return ok();
}

Result<void> Communicator::register_for_sends(const Plan& plan, LaneMemory* memory) {
  if (plan.send_steps == 0) return ok();
  void* comm = connections_->find({plan.send_peer, plan.request.channel, Direction::kSend})->comm;
  memory->send_comm = comm;
  // The second step as well: there an all_reduce may send partial results.
  const std::uint64_t last = plan.send_steps - 1;
  for (const std::uint64_t index : {std::uint64_t{0}, std::min<std::uint64_t>(1, last), last}) {
    const Source source = send_step(plan, index).source;
    Result<void*> handle = nullptr;
    switch (source) {
      case Source::kInput:  // the plugin's registration is not const, its sends only read
        handle = memory_->handle_of(comm, const_cast<char*>(memory->input), input_bytes_of(plan.request));
        break;
      case Source::kOutput:
        handle = memory_->handle_of(comm, memory->output, output_bytes_of(plan.request));
        break;
      case Source::kPartial:
        handle = memory_->handle_of(comm, memory->staging,
                                    memory->slot_bytes * static_cast<std::uint64_t>(plan.request.slots));
        break;
    }
    if (!handle) return handle.error();
    memory->send_handles[static_cast<std::size_t>(source)] = *handle;
  }
  return ok();
}

Result<void> Communicator::keep_registered(void* data, std::uint64_t size_bytes) {
  if (memory_ != nullptr) service_->call([&] { memory_->keep(data, size_bytes); });
  return ok();
}

Result<void> Communicator::drop_registered(const void* data) {
  bool found = true;
  if (memory_ != nullptr) service_->call([&] { found = memory_->drop(data); });
  if (found) return ok();
  return Error{ErrorCode::kInvalidArgument, Scope::kRequest, "no registered memory begins there"};
}

bool Communicator::leaves_peers_unharmed(const Operation& operation, const Error& error) const {
  const bool one_peer = operation.to < 0 || operation.from < 0 || operation.to == operation.from;
  return operation.collective == Collective::kSendRecv && one_peer && error.code == ErrorCode::kUnreachable;
}

void Communicator::break_down(const Error& error) {
  broken_ = error;
  if (store_ != nullptr && !store_->failure()) store_->announce_failure(error.text);
  if (connections_ != nullptr) connections_->close_all();
}

}  // namespace meshbed::coll
