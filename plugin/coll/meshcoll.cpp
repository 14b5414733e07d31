// The C boundary: Results become codes, texts and parts, nothing thrown crosses. What comes in is checked in
// arguments.h.
#include "plugin/coll/meshcoll.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/coll/api/arguments.h"
#include "plugin/coll/api/launcher.h"
#include "plugin/coll/plan/axes.h"
#include "plugin/coll/run/copy.h"
#include "plugin/coll/store/environment.h"
#include "plugin/coll/transport/plugin_log.h"

namespace {

using meshbed::Error;
using meshbed::ok;
using meshbed::Result;
using meshbed::coll::Call;
using meshbed::coll::code_of;
using meshbed::coll::Communicator;
using meshbed::coll::Copy;
using meshbed::coll::error_of;
using meshbed::coll::invalid;
using meshbed::coll::keep_error;
using meshbed::coll::read_operation;
using meshbed::coll::this_copy;
using meshbed::coll::Visit;
using meshbed::coll::wrap;
using Operations = std::vector<meshbed::coll::Operation>;
using CallPointer = std::shared_ptr<Call>;

// A handle: the communicator's number above this bit, the call's sequence number below.
constexpr unsigned kSequenceBits = 40;

/// The body of a call, compiled once for all of them, with the place for the call whose error it returns. Lives no
/// longer than the statement that made it.
class Body {
 public:
  template <typename Function>
  Body(const Function& function)
      : function_(&function), call_([](const void* body, CallPointer& failed) -> Result<void> {
          return (*static_cast<const Function*>(body))(failed);
        }) {}
  Result<void> operator()(CallPointer& failed) const { return call_(function_, failed); }

 private:
  const void* function_;
  Result<void> (*call_)(const void* body, CallPointer& failed);
};

/// The error, thrown or returned.
std::optional<Error> failure_of(const Body& body, CallPointer& failed) {
  try {
    const Result<void> result = body(failed);
    if (result) return std::nullopt;
    return result.error();
  } catch (const std::exception& error) {
    return error_of(error);
  }
}

meshcoll_result at_boundary(meshcoll_comm* comm, const Body& body) {
  const Visit visit(comm);
  if (!visit.welcome()) {
    keep_error("comm", visit.refusal());
    return MESHCOLL_INVALID_ARGUMENT;
  }
  CallPointer failed;
  std::optional<Error> failure = failure_of(body, failed);
  if (!failure) return MESHCOLL_OK;
  const std::lock_guard<std::mutex> lock(comm->mutex);
  comm->error = std::move(failure);
  comm->failed = std::move(failed);
  return code_of(*comm->error);
}

Result<CallPointer> call_of(meshcoll_comm& comm, meshcoll_handle handle) {
  const std::lock_guard<std::mutex> lock(comm.mutex);
  for (const CallPointer& call : comm.started) {
    if ((comm.number << kSequenceBits | call->sequence()) == handle) return call;
  }
  const bool ours = handle >> kSequenceBits == comm.number;
  return invalid("handle " + std::to_string(handle) +
                 (handle == 0 ? " is of no call"
                  : ours      ? " is used up"
                              : " is of another communicator"));
}

/// The result of a finished call, for the first thread that takes it.
Result<void> take_result(meshcoll_comm& comm, const CallPointer& call, CallPointer& failed) {
  {
    const std::lock_guard<std::mutex> lock(comm.mutex);
    const auto found = std::find(comm.started.begin(), comm.started.end(), call);
    if (found == comm.started.end()) return invalid(call->name() + " was waited for by another thread");
    comm.started.erase(found);
  }
  failed = call;
  return call->result();
}

/// Waits where there is nowhere to put a handle. `in_stream`: there a stream waits.
Result<void> hand_out(meshcoll_comm& comm, const CallPointer& call, meshcoll_handle* handle, CallPointer& failed,
                      bool in_stream = false) {
  if (in_stream && handle == nullptr) {
    // What was refused touched nothing, and is known by now.
    if (!call->wait_for(0)) return ok();
    failed = call;
    return call->result();
  }
  if (handle == nullptr) {
    call->wait();
    failed = call;
    return call->result();
  }
  const std::lock_guard<std::mutex> lock(comm.mutex);
  comm.started.push_back(call);
  *handle = comm.number << kSequenceBits | call->sequence();
  return ok();
}

Result<void> add_to_group(meshcoll_comm& comm, const meshcoll_args& args) {
  const Communicator& communicator = *comm.communicator;
  auto operation = args.call != MESHCOLL_BARRIER ? read_operation(args, communicator.rank(), communicator.world())
                                                 : invalid("a barrier is no part of a group");
  const bool moves_in_place = args.call == MESHCOLL_SEND_RECV && args.to >= 0 && args.from >= 0 &&
                              args.to != communicator.rank() && args.send == args.recv && args.count > 0;
  if (operation && moves_in_place) operation = invalid("a send_recv in place is no part of a group");
  if (!operation) {
    if (!comm.group_refusal) comm.group_refusal = operation.error();
    return operation.error();
  }
  if (args.timeout_ms > 0 && (comm.group_timeout_ms == 0 || args.timeout_ms < comm.group_timeout_ms)) {
    comm.group_timeout_ms = args.timeout_ms;
  }
  if (args.call != MESHCOLL_SEND_RECV || operation->to == communicator.rank()) {
    comm.group.push_back(*operation);
    return ok();
  }
  // Either direction waits for its own peer only.
  meshbed::coll::Operation send = *operation, receive = *operation;
  send.from = receive.to = -1;
  send.output_bytes = receive.input_bytes = 0;
  if (send.to >= 0) comm.group.push_back(send);
  if (receive.from >= 0) comm.group.push_back(receive);
  return ok();
}

meshcoll_result issue(meshcoll_comm* comm, const meshcoll_args& args, meshcoll_handle* handle = nullptr) {
  return at_boundary(comm, [&](CallPointer& failed) -> Result<void> {
    if (comm->group_depth > 0) {
      if (handle != nullptr) *handle = 0;
      return add_to_group(*comm, args);
    }
    Communicator& communicator = *comm->communicator;
    if (args.call == MESHCOLL_BARRIER && args.in_stream != 0) {
      return meshbed::Error{meshbed::ErrorCode::kUnsupported, meshbed::Scope::kRequest,
                            "a barrier cannot be in a stream: leave out in_stream"};
    }
    if (args.call == MESHCOLL_BARRIER) {
      return hand_out(*comm, communicator.issue_barrier(args.timeout_ms), handle, failed);
    }
    const auto operation = read_operation(args, communicator.rank(), communicator.world());
    if (!operation) return operation.error();
    return hand_out(*comm, communicator.issue(Operations{*operation}, args.timeout_ms), handle, failed,
                    operation->in_stream);
  });
}

/// `timeout_ms`: negative: none.
meshcoll_result wait_for(meshcoll_comm* comm, meshcoll_handle handle, std::int64_t timeout_ms) {
  bool in_time = true;
  const meshcoll_result result = at_boundary(comm, [&](CallPointer& failed) -> Result<void> {
    const auto call = call_of(*comm, handle);
    if (!call) return call.error();
    if (timeout_ms < 0) (*call)->wait();
    in_time = timeout_ms < 0 || (*call)->wait_for(timeout_ms);
    return in_time ? take_result(*comm, *call, failed) : ok();
  });
  return in_time ? result : MESHCOLL_IN_PROGRESS;
}

Result<void> hand_over(Result<std::unique_ptr<Communicator>> made, meshcoll_comm** comm) {
  if (!made) return made.error();
  *comm = *made != nullptr ? wrap(std::move(*made)) : nullptr;
  return ok();
}

/// A call that makes or asks something before there is a communicator to keep its error.
template <typename Function>
meshcoll_result without_communicator(const char* name, const Function& function) {
  CallPointer none;
  const std::optional<Error> failure = failure_of([&](CallPointer&) { return function(); }, none);
  if (!failure) return MESHCOLL_OK;
  keep_error(name, failure->text);
  return code_of(*failure);
}

meshcoll_args args_of(meshcoll_call call, const void* send, void* recv, size_t count, meshcoll_dtype dtype,
                      meshcoll_op op = MESHCOLL_SUM, int root = 0) {
  meshcoll_args args{};
  args.call = call;
  args.send = send;
  args.recv = recv;
  args.count = count;
  args.dtype = dtype;
  args.op = op;
  args.root = root;
  return args;
}

}  // namespace

extern "C" {

int meshcoll_version(void) { return MESHCOLL_VERSION; }
void meshcoll_set_log(void (*write)(void* context, int level, int rank, const char* text), void* context) {
  meshbed::coll::set_plugin_log_writer(write, context);
}
int64_t meshcoll_now_ns(void) { return meshbed::now_ns(); }

meshcoll_result meshcoll_read_launcher(int* rank, int* world, char bootstrap[MESHCOLL_ID_BYTES]) {
  return without_communicator("read_launcher", [&]() -> Result<void> {
    if (rank == nullptr || world == nullptr || bootstrap == nullptr)
      return invalid("there is nowhere to put the answer");
    const auto launch = meshbed::coll::read_launcher(&meshbed::coll::variable);
    if (!launch) return launch.error();
    *rank = launch->rank;
    *world = launch->world;
    meshbed::coll::give_text(launch->bootstrap, bootstrap);
    return ok();
  });
}

meshcoll_result meshcoll_get_id(char id[MESHCOLL_ID_BYTES]) {
  return without_communicator("get_id", [&]() -> Result<void> {
    if (id == nullptr) return invalid("id is null");
    const auto text = this_copy().id_listeners.open();
    if (!text) return text.error();
    meshbed::coll::give_text(*text, id);
    return ok();
  });
}

meshcoll_result meshcoll_init(const meshcoll_options* options, meshcoll_comm** comm) {
  return without_communicator("init", [&]() -> Result<void> {
    if (options == nullptr || comm == nullptr) return invalid("options or comm is null");
    auto read = meshbed::coll::read_options(*options);
    if (!read) return read.error();
    auto listener = read->rank == 0 ? this_copy().id_listeners.take(read->bootstrap) : meshbed::Socket();
    return hand_over(Communicator::create_at(*read, std::move(listener)), comm);
  });
}

meshcoll_result meshcoll_destroy(meshcoll_comm* comm) {
  if (comm == nullptr) return MESHCOLL_OK;
  if (at_boundary(comm, [](CallPointer&) { return ok(); }) != MESHCOLL_OK) return MESHCOLL_INVALID_ARGUMENT;
  {
    Copy& copy = this_copy();
    std::unique_lock<std::mutex> lock(copy.mutex);
    if (std::erase(copy.live, comm) == 0) return MESHCOLL_INVALID_ARGUMENT;
    copy.left.wait(lock, [&] { return comm->users == 0; });
  }
  delete comm;
  return MESHCOLL_OK;
}

int meshcoll_rank(const meshcoll_comm* comm) {
  const Visit visit(comm);
  return visit.welcome() ? comm->communicator->rank() : -1;
}
int meshcoll_world(const meshcoll_comm* comm) {
  const Visit visit(comm);
  return visit.welcome() ? comm->communicator->world() : -1;
}

int meshcoll_has_gpu(const meshcoll_comm* comm) {
  const Visit visit(comm);
  return visit.welcome() && comm->communicator->has_gpu() ? 1 : 0;
}

meshcoll_result meshcoll_split(meshcoll_comm* comm, int color, int key, meshcoll_comm** group) {
  return at_boundary(comm, [&](CallPointer&) -> Result<void> {
    if (group == nullptr) return invalid("group is null");
    return hand_over(comm->communicator->split(color, key), group);
  });
}

meshcoll_result meshcoll_mesh_group(meshcoll_comm* comm, const char* mesh, const char* axes, meshcoll_comm** group) {
  return at_boundary(comm, [&](CallPointer&) -> Result<void> {
    if (mesh == nullptr || axes == nullptr || group == nullptr) return invalid("mesh, axes or group is null");
    const auto grid = meshbed::coll::Grid::parse(mesh, comm->communicator->world());
    if (!grid) return grid.error();
    const auto members = grid->group_of(comm->communicator->rank(), axes);
    if (!members) return members.error();
    return hand_over(comm->communicator->create_group(*members), group);
  });
}

meshcoll_result meshcoll_rebuild(meshcoll_comm* comm, meshcoll_comm** survivors) {
  return at_boundary(comm, [&](CallPointer&) -> Result<void> {
    if (survivors == nullptr) return invalid("survivors is null");
    return hand_over(comm->communicator->rebuild(), survivors);
  });
}

const char* meshcoll_last_error(meshcoll_comm* comm) {
  Copy& copy = this_copy();
  const Visit visit(comm);
  if (!visit.welcome()) {
    const std::lock_guard<std::mutex> lock(copy.mutex);
    return copy.texts.keep(copy.error);
  }
  const std::lock_guard<std::mutex> lock(comm->mutex);
  return copy.texts.keep(comm->error ? comm->error->text : "");
}

meshcoll_result meshcoll_get_async_error(meshcoll_comm* comm, meshcoll_error* error) {
  return at_boundary(comm, [&](CallPointer&) -> Result<void> {
    if (error == nullptr || error->struct_bytes != sizeof(meshcoll_error)) {
      return invalid("error is null, or its struct_bytes is not this library's");
    }
    const auto broken = comm->communicator->broken_by();
    error->result = broken ? code_of(broken->error) : MESHCOLL_OK;
    error->peer = broken ? broken->culprit : -1;
    error->operation = "";
    error->sequence = 0;
    error->text = this_copy().texts.keep(broken ? broken->error.text : "");
    return ok();
  });
}

meshcoll_result meshcoll_get_error(meshcoll_comm* comm, meshcoll_error* error) {
  const Visit visit(comm);
  if (!visit.welcome() || error == nullptr || error->struct_bytes != sizeof(meshcoll_error)) {
    return MESHCOLL_INVALID_ARGUMENT;
  }
  const std::lock_guard<std::mutex> lock(comm->mutex);
  error->result = comm->error ? code_of(*comm->error) : MESHCOLL_OK;
  error->peer = comm->failed != nullptr ? comm->failed->peer() : -1;
  error->operation = comm->failed != nullptr ? comm->failed->operation() : "";
  error->sequence = comm->failed != nullptr ? comm->failed->sequence() : 0;
  error->text = this_copy().texts.keep(comm->error ? comm->error->text : "");
  return MESHCOLL_OK;
}

meshcoll_result meshcoll_start(meshcoll_comm* comm, const meshcoll_args* args, meshcoll_handle* handle) {
  const bool whole = args != nullptr && args->struct_bytes == sizeof(meshcoll_args);
  if (whole && (handle != nullptr || args->in_stream != 0)) {
    return issue(comm, *args, handle);
  }
  return at_boundary(comm, [](CallPointer&) -> Result<void> {
    return invalid("args or handle is null, or args.struct_bytes is not this library's");
  });
}

meshcoll_result meshcoll_test(meshcoll_comm* comm, meshcoll_handle handle) { return wait_for(comm, handle, 0); }

meshcoll_result meshcoll_wait(meshcoll_comm* comm, meshcoll_handle handle, int64_t timeout_ms) {
  return wait_for(comm, handle, timeout_ms);
}

meshcoll_result meshcoll_group_start(meshcoll_comm* comm) {
  return at_boundary(comm, [&](CallPointer&) {
    ++comm->group_depth;
    return ok();
  });
}

meshcoll_result meshcoll_group_end(meshcoll_comm* comm, meshcoll_handle* handle) {
  return at_boundary(comm, [&](CallPointer& failed) -> Result<void> {
    if (handle != nullptr) *handle = 0;
    if (comm->group_depth == 0) return invalid("group_end without its group_start");
    if (--comm->group_depth > 0) return ok();
    const auto refusal = std::exchange(comm->group_refusal, std::nullopt);
    auto operations = std::exchange(comm->group, {});
    const std::int64_t timeout_ms = std::exchange(comm->group_timeout_ms, 0);
    if (refusal) return *refusal;
    const bool in_stream = std::any_of(operations.begin(), operations.end(),
                                       [](const meshbed::coll::Operation& operation) { return operation.in_stream; });
    return hand_out(*comm, comm->communicator->issue(std::move(operations), timeout_ms), handle, failed, in_stream);
  });
}

meshcoll_result meshcoll_abort(meshcoll_comm* comm, const char* reason) {
  return at_boundary(comm, [&](CallPointer&) {
    comm->communicator->abort(reason != nullptr ? reason : "");
    return ok();
  });
}

meshcoll_result meshcoll_get_stats(meshcoll_comm* comm, meshcoll_stats* stats) {
  return at_boundary(comm, [&](CallPointer&) -> Result<void> {
    if (stats == nullptr || stats->struct_bytes != sizeof(meshcoll_stats)) {
      return invalid("stats is null, or its struct_bytes is not this library's");
    }
    const auto counters = comm->communicator->counters();
    stats->messages_sent = counters.messages_sent;
    stats->messages_received = counters.messages_received;
    stats->bytes_sent = counters.bytes_sent;
    stats->bytes_received = counters.bytes_received;
    stats->copied_bytes = counters.copied_bytes;
    stats->gpu_direct_calls = counters.gpu_direct_calls;
    stats->connect_ns = counters.connect_ns;
    return ok();
  });
}

meshcoll_result meshcoll_get_plan(meshcoll_comm* comm, const meshcoll_args* args, meshcoll_plan* plan) {
  return at_boundary(comm, [&](CallPointer&) -> Result<void> {
    if (plan == nullptr || plan->struct_bytes != sizeof(meshcoll_plan)) return invalid("plan: null or of another size");
    std::optional<meshbed::coll::PlanRecord> record = comm->communicator->last_plan();
    if (args != nullptr) {
      const auto operation = read_operation(*args, comm->communicator->rank(), comm->communicator->world());
      if (!operation) return operation.error();
      record = comm->communicator->plan_of(*operation);
    }
    if (!record) return invalid("no collective has been carried out yet");
    plan->call = static_cast<meshcoll_call>(record->collective);
    plan->algorithm = algorithm_name(*record);
    plan->protocol = name_of(record->way.protocol);
    plan->channels = record->channels;
    return ok();
  });
}

meshcoll_result meshcoll_register(meshcoll_comm* comm, void* data, size_t size_bytes) {
  return at_boundary(comm, [&](CallPointer&) -> Result<void> {
    if (data == nullptr || size_bytes == 0) return invalid("there is no memory to register");
    return comm->communicator->keep_registered(data, size_bytes);
  });
}

meshcoll_result meshcoll_deregister(meshcoll_comm* comm, void* data) {
  return at_boundary(comm, [&](CallPointer&) { return comm->communicator->drop_registered(data); });
}

meshcoll_result meshcoll_all_reduce(meshcoll_comm* comm, const void* send, void* recv, size_t count,
                                    meshcoll_dtype dtype, meshcoll_op op) {
  return issue(comm, args_of(MESHCOLL_ALL_REDUCE, send, recv, count, dtype, op));
}

meshcoll_result meshcoll_all_gather(meshcoll_comm* comm, const void* send, void* recv, size_t send_count,
                                    meshcoll_dtype dtype) {
  return issue(comm, args_of(MESHCOLL_ALL_GATHER, send, recv, send_count, dtype));
}

meshcoll_result meshcoll_reduce_scatter(meshcoll_comm* comm, const void* send, void* recv, size_t recv_count,
                                        meshcoll_dtype dtype, meshcoll_op op) {
  return issue(comm, args_of(MESHCOLL_REDUCE_SCATTER, send, recv, recv_count, dtype, op));
}

meshcoll_result meshcoll_broadcast(meshcoll_comm* comm, const void* send, void* recv, size_t count,
                                   meshcoll_dtype dtype, int root) {
  return issue(comm, args_of(MESHCOLL_BROADCAST, send, recv, count, dtype, MESHCOLL_SUM, root));
}

meshcoll_result meshcoll_reduce(meshcoll_comm* comm, const void* send, void* recv, size_t count, meshcoll_dtype dtype,
                                meshcoll_op op, int root) {
  return issue(comm, args_of(MESHCOLL_REDUCE, send, recv, count, dtype, op, root));
}

meshcoll_result meshcoll_all_to_all(meshcoll_comm* comm, const void* send, void* recv, size_t count,
                                    meshcoll_dtype dtype) {
  return issue(comm, args_of(MESHCOLL_ALL_TO_ALL, send, recv, count, dtype));
}

meshcoll_result meshcoll_gather(meshcoll_comm* comm, const void* send, void* recv, size_t send_count,
                                meshcoll_dtype dtype, int root) {
  return issue(comm, args_of(MESHCOLL_GATHER, send, recv, send_count, dtype, MESHCOLL_SUM, root));
}

meshcoll_result meshcoll_scatter(meshcoll_comm* comm, const void* send, void* recv, size_t recv_count,
                                 meshcoll_dtype dtype, int root) {
  return issue(comm, args_of(MESHCOLL_SCATTER, send, recv, recv_count, dtype, MESHCOLL_SUM, root));
}

meshcoll_result meshcoll_send_recv(meshcoll_comm* comm, const void* send, size_t send_count, int to, void* recv,
                                   size_t recv_count, int from, meshcoll_dtype dtype) {
  meshcoll_args args = args_of(MESHCOLL_SEND_RECV, send, recv, send_count, dtype);
  args.recv_count = recv_count;
  args.to = to;
  args.from = from;
  return issue(comm, args);
}

meshcoll_result meshcoll_barrier(meshcoll_comm* comm) {
  return issue(comm, args_of(MESHCOLL_BARRIER, nullptr, nullptr, 0, MESHCOLL_INT8));
}

}  // extern "C"
