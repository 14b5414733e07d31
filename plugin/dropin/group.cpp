// A call in a group goes to its communicator's engine at once, which looks at it and keeps it: a wrong one is refused
// where it stands, and spoils the group. Messages to ourselves come in halves, which the engine takes together: they
// wait here for the end.
#include "plugin/dropin/group.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "plugin/coll/store/environment.h"
#include "plugin/dropin/config.h"

namespace meshbed::dropin {
namespace {

constexpr char kNoStreams[] =
    "the stream is not NULL: this process had no CUDA when the communicator was made, or one that does not start or is "
    "too old. Load libcuda.so.1 before, or pass host memory and stream NULL";

/// As with NCCL, calls are put into streams and come back; without CUDA there are none, and calls wait.
bool has_streams(const CommPointer& comm) { return meshcoll_has_gpu(comm->engine) != 0; }

/// Starts it in the engine, and announces it to the profiler.
Outcome start(const CommPointer& comm, const meshcoll_args& args, meshcoll_handle* handle) {
  Outcome taken = outcome_of(meshcoll_start(comm->engine, &args, handle), comm->engine);
  if (taken.well() && comm->profiling != nullptr) comm->profiling->announce(args);
  return taken;
}

/// In the engine's group, which begins with the first call.
Outcome add(Group& group, const CommPointer& comm, const meshcoll_args& args) {
  const auto found = std::find(group.comms.begin(), group.comms.end(), comm);
  if (found == group.comms.end()) {
    group.comms.push_back(comm);  // before, for where there is no memory: a group that was started must end
    const Outcome begun = outcome_of(meshcoll_group_start(comm->engine), comm->engine);
    if (!begun.well()) {
      group.comms.pop_back();
      return begun;
    }
  }
  meshcoll_handle none = 0;
  return start(comm, args, &none);
}

Outcome pair_moves_to_self(Group& group) {
  for (Group::SelfMove& send : group.sends_to_self) {
    const auto receive = std::find_if(group.receives_from_self.begin(), group.receives_from_self.end(),
                                      [&](const Group::SelfMove& one) { return one.comm == send.comm; });
    const std::string who = "rank " + std::to_string(send.comm->rank) + "'s ncclSend to itself";
    if (receive == group.receives_from_self.end()) return invalid_usage(who + " has no ncclRecv in its group");
    if (receive->args.dtype != send.args.dtype || receive->args.recv_count != send.args.count) {
      return invalid_usage(who + " and its ncclRecv differ in count or type");
    }
    if (receive->args.stream != send.args.stream) {
      return invalid_usage(who + " and its ncclRecv are in different streams, which is not supported");
    }
    meshcoll_args both = send.args;
    both.recv = receive->args.recv;
    both.recv_count = receive->args.recv_count;
    both.from = both.to;
    group.receives_from_self.erase(receive);
    Outcome added = add(group, send.comm, both);
    if (!added.well()) return added;
  }
  if (group.receives_from_self.empty()) return {};
  return invalid_usage("rank " + std::to_string(group.receives_from_self.front().comm->rank) +
                       "'s ncclRecv from itself has no ncclSend in its group");
}

/// After a refusal nothing of the group is to run: a call that no engine takes spoils what its engine has kept.
void spoil(const CommPointer& comm) {
  meshcoll_args wrong{};
  wrong.struct_bytes = sizeof wrong;
  wrong.call = MESHCOLL_CALL_INT;
  meshcoll_handle none = 0;
  static_cast<void>(meshcoll_start(comm->engine, &wrong, &none));
}

/// Takes none: so short a text lies in the string itself.
Outcome no_memory() {
  Outcome outcome{.code = ncclSystemError};
  outcome.text = "no memory left";
  return outcome;
}

Outcome run(Group& group) {
  std::vector<std::pair<CommPointer, meshcoll_handle>> started;
  try {
    started.reserve(group.comms.size());
  } catch (const std::bad_alloc&) {
    if (!group.refusal) group.refusal.emplace(no_memory());  // nothing is started then
  }
  Outcome first;
  const auto note = [&](const Outcome& outcome) {
    if (first.well()) first = outcome;
  };
  // All are started before one is waited for: those of different communicators run side by side.
  for (const CommPointer& comm : group.comms) {
    if (group.refusal) spoil(comm);
    meshcoll_handle handle = 0;
    note(outcome_of(meshcoll_group_end(comm->engine, has_streams(comm) ? nullptr : &handle), comm->engine));
    if (handle != 0) started.emplace_back(comm, handle);
  }
  for (const auto& [comm, handle] : started) {
    note(outcome_of(meshcoll_wait(comm->engine, handle, -1), comm->engine));
  }
  return group.refusal ? *group.refusal : first;
}

Outcome create(const Plan& plan) {
  const std::string plugin = coll::variable("NCCL_NET_PLUGIN").value_or("mesh");
  meshcoll_options options{};
  options.struct_bytes = sizeof options;
  options.rank = plan.rank;
  options.world = plan.world;
  options.bootstrap = plan.bootstrap.c_str();
  options.net_plugin = plugin.c_str();
  options.connect_timeout_ms = -1;  // as NCCL, which waits for every rank that lives
  options.reach_timeout_ms = reach_timeout_ms();
  meshcoll_comm* engine = nullptr;
  const Outcome made = outcome_of(meshcoll_init(&options, &engine), nullptr);
  if (made.well()) *plan.where = library().add(engine);
  return made;
}

}  // namespace

Outcome call(const ncclComm* handle, cudaStream_t stream, meshcoll_args args) {
  Group* group = library().group();
  const CommPointer comm = library().find(handle);
  if (comm == nullptr) return invalid_argument(kNoCommunicator);
  if (comm->finalized) return invalid_usage("the communicator was finalized");
  args.struct_bytes = sizeof args;
  args.in_stream = has_streams(comm) ? 1 : 0;
  args.stream = stream;
  if (args.in_stream == 0 && stream != nullptr) return invalid_usage(kNoStreams);
  if (group == nullptr && args.in_stream != 0) return start(comm, args, nullptr);
  if (group == nullptr) {
    meshcoll_handle started = 0;
    const Outcome taken = start(comm, args, &started);
    return taken.well() ? outcome_of(meshcoll_wait(comm->engine, started, -1), comm->engine) : taken;
  }
  if (args.call == MESHCOLL_SEND_RECV && args.to == comm->rank) {
    group->sends_to_self.push_back({comm, args});
    return {};
  }
  if (args.call == MESHCOLL_SEND_RECV && args.from == comm->rank) {
    group->receives_from_self.push_back({comm, args});
    return {};
  }
  return add(*group, comm, args);
}

Outcome make_communicator(const Plan& plan) {
  Group* group = library().group();
  if (group == nullptr) return create(plan);
  if (group->plan) {
    return invalid_usage(
        "several ranks in one group: a thread here is one rank; start a process, or at least a thread, "
        "for each");
  }
  group->plan = plan;
  return {};
}

Outcome split_communicator(const CommPointer& comm, int color, int key, ncclComm_t* made) {
  if (library().group() != nullptr) return invalid_usage("in a group it is not supported: call it outside");
  meshcoll_comm* part = nullptr;
  const Outcome split = outcome_of(meshcoll_split(comm->engine, color, key, &part), comm->engine);
  if (split.well()) *made = part != nullptr ? library().add(part) : NCCL_COMM_NULL;
  return split;
}

void spoil_group(ncclResult_t code, const char* text) {
  Group* group = library().group();
  if (group == nullptr || group->refusal) return;
  group->refusal.emplace(Outcome{.code = code});
  try {
    group->refusal->text = text;
  } catch (const std::bad_alloc&) {
    group->refusal->text = no_memory().text;
  }
}

void abandon(Group& group) {
  constexpr char kEnded[] = "a thread ended between ncclGroupStart and ncclGroupEnd: nothing of its group is started";
  library().tell("ncclGroupEnd", kEnded);
  group.refusal.emplace(Outcome{.code = ncclInvalidUsage});
  try {
    static_cast<void>(run(group));
  } catch (const std::exception& error) {
    library().tell("ncclGroupEnd", error.what());
  }
}

Outcome start_group() {
  Group* group = library().open_group();
  if (group == nullptr) return {ncclSystemError, "the process has no room left for data of its threads"};
  ++group->depth;
  return {};
}

Outcome end_group() {
  Group* group = library().group();
  if (group == nullptr) return invalid_usage("there is no ncclGroupStart before it");
  if (--group->depth > 0) return {};
  Group ended = library().close_group();
  // The engines' groups end in any case.
  try {
    Outcome paired = ended.refusal ? Outcome{} : pair_moves_to_self(ended);
    if (!paired.well()) ended.refusal = std::move(paired);
  } catch (const std::bad_alloc&) {
    ended.refusal.emplace(no_memory());
  }
  if (ended.plan && !ended.comms.empty() && !ended.refusal) {
    ended.refusal = invalid_usage("communicators are made in a group of their own");
  }
  const Outcome done = run(ended);
  return done.well() && ended.plan ? create(*ended.plan) : done;
}

}  // namespace meshbed::dropin
