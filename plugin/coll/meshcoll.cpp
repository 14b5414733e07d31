// The C boundary: arguments are checked here, Results become codes and texts, nothing thrown crosses.
#include "plugin/coll/meshcoll.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

#include "plugin/coll/axes.h"
#include "plugin/coll/communicator.h"

struct meshcoll_comm {
  std::unique_ptr<meshbed::coll::Communicator> communicator;
  std::string last_error;
};

namespace {

using meshbed::Error;
using meshbed::ErrorCode;
using meshbed::Result;
using meshbed::Scope;
using meshbed::coll::Collective;
using meshbed::coll::Communicator;
using meshbed::coll::CommunicatorOptions;
using meshbed::coll::DataType;
using meshbed::coll::Operation;
using meshbed::coll::ReduceOp;

constexpr int kChannelsMax = 64;
constexpr int kStepsMin = 2;                         // one slot cannot hold a partial sum and receive the next one
constexpr std::uint64_t kSliceBytesMax = 1U << 30U;  // ncclNet sizes come back as int

// The contract asks for the last failed init of this copy, which has no communicator to keep it.
struct InitError {
  std::mutex mutex;
  std::string text;
};
InitError g_init_error;

meshcoll_result code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return MESHCOLL_INVALID_ARGUMENT;
    case ErrorCode::kSystem:
      return MESHCOLL_SYSTEM;
    case ErrorCode::kUnreachable:
    case ErrorCode::kRemote:
    case ErrorCode::kClosed:
      return MESHCOLL_NET;
    case ErrorCode::kTimeout:
      return MESHCOLL_TIMEOUT;
    case ErrorCode::kUnsupported:
      return MESHCOLL_UNSUPPORTED;
    case ErrorCode::kInternal:
      break;
  }
  return MESHCOLL_INTERNAL;
}

DataType type_of(meshcoll_dtype dtype) { return static_cast<DataType>(dtype); }
ReduceOp op_of(meshcoll_op op) { return static_cast<ReduceOp>(op); }

Error invalid(std::string text) { return {ErrorCode::kInvalidArgument, Scope::kRequest, std::move(text)}; }

template <typename Body>
Result<void> contained(Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, Scope::kJob, std::string("exception: ") + error.what()};
  }
}

template <typename Body>
meshcoll_result at_boundary(meshcoll_comm* comm, Body body) {
  if (comm == nullptr) return MESHCOLL_INVALID_ARGUMENT;
  const Result<void> result = contained(body);
  if (result) return MESHCOLL_OK;
  comm->last_error = result.error().text;
  return code_of(result.error());
}

/// What a call is asked for, looked at before anything else.
Result<void> check_type(meshcoll_dtype dtype) {
  const int number = static_cast<int>(dtype);
  if (number >= 0 && number < meshbed::coll::kDataTypes) return meshbed::ok();
  return Error{ErrorCode::kUnsupported, Scope::kRequest,
               "there is no data type " + std::to_string(number) + " (ncclDataType_t has 0 .. " +
                   std::to_string(meshbed::coll::kDataTypes - 1) + ")"};
}

Result<void> check_reduction(meshcoll_dtype dtype, meshcoll_op op) {
  auto type_ok = check_type(dtype);
  if (!type_ok) return type_ok;
  const int number = static_cast<int>(op);
  if (number < 0 || number >= meshbed::coll::kReduceOps) {
    return Error{ErrorCode::kUnsupported, Scope::kRequest,
                 "there is no reduction " + std::to_string(number) + " (ncclRedOp_t has 0 .. " +
                     std::to_string(meshbed::coll::kReduceOps - 1) + ")"};
  }
  if (meshbed::coll::is_reducible(type_of(dtype))) return meshbed::ok();
  return Error{ErrorCode::kUnsupported, Scope::kRequest,
               std::string(name_of(type_of(dtype))) + " is moved, never reduced; reduce it as float16 or float32"};
}

/// `blocks` times `count` elements.
Result<void> check_buffer(const char* name, const void* data, std::size_t count, meshcoll_dtype dtype, int blocks = 1) {
  if (count == 0 || blocks == 0) return meshbed::ok();
  if (data == nullptr) return invalid(std::string(name) + " is null, but its count is not zero");
  const std::size_t element_bytes = size_of(type_of(dtype));
  const std::size_t limit =
      std::numeric_limits<std::ptrdiff_t>::max() / element_bytes / static_cast<std::size_t>(blocks);
  if (count > limit) return invalid(std::string(name) + "'s count overflows an address");
  if (reinterpret_cast<std::uintptr_t>(data) % element_bytes == 0) return meshbed::ok();
  return invalid(std::string(name) + " is not aligned for " + name_of(type_of(dtype)) + ", which takes " +
                 std::to_string(element_bytes) + " bytes");
}

Result<void> check_rank(const char* name, int rank, int lowest, int world) {
  if (rank >= lowest && rank < world) return meshbed::ok();
  return invalid(std::string(name) + " is " + std::to_string(rank) + " in a world of " + std::to_string(world));
}

// Two buffers that are one memory, or share none.
Result<void> check_apart(const void* send, std::size_t send_count, const void* recv, std::size_t recv_count,
                         meshcoll_dtype dtype) {
  if (send_count == 0 || recv_count == 0 || (send == recv && send_count == recv_count)) return meshbed::ok();
  const std::size_t element_bytes = size_of(type_of(dtype));
  const auto send_begin = reinterpret_cast<std::uintptr_t>(send), recv_begin = reinterpret_cast<std::uintptr_t>(recv);
  const bool apart =
      send_begin + send_count * element_bytes <= recv_begin || recv_begin + recv_count * element_bytes <= send_begin;
  return apart ? meshbed::ok() : invalid("send and recv overlap, but are not the same buffer with the same count");
}

// Every check in turn; the first that fails is the answer.
template <typename... Checks>
Result<void> all_of(Checks... checks) {
  Result<void> result;
  static_cast<void>(((result = std::move(checks), result.has_value()) && ...));
  return result;
}

/// Every collective but send_recv.
struct Call {
  Collective collective;
  const void* send;
  void* recv;
  std::size_t count;
  meshcoll_dtype dtype;
  meshcoll_op op = MESHCOLL_SUM;
  int root = 0;
};

/// Of `count` elements each; zero: the buffer is not looked at.
struct Blocks {
  int sent = 1, received = 1;
};
Blocks blocks_of(Collective collective, int world, bool is_root) {
  switch (collective) {
    case Collective::kAllGather:
      return {1, world};
    case Collective::kReduceScatter:
      return {world, 1};
    case Collective::kBroadcast:
      return {is_root ? 1 : 0, 1};
    case Collective::kReduce:
      return {1, is_root ? 1 : 0};
    case Collective::kAllToAll:
      return {world, world};
    case Collective::kGather:
      return {1, is_root ? world : 0};
    case Collective::kScatter:
      return {is_root ? world : 0, 1};
    case Collective::kAllReduce:
    case Collective::kSendRecv:
      break;
  }
  return {1, 1};
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

meshcoll_result collective(meshcoll_comm* comm, const Call& call) {
  return at_boundary(comm, [&]() -> Result<void> {
    Communicator& communicator = *comm->communicator;
    const int world = communicator.world();
    auto valid = all_of(reduces(call.collective) ? check_reduction(call.dtype, call.op) : check_type(call.dtype),
                        check_rank("root", call.root, 0, world));
    if (!valid) return valid;
    const Blocks blocks = blocks_of(call.collective, world, communicator.rank() == call.root);
    valid = all_of(check_buffer("send", call.send, call.count, call.dtype, blocks.sent),
                   check_buffer("recv", call.recv, call.count, call.dtype, blocks.received));
    if (valid && call.collective == Collective::kAllToAll) {
      const std::size_t all = call.count * static_cast<std::size_t>(world);
      valid = check_apart(call.send, all, call.recv, all, call.dtype);
    }
    if (!valid) return valid;
    return communicator.run({.collective = call.collective,
                             .input = call.send,
                             .output = call.recv,
                             .count = call.count,
                             .type = type_of(call.dtype),
                             .op = op_of(call.op),
                             .root = call.root});
  });
}

/// Ranks with our color, by key, then by rank.
Result<std::vector<int>> split_members(Communicator& communicator, int color, int key) {
  struct Wish {
    std::int32_t color, key;
  };
  const Wish own{color, key};
  std::vector<Wish> wishes(static_cast<std::size_t>(communicator.world()));
  auto gathered = communicator.run({.collective = Collective::kAllGather,
                                    .input = &own,
                                    .output = wishes.data(),
                                    .count = sizeof(Wish) / sizeof(std::int32_t),
                                    .type = DataType::kInt32});
  if (!gathered) return gathered.error();
  std::vector<int> members;
  for (int rank = 0; color >= 0 && rank < communicator.world(); ++rank) {
    if (wishes[static_cast<std::size_t>(rank)].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(), [&](int one, int other) {
    return wishes[static_cast<std::size_t>(one)].key < wishes[static_cast<std::size_t>(other)].key;
  });
  return members;
}

Result<void> make_group(Communicator& communicator, const std::vector<int>& members, meshcoll_comm** group) {
  auto made = communicator.create_group(members);
  if (!made) return made.error();
  *group = *made != nullptr ? new meshcoll_comm{std::move(*made), {}} : nullptr;
  return meshbed::ok();
}

Result<CommunicatorOptions> read_options(const meshcoll_options& given) {
  if (given.struct_bytes != sizeof(meshcoll_options)) {
    return invalid("options.struct_bytes is " + std::to_string(given.struct_bytes) + " where this library has " +
                   std::to_string(sizeof(meshcoll_options)));
  }
  CommunicatorOptions options;
  options.rank = given.rank;
  options.world = given.world;
  if (given.world < 1) return invalid("options.world is " + std::to_string(given.world));
  auto rank_ok = check_rank("options.rank", given.rank, 0, given.world);
  if (!rank_ok) return rank_ok.error();
  if (given.world > 1 && (given.bootstrap == nullptr || given.net_plugin == nullptr)) {
    return invalid("options.bootstrap and options.net_plugin are needed where the world is larger than one");
  }
  if (given.bootstrap != nullptr) options.bootstrap = given.bootstrap;
  if (given.net_plugin != nullptr) options.net_plugin = given.net_plugin;
  if (given.net_version != 0 && (given.net_version < 8 || given.net_version > 12)) {
    return invalid("options.net_version is " + std::to_string(given.net_version) + ", not 0 or 8 .. 12");
  }
  options.net_version = given.net_version;
  if (given.channels < 0 || given.channels > kChannelsMax) {
    return invalid("options.channels is " + std::to_string(given.channels) + ", not 1 .. " +
                   std::to_string(kChannelsMax));
  }
  if (given.channels > 0) options.channels = given.channels;
  if (given.channel_devices != nullptr) {
    options.channel_devices.assign(given.channel_devices, given.channel_devices + options.channels);
  }
  if (given.slice_bytes > kSliceBytesMax) return invalid("options.slice_bytes is more than 1 GiB");
  if (given.slice_bytes > 0) options.slice_bytes = given.slice_bytes;
  if (given.steps != 0 && (given.steps < kStepsMin || given.steps > meshbed::nccl::kMaxRequests)) {
    return invalid("options.steps is " + std::to_string(given.steps) + ", not " + std::to_string(kStepsMin) + " .. " +
                   std::to_string(meshbed::nccl::kMaxRequests));
  }
  if (given.steps > 0) options.steps = given.steps;
  if (given.connect_timeout_ms > 0) options.connect_timeout_ms = given.connect_timeout_ms;
  if (given.operation_timeout_ms > 0) options.operation_timeout_ms = given.operation_timeout_ms;
  if (given.algorithm != nullptr) {
    const auto choice = meshbed::coll::parse_algorithm(given.algorithm);
    if (!choice) {
      std::string text = "there is no options.algorithm \"" + std::string(given.algorithm) + "\"; there are";
      for (const std::string& name : meshbed::coll::algorithm_names()) text += " " + name;
      return invalid(text);
    }
    options.algorithm = *choice;
  }
  meshbed::coll::CostModel& network = options.network;
  if (given.link_mbps > 0) network.gigabits_per_s = given.link_mbps / 1000.0;
  if (given.message_ns > 0) network.message_ns = given.message_ns;
  if (given.hop_ns > 0) network.hop_ns = given.hop_ns;
  if (given.hops_per_mille > 0) network.hops = given.hops_per_mille / 1000.0;
  return options;
}

}  // namespace

extern "C" {

int meshcoll_version(void) { return MESHCOLL_VERSION; }

int64_t meshcoll_now_ns(void) { return meshbed::coll::now_ns(); }

meshcoll_result meshcoll_init(const meshcoll_options* options, meshcoll_comm** comm) {
  const Result<void> result = contained([&]() -> Result<void> {
    if (options == nullptr || comm == nullptr) return invalid("options or comm is null");
    auto read = read_options(*options);
    if (!read) return read.error();
    auto communicator = Communicator::create(*read);
    if (!communicator) return communicator.error();
    *comm = new meshcoll_comm{std::move(*communicator), {}};
    return meshbed::ok();
  });
  if (result) return MESHCOLL_OK;
  const std::lock_guard<std::mutex> lock(g_init_error.mutex);
  g_init_error.text = "init: " + result.error().text;
  return code_of(result.error());
}

meshcoll_result meshcoll_destroy(meshcoll_comm* comm) {
  delete comm;
  return MESHCOLL_OK;
}

int meshcoll_rank(const meshcoll_comm* comm) { return comm != nullptr ? comm->communicator->rank() : -1; }
int meshcoll_world(const meshcoll_comm* comm) { return comm != nullptr ? comm->communicator->world() : -1; }

meshcoll_result meshcoll_split(meshcoll_comm* comm, int color, int key, meshcoll_comm** group) {
  return at_boundary(comm, [&]() -> Result<void> {
    if (group == nullptr) return invalid("group is null");
    auto members = split_members(*comm->communicator, color, key);
    if (!members) return members.error();
    return make_group(*comm->communicator, *members, group);
  });
}

meshcoll_result meshcoll_mesh_group(meshcoll_comm* comm, const char* mesh, const char* axes, meshcoll_comm** group) {
  return at_boundary(comm, [&]() -> Result<void> {
    if (mesh == nullptr || axes == nullptr || group == nullptr) return invalid("mesh, axes or group is null");
    const auto grid = meshbed::coll::Grid::parse(mesh, comm->communicator->world());
    if (!grid) return grid.error();
    const auto members = grid->group_of(comm->communicator->rank(), axes);
    if (!members) return members.error();
    return make_group(*comm->communicator, *members, group);
  });
}

const char* meshcoll_last_error(meshcoll_comm* comm) {
  if (comm != nullptr) return comm->last_error.c_str();
  const std::lock_guard<std::mutex> lock(g_init_error.mutex);
  return g_init_error.text.c_str();
}

meshcoll_result meshcoll_get_stats(meshcoll_comm* comm, meshcoll_stats* stats) {
  return at_boundary(comm, [&]() -> Result<void> {
    if (stats == nullptr || stats->struct_bytes != sizeof(meshcoll_stats)) {
      return invalid("stats is null, or its struct_bytes is not this library's");
    }
    const auto& counters = comm->communicator->counters();
    stats->messages_sent = counters.messages_sent;
    stats->messages_received = counters.messages_received;
    stats->bytes_sent = counters.bytes_sent;
    stats->bytes_received = counters.bytes_received;
    stats->copied_bytes = counters.copied_bytes;
    return meshbed::ok();
  });
}

meshcoll_result meshcoll_register(meshcoll_comm* comm, void* data, size_t size_bytes) {
  return at_boundary(comm, [&]() -> Result<void> {
    if (data == nullptr || size_bytes == 0) return invalid("there is no memory to register");
    return comm->communicator->keep_registered(data, size_bytes);
  });
}

meshcoll_result meshcoll_deregister(meshcoll_comm* comm, void* data) {
  return at_boundary(comm, [&] { return comm->communicator->drop_registered(data); });
}

meshcoll_result meshcoll_all_reduce(meshcoll_comm* comm, const void* send, void* recv, size_t count,
                                    meshcoll_dtype dtype, meshcoll_op op) {
  return collective(comm, {Collective::kAllReduce, send, recv, count, dtype, op});
}

meshcoll_result meshcoll_all_gather(meshcoll_comm* comm, const void* send, void* recv, size_t send_count,
                                    meshcoll_dtype dtype) {
  return collective(comm, {Collective::kAllGather, send, recv, send_count, dtype});
}

meshcoll_result meshcoll_reduce_scatter(meshcoll_comm* comm, const void* send, void* recv, size_t recv_count,
                                        meshcoll_dtype dtype, meshcoll_op op) {
  return collective(comm, {Collective::kReduceScatter, send, recv, recv_count, dtype, op});
}

meshcoll_result meshcoll_broadcast(meshcoll_comm* comm, const void* send, void* recv, size_t count,
                                   meshcoll_dtype dtype, int root) {
  return collective(comm, {Collective::kBroadcast, send, recv, count, dtype, MESHCOLL_SUM, root});
}

meshcoll_result meshcoll_reduce(meshcoll_comm* comm, const void* send, void* recv, size_t count, meshcoll_dtype dtype,
                                meshcoll_op op, int root) {
  return collective(comm, {Collective::kReduce, send, recv, count, dtype, op, root});
}

meshcoll_result meshcoll_all_to_all(meshcoll_comm* comm, const void* send, void* recv, size_t count,
                                    meshcoll_dtype dtype) {
  return collective(comm, {Collective::kAllToAll, send, recv, count, dtype});
}

meshcoll_result meshcoll_gather(meshcoll_comm* comm, const void* send, void* recv, size_t send_count,
                                meshcoll_dtype dtype, int root) {
  return collective(comm, {Collective::kGather, send, recv, send_count, dtype, MESHCOLL_SUM, root});
}

meshcoll_result meshcoll_scatter(meshcoll_comm* comm, const void* send, void* recv, size_t recv_count,
                                 meshcoll_dtype dtype, int root) {
  return collective(comm, {Collective::kScatter, send, recv, recv_count, dtype, MESHCOLL_SUM, root});
}

meshcoll_result meshcoll_send_recv(meshcoll_comm* comm, const void* send, size_t send_count, int to, void* recv,
                                   size_t recv_count, int from, meshcoll_dtype dtype) {
  return at_boundary(comm, [&]() -> Result<void> {
    const auto& communicator = *comm->communicator;
    auto valid = all_of(check_type(dtype), check_rank("to", to, -1, communicator.world()),
                        check_rank("from", from, -1, communicator.world()));
    const std::size_t sent = to < 0 ? 0 : send_count, received = from < 0 ? 0 : recv_count;
    if (valid) {
      valid = all_of(check_buffer("send", send, sent, dtype), check_buffer("recv", recv, received, dtype));
    }
    if (!valid) return valid;
    const bool to_self = to == communicator.rank(), from_self = from == communicator.rank();
    if (to_self != from_self || (to_self && send_count != recv_count)) {
      return invalid("what goes to ourselves must come from ourselves, and be as long");
    }
    auto apart = check_apart(send, sent, recv, received, dtype);
    if (!apart) return apart;
    return comm->communicator->run({.collective = Collective::kSendRecv,
                                    .input = send,
                                    .output = recv,
                                    .count = sent,
                                    .receive_count = received,
                                    .type = type_of(dtype),
                                    .to = to,
                                    .from = from});
  });
}

meshcoll_result meshcoll_barrier(meshcoll_comm* comm) {
  return at_boundary(comm, [&] { return comm->communicator->barrier(); });
}

}  // extern "C"
