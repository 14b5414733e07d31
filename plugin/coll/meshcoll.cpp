// The C boundary: arguments are checked here, Results become codes and texts, nothing thrown crosses.
#include "plugin/coll/meshcoll.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>

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
using meshbed::coll::Operation;

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

Result<void> check_types(meshcoll_dtype dtype, meshcoll_op op) {
  if (dtype != MESHCOLL_FLOAT32) {
    return Error{
        ErrorCode::kUnsupported, Scope::kRequest,
        "data type " + std::to_string(static_cast<int>(dtype)) + " (ncclDataType_t) is not supported; float32 is"};
  }
  if (op != MESHCOLL_SUM) {
    return Error{ErrorCode::kUnsupported, Scope::kRequest,
                 "reduction " + std::to_string(static_cast<int>(op)) + " (ncclRedOp_t) is not supported; sum is"};
  }
  return meshbed::ok();
}

Result<void> check_buffer(const char* name, const void* data, std::size_t count, int blocks) {
  if (count > 0 && data == nullptr) return invalid(std::string(name) + " is null, but its count is not zero");
  const std::size_t limit =
      std::numeric_limits<std::ptrdiff_t>::max() / sizeof(float) / static_cast<std::size_t>(blocks);
  if (count > limit) return invalid(std::string(name) + "'s count overflows an address");
  return meshbed::ok();
}

Result<void> check_rank(const char* name, int rank, int lowest, int world) {
  if (rank >= lowest && rank < world) return meshbed::ok();
  return invalid(std::string(name) + " is " + std::to_string(rank) + " in a world of " + std::to_string(world));
}

// Two buffers that are one memory, or share none. Counts of float32.
Result<void> check_apart(const void* send, std::size_t send_count, const void* recv, std::size_t recv_count) {
  if (send_count == 0 || recv_count == 0 || (send == recv && send_count == recv_count)) return meshbed::ok();
  const auto send_begin = reinterpret_cast<std::uintptr_t>(send), recv_begin = reinterpret_cast<std::uintptr_t>(recv);
  const bool apart =
      send_begin + send_count * sizeof(float) <= recv_begin || recv_begin + recv_count * sizeof(float) <= send_begin;
  return apart ? meshbed::ok() : invalid("send and recv overlap, but are not the same buffer with the same count");
}

// Every check in turn; the first that fails is the answer.
template <typename... Checks>
Result<void> all_of(Checks... checks) {
  Result<void> result;
  static_cast<void>(((result = std::move(checks), result.has_value()) && ...));
  return result;
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
  return at_boundary(comm, [&]() -> Result<void> {
    auto valid =
        all_of(check_types(dtype, op), check_buffer("send", send, count, 1), check_buffer("recv", recv, count, 1));
    if (!valid) return valid;
    return comm->communicator->run(
        {.collective = Collective::kAllReduce, .input = send, .output = recv, .count = count});
  });
}

meshcoll_result meshcoll_all_gather(meshcoll_comm* comm, const void* send, void* recv, size_t send_count,
                                    meshcoll_dtype dtype) {
  return at_boundary(comm, [&]() -> Result<void> {
    auto valid = all_of(check_types(dtype, MESHCOLL_SUM), check_buffer("send", send, send_count, 1),
                        check_buffer("recv", recv, send_count, comm->communicator->world()));
    if (!valid) return valid;
    return comm->communicator->run(
        {.collective = Collective::kAllGather, .input = send, .output = recv, .count = send_count});
  });
}

meshcoll_result meshcoll_reduce_scatter(meshcoll_comm* comm, const void* send, void* recv, size_t recv_count,
                                        meshcoll_dtype dtype, meshcoll_op op) {
  return at_boundary(comm, [&]() -> Result<void> {
    auto valid = all_of(check_types(dtype, op), check_buffer("send", send, recv_count, comm->communicator->world()),
                        check_buffer("recv", recv, recv_count, 1));
    if (!valid) return valid;
    return comm->communicator->run(
        {.collective = Collective::kReduceScatter, .input = send, .output = recv, .count = recv_count});
  });
}

meshcoll_result meshcoll_broadcast(meshcoll_comm* comm, const void* send, void* recv, size_t count,
                                   meshcoll_dtype dtype, int root) {
  return at_boundary(comm, [&]() -> Result<void> {
    const auto& communicator = *comm->communicator;
    const bool is_root = communicator.rank() == root;
    auto valid = all_of(check_types(dtype, MESHCOLL_SUM), check_rank("root", root, 0, communicator.world()),
                        check_buffer("send", send, is_root ? count : 0, 1), check_buffer("recv", recv, count, 1));
    if (!valid) return valid;
    return comm->communicator->run(
        {.collective = Collective::kBroadcast, .input = send, .output = recv, .count = count, .root = root});
  });
}

meshcoll_result meshcoll_send_recv(meshcoll_comm* comm, const void* send, size_t send_count, int to, void* recv,
                                   size_t recv_count, int from, meshcoll_dtype dtype) {
  return at_boundary(comm, [&]() -> Result<void> {
    const auto& communicator = *comm->communicator;
    auto valid = all_of(check_types(dtype, MESHCOLL_SUM), check_rank("to", to, -1, communicator.world()),
                        check_rank("from", from, -1, communicator.world()),
                        check_buffer("send", send, to < 0 ? 0 : send_count, 1),
                        check_buffer("recv", recv, from < 0 ? 0 : recv_count, 1));
    if (!valid) return valid;
    const bool to_self = to == communicator.rank(), from_self = from == communicator.rank();
    if (to_self != from_self || (to_self && send_count != recv_count)) {
      return invalid("what goes to ourselves must come from ourselves, and be as long");
    }
    auto apart = check_apart(send, to < 0 ? 0 : send_count, recv, from < 0 ? 0 : recv_count);
    if (!apart) return apart;
    return comm->communicator->run({.collective = Collective::kSendRecv,
                                    .input = send,
                                    .output = recv,
                                    .count = to < 0 ? 0 : send_count,
                                    .receive_count = from < 0 ? 0 : recv_count,
                                    .to = to,
                                    .from = from});
  });
}

meshcoll_result meshcoll_barrier(meshcoll_comm* comm) {
  return at_boundary(comm, [&] { return comm->communicator->barrier(); });
}

}  // extern "C"
