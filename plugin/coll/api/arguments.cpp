#include "plugin/coll/api/arguments.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "plugin/coll/plan/signature.h"

namespace meshbed::coll {
namespace {

constexpr int kChannelsMax = 64;
// Rank 0's answer who waits, and who has left, is a bit for each rank, twice.
constexpr int kWorldMost = (static_cast<int>(kFrameBodyBytesMax) / 2 - 1) * 8;
constexpr int kStepsMin = 2;                         // one slot cannot hold a partial sum and receive the next one
constexpr std::uint64_t kSliceBytesMax = 1U << 30U;  // ncclNet sizes come back as int

DataType type_of(meshcoll_dtype dtype) { return static_cast<DataType>(dtype); }
ReduceOp op_of(meshcoll_op op) { return static_cast<ReduceOp>(op); }

/// What a call is asked for, looked at before anything else.
Result<void> check_type(meshcoll_dtype dtype) {
  const int number = static_cast<int>(dtype);
  if (number >= 0 && number < kDataTypes) return ok();
  return Error{ErrorCode::kUnsupported, Scope::kRequest,
               "there is no data type " + std::to_string(number) + " (ncclDataType_t has 0 .. " +
                   std::to_string(kDataTypes - 1) + ")"};
}

Result<void> check_reduction(meshcoll_dtype dtype, meshcoll_op op) {
  auto type_ok = check_type(dtype);
  if (!type_ok) return type_ok;
  const int number = static_cast<int>(op);
  if (number < 0 || number >= kReduceOps) {
    return Error{ErrorCode::kUnsupported, Scope::kRequest,
                 "there is no reduction " + std::to_string(number) + " (ncclRedOp_t has 0 .. " +
                     std::to_string(kReduceOps - 1) + ")"};
  }
  if (is_reducible(type_of(dtype))) return ok();
  return Error{ErrorCode::kUnsupported, Scope::kRequest,
               std::string(name_of(type_of(dtype))) + " is moved, never reduced; reduce it as float16 or float32"};
}

/// `blocks` times `count` elements.
Result<void> check_buffer(const char* name, const void* data, std::size_t count, meshcoll_dtype dtype, int blocks = 1) {
  if (count == 0 || blocks == 0) return ok();
  if (data == nullptr) return invalid(std::string(name) + " is null, but its count is not zero");
  const std::size_t element_bytes = size_of(type_of(dtype));
  const std::size_t limit =
      std::numeric_limits<std::ptrdiff_t>::max() / element_bytes / static_cast<std::size_t>(blocks);
  if (count > limit) return invalid(std::string(name) + "'s count overflows an address");
  if (reinterpret_cast<std::uintptr_t>(data) % element_bytes == 0) return ok();
  return invalid(std::string(name) + " is not aligned for " + name_of(type_of(dtype)) + ", which takes " +
                 std::to_string(element_bytes) + " bytes");
}

Result<void> check_rank(const char* name, int rank, int lowest, int world) {
  if (rank >= lowest && rank < world) return ok();
  return invalid(std::string(name) + " is " + std::to_string(rank) + " in a world of " + std::to_string(world));
}

// Two buffers that are one memory, or share none.
Result<void> check_apart(const void* send, std::size_t send_count, const void* recv, std::size_t recv_count,
                         meshcoll_dtype dtype) {
  if (send_count == 0 || recv_count == 0 || (send == recv && send_count == recv_count)) return ok();
  const std::size_t element_bytes = size_of(type_of(dtype));
  const auto send_begin = reinterpret_cast<std::uintptr_t>(send), recv_begin = reinterpret_cast<std::uintptr_t>(recv);
  const bool apart =
      send_begin + send_count * element_bytes <= recv_begin || recv_begin + recv_count * element_bytes <= send_begin;
  return apart ? ok() : invalid("send and recv overlap, but are not the same buffer with the same count");
}

// Every check in turn; the first that fails is the answer.
template <typename... Checks>
Result<void> all_of(Checks... checks) {
  Result<void> result;
  static_cast<void>(((result = std::move(checks), result.has_value()) && ...));
  return result;
}

/// Of `count` elements each; zero: the buffer is not looked at.
struct Blocks {
  int sent = 1, received = 1;
};
Blocks blocks_of(Collective collective, int world, bool is_root) {
  const auto blocks = [&](CollectiveData data) {
    if (is_of_root(data) && !is_root) return 0;
    return has_shares(data) ? world : 1;
  };
  return {blocks(info_of(collective).sends), blocks(info_of(collective).receives)};
}

Result<void> check_collective(const meshcoll_args& given, Collective collective, int rank, int world) {
  auto valid = reduces(collective) ? check_reduction(given.dtype, given.op) : check_type(given.dtype);
  if (valid && has_root(collective)) valid = check_rank("root", given.root, 0, world);
  if (!valid) return valid;
  const Blocks blocks = blocks_of(collective, world, rank == given.root);
  valid = all_of(check_buffer("send", given.send, given.count, given.dtype, blocks.sent),
                 check_buffer("recv", given.recv, given.count, given.dtype, blocks.received));
  if (!valid || !is_all_to_all(collective)) return valid;
  const std::size_t all = given.count * static_cast<std::size_t>(world);
  return check_apart(given.send, all, given.recv, all, given.dtype);
}

Result<void> check_send_recv(const meshcoll_args& given, std::size_t sent, std::size_t received, int rank, int world) {
  auto valid =
      all_of(check_type(given.dtype), check_rank("to", given.to, -1, world), check_rank("from", given.from, -1, world));
  if (valid) {
    valid = all_of(check_buffer("send", given.send, sent, given.dtype),
                   check_buffer("recv", given.recv, received, given.dtype));
  }
  if (!valid) return valid;
  const bool to_self = given.to == rank, from_self = given.from == rank;
  if (to_self != from_self || (to_self && sent != received)) {
    return invalid("what goes to ourselves must come from ourselves, and be as long");
  }
  return check_apart(given.send, sent, given.recv, received, given.dtype);
}

}  // namespace

Error invalid(std::string text) { return {ErrorCode::kInvalidArgument, Scope::kRequest, std::move(text)}; }

meshcoll_result code_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return MESHCOLL_INVALID_ARGUMENT;
    case ErrorCode::kSystem:
      return MESHCOLL_SYSTEM;
    case ErrorCode::kUnreachable:
    case ErrorCode::kRemote:
      return MESHCOLL_NET;
    case ErrorCode::kClosed:
      return MESHCOLL_ABORTED;
    case ErrorCode::kTimeout:
      return MESHCOLL_TIMEOUT;
    case ErrorCode::kUnsupported:
      return MESHCOLL_UNSUPPORTED;
    case ErrorCode::kInternal:
      break;
  }
  return MESHCOLL_INTERNAL;
}

void give_text(const std::string& text, char* to) {
  std::memset(to, 0, MESHCOLL_ID_BYTES);
  text.copy(to, MESHCOLL_ID_BYTES - 1);
}

Result<Operation> read_operation(const meshcoll_args& given, int rank, int world) {
  Operation operation{.input = given.send,
                      .output = given.recv,
                      .count = given.count,
                      .type = type_of(given.dtype),
                      .op = op_of(given.op),
                      .in_stream = given.in_stream != 0,
                      .stream = given.stream};
  if (given.call == MESHCOLL_SEND_RECV) {
    operation.collective = Collective::kSendRecv;
    operation.to = given.to;
    operation.from = given.from;
    if (given.to < 0) operation.count = 0;
    if (given.from >= 0) operation.receive_count = given.recv_count;
    auto valid = check_send_recv(given, operation.count, operation.receive_count, rank, world);
    if (!valid) return valid.error();
    operation.input_bytes = operation.count * size_of(operation.type);
    operation.output_bytes = operation.receive_count * size_of(operation.type);
    return operation;
  }
  if (given.call < MESHCOLL_ALL_REDUCE || given.call >= MESHCOLL_BARRIER) {
    return invalid("there is no call " + std::to_string(static_cast<int>(given.call)));
  }
#define MESHBED_COLLECTIVE(constant, number, c_constant, ...) \
  static_assert((number) == (c_constant) && (number) < MESHCOLL_BARRIER);
#include "plugin/base/collectives.def"
#undef MESHBED_COLLECTIVE
  operation.collective = static_cast<Collective>(given.call);
  if (has_root(operation.collective)) operation.root = given.root;
  auto valid = check_collective(given, operation.collective, rank, world);
  if (!valid) return valid.error();
  const Blocks blocks = blocks_of(operation.collective, world, rank == given.root);
  const std::uint64_t block_bytes = given.count * size_of(operation.type);
  operation.input_bytes = block_bytes * static_cast<std::uint64_t>(blocks.sent);
  operation.output_bytes = block_bytes * static_cast<std::uint64_t>(blocks.received);
  return operation;
}

namespace {

std::string no_such(const char* option, const char* name, const std::vector<std::string>& names) {
  std::string text = "there is no options." + std::string(option) + " \"" + name + "\"; there are";
  for (const std::string& each : names) text += " " + each;
  return text;
}

}  // namespace

Result<CommunicatorOptions> read_options(const meshcoll_options& given) {
  if (given.struct_bytes != sizeof(meshcoll_options)) {
    return invalid("options.struct_bytes is " + std::to_string(given.struct_bytes) + " where this library has " +
                   std::to_string(sizeof(meshcoll_options)));
  }
  CommunicatorOptions options;
  options.rank = given.rank;
  options.world = given.world;
  if (given.world < 1 || given.world > kWorldMost) {
    return invalid("options.world is " + std::to_string(given.world) + ", not 1 .. " + std::to_string(kWorldMost));
  }
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
  if (given.steps != 0 && (given.steps < kStepsMin || given.steps > nccl::kMaxRequests)) {
    return invalid("options.steps is " + std::to_string(given.steps) + ", not " + std::to_string(kStepsMin) + " .. " +
                   std::to_string(nccl::kMaxRequests));
  }
  if (given.steps > 0) options.steps = given.steps;
  // A year is for ever, and can be added to.
  constexpr std::int64_t kLongestMs = 365LL * 24 * 3600 * 1000;
  if (given.connect_timeout_ms > 0) options.connect_timeout_ms = std::min(given.connect_timeout_ms, kLongestMs);
  if (given.connect_timeout_ms < 0) options.connect_timeout_ms = 0;
  if (given.reach_timeout_ms > 0) options.reach_timeout_ms = std::min(given.reach_timeout_ms, kLongestMs);
  if (given.operation_timeout_ms > 0) options.operation_timeout_ms = std::min(given.operation_timeout_ms, kLongestMs);
  if (given.algorithm != nullptr && *given.algorithm != '\0') {
    const auto choice = parse_algorithm(given.algorithm);
    if (!choice) return invalid(no_such("algorithm", given.algorithm, algorithm_names()));
    options.way.algorithm = *choice;
  }
  if (given.protocol != nullptr) {
    const auto choice = parse_protocol_choice(given.protocol);
    if (!choice) return invalid(no_such("protocol", given.protocol, protocol_choice_names()));
    options.way.protocol = *choice;
  }
  if (given.tuning != nullptr) {
    auto table = parse_tuning(given.tuning);
    if (!table) return table.error();
    options.way.tuning = std::move(*table);
  }
  if (given.on_break != nullptr) {
    options.on_break = [call = given.on_break, context = given.on_break_context](const std::string& error) {
      call(context, error.c_str());
    };
  }
  CostModel& network = options.way.network;
  if (given.link_mbps > 0) network.gigabits_per_s = given.link_mbps / 1000.0;
  if (given.message_ns > 0) network.message_ns = given.message_ns;
  if (given.hop_ns > 0) network.hop_ns = given.hop_ns;
  if (given.hops_per_mille > 0) network.hops = given.hops_per_mille / 1000.0;
  if (given.registration_ns > 0) network.registration_ns = given.registration_ns;
  const auto world = static_cast<std::size_t>(given.world);
  if (given.rank_mbps != nullptr) options.rank_mbps.assign(given.rank_mbps, given.rank_mbps + world);
  for (std::size_t rank = 0; rank < options.rank_mbps.size(); ++rank) {
    if (options.rank_mbps[rank] >= 0) continue;
    return invalid("options.rank_mbps is " + std::to_string(options.rank_mbps[rank]) + " of rank " +
                   std::to_string(rank));
  }
  if (given.shape != nullptr) {
    auto lengths = parse_shape(given.shape, given.world);
    if (!lengths) return invalid("options." + lengths.error().text);
    options.shape = std::move(*lengths);
  }
  if (given.cables == nullptr) return options;
  for (std::size_t index = 0; index < given.cable_count; ++index) {
    const meshcoll_cable& cable = given.cables[index];
    const bool joins =
        std::min(cable.a, cable.b) >= 0 && std::max(cable.a, cable.b) < given.world && cable.a != cable.b;
    const std::string name = "options.cables[" + std::to_string(index) + "]";
    if (!joins) {
      return invalid(name + " is between ranks " + std::to_string(cable.a) + " and " + std::to_string(cable.b) +
                     " of a world of " + std::to_string(given.world));
    }
    if (cable.mbps <= 0) return invalid(name + " has " + std::to_string(cable.mbps) + " Mb/s");
    options.cables.push_back({std::min(cable.a, cable.b), std::max(cable.a, cable.b), cable.mbps});
  }
  return options;
}

}  // namespace meshbed::coll
