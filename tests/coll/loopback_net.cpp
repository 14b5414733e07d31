#include "tests/coll/loopback_net.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "plugin/base/prng.h"
#include "plugin/nccl/net_abi.h"

namespace meshbed::test::loopback {
namespace {

using namespace meshbed::nccl;

struct Request;

// Both directions of nothing: one sender's queue meets one receiver's.
struct Pipe {
  std::mutex mutex;
  std::deque<Request*> sends, receives;  // posted, not matched yet
};

struct Comm {
  std::shared_ptr<Pipe> pipe;
  bool sends = false;
  int device = 0;
  int sent = 0, arrived = 0;
  Prng prng{0};
  std::list<std::unique_ptr<Request>> requests;
};

struct Request {
  Comm* comm = nullptr;
  char* data = nullptr;
  std::size_t size = 0;
  bool matched = false;
  std::size_t received = 0;
  int linger = 0;  // test() calls that still say "not yet"
};

struct Listener {
  std::uint64_t id = 0;
  int device = 0;
  std::mutex mutex;
  std::deque<std::shared_ptr<Pipe>> knocking;
};

struct Registration {
  void* comm;
  char* begin;
  std::size_t size;
};

struct State {
  std::mutex mutex;
  Behaviour behaviour;
  std::map<std::uint64_t, std::shared_ptr<Listener>> listeners;
  std::uint64_t next_id = 1;
  std::atomic<LogFunction> log{nullptr};
  std::atomic<int> open{0};
  std::atomic<int> steps{0};  // of the device that stalls
  std::atomic<std::uint64_t> registered{0}, initialised{0};
};

State& state() {
  static State instance;
  return instance;
}

template <typename... Arguments>
int refuse(const char* format, Arguments... arguments) {
  state().log.load()(kNcclLogWarn, kNcclLogNet, "loopback_net.cpp", 0, format, arguments...);
  return kNcclSystemError;
}

std::uint64_t next_id() {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().next_id++;
}

bool hesitates(Prng& prng) { return prng.below(100) < static_cast<std::uint64_t>(state().behaviour.delay_percent); }

/// The device would take a step: may it?
bool may_step(int device) {
  const Behaviour& behaviour = state().behaviour;
  if (device != behaviour.stall_device) return true;
  if (state().steps >= behaviour.stall_after) {
    state().steps = behaviour.stall_after + 1;
    return false;
  }
  ++state().steps;
  return true;
}

Comm* open_comm(std::shared_ptr<Pipe> pipe, bool sends, int device) {
  auto* comm = new Comm;
  comm->pipe = std::move(pipe);
  comm->sends = sends;
  comm->device = device;
  comm->prng = Prng(mix64(state().behaviour.seed ^ next_id()));
  ++state().open;
  return comm;
}

int init(void** context, std::uint64_t, CommConfig*, LogFunction log, ProfilerFunction) {
  state().log = log;
  ++state().initialised;
  ++state().open;
  *context = &state();
  return kNcclSuccess;
}

int finalize(void*) {
  --state().open;
  return kNcclSuccess;
}

int devices(int* count) {
  *count = state().behaviour.devices;
  return kNcclSuccess;
}

int get_properties(int, PropertiesV11* properties) {
  static char name[] = "loopback";
  *properties = {};
  properties->name = name;
  properties->ptrSupport = kPtrHost;
  properties->speed = 100000;
  properties->maxRecvs = 1;
  properties->maxP2pBytes = 1U << 30U;
  return kNcclSuccess;
}

int listen(void* context, int device, void* handle, void** listen_comm) {
  if (context != &state()) return refuse("listen without its context");
  if (device == state().behaviour.refuse_listen_device) return refuse("device %d does not listen", device);
  auto listener = std::make_shared<Listener>();
  listener->id = next_id();
  listener->device = device;
  std::memset(handle, 0xa5, kHandleBytes);
  std::memcpy(handle, &listener->id, sizeof listener->id);
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().listeners[listener->id] = listener;
  ++state().open;
  *listen_comm = listener.get();
  return kNcclSuccess;
}

int connect(void* context, int device, void* handle, void** send_comm, NetDeviceHandle**) {
  const Behaviour& behaviour = state().behaviour;
  if (context != &state()) return refuse("connect without its context");
  if (device == behaviour.stall_connect_device) {
    std::this_thread::yield();
    return kNcclSuccess;
  }
  if (device == behaviour.refuse_connect_device) return refuse("no path: device %d has no cable", device);
  auto* bytes = static_cast<unsigned char*>(handle);
  if (bytes[kHandleBytes - 1] == 0xa5 && behaviour.delay_percent > 0) {
    bytes[kHandleBytes - 1] = 0;  // state between polls lives in the handle, as net_ib does it
    return kNcclSuccess;
  }
  std::uint64_t id = 0;
  std::memcpy(&id, handle, sizeof id);
  std::shared_ptr<Listener> listener;
  {
    const std::lock_guard<std::mutex> lock(state().mutex);
    const auto found = state().listeners.find(id);
    if (found == state().listeners.end()) return refuse("no listener at %llu", static_cast<unsigned long long>(id));
    listener = found->second;
  }
  if (!may_step(device)) {
    std::this_thread::yield();
    return kNcclSuccess;
  }
  auto pipe = std::make_shared<Pipe>();
  const std::lock_guard<std::mutex> lock(listener->mutex);
  listener->knocking.push_back(pipe);
  *send_comm = open_comm(pipe, true, device);
  return kNcclSuccess;
}

int accept(void* listen_comm, void** recv_comm, NetDeviceHandle**) {
  auto* listener = static_cast<Listener*>(listen_comm);
  if (listener->device == state().behaviour.refuse_accept_device) return refuse("device %d is full", listener->device);
  const std::lock_guard<std::mutex> lock(listener->mutex);
  if (listener->knocking.empty() || !may_step(listener->device)) {
    std::this_thread::yield();
    return kNcclSuccess;
  }
  *recv_comm = open_comm(listener->knocking.front(), false, listener->device);
  listener->knocking.pop_front();
  return kNcclSuccess;
}

int register_memory(void* comm, void* data, std::size_t size, int type, void** handle) {
  if (type != kPtrHost) return refuse("memory of type %d", type);
  if (data == nullptr) return refuse("memory without an address");
  *handle = new Registration{comm, static_cast<char*>(data), size};
  ++state().open;
  ++state().registered;
  return kNcclSuccess;
}

int deregister_memory(void* comm, void* handle) {
  auto* registration = static_cast<Registration*>(handle);
  if (registration->comm != comm) return refuse("a registration of another connection");
  delete registration;
  --state().open;
  return kNcclSuccess;
}

bool is_early(Comm& comm) {
  const Behaviour& behaviour = state().behaviour;
  return comm.device == behaviour.early_device && comm.arrived++ >= behaviour.early_after;
}

void match(Pipe& pipe) {
  while (!pipe.sends.empty() && !pipe.receives.empty()) {
    Request* send = pipe.sends.front();
    Request* receive = pipe.receives.front();
    pipe.sends.pop_front();
    pipe.receives.pop_front();
    receive->received = std::min(send->size, receive->size);
    if (!is_early(*receive->comm)) std::memcpy(receive->data, send->data, receive->received);
    send->matched = receive->matched = true;
  }
}

int post(Comm* comm, void* data, std::size_t size, void* handle, void** request) {
  *request = nullptr;
  const auto* registration = static_cast<const Registration*>(handle);
  if (registration == nullptr || registration->comm != comm) return refuse("memory that is not registered here");
  const char* begin = static_cast<char*>(data);
  if (begin < registration->begin || begin + size > registration->begin + registration->size) {
    return refuse("%llu bytes outside of their registration", static_cast<unsigned long long>(size));
  }
  if (hesitates(comm->prng) || !may_step(comm->device)) return kNcclSuccess;
  if (comm->requests.size() >= kMaxRequests) return refuse("more than %d requests", kMaxRequests);
  auto owned = std::make_unique<Request>();
  owned->comm = comm;
  owned->data = static_cast<char*>(data);
  owned->size = size;
  owned->linger = hesitates(comm->prng) ? static_cast<int>(comm->prng.below(4)) : 0;
  *request = owned.get();
  const std::lock_guard<std::mutex> lock(comm->pipe->mutex);
  (comm->sends ? comm->pipe->sends : comm->pipe->receives).push_back(owned.get());
  comm->requests.push_back(std::move(owned));
  ++state().open;
  return kNcclSuccess;
}

int isend(void* send_comm, void* data, std::size_t size, int, void* handle, void*, void** request) {
  auto* comm = static_cast<Comm*>(send_comm);
  const Behaviour& behaviour = state().behaviour;
  if (comm->device == behaviour.fail_send_device && comm->sent == behaviour.fail_send_after) {
    return refuse("cable of device %d was pulled", comm->device);
  }
  const int code = post(comm, data, size, handle, request);
  if (*request != nullptr) ++comm->sent;
  return code;
}

int irecv(void* recv_comm, int n, void** data, std::size_t* sizes, int*, void** handles, void**, void** request) {
  if (n != 1) return refuse("%d grouped receives", n);
  return post(static_cast<Comm*>(recv_comm), data[0], sizes[0], handles[0], request);
}

int test(void* request, int* done, int* sizes) {
  auto* asked = static_cast<Request*>(request);
  Comm* comm = asked->comm;
  *done = 0;
  {
    const std::lock_guard<std::mutex> lock(comm->pipe->mutex);
    match(*comm->pipe);
    if (asked->matched && asked->linger-- <= 0 && may_step(comm->device)) *done = 1;
  }
  if (*done == 0) {
    std::this_thread::yield();
    return kNcclSuccess;
  }
  *sizes = static_cast<int>(comm->sends ? asked->size : asked->received);
  comm->requests.remove_if([&](const auto& owned) { return owned.get() == asked; });
  --state().open;
  return kNcclSuccess;
}

int close_comm(void* closing) {
  auto* comm = static_cast<Comm*>(closing);
  {
    const std::lock_guard<std::mutex> lock(comm->pipe->mutex);
    (comm->sends ? comm->pipe->sends : comm->pipe->receives).clear();
  }
  state().open -= 1 + static_cast<int>(comm->requests.size());
  delete comm;
  return kNcclSuccess;
}

int close_listen(void* listen_comm) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  state().listeners.erase(static_cast<Listener*>(listen_comm)->id);
  --state().open;
  return kNcclSuccess;
}

}  // namespace

void configure(const Behaviour& behaviour) {
  state().behaviour = behaviour;
  state().steps = 0;
}
bool stalled() { return state().steps > state().behaviour.stall_after; }
int open_objects() { return state().open; }
std::uint64_t registrations_made() { return state().registered; }
std::uint64_t initialisations() { return state().initialised; }

}  // namespace meshbed::test::loopback

namespace net = meshbed::test::loopback;

extern "C" const meshbed::nccl::NetV11 ncclNetPlugin_v11 = {
    .name = "loopback",
    .init = net::init,
    .devices = net::devices,
    .getProperties = net::get_properties,
    .listen = net::listen,
    .connect = net::connect,
    .accept = net::accept,
    .regMr = net::register_memory,
    .regMrDmaBuf = nullptr,
    .deregMr = net::deregister_memory,
    .isend = net::isend,
    .irecv = net::irecv,
    .iflush = nullptr,
    .test = net::test,
    .closeSend = net::close_comm,
    .closeRecv = net::close_comm,
    .closeListen = net::close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = net::finalize,
    .setNetAttr = nullptr,
};
