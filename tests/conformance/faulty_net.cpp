// A net plugin that breaks one rule: Meshbed's own, with the fault that FAULTY_NET names in between. So that each case
// of the conformance suite is seen to find something.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/nccl/entry.h"
#include "plugin/nccl/exports.h"

using namespace meshbed::nccl;

namespace {

bool faulty(const char* fault) {
  const char* wanted = std::getenv("FAULTY_NET");
  return wanted != nullptr && std::strcmp(wanted, fault) == 0;
}

/// What a receive was posted with.
struct Posted {
  std::vector<void*> data;
  std::vector<std::size_t> sizes;
  int looks = 0;
};
std::map<void*, Posted> g_receives;
/// A receive that has not been passed to the plugin yet.
struct Late {
  void* comm;
  std::vector<void*> data, memories;
  std::vector<std::size_t> sizes;
  std::vector<int> tags;
  void* request = nullptr;
};
std::map<void*, Late> g_late;
struct Sent {
  void* comm;
  bool lost = false;
};
std::map<void*, Sent> g_sends;
int g_empty_send = 0;
std::int64_t g_posted_ns = 0;  // the last receive
int g_inits = 0;

int faulty_init(void** context, std::uint64_t comm_id, CommConfig* config, LogFunction log, ProfilerFunction profiler) {
  if (faulty("init crashes")) std::abort();
  if (faulty("init ends the process")) std::_Exit(0);
  while (faulty("init never returns")) {
  }
  if (faulty("words are no UTF-8")) {
    log(kNcclLogWarn, ~0UL, __FILE__, __LINE__, "no \xff\xfe here");
    return kNcclSystemError;
  }
  if (faulty("second init fails") && ++g_inits > 1) return kNcclSystemError;
  return init(context, comm_id, config, log, profiler);
}

int faulty_properties(int dev, PropertiesV12* props) {
  static int calls = 0;
  const int code = properties(dev, props);
  if (faulty("no host pointers")) props->ptrSupport = 0;
  if (faulty("other properties each time")) props->speed += ++calls;
  if (faulty("no groups")) props->maxRecvs = 1;
  if (faulty("no physical device")) props->vProps.ndevs = 0;
  return code;
}

int faulty_listen(void* context, int dev, void* handle, void** listen_comm) {
  if (faulty("any device will do")) dev = 0;
  const int code = listen(context, dev, handle, listen_comm);
  if (faulty("handle of 140 bytes")) std::memset(static_cast<char*>(handle) + kHandleBytes, 1, 12);
  return code;
}

int faulty_connect(void* context, int dev, void* handle, void** comm, NetDeviceHandle** device) {
  if (faulty("dev is ignored backwards")) dev = 7;
  int code = connect(context, dev, handle, comm, device);
  for (int wait_ms = 0; faulty("connect waits") && code == kNcclSuccess && *comm == nullptr && wait_ms < 2000;
       ++wait_ms) {
    ::poll(nullptr, 0, 1);
    code = connect(context, dev, handle, comm, device);
  }
  return code;
}

int faulty_accept(void* listener, void** comm, NetDeviceHandle** device) {
  int code = accept(listener, comm, device);
  for (int wait_ms = 0; faulty("accept waits") && code == kNcclSuccess && *comm == nullptr && wait_ms < 2000;
       ++wait_ms) {
    ::poll(nullptr, 0, 1);
    code = accept(listener, comm, device);
  }
  return code;
}

int faulty_isend(void* comm, void* data, std::size_t size, int tag, void* memory, void* event, void** request) {
  if (faulty("empty messages stay") && size == 0) {
    *request = &g_empty_send;
    return kNcclSuccess;
  }
  if (faulty("isend never returns")) {
    for (volatile int forever = 0;; forever = 0) continue;
  }
  if (faulty("tags are mixed up") && tag >= 100) tag ^= 1;
  if (faulty("first byte is wrong") && size > 0) static_cast<char*>(data)[0] = 77;
  const int code = isend(comm, data, size, tag, memory, event, request);
  if (code == kNcclSuccess && *request != nullptr) g_sends[*request] = {.comm = comm};
  return faulty("full is an error") && code == kNcclSuccess && *request == nullptr ? int{kNcclSystemError} : code;
}

int faulty_irecv(void* comm, int n, void** data, std::size_t* sizes, int* tags, void** memories, void** events,
                 void** request) {
  if (faulty("receives wait for a call") && g_receives.size() > 4) {
    // Parentheses: in braces the two pointers would be the elements.
    Late late{.comm = comm,
              .data = std::vector<void*>(data, data + n),
              .memories = std::vector<void*>(memories, memories + n),
              .sizes = std::vector<std::size_t>(sizes, sizes + n),
              .tags = std::vector<int>(tags, tags + n)};
    *request = late.data[0];
    g_late[*request] = std::move(late);
    return kNcclSuccess;
  }
  const bool optional = *request != nullptr;
  const int code = irecv(comm, n, data, sizes, tags, memories, events, request);
  if (code != kNcclSuccess || *request == nullptr) return code;
  g_posted_ns = meshbed::now_ns();
  Posted posted;
  posted.data.assign(data, data + n);
  posted.sizes.assign(sizes, sizes + n);
  g_receives[*request] = posted;
  if (faulty("optional receives have no request") && optional) *request = reinterpret_cast<void*>(1);
  return code;
}

int faulty_test(void* request, int* done, int* sizes) {
  if (request == &g_empty_send) {
    *done = 1;
    return kNcclSuccess;
  }
  if (const auto late = g_late.find(request); late != g_late.end()) {
    auto& [comm, data, memories, sizes_posted, tags, posted] = late->second;
    const int parts = static_cast<int>(data.size());
    *done = 0;
    if (posted == nullptr) {
      return irecv(comm, parts, data.data(), sizes_posted.data(), tags.data(), memories.data(), nullptr, &posted);
    }
    const int code = test(posted, done, sizes);
    if (*done != 0) g_late.erase(late);
    return code;
  }
  const auto found = g_receives.find(request);
  const bool receives = found != g_receives.end();
  if (receives && faulty("done too early") && ++found->second.looks > 2) {
    *done = 1;
    return kNcclSuccess;
  }
  const auto sent = g_sends.find(request);
  if (sent != g_sends.end() && sent->second.lost) {
    *done = 0;
    return kNcclSuccess;
  }
  const int code = test(request, done, sizes);
  if (sent != g_sends.end()) {
    if (faulty("a look too early loses it") && *done == 0) sent->second.lost = true;
    if (code != kNcclSuccess || *done != 0) g_sends.erase(sent);
  }
  if (code != kNcclSuccess || *done == 0 || !receives) return code;
  if (faulty("sizes are those posted")) {
    for (std::size_t part = 0; part < found->second.sizes.size(); ++part) {
      sizes[part] = static_cast<int>(found->second.sizes[part]);
    }
  }
  if (faulty("a byte too many")) static_cast<char*>(found->second.data[0])[found->second.sizes[0]] = 0;
  g_receives.erase(found);
  return code;
}

int faulty_reg_mr_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd,
                          void** handle) {
  if (faulty("dma-bufs are ignored")) return reg_mr(comm, data, size, kPtrHost, handle);
  return reg_mr_dma_buf(comm, data, size, type, offset, fd, handle);
}

int faulty_iflush(void* comm, int n, void** data, int* sizes, void** memories, void** request) {
  if (faulty("flush does nothing")) {
    *request = nullptr;
    return kNcclSuccess;
  }
  return faulty("flush fails") ? int{kNcclInternalError} : iflush(comm, n, data, sizes, memories, request);
}

int faulty_close_send(void* comm) {
  if (faulty("close(NULL) crashes") && comm == nullptr) std::abort();
  bool under_way = false;
  for (const auto& [request, sent] : g_sends) {
    int done = 1, size = 0;
    if (faulty("sends under way are left behind") && sent.comm == comm) test(request, &done, &size);
    under_way = under_way || done == 0;
  }
  std::erase_if(g_sends, [comm](const auto& one) { return one.second.comm == comm; });
  return under_way ? int{kNcclSuccess} : close_send(comm);
}

int faulty_close_receive(void* comm) {
  // Not at once, and not when all that the receive set off has been on the wire and is through: in between.
  const std::int64_t since_ns = meshbed::now_ns() - g_posted_ns;
  const bool half_way = since_ns > 0 && since_ns < 40'000;
  return half_way && faulty("a close half-way is forgotten") ? int{kNcclSuccess} : close_recv(comm);
}

int faulty_close_listen(void* listener) {
  return faulty("close_listen fails") ? int{kNcclInvalidUsage} : close_listen(listener);
}

int faulty_set_net_attr(void* context, NetAttr* attributes) {
  return faulty("attributes are refused") ? int{kNcclInvalidArgument} : set_net_attr(context, attributes);
}

// Looked at as the file is loaded: of the process's own environment, not of a scenario's.
const bool entries_missing = faulty("entries are missing");

}  // namespace

const NetV12 ncclNetPlugin_v12 = {
    .name = "Faulty",
    .init = &faulty_init,
    .devices = &devices,
    .getProperties = &faulty_properties,
    .listen = &faulty_listen,
    .connect = &faulty_connect,
    .accept = &faulty_accept,
    .regMr = &reg_mr,
    .regMrDmaBuf = &faulty_reg_mr_dma_buf,
    .deregMr = &dereg_mr,
    .isend = &faulty_isend,
    .irecv = &faulty_irecv,
    .iflush = entries_missing ? nullptr : &faulty_iflush,
    .test = &faulty_test,
    .closeSend = &faulty_close_send,
    .closeRecv = &faulty_close_receive,
    .closeListen = &faulty_close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = nullptr,
    .finalize = &finalize,
    .setNetAttr = entries_missing ? nullptr : &faulty_set_net_attr,
};
