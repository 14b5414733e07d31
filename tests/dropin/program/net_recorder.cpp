// A net plugin (table v11, NCCL 2.28 and 2.29) that writes down what is called on it and hands each call on to another
// one, in the form of scenarios/nccl-calls. RECORDER_PLUGIN is the other one's file, RECORDER_FILE what the rank's file
// begins with (".RANK" behind it, by RANK; together, rank 0 first, they are a recording), RECORDER_PROGRAM its
// `program`. Of a communicator that is split or a second one the recording holds the calls all the same, but a replay
// has one only. The calls are kept in memory until the last context ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/nccl/net_abi.h"

using namespace meshbed::nccl;

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? text : otherwise;
}

/// What was called, by which thread; how it is called in the end, is known when it has done more.
struct Line {
  pid_t thread;
  long microseconds;
  std::string call;
  std::string fields;
};

struct Connection {
  int number = 0;
  int messages = 0;
};

struct Request {
  int connection = 0;
  int number = 0;
};

/// All that the process has recorded; one mutex for all, as who records is not in a hurry.
struct Recorder {
  std::mutex mutex;
  const NetV11* net = nullptr;
  std::string rank = variable("RANK", "0"), file = variable("RECORDER_FILE", "nccl-calls");
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::vector<Line> lines;
  pid_t main_thread = 0;
  std::map<pid_t, bool> transfers;  // threads that move messages
  std::map<void*, Connection> connections;
  std::map<void*, int> listeners;
  std::map<void*, int> registrations;
  std::map<void*, int> connecting;  // by the handle, which the plugin may change while it connects
  std::map<void*, Request> requests;
  int connections_made = 0, registrations_made = 0, requests_made = 0, contexts = 0;

  Recorder() {
    const std::string path = variable("RECORDER_PLUGIN", "libnccl-net-mesh.so");
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) net = static_cast<const NetV11*>(::dlsym(library, "ncclNetPlugin_v11"));
    if (net == nullptr) {
      const char* const why = ::dlerror();
      std::fprintf(stderr, "net_recorder: %s: %s\n", path.c_str(), why != nullptr ? why : "no ncclNetPlugin_v11");
    }
  }

  void add(const char* call, const std::string& fields) {
    const auto now = std::chrono::steady_clock::now() - begun;
    lines.push_back({::gettid(), static_cast<long>(std::chrono::duration_cast<std::chrono::microseconds>(now).count()),
                     call, fields});
  }

  /// Listeners are numbered over all ranks: a handle's number is its line in a file that all of them share.
  int number_of_handle(const void* handle, bool is_new) const {
    std::string text;
    for (std::size_t i = 0; i < kHandleBytes; ++i) {
      char digits[3];
      std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char*>(handle)[i]);
      text += digits;
    }
    text += "\n";
    const int shared = ::open((file + "-handles").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (shared < 0) return -1;
    ::flock(shared, LOCK_EX);
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(shared, part, sizeof part)) > 0;)
      all.append(part, static_cast<std::size_t>(got));
    int number = -1;
    if (is_new) {
      number = static_cast<int>(all.size() / text.size());
      if (::write(shared, text.data(), text.size()) != static_cast<ssize_t>(text.size())) number = -1;
    } else if (const std::size_t at = all.rfind(text); at != all.npos) {
      number = static_cast<int>(at / text.size());
    }
    ::close(shared);
    return number;
  }

  void write() const {
    std::FILE* const out = std::fopen((file + "." + rank).c_str(), "w");
    if (out == nullptr) return;
    if (rank == "0") {
      std::fprintf(out,
                   "{\"meta\": {\"program\": \"%s\", \"ranks\": %s, \"gpus_per_node\": 1, \"net_devices_per_node\": 1, "
                   "\"net_api\": \"v11\", \"max_recvs\": %d, \"pointers\": \"host\"}}\n",
                   variable("RECORDER_PROGRAM", "every_collective").c_str(), variable("WORLD_SIZE", "1").c_str(),
                   kMaxGroupedReceives);
    }
    for (const Line& line : lines) {
      const char* thread = "service";
      if (line.thread == main_thread) thread = "main";
      if (transfers.count(line.thread) != 0) thread = "progress";
      std::fprintf(out, "{\"rank\": %s, \"t_us\": %ld, \"thread\": \"%s\", \"call\": \"%s\"%s}\n", rank.c_str(),
                   line.microseconds, thread, line.call.c_str(), line.fields.c_str());
    }
    std::fclose(out);
  }
};

Recorder& recorder() {
  static auto* const own = new Recorder;
  return *own;
}

std::string field(const char* name, long long value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}

int init(void** context, std::uint64_t comm, CommConfig* config, LogFunction log, ProfilerFunction profiler) {
  Recorder& own = recorder();
  if (own.net == nullptr) return kNcclSystemError;
  const std::lock_guard lock(own.mutex);
  if (own.main_thread == 0) own.main_thread = ::gettid();
  ++own.contexts;
  own.add("init", field("trafficClass", config != nullptr ? config->trafficClass : kTrafficClassUndefined));
  return own.net->init(context, comm, config, log, profiler);
}

int devices(int* count) {
  Recorder& own = recorder();
  const int result = own.net->devices(count);
  const std::lock_guard lock(own.mutex);
  if (result == kNcclSuccess) own.add("devices", field("n", *count));
  return result;
}

int get_properties(int dev, PropertiesV11* props) {
  Recorder& own = recorder();
  const std::lock_guard lock(own.mutex);
  own.add("getProperties", field("dev", dev));
  return own.net->getProperties(dev, props);
}

int listen(void* context, int dev, void* handle, void** listen_comm) {
  Recorder& own = recorder();
  const int result = own.net->listen(context, dev, handle, listen_comm);
  const std::lock_guard lock(own.mutex);
  if (result != kNcclSuccess) return result;
  const int number = own.number_of_handle(handle, true);
  own.listeners[*listen_comm] = number;
  own.add("listen", field("listener", number) + field("dev", dev));
  return result;
}

int connect(void* context, int dev, void* handle, void** send_comm, NetDeviceHandle** device) {
  Recorder& own = recorder();
  int number = 0;
  {
    const std::lock_guard lock(own.mutex);
    const auto known = own.connecting.find(handle);
    number = known != own.connecting.end() ? known->second : own.number_of_handle(handle, false);
    own.connecting[handle] = number;
  }
  const int result = own.net->connect(context, dev, handle, send_comm, device);
  const std::lock_guard lock(own.mutex);
  if (result != kNcclSuccess) return result;
  const std::string fields = field("listener", number) + field("dev", dev);
  if (*send_comm == nullptr) {
    own.add("connect", fields + ", \"result\": \"pending\"");
    return result;
  }
  own.connecting.erase(handle);
  own.connections[*send_comm] = {own.connections_made++};
  own.add("connect", fields + field("comm", own.connections[*send_comm].number));
  return result;
}

int accept(void* listen_comm, void** recv_comm, NetDeviceHandle** device) {
  Recorder& own = recorder();
  const int result = own.net->accept(listen_comm, recv_comm, device);
  const std::lock_guard lock(own.mutex);
  if (result != kNcclSuccess || *recv_comm == nullptr) return result;
  own.connections[*recv_comm] = {own.connections_made++};
  own.add("accept", field("listener", own.listeners[listen_comm]) + field("dev", 0) +
                        field("comm", own.connections[*recv_comm].number));
  return result;
}

int reg_mr(void* comm, void* data, std::size_t size, int type, void** registration) {
  Recorder& own = recorder();
  const int result = own.net->regMr(comm, data, size, type, registration);
  const std::lock_guard lock(own.mutex);
  if (result != kNcclSuccess) return result;
  own.registrations[*registration] = own.registrations_made++;
  own.add("regMr", field("comm", own.connections[comm].number) + field("mr", own.registrations[*registration]) +
                       field("size", static_cast<long long>(size)) + field("type", type));
  return result;
}

int reg_mr_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd,
                   void** registration) {
  return recorder().net->regMrDmaBuf(comm, data, size, type, offset, fd, registration);
}

int dereg_mr(void* comm, void* registration) {
  Recorder& own = recorder();
  const std::lock_guard lock(own.mutex);
  own.add("deregMr", field("comm", own.connections[comm].number) + field("mr", own.registrations[registration]));
  return own.net->deregMr(comm, registration);
}

/// The connection's request, of which NCCL has got one: not where the plugin says that it comes too early.
void note_request(Recorder& own, const char* call, void* comm, void* request, const std::string& fields) {
  Connection& connection = own.connections[comm];
  ++connection.messages;
  own.transfers[::gettid()] = true;
  own.requests[request] = {connection.number, own.requests_made++};
  own.add(call, field("comm", connection.number) + field("req", own.requests[request].number) + fields);
}

int isend(void* comm, void* data, std::size_t size, int tag, void* registration, void* event, void** request) {
  Recorder& own = recorder();
  const std::lock_guard lock(own.mutex);
  const int result = own.net->isend(comm, data, size, tag, registration, event, request);
  if (result != kNcclSuccess || *request == nullptr) return result;
  note_request(own, "isend", comm, *request, field("size", static_cast<long long>(size)) + field("tag", tag));
  return result;
}

int irecv(void* comm, int count, void** data, std::size_t* sizes, int* tags, void** registrations, void** events,
          void** request) {
  Recorder& own = recorder();
  const std::lock_guard lock(own.mutex);
  const bool optional = reinterpret_cast<std::uintptr_t>(*request) == kOptionalRecvCompletion;
  const int result = own.net->irecv(comm, count, data, sizes, tags, registrations, events, request);
  if (result != kNcclSuccess || *request == nullptr) return result;
  std::string all_sizes, all_tags;
  for (int i = 0; i < count; ++i) {
    all_sizes += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
    all_tags += (i > 0 ? ", " : "") + std::to_string(tags[i]);
  }
  note_request(own, "irecv", comm, *request,
               field("n", count) + ", \"sizes\": [" + all_sizes + "], \"tags\": [" + all_tags + "]" +
                   (optional ? field("optional", 1) : ""));
  return result;
}

int iflush(void* comm, int count, void** data, int* sizes, void** registrations, void** request) {
  return recorder().net->iflush(comm, count, data, sizes, registrations, request);
}

int test(void* request, int* done, int* sizes) {
  Recorder& own = recorder();
  const std::lock_guard lock(own.mutex);
  int arrived[kMaxGroupedReceives] = {};
  const int result = own.net->test(request, done, sizes != nullptr ? sizes : arrived);
  const auto known = own.requests.find(request);
  if (result != kNcclSuccess || *done == 0 || known == own.requests.end()) return result;
  own.add("done", field("comm", known->second.connection) + field("req", known->second.number) + ", \"sizes\": [" +
                      std::to_string((sizes != nullptr ? sizes : arrived)[0]) + "]");
  own.requests.erase(known);
  return result;
}

int close_connection(const char* call, int (*close)(void* comm), void* comm) {
  Recorder& own = recorder();
  {
    const std::lock_guard lock(own.mutex);
    const Connection connection = own.connections[comm];
    own.add(call, field("comm", connection.number) + field("msgs", connection.messages));
    own.connections.erase(comm);
  }
  return close(comm);
}

int close_send(void* comm) { return close_connection("closeSend", recorder().net->closeSend, comm); }
int close_recv(void* comm) { return close_connection("closeRecv", recorder().net->closeRecv, comm); }

int close_listen(void* listen_comm) {
  Recorder& own = recorder();
  {
    const std::lock_guard lock(own.mutex);
    own.add("closeListen", field("listener", own.listeners[listen_comm]));
    own.listeners.erase(listen_comm);
  }
  return own.net->closeListen(listen_comm);
}

int finalize(void* context) {
  Recorder& own = recorder();
  const int result = own.net->finalize(context);
  const std::lock_guard lock(own.mutex);
  own.add("finalize", "");
  if (--own.contexts == 0) own.write();
  return result;
}

std::string range(int least, int most) { return "\"" + std::to_string(least) + ".." + std::to_string(most) + "\""; }

int set_net_attr(void* context, NetAttr* attributes) {
  Recorder& own = recorder();
  const std::lock_guard lock(own.mutex);
  const auto side = [](const char* name, const CommAttr& attr) {
    return std::string(", \"") + name + "_peers\": " + range(attr.minConcurrentPeers, attr.maxConcurrentPeers) +
           ", \"" + name + "_flows\": " + range(attr.minFlowsPerPeer, attr.maxFlowsPerPeer);
  };
  own.add("setNetAttr", field("op", static_cast<int>(attributes->op)) +
                            field("algo", static_cast<int>(attributes->algo)) +
                            field("proto", static_cast<int>(attributes->proto)) +
                            side("send", attributes->sendCommAttr) + side("recv", attributes->recvCommAttr));
  return own.net->setNetAttr(context, attributes);
}

}  // namespace

extern "C" {
extern const NetV11 ncclNetPlugin_v11;
const NetV11 ncclNetPlugin_v11 = {
    .name = "Recorder",
    .init = &init,
    .devices = &devices,
    .getProperties = &get_properties,
    .listen = &listen,
    .connect = &connect,
    .accept = &accept,
    .regMr = &reg_mr,
    .regMrDmaBuf = &reg_mr_dma_buf,
    .deregMr = &dereg_mr,
    .isend = &isend,
    .irecv = &irecv,
    .iflush = &iflush,
    .test = &test,
    .closeSend = &close_send,
    .closeRecv = &close_recv,
    .closeListen = &close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = &finalize,
    .setNetAttr = &set_net_attr,
};
}
