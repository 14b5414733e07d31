// nccl.h's calls, each a few lines over the engine's C interface. Nothing thrown crosses.
#include "plugin/dropin/nccl.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "plugin/coll/store/environment.h"
#include "plugin/coll/store/job_key.h"
#include "plugin/dropin/config.h"
#include "plugin/dropin/group.h"
#include "plugin/dropin/library.h"

namespace {

using meshbed::dropin::call;
using meshbed::dropin::check_config;
using meshbed::dropin::CommPointer;
using meshbed::dropin::invalid_argument;
using meshbed::dropin::invalid_usage;
using meshbed::dropin::library;
using meshbed::dropin::make_communicator;
using meshbed::dropin::Outcome;
using meshbed::dropin::outcome_of;

constexpr char kIdVariable[] = "NCCL_COMM_ID";
constexpr std::size_t kPageBytes = 4096;

static_assert(NCCL_UNIQUE_ID_BYTES == MESHCOLL_ID_BYTES);
static_assert(static_cast<int>(ncclAvg) == MESHCOLL_AVG && static_cast<int>(ncclMax) == MESHCOLL_MAX &&
              static_cast<int>(ncclFloat8e5m2) == MESHCOLL_FLOAT8_E5M2);  // one numbering

/// `on_error` also gets the code and the text.
template <typename Body, typename OnError>
ncclResult_t at_boundary(const char* name, const Body& body, const OnError& on_error) {
  const auto tell = [&](ncclResult_t code, const char* text) {
    library().tell(name, text);
    on_error(code, text);
    return code;
  };
  try {
    const Outcome outcome = body();
    return outcome.well() ? ncclSuccess : tell(outcome.code, outcome.text.c_str());
  } catch (const std::exception& error) {
    return tell(ncclInternalError, error.what());
  }
}

template <typename Body>
ncclResult_t at_boundary(const char* name, const Body& body) {
  return at_boundary(name, body, [](ncclResult_t, const char*) {});
}

/// A call that may stand in a group, and spoils it where it is refused.
template <typename Body>
ncclResult_t grouped(const char* name, const Body& body) {
  return at_boundary(name, body, &meshbed::dropin::spoil_group);
}

ncclResult_t refuse(const char* name, const char* why) {
  library().tell_unsupported(name, why);
  return ncclInvalidUsage;
}

/// What a call asks about a communicator.
template <typename Body>
ncclResult_t ask(const char* name, const ncclComm* handle, const Body& body) {
  return at_boundary(name, [&]() -> Outcome {
    const CommPointer comm = library().find(handle);
    if (comm == nullptr) return invalid_argument(meshbed::dropin::kNoCommunicator);
    return body(*comm);
  });
}

Outcome give(int* where, int value) {
  if (where == nullptr) return invalid_argument("there is nowhere to put the answer");
  *where = value;
  return {};
}

Outcome make(ncclComm_t* comm, int world, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (comm == nullptr) return invalid_argument("comm is null");
  const void* end = std::memchr(id.internal, '\0', sizeof id.internal);
  if (end == nullptr) return invalid_argument("the unique id is not ncclGetUniqueId's");
  const Outcome wanted = check_config(config);
  if (!wanted.well()) return wanted;
  return make_communicator({.where = comm, .world = world, .rank = rank, .bootstrap = id.internal});
}

/// In the environment, so that programs need no other way to hand it around; or this process's.
Outcome make_id(ncclUniqueId* id) {
  if (id == nullptr) return invalid_argument("uniqueId is null");
  const auto given = meshbed::coll::variable(kIdVariable);
  if (!given) return outcome_of(meshcoll_get_id(id->internal), nullptr);
  const auto keyed = meshbed::coll::with_job_key(*given, meshbed::coll::variable(meshbed::coll::kJobKeyVariable));
  if (!keyed) return invalid_usage(keyed.error().text);
  const auto place = meshbed::coll::parse_meeting_place(*keyed);
  if (!place) return invalid_usage(std::string(kIdVariable) + ": " + place.error().text);
  std::memset(id->internal, 0, sizeof id->internal);
  keyed->copy(id->internal, sizeof id->internal - 1);
  return {};
}

Outcome end(const ncclComm* handle, bool abort) {
  if (handle == nullptr) return {};  // as NCCL has it
  const CommPointer comm = library().remove(handle);
  if (comm == nullptr) return invalid_argument(meshbed::dropin::kNoCommunicator);
  if (abort) static_cast<void>(meshcoll_abort(comm->engine, "ncclCommAbort"));
  return outcome_of(meshcoll_destroy(comm->engine), nullptr);
}

meshcoll_args args_of(meshcoll_call which, const void* send, void* recv, size_t count, ncclDataType_t type) {
  meshcoll_args args{};
  args.call = which;
  args.send = send;
  args.recv = recv;
  args.count = count;
  args.dtype = static_cast<meshcoll_dtype>(type);
  return args;
}
meshcoll_args with_root(meshcoll_args args, int root) {
  args.root = root;
  return args;
}
meshcoll_args with_op(meshcoll_args args, ncclRedOp_t op) {
  args.op = static_cast<meshcoll_op>(op);
  return args;
}

ncclResult_t run(const char* name, const ncclComm* comm, cudaStream_t stream, const meshcoll_args& args) {
  return grouped(name, [&] { return call(comm, stream, args); });
}

}  // namespace

extern "C" {

ncclResult_t ncclMemAlloc(void** ptr, size_t size) {
  return at_boundary("ncclMemAlloc", [&]() -> Outcome {
    if (ptr == nullptr) return invalid_argument("ptr is null");
    void* memory = nullptr;
    if (posix_memalign(&memory, kPageBytes, size) != 0) {
      return {ncclSystemError, "there are no " + std::to_string(size) + " bytes of host memory"};
    }
    *ptr = memory;
    return {};
  });
}

ncclResult_t ncclMemFree(void* ptr) {
  std::free(ptr);
  return ncclSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  return at_boundary("ncclGetVersion", [&] { return give(version, NCCL_VERSION_CODE); });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return at_boundary("ncclGetUniqueId", [&] { return make_id(uniqueId); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config) {
  return grouped("ncclCommInitRankConfig", [&] { return make(comm, nranks, commId, rank, config); });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return grouped("ncclCommInitRank", [&] { return make(comm, nranks, commId, rank, nullptr); });
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
                                      ncclConfig_t* config) {
  return grouped("ncclCommInitRankScalable", [&]() -> Outcome {
    if (nId != 1 || commIds == nullptr) return invalid_usage("one unique id is supported, not several roots");
    return make(newcomm, nranks, commIds[0], myrank, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* /*devlist*/) {
  return grouped("ncclCommInitAll", [&]() -> Outcome {
    if (ndev != 1) return invalid_usage("it is for one rank only: start a process, or at least a thread, for each");
    return make(comm, 1, ncclUniqueId{}, 0, nullptr);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return ask("ncclCommFinalize", comm, [](ncclComm& own) -> Outcome {
    if (own.finalized.exchange(true)) return invalid_usage("the communicator was finalized before");
    return {};  // every call has ended when it returns
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return at_boundary("ncclCommDestroy", [&] { return end(comm, false); });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return at_boundary("ncclCommAbort", [&] { return end(comm, true); });
}

ncclResult_t ncclCommRevoke(ncclComm_t, int) { return refuse("ncclCommRevoke", "use ncclCommAbort"); }

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  return grouped("ncclCommSplit", [&]() -> Outcome {
    const CommPointer own = library().find(comm);
    if (own == nullptr) return invalid_argument(meshbed::dropin::kNoCommunicator);
    if (newcomm == nullptr) return invalid_argument("newcomm is null");
    if (own->finalized) return invalid_usage("the communicator was finalized");
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return invalid_argument("color is " + std::to_string(color));
    const Outcome wanted = check_config(config);
    return wanted.well() ? meshbed::dropin::split_communicator(own, color, key, newcomm) : wanted;
  });
}

ncclResult_t ncclCommShrink(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int) {
  return refuse("ncclCommShrink", "use ncclCommSplit while all ranks live");
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t /*comm*/) { return library().last_error(); }

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return ask("ncclCommGetAsyncError", comm, [&](const ncclComm& own) -> Outcome {
    if (asyncError == nullptr) return invalid_argument("asyncError is null");
    meshcoll_error error{};
    error.struct_bytes = sizeof error;
    const meshcoll_result asked = meshcoll_get_async_error(own.engine, &error);
    if (asked == MESHCOLL_OK) *asyncError = meshbed::dropin::nccl_code(error.result);
    return outcome_of(asked, own.engine);
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return ask("ncclCommCount", comm, [&](const ncclComm& own) { return give(count, own.world); });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return ask("ncclCommUserRank", comm, [&](const ncclComm& own) { return give(rank, own.rank); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t, int*) {
  return refuse("ncclCommCuDevice", "communicators are of host memory, and have no device");
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return ask("ncclCommRegister", comm, [&](const ncclComm& own) -> Outcome {
    if (handle == nullptr) return invalid_argument("handle is null");
    const Outcome kept = outcome_of(meshcoll_register(own.engine, buff, size), own.engine);
    if (kept.well()) *handle = buff;
    return kept;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return ask("ncclCommDeregister", comm, [&](const ncclComm& own) -> Outcome {
    return outcome_of(meshcoll_deregister(own.engine, handle), own.engine);
  });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t, void*, size_t, ncclWindow_t*, int) {
  return refuse("ncclCommWindowRegister", "there are no windows; use ncclCommRegister");
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
  return refuse("ncclCommWindowDeregister", "there are no windows");
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t*, void*, ncclDataType_t, ncclScalarResidence_t, ncclComm_t) {
  return refuse("ncclRedOpCreatePreMulSum", "multiply before ncclSum, or use ncclAvg");
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) {
  return refuse("ncclRedOpDestroy", "no operator of one's own can be made");
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return run("ncclReduce", comm, stream,
             with_root(with_op(args_of(MESHCOLL_REDUCE, sendbuff, recvbuff, count, datatype), op), root));
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return run("ncclBcast", comm, stream, with_root(args_of(MESHCOLL_BROADCAST, buff, buff, count, datatype), root));
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return run("ncclBroadcast", comm, stream,
             with_root(args_of(MESHCOLL_BROADCAST, sendbuff, recvbuff, count, datatype), root));
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return run("ncclAllReduce", comm, stream,
             with_op(args_of(MESHCOLL_ALL_REDUCE, sendbuff, recvbuff, count, datatype), op));
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return run("ncclReduceScatter", comm, stream,
             with_op(args_of(MESHCOLL_REDUCE_SCATTER, sendbuff, recvbuff, recvcount, datatype), op));
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return run("ncclAllGather", comm, stream, args_of(MESHCOLL_ALL_GATHER, sendbuff, recvbuff, sendcount, datatype));
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
                          cudaStream_t stream) {
  return run("ncclAlltoAll", comm, stream, args_of(MESHCOLL_ALL_TO_ALL, sendbuff, recvbuff, count, datatype));
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return run("ncclGather", comm, stream,
             with_root(args_of(MESHCOLL_GATHER, sendbuff, recvbuff, count, datatype), root));
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  return run("ncclScatter", comm, stream,
             with_root(args_of(MESHCOLL_SCATTER, sendbuff, recvbuff, count, datatype), root));
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  meshcoll_args args = args_of(MESHCOLL_SEND_RECV, sendbuff, nullptr, count, datatype);
  args.to = peer != -1 ? peer : INT_MIN;  // to the engine -1 means no peer, to NCCL it is invalid
  args.from = -1;
  return run("ncclSend", comm, stream, args);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  meshcoll_args args = args_of(MESHCOLL_SEND_RECV, nullptr, recvbuff, 0, datatype);
  args.recv_count = count;
  args.to = -1;
  args.from = peer != -1 ? peer : INT_MIN;
  return run("ncclRecv", comm, stream, args);
}

ncclResult_t ncclGroupStart(void) {
  return at_boundary("ncclGroupStart", [] { return meshbed::dropin::start_group(); });
}

ncclResult_t ncclGroupEnd(void) {
  return at_boundary("ncclGroupEnd", [] { return meshbed::dropin::end_group(); });
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*) {
  return refuse("ncclGroupSimulateEnd", "meshbed run estimates the cost of a call");
}

}  // extern "C"
