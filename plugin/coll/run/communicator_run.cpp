// Calls: from the caller's thread over the service thread to the progress thread, in the order in which they were made.
#include <algorithm>

#include "plugin/coll/run/communicator.h"
#include "plugin/coll/run/gpu.h"

namespace meshbed::coll {
namespace {

/// The rank that a failed transfer was with; of those that have not failed, one that must do something.
int culprit_of(const ChannelRuns& channel_runs, bool late) {
  for (const auto& channel_run : channel_runs) {
    if (channel_run->failed_peer() >= 0) return channel_run->failed_peer();
  }
  for (const auto& channel_run : channel_runs) {
    if (late && !channel_run->finished() && channel_run->awaited() >= 0) return channel_run->awaited();
  }
  return -1;
}

}  // namespace

const char* name_of(const std::vector<Operation>& operations) {
  return operations.size() == 1 ? call_name_of(operations.front().collective) : "group_call";
}

Result<void> Communicator::usable() const {
  if (!broken_) return ok();
  Error error = *broken_;
  error.text = "the communicator is broken since an earlier error: " + error.text;
  return error;
}

std::shared_ptr<Call> Communicator::issue(std::vector<Operation> operations, std::int64_t timeout_ms) {
  auto call = std::make_shared<Call>(name_of(operations), ++calls_);
  const Deadline deadline = Deadline::after_ms_or_never(timeout_ms);
  const auto recorded = record(operations, timeout_ms);
  if (!recorded || *recorded) {
    call->finish(recorded ? ok() : Result<void>(recorded.error()));
    return call;
  }
  if (auto prepared = prepare_sums(operations); !prepared) {
    call->finish(prepared);
    return call;
  }
  auto entered = enter_streams(&operations);
  if (!entered) {
    refuse(call, entered.error());
    return call;
  }
  if (*entered != nullptr) call->at_end([order = *entered] { order->release(); });
  service_->submit([this, call, deadline, operations = std::move(operations), order = std::move(*entered)] {
    serve(*call, [&]() -> Result<void> {
      if (order == nullptr) return perform(*call, operations, deadline);
      auto come = await_streams(*order, deadline, *call);
      if (!come) return come;
      keep_staging(order->staging());
      return perform(*call, operations, deadline);
    });
  });
  return call;
}

std::shared_ptr<Call> Communicator::issue_barrier(std::int64_t timeout_ms) {
  auto call = std::make_shared<Call>("barrier", ++calls_);
  const Deadline deadline = Deadline::after_ms_or_never(timeout_ms);
  service_->submit([this, call, deadline] {
    serve(*call, [&] {
      Result<void> met;
      turn_to_barrier();
      if (options_.world > 1) {
        met = store_->barrier(left_of(deadline, options_.operation_timeout_ms), options_.long_wait_ms());
      }
      if (met) call->finish(ok());
      return met;
    });
  });
  return call;
}

Result<void> Communicator::run(const Operation& operation) {
  const auto call = issue({operation}, 0);
  call->wait();
  return call->result();
}

void Communicator::begin(const Call& call) {
  note_begun(call.name());
  culprit_ = -1;
  harmless_ = false;
}

void Communicator::serve(Call& call, const std::function<Result<void>()>& body) {
  if (auto usable_now = usable(); !usable_now) return call.finish(usable_now, culprit_);
  begin(call);
  const Result<void> result = body();
  if (result) return;
  Error error = result.error();
  if (store_ != nullptr) {
    (void)store_->poll(0);  // why others have given up may be here already
    // Or rank 0 is passing it on: ranks that have read it close their connections before the last one has it.
    if (options_.world > 1 && !store_->failure() && store_->failed_rank() < 0) store_->catch_up();
    const bool aborted = store_->failure() && store_->failure_is_abort();
    // An abort is the root cause of any other error; so is a failure elsewhere for errors of closed connections.
    const bool told = aborted || (store_->failure() && error.code == ErrorCode::kRemote);
    if (told) error = {aborted ? ErrorCode::kClosed : ErrorCode::kRemote, Scope::kJob, *store_->failure()};
    if (told || culprit_ < 0) culprit_ = store_->failed_rank();
  }
  error.text = call.name() + ": " + error.text;
  if (!harmless_ && !broken_) break_down(error);
  call.finish(error, culprit_);
}

Result<void> Communicator::perform(Call& call, const std::vector<Operation>& operations, const Deadline& deadline) {
  // Every rank goes through a group's collectives in one order, and one after the other: they share the ring's
  // connections. Between which of them it sends and receives is its own affair: all pairs move at once, at the end.
  std::vector<Operation> pairs;
  for (const Operation& operation : operations) {
    if (operation.collective == Collective::kSendRecv) {
      pairs.push_back(operation);
      continue;
    }
    const bool last = operations.size() == 1;
    turn_to(operation);
    if (auto moved = transfer({&operation, 1}, deadline, last ? &call : nullptr); !moved || last) return moved;
  }
  if (!pairs.empty()) turn_to(pairs.front());
  auto moved = transfer(pairs, deadline, &call);
  // No thread waits for a call in a stream: later work in the stream learns of its failure only from the communicator.
  const bool alone = operations.size() == 1 && !operations.front().in_stream;
  harmless_ = !moved && alone && leaves_peers_unharmed(operations.front(), moved.error());
  return moved;
}

Result<void> Communicator::transfer_host(std::span<const Operation> operations, const Deadline& deadline,
                                         Call* last_of) {
  ChannelRuns channel_runs;
  const std::int64_t most_ms = options_.connect_timeout_ms, left_ms = left_of(deadline, most_ms);
  const std::int64_t connect_ms = most_ms > 0 ? std::min(left_ms, most_ms) : left_ms;
  auto prepared = prepare(operations, connect_ms, &channel_runs);
  if (!prepared) {
    if (connections_ != nullptr) culprit_ = connections_->failed_peer();
    return prepared;
  }
  Result<void> result;
  progress_->call([&] {
    result = execute(channel_runs, {.store = store_.get(),
                                    .timeout_ms = left_of(deadline, options_.operation_timeout_ms),
                                    .long_wait_ms = options_.long_wait_ms()});
    count(channel_runs);
    // Finished here, so that waiting threads need not wait for the service thread as well.
    if (result && last_of != nullptr) last_of->finish(ok());
  });
  const auto is_direct = [](const Operation& operation) { return operation.direct != nullptr; };
  if (result && std::any_of(operations.begin(), operations.end(), is_direct)) memory_->drop_temporary();
  if (result) return ok();
  const bool store_silent = store_ != nullptr && store_->failed_rank() >= 0;
  culprit_ = culprit_of(channel_runs, result.error().code == ErrorCode::kTimeout && !store_silent);
  return result;
}

void Communicator::count(const ChannelRuns& channel_runs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& channel_run : channel_runs) {
    counters_.messages_sent += channel_run->counters().messages_sent;
    counters_.messages_received += channel_run->counters().messages_received;
    counters_.bytes_sent += channel_run->counters().bytes_sent;
    counters_.bytes_received += channel_run->counters().bytes_received;
    counters_.copied_bytes += channel_run->counters().copied_bytes;
  }
  if (lined_ != nullptr) counters_.copied_bytes += lined_->take_copied_bytes();
  if (connections_ != nullptr) counters_.connect_ns = connections_->connect_ns();
}

ChannelCounters Communicator::counters() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counters_;
}

void Communicator::note_begun(const std::string& name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_begun_ = name;
}

void Communicator::abort(const std::string& reason) {
  std::string text = "aborted at ";
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    text += last_begun_;
  }
  if (!reason.empty()) text += ": " + reason;
  if (store_ != nullptr) store_->abort(text);
  aborted_ = true;
  // The call under way ends now, with what it had in flight; those behind it do not begin.
  service_->call([&] {
    if (broken_) return;
    culprit_ = options_.rank;
    break_down({ErrorCode::kClosed, Scope::kJob, "rank " + std::to_string(options_.rank) + ": " + text});
  });
}

Result<void> Communicator::prepare(std::span<const Operation> operations, std::int64_t connect_timeout_ms,
                                   ChannelRuns* channel_runs) {
  if (memory_ != nullptr) memory_->drop_temporary();
  std::vector<SubPlan> sub_plans;
  std::vector<const Operation*> of_sub_plan;
  // Where there are several operations they are send_recvs, whose protocol their sizes do not change.
  Protocol protocol = Protocol::kSimple;
  PlanRecord record;
  for (const Operation& operation : operations) {
    PlanRequest wanted = request_of(operation);
    const AlgorithmProtocol way = way_of(wanted);
    record = {operation.collective, way};
    protocol = way.protocol;
    wanted.slice_bytes_max = slice_bytes_of(protocol, wanted.slice_bytes_max);
    if (way.algorithm != Algorithm::kRing) {
      return prepare_schedules(way, wanted, operation, connect_timeout_ms, channel_runs);
    }
    for (const SubPlan& sub_plan : sub_plans_of(wanted)) {
      sub_plans.push_back(sub_plan);
      of_sub_plan.push_back(&operation);
    }
  }
  auto connected = connect_peers(sub_plans, connect_timeout_ms);
  if (!connected) return connected;
  channel_runs->reserve(sub_plans.size() * static_cast<std::size_t>(options_.channels));
  for (std::size_t i = 0; i < sub_plans.size(); ++i) {
    auto added = add_channel_runs(*of_sub_plan[i], sub_plans[i], protocol, channel_runs);
    if (!added) return added.error();
    record.channels = std::max(record.channels, *added);
  }
  if (!operations.empty()) note_plan(record);
  return ok();
}

Result<int> Communicator::add_channel_runs(const Operation& operation, const SubPlan& sub_plan, Protocol protocol,
                                           ChannelRuns* channel_runs) {
  const std::size_t element_bytes = size_of(operation.type);
  ChannelMemory buffers;
  buffers.input = static_cast<const char*>(operation.input) + sub_plan.input_offset * element_bytes;
  buffers.output = static_cast<char*>(operation.output) + sub_plan.output_offset * element_bytes;
  buffers.kernels = reduce_kernels(operation.type, operation.op);
  buffers.own =
      operation.sums == nullptr ? buffers.input : operation.sums->input + sub_plan.input_offset * element_bytes;
  buffers.output_gpu = operation.direct;
  buffers.input_gpu = operation.lends_input ? nullptr : operation.direct;
  buffers.tag = tag_;
  const bool direct = operation.direct != nullptr;
  PlanRequest request = sub_plan.request;
  request.in_place = buffers.input == buffers.output && request.to >= 0 && request.from >= 0;
  int channels = 0;
  for (request.channel = 0; request.channel < options_.channels; ++request.channel) {
    Plan plan = make_plan(request);
    if (direct) plan.copy = {};  // the streams' own
    if (plan.send_steps == 0 && plan.recv_steps == 0 && plan.copy.count == 0) continue;
    if (plan.send_steps > 0 || plan.recv_steps > 0) ++channels;
    ChannelMemory memory = buffers;
    if (operation.sums != nullptr) memory.sums = operation.sums->of_a_run();
    auto receives = register_for_receives(plan, protocol, &memory);
    if (!receives) return receives.error();
    auto sends = register_for_sends(plan, protocol, &memory);
    if (!sends) return sends.error();
    channel_runs->push_back(std::make_unique<PlanRun>(messages_by(protocol, direct), plan, memory));
  }
  return channels;
}

Messages* Communicator::messages_by(Protocol protocol, bool direct) const {
  if (transport_ == nullptr) return nullptr;
  if (direct) return direct_.get();
  return protocol == Protocol::kSimple ? static_cast<Messages*>(&transport_->table()) : lined_.get();
}

Result<void*> Communicator::comm_of(Connection& connection, Protocol protocol, std::uint64_t size_bytes, int slots,
                                    bool direct) {
  if (direct) return static_cast<void*>(ConnectionTable::direct(connection, slots));
  if (protocol == Protocol::kSimple) return connection.comm;
  auto stream = connections_->lined(connection, protocol, size_bytes, slots);
  if (!stream) return stream.error();
  return static_cast<void*>(*stream);
}

Result<void> Communicator::connect_peers(const std::vector<SubPlan>& sub_plans, std::int64_t timeout_ms) {
  std::vector<Edge> edges;
  for (const SubPlan& sub_plan : sub_plans) {
    const Peers peers = peers_of(sub_plan.request);
    for (int channel = 0; channel < options_.channels; ++channel) {
      if (peers.recv >= 0) edges.push_back({peers.recv, channel, Direction::kReceive});
      if (peers.send >= 0) edges.push_back({peers.send, channel, Direction::kSend});
    }
  }
  return edges.empty() ? ok() : connections_->establish(edges, timeout_ms);
}

Result<void> Communicator::register_for_receives(const Plan& plan, Protocol protocol, ChannelMemory* memory) {
  if (plan.recv_steps == 0) return ok();
  Connection* connection = connections_->find({plan.recv_peer, plan.request.channel, Direction::kReceive});
  memory->recv_connection = connection->comm;
  auto comm = comm_of(*connection, protocol, plan.recv_slice_count * widest_bytes(plan.request), plan.request.slots,
                      memory->output_gpu != nullptr);
  if (!comm) return comm.error();
  memory->recv_comm = *comm;
  const bool registers = protocol == Protocol::kSimple;
  // The first and the last step show every kind of step that a plan has.
  for (const std::uint64_t index : {std::uint64_t{0}, plan.recv_steps - 1}) {
    if (!registers || recv_step(plan, index).arrival != Arrival::kStore) continue;  // through a slot
    auto handle =
        memory_->handle_of(connection->comm, memory->output, output_bytes_of(plan.request), memory->output_gpu);
    if (!handle) return handle.error();
    memory->output_handle = *handle;
  }
  if (plan.slot_bytes == 0) return ok();
  memory->slot_bytes = in_slots(plan.slot_bytes);
  const std::uint64_t staging_bytes = memory->slot_bytes * static_cast<std::uint64_t>(plan.request.slots);
  auto staging = connections_->staging_of(*connection, staging_bytes);
  if (!staging) return staging.error();
  memory->staging = *staging;
  if (!registers) return ok();
  auto handle = memory_->handle_of(connection->comm, *staging, staging_bytes);
  if (!handle) return handle.error();
  memory->staging_handle = *handle;
  connection->direct.host_handle = *handle;
  return ok();
}

Result<void> Communicator::register_for_sends(const Plan& plan, Protocol protocol, ChannelMemory* memory) {
  if (plan.send_steps == 0) return ok();
  Connection* connection = connections_->find({plan.send_peer, plan.request.channel, Direction::kSend});
  void* const comm = connection->comm;
  memory->send_connection = comm;
  auto taken = comm_of(*connection, protocol, plan.slice_count * widest_bytes(plan.request), plan.request.slots,
                       memory->output_gpu != nullptr);
  if (!taken) return taken.error();
  memory->send_comm = *taken;
  if (protocol != Protocol::kSimple) return ok();
  // The second step as well: there an all_reduce may send partial results.
  const std::uint64_t last = plan.send_steps - 1;
  for (const std::uint64_t index : {std::uint64_t{0}, std::min<std::uint64_t>(1, last), last}) {
    const Source source = send_step(plan, index).source;
    Result<void*> handle = nullptr;
    switch (source) {
      case Source::kInput:  // the plugin's registration is not const, its sends only read
        handle =
            memory_->handle_of(comm, const_cast<char*>(memory->input), input_bytes_of(plan.request), memory->input_gpu);
        break;
      case Source::kOutput:
        handle = memory_->handle_of(comm, memory->output, output_bytes_of(plan.request), memory->output_gpu);
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

std::optional<Communicator::Break> Communicator::broken_by() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_break_ || looks_ || store_ == nullptr) return known_break_;
  service_->submit([this] { look_for_failure(); });
  looks_ = true;
  return std::nullopt;
}

void Communicator::look_for_failure() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    looks_ = false;
  }
  if (broken_) return;
  const auto polled = store_->poll(0);
  if (polled && !store_->failure()) return;
  culprit_ = store_->failed_rank();
  const ErrorCode code = store_->failure_is_abort() ? ErrorCode::kClosed : ErrorCode::kRemote;
  break_down(store_->failure() ? Error{code, Scope::kJob, *store_->failure()} : polled.error());
}

bool Communicator::leaves_peers_unharmed(const Operation& operation, const Error& error) const {
  const bool one_peer = operation.to < 0 || operation.from < 0 || operation.to == operation.from;
  return operation.collective == Collective::kSendRecv && one_peer && error.code == ErrorCode::kUnreachable;
}

void Communicator::break_down(const Error& error) {
  // Before the failure is announced: the others close their connections as soon as they receive it.
  if (options_.on_break) options_.on_break(error.text);
  broken_ = error;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    known_break_ = {error, culprit_};
  }
  if (store_ != nullptr) store_->announce_failure(error.text, culprit_);
  if (connections_ != nullptr) connections_->close_all();
}

}  // namespace meshbed::coll
