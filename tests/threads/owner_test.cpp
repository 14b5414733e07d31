// What a caller may get wrong about who owns what: a request whose connection is closed, a handshake that is abandoned,
// a child of fork(), a process without descriptors. Over the null wire, with the plugin's own threads at work.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plugin/nccl/exports.h"

namespace owner_test {

using namespace meshbed;

namespace {

using Handle = std::array<char, nccl::kHandleBytes>;

const nccl::NetV11& net() { return ncclNetPlugin_v11; }

std::mutex g_mutex;
std::string g_warnings;

void log(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != nccl::kNcclLogWarn) return;
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_warnings += std::string(text.data()) + "\n";
}

std::string take_warnings() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  return std::exchange(g_warnings, {});
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void* new_context() {
  void* context = nullptr;
  nccl::CommConfig config{.trafficClass = nccl::kTrafficClassUndefined};
  net().init(&context, 7, &config, &log, nullptr);
  return context;
}

/// Both ends of a connection, within this process.
struct Pair {
  explicit Pair(void* context) {
    Handle handle{};
    REQUIRE(net().listen(context, 0, handle.data(), &listener) == nccl::kNcclSuccess);
    for (int look = 0; look < 20'000 && (send == nullptr || receive == nullptr); ++look) {
      nccl::NetDeviceHandle* offload = nullptr;
      if (send == nullptr) REQUIRE(net().connect(context, 0, handle.data(), &send, &offload) == nccl::kNcclSuccess);
      if (receive == nullptr) REQUIRE(net().accept(listener, &receive, &offload) == nccl::kNcclSuccess);
      ::poll(nullptr, 0, look < 1000 ? 0 : 1);
    }
    REQUIRE(send != nullptr);
    REQUIRE(receive != nullptr);
  }
  void close() const {
    CHECK(net().closeSend(send) == nccl::kNcclSuccess);
    CHECK(net().closeRecv(receive) == nccl::kNcclSuccess);
    CHECK(net().closeListen(listener) == nccl::kNcclSuccess);
  }

  void *listener = nullptr, *send = nullptr, *receive = nullptr;
};

void* post_receive(void* receive, void* memory, unsigned char* target, std::size_t size) {
  std::array<void*, 1> data{target}, memories{memory}, events{};
  std::array<std::size_t, 1> sizes{size};
  std::array<int, 1> tags{3};
  void* request = nullptr;
  CHECK(net().irecv(receive, 1, data.data(), sizes.data(), tags.data(), memories.data(), events.data(), &request) ==
        nccl::kNcclSuccess);
  return request;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("test() of a request whose connection is closed is an error, whatever has been made and closed since") {
  void* const context = new_context();
  REQUIRE(context != nullptr);
  std::vector<unsigned char> target(4096);
  std::vector<void*> stale;
  for (int round = 0; round < 20; ++round) {
    const Pair pair(context);
    void* memory = nullptr;
    REQUIRE(net().regMr(pair.receive, target.data(), target.size(), nccl::kPtrHost, &memory) == nccl::kNcclSuccess);
    void* const request = post_receive(pair.receive, memory, target.data(), target.size());
    REQUIRE(request != nullptr);
    CHECK(net().deregMr(pair.receive, memory) == nccl::kNcclSuccess);
    pair.close();
    stale.push_back(request);
    take_warnings();
    for (void* one : stale) {
      int done = 0;
      CHECK(net().test(one, &done, nullptr) == nccl::kNcclInvalidArgument);
      CHECK(done == 0);
    }
    CHECK(has(take_warnings(), "this is no request, or it was completed before"));
    CHECK(net().closeRecv(pair.receive) == nccl::kNcclInvalidArgument);  // nor is it a connection any more
  }
  CHECK(net().finalize(context) == nccl::kNcclSuccess);
}

TEST_CASE("a connect that is abandoned gives its descriptor back within its time limit") {
  ::setenv("NCCL_MESH_CONNECT_TIMEOUT_SEC", "1", 1);
  void* const context = new_context();
  ::unsetenv("NCCL_MESH_CONNECT_TIMEOUT_SEC");
  REQUIRE(context != nullptr);
  Handle handle{};
  void* listener = nullptr;
  REQUIRE(net().listen(context, 0, handle.data(), &listener) == nccl::kNcclSuccess);
  const auto before = open_descriptors();
  void* send = nullptr;
  nccl::NetDeviceHandle* offload = nullptr;
  // It dials; nothing looks at the listener, and nothing calls connect() again.
  REQUIRE(net().connect(context, 0, handle.data(), &send, &offload) == nccl::kNcclSuccess);
  REQUIRE(send == nullptr);
  CHECK(open_descriptors() > before);
  take_warnings();
  // The listener's end of it goes with ours, as soon as it looks.
  void* receive = nullptr;
  for (int look = 0; look < 2000 && open_descriptors() > before; ++look) {
    CHECK(net().accept(listener, &receive, &offload) == nccl::kNcclSuccess);
    ::poll(nullptr, 0, 10);
  }
  CHECK(receive == nullptr);
  CHECK(open_descriptors() <= before);
  CHECK(has(take_warnings(), "1 handshake given up: not called again for 1000 ms"));
  CHECK(net().connect(context, 0, handle.data(), &send, &offload) == nccl::kNcclInvalidArgument);
  CHECK(has(take_warnings(), "names a connection that is not under way here"));
  CHECK(net().closeListen(listener) == nccl::kNcclSuccess);
  CHECK(net().finalize(context) == nccl::kNcclSuccess);
}

TEST_CASE("a child after fork() cannot close what its parent has open, which goes on") {
  void* const context = new_context();
  REQUIRE(context != nullptr);
  const Pair pair(context);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool refused = net().closeSend(pair.send) == nccl::kNcclInvalidArgument &&
                         net().closeRecv(pair.receive) == nccl::kNcclInvalidArgument &&
                         net().closeListen(pair.listener) == nccl::kNcclInvalidArgument &&
                         net().finalize(context) == nccl::kNcclInvalidArgument;
    const bool explained = has(g_warnings, "called in a child (fork) of the process that it belongs to");
    ::_exit(refused ? explained ? 0 : 2 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);

  std::vector<unsigned char> source(4096, 7), target(4096);
  void *from = nullptr, *to = nullptr, *sent = nullptr;
  REQUIRE(net().regMr(pair.send, source.data(), source.size(), nccl::kPtrHost, &from) == nccl::kNcclSuccess);
  REQUIRE(net().regMr(pair.receive, target.data(), target.size(), nccl::kPtrHost, &to) == nccl::kNcclSuccess);
  void* const received = post_receive(pair.receive, to, target.data(), target.size());
  REQUIRE(received != nullptr);
  int sent_done = 0, received_done = 0;
  for (int look = 0; look < 20'000 && (sent_done == 0 || received_done == 0); ++look) {
    if (sent == nullptr) {
      REQUIRE(net().isend(pair.send, source.data(), source.size(), 3, from, nullptr, &sent) == nccl::kNcclSuccess);
    }
    if (sent != nullptr && sent_done == 0) REQUIRE(net().test(sent, &sent_done, nullptr) == nccl::kNcclSuccess);
    if (received_done == 0) REQUIRE(net().test(received, &received_done, nullptr) == nccl::kNcclSuccess);
    ::poll(nullptr, 0, look < 1000 ? 0 : 1);
  }
  CHECK(received_done == 1);
  CHECK(target == source);
  CHECK(net().deregMr(pair.send, from) == nccl::kNcclSuccess);
  CHECK(net().deregMr(pair.receive, to) == nccl::kNcclSuccess);
  pair.close();
  CHECK(net().finalize(context) == nccl::kNcclSuccess);
}

TEST_CASE("a process without a free descriptor says so, and not that it has no interfaces") {
  std::vector<int> taken;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit few = before;
  few.rlim_cur = 64;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  for (int one = ::open("/dev/null", O_RDONLY | O_CLOEXEC); one >= 0; one = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
    taken.push_back(one);
  }
  take_warnings();
  void* context = nullptr;
  nccl::CommConfig config{.trafficClass = nccl::kTrafficClassUndefined};
  const int result = net().init(&context, 7, &config, &log, nullptr);
  for (const int one : taken) ::close(one);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(result == nccl::kNcclSystemError);
  const std::string said = take_warnings();
  CHECK_MESSAGE(has(said, "init: Too many open files"), said);
  context = new_context();
  REQUIRE(context != nullptr);
  CHECK(net().finalize(context) == nccl::kNcclSuccess);
}

}  // namespace owner_test
