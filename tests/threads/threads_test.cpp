// The plugin's code with real threads, its own among them: callers that connect, send, receive and close at the same
// time, a communicator that comes and goes, and a client that asks for the state, to which the service's thread replies
// while all that goes on. Over the null wire (cli/bench/cost), in this process; ThreadSanitizer runs it in `./meshbed
// test`.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "plugin/nccl/exports.h"

namespace threads_test {

using namespace meshbed;

namespace {

constexpr int kConnections = 3, kRounds = 6, kReceives = 24, kParts = 3;
constexpr std::size_t kPartBytes = 3000;      // no page of its own: registrations are shared
constexpr int kLooks = 20'000, kPauseMs = 1;  // until a thread gives up: 20 s at least

using Handle = std::array<char, nccl::kHandleBytes>;
using Bytes = std::vector<unsigned char>;

const nccl::NetV11& net() { return ncclNetPlugin_v11; }

std::atomic<int> g_warnings{0}, g_failures{0};

void log(int level, unsigned long, const char*, int, const char*, ...) {
  if (level == nccl::kNcclLogWarn) ++g_warnings;
}

/// doctest's CHECK takes a lock, which would order what the plugin has to order itself.
bool good(bool condition, const char* what) {
  if (!condition && ++g_failures < 20) std::fprintf(stderr, "threads_test: %s\n", what);
  return condition;
}
bool succeeded(int result, const char* what) { return good(result == nccl::kNcclSuccess, what); }

/// Looks until `there`; false: it never came.
template <typename Look>
bool comes(const char* what, const Look& look) {
  for (int count = 0; count < kLooks; ++count) {
    if (look()) return true;
    ::poll(nullptr, 0, count < kLooks / 2 ? 0 : kPauseMs);
    if (g_failures > 0) return false;
  }
  return good(false, what);
}

bool finish(void* request, const char* what) {
  return comes(what, [&] {
    int done = 0;
    std::array<int, nccl::kMaxGroupedReceives> sizes{};
    return !succeeded(net().test(request, &done, sizes.data()), what) || done != 0;
  });
}

unsigned char byte_of(int connection, int round, std::size_t at) {
  return static_cast<unsigned char>(connection * 101 + round * 37 + static_cast<int>(at % 251));
}

/// One end's part of a round: all its transfers, oldest first, as many under way as the plugin takes.
template <typename Post>
bool transfer(int count, const char* what, const Post& post) {
  std::vector<void*> requests;
  for (int number = 0; number < count; ++number) {
    void* request = nullptr;
    std::size_t finished = 0;
    const bool posted = comes(what, [&] {
      if (!succeeded(post(number, &request), what) || request != nullptr) return true;
      return finished < requests.size() && !finish(requests[finished++], what);
    });
    if (!posted || request == nullptr) return false;
    requests.erase(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(finished));
    requests.push_back(request);
  }
  for (void* request : requests) {
    if (!finish(request, what)) return false;
  }
  return true;
}

void receive_round(void* context, int connection, int round, std::promise<Handle>& told, unsigned char* target) {
  Handle handle{};
  void *listener = nullptr, *comm = nullptr, *memory = nullptr;
  const bool listens = succeeded(net().listen(context, 0, handle.data(), &listener), "listen");
  told.set_value(handle);
  if (!listens) return;
  const bool accepted = comes("accept", [&] {
    nccl::NetDeviceHandle* offload = nullptr;
    return !succeeded(net().accept(listener, &comm, &offload), "accept") || comm != nullptr;
  });
  succeeded(net().closeListen(listener), "closeListen");
  if (!accepted || comm == nullptr) return;
  const std::size_t bytes = kReceives * kParts * kPartBytes;
  std::memset(target, 0, bytes);
  if (!succeeded(net().regMr(comm, target, bytes, nccl::kPtrHost, &memory), "regMr")) return;
  transfer(kReceives, "irecv", [&](int number, void** request) {
    std::array<void*, kParts> data{}, memories{}, events{};
    std::array<std::size_t, kParts> sizes{};
    std::array<int, kParts> tags{};
    for (int part = 0; part < kParts; ++part) {
      data[part] = target + static_cast<std::size_t>(number * kParts + part) * kPartBytes;
      sizes[part] = kPartBytes, tags[part] = part, memories[part] = memory;
    }
    return net().irecv(comm, kParts, data.data(), sizes.data(), tags.data(), memories.data(), events.data(), request);
  });
  void *first = target, *flush = nullptr;
  int size = kPartBytes;
  succeeded(net().iflush(comm, 1, &first, &size, &memory, &flush), "iflush");
  if (flush != nullptr) finish(flush, "iflush");
  for (std::size_t at = 0; at < bytes; ++at) {
    if (!good(target[at] == byte_of(connection, round, at), "other bytes than were sent")) break;
  }
  succeeded(net().deregMr(comm, memory), "deregMr");
  succeeded(net().closeRecv(comm), "closeRecv");
}

void send_round(void* context, int connection, int round, std::future<Handle> heard, unsigned char* source) {
  Handle handle = heard.get();
  void *comm = nullptr, *memory = nullptr;
  const bool connected = comes("connect", [&] {
    nccl::NetDeviceHandle* offload = nullptr;
    return !succeeded(net().connect(context, 0, handle.data(), &comm, &offload), "connect") || comm != nullptr;
  });
  if (!connected || comm == nullptr) return;
  const std::size_t bytes = kReceives * kParts * kPartBytes;
  for (std::size_t at = 0; at < bytes; ++at) source[at] = byte_of(connection, round, at);
  if (!succeeded(net().regMr(comm, source, bytes, nccl::kPtrHost, &memory), "regMr")) return;
  transfer(kReceives * kParts, "isend", [&](int number, void** request) {
    unsigned char* const data = source + static_cast<std::size_t>(number) * kPartBytes;
    return net().isend(comm, data, kPartBytes, number % kParts, memory, nullptr, request);
  });
  succeeded(net().deregMr(comm, memory), "deregMr");
  succeeded(net().closeSend(comm), "closeSend");
}

void* new_context(std::uint64_t number) {
  void* context = nullptr;
  nccl::CommConfig config{.trafficClass = nccl::kTrafficClassUndefined};
  succeeded(net().init(&context, number, &config, &log, nullptr), "init");
  return context;
}

/// One question to the state socket; empty: no answer.
std::string ask_for_state(const std::string& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder + "/state." + std::to_string(::getpid());
  if (!good(path.size() < sizeof address.sun_path, "the folder's name is too long")) return "";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string answer;
  if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(client, "state\n", 6, MSG_NOSIGNAL) == 6) {
    std::array<char, 4096> block;
    while (answer.empty() || answer.back() != '\n') {
      const ssize_t count = ::recv(client, block.data(), block.size(), 0);
      if (count <= 0) break;
      answer.append(block.data(), static_cast<std::size_t>(count));
    }
  }
  ::close(client);
  return answer;
}

}  // namespace

TEST_CASE(
    "callers on many threads, the service's own thread, and one that asks for the state: nothing is shared unguarded") {
  // A socket's name has 108 bytes: no folder below the build's.
  std::string folder = "/tmp/meshbed-threads-" + std::string(6, 'X');
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  ::setenv("NCCL_MESH_STATE_SOCKET", folder.c_str(), 1);
  std::array<void*, 2> contexts{new_context(1), new_context(2)};
  REQUIRE(g_failures == 0);
  int devices = 0;
  REQUIRE(net().devices(&devices) == nccl::kNcclSuccess);
  REQUIRE(devices == 1);  // the null wire's

  const std::size_t bytes = kReceives * kParts * kPartBytes;
  Bytes sources(kConnections * bytes), targets(kConnections * bytes);
  std::vector<std::vector<std::promise<Handle>>> handles(kConnections);
  std::vector<std::thread> threads;
  for (int connection = 0; connection < kConnections; ++connection) {
    auto& told = handles[static_cast<std::size_t>(connection)];
    told.resize(kRounds);
    void* const context = contexts[static_cast<std::size_t>(connection) % contexts.size()];
    const std::size_t at = static_cast<std::size_t>(connection) * bytes;
    threads.emplace_back([&told, &targets, context, connection, at] {
      for (int round = 0; round < kRounds; ++round) {
        receive_round(context, connection, round, told[static_cast<std::size_t>(round)], targets.data() + at);
      }
    });
    threads.emplace_back([&told, &sources, context, connection, at] {
      for (int round = 0; round < kRounds; ++round) {
        send_round(context, connection, round, told[static_cast<std::size_t>(round)].get_future(), sources.data() + at);
      }
    });
  }
  std::atomic<bool> over{false};
  int answers = 0, with_connections = 0;
  std::thread asker([&] {
    while (!over) {
      const std::string answer = ask_for_state(folder);
      if (answer.find("\"format\"") != std::string::npos) ++answers;
      if (answer.find("\"outstanding\"") != std::string::npos) ++with_connections;
    }
  });
  std::thread coming_and_going([&] {
    for (std::uint64_t number = 3; !over; ++number) {
      void* const context = new_context(number);
      nccl::PropertiesV11 properties{};
      succeeded(net().getProperties(0, &properties), "getProperties");
      if (context != nullptr) succeeded(net().finalize(context), "finalize");
    }
  });
  for (std::thread& thread : threads) thread.join();
  over = true;
  asker.join();
  coming_and_going.join();
  for (void* context : contexts) CHECK(net().finalize(context) == nccl::kNcclSuccess);
  CHECK(g_failures == 0);
  CHECK(answers > 0);
  CHECK(with_connections > 0);
  CHECK(::access((folder + "/state." + std::to_string(::getpid())).c_str(), F_OK) != 0);
  CHECK(::rmdir(folder.c_str()) == 0);
}

}  // namespace threads_test
