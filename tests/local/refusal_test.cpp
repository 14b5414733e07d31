// What the local plugin refuses, with which words: kernels that do not let it, strangers, messages that do not fit.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

#include "plugin/coll/transport/plugin_log.h"
#include "plugin/coll/transport/transport.h"
#include "plugin/local/meeting.h"
#include "tests/local/rank_processes.h"

namespace refusal_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

/// From now on the kernel answers EPERM to that system call of this process.
void forbid(int call) {
  std::array<sock_filter, 4> rules{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  sock_fprog program{.len = rules.size(), .filter = rules.data()};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/// The plugin's table, as the engine sees it.
struct Net {
  Net() {
    auto loaded = coll::Transport::load({.plugin = local_plugin(), .version = 11});
    REQUIRE_MESSAGE(loaded.has_value(), loaded.error().text);
    transport = std::move(*loaded);
  }
  coll::NetTable& operator*() const { return transport->table(); }
  coll::NetTable* operator->() const { return &transport->table(); }
  std::unique_ptr<coll::Transport> transport;
};

/// Both ends of a link, in one process: it may read its own memory.
struct Pair {
  Pair() {
    REQUIRE(net->listen(0, handle.data(), &listen_comm) == 0);
    for (int turn = 0; turn < 1000 && (send_comm == nullptr || recv_comm == nullptr); ++turn) {
      if (send_comm == nullptr) REQUIRE(net->connect(0, handle.data(), &send_comm) == 0);
      if (recv_comm == nullptr) REQUIRE(net->accept(listen_comm, &recv_comm) == 0);
    }
    REQUIRE(send_comm != nullptr);
    REQUIRE(recv_comm != nullptr);
  }
  ~Pair() {
    net->close_listen(listen_comm);
    if (send_comm != nullptr) net->close_send(send_comm);
    if (recv_comm != nullptr) net->close_receive(recv_comm);
  }
  void* send(const char* text, std::size_t size, int tag = 7) {
    void* request = nullptr;
    CHECK(net->send(send_comm, const_cast<char*>(text), size, tag, &net, &request) == 0);
    return request;
  }
  void* receive(void* data, std::size_t size, int tag = 7) {
    void* request = nullptr;
    CHECK(net->receive(recv_comm, data, size, tag, &net, &request) == 0);
    return request;
  }
  struct Outcome {
    int code = 0;
    bool done = false;
    std::uint64_t size_bytes = 0;
  };
  /// Of at most a thousand tests, the first that is more than "not yet".
  Outcome test(void* request) {
    Outcome outcome;
    for (int turn = 0; turn < 1000 && outcome.code == 0 && !outcome.done; ++turn) {
      outcome.code = net->test(request, &outcome.done, &outcome.size_bytes);
    }
    return outcome;
  }

  Net net;
  std::array<char, nccl::kHandleBytes> handle{};
  void *listen_comm = nullptr, *send_comm = nullptr, *recv_comm = nullptr;
};

std::string last_word() { return coll::last_warn(0); }

}  // namespace

TEST_CASE("where the kernel lets no process read another, both ends report it") {
  // Before init: a filter holds for the thread that sets it, and for those that it starts.
  const auto ends = run_rank_processes(
      2, [](meshcoll_options&) { forbid(SYS_process_vm_readv); },
      [](meshcoll_comm* comm, int) -> std::string {
        float data = 1;
        const auto result = meshcoll_all_reduce(comm, &data, &data, 1, MESHCOLL_FLOAT32, MESHCOLL_SUM);
        return result == MESHCOLL_NET ? error_of(comm) : "no error";
      });
  for (const ProcessEnd& end : ends) {
    CHECK(end.signal == 0);
    CHECK_MESSAGE(contains(end.said, "the kernel does not let "), end.said);
    CHECK_MESSAGE(contains(end.said, "process_vm_readv: Operation not permitted"), end.said);
    CHECK_MESSAGE(contains(end.said, "seccomp"), end.said);
  }
}

TEST_CASE("where the kernel gives no memory without a name, init says so") {
  const auto ends = run_children({[]() -> std::string {
    forbid(SYS_memfd_create);
    auto loaded = coll::Transport::load({.plugin = local_plugin()});
    return loaded ? "no error" : loaded.error().text;
  }});
  CHECK_MESSAGE(contains(ends[0].said, "memfd_create: Operation not permitted"), ends[0].said);
}

TEST_CASE("a handle of another host, or of another plugin, is refused by its reason") {
  Net net;
  std::array<char, nccl::kHandleBytes> handle{};
  void *listen_comm = nullptr, *send_comm = nullptr;
  REQUIRE(net->listen(0, handle.data(), &listen_comm) == 0);
  auto elsewhere = handle;
  elsewhere[offsetof(local::Handle, boot_id)] ^= 1;
  CHECK(net->connect(0, elsewhere.data(), &send_comm) == nccl::kNcclRemoteError);
  CHECK_MESSAGE(contains(last_word(), "the receiver is on another host"), last_word());
  auto other = handle;
  other[0] ^= 1;
  CHECK(net->connect(0, other.data(), &send_comm) == nccl::kNcclRemoteError);
  CHECK_MESSAGE(contains(last_word(), "not this plugin's"), last_word());
  net->close_listen(listen_comm);
  CHECK(net->connect(0, handle.data(), &send_comm) == nccl::kNcclRemoteError);
  CHECK_MESSAGE(contains(last_word(), "no process of this host listens there"), last_word());
  CHECK(send_comm == nullptr);
}

TEST_CASE("strangers at a listener, silent, noisy or without the secret, keep no peer out") {
  Net net;
  std::array<char, nccl::kHandleBytes> handle{};
  void *listen_comm = nullptr, *send_comm = nullptr, *recv_comm = nullptr;
  REQUIRE(net->listen(0, handle.data(), &listen_comm) == 0);
  local::Handle read;
  std::memcpy(&read, handle.data(), sizeof read);
  std::vector<int> strangers;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, read.address, read.address_bytes);
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + read.address_bytes);
    REQUIRE(connect(strangers.back(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    std::array<char, 24> babble{};
    if (i % 2 == 0) REQUIRE(send(strangers.back(), babble.data(), babble.size(), 0) == 24);
    // Its own queue has room for 128.
    if (i % 50 == 0) REQUIRE(net->accept(listen_comm, &recv_comm) == 0);
  }
  auto guess = handle;  // right in all but the secret
  guess[offsetof(local::Handle, secret)] ^= 1;
  void* guessed_comm = nullptr;
  REQUIRE(net->connect(0, guess.data(), &guessed_comm) == 0);
  for (int turn = 0; turn < 1000 && (send_comm == nullptr || recv_comm == nullptr); ++turn) {
    if (send_comm == nullptr) REQUIRE(net->connect(0, handle.data(), &send_comm) == 0);
    if (recv_comm == nullptr) REQUIRE(net->accept(listen_comm, &recv_comm) == 0);
  }
  REQUIRE(send_comm != nullptr);
  REQUIRE(recv_comm != nullptr);
  CHECK(net->connect(0, guess.data(), &guessed_comm) == nccl::kNcclRemoteError);
  CHECK(guessed_comm == nullptr);
  net->close_send(send_comm);
  net->close_receive(recv_comm);
  int kept = 0;
  for (const int stranger : strangers) {
    char byte = 0;
    kept += recv(stranger, &byte, 1, 0) < 0 ? 1 : 0;  // nothing yet, and no end
    close(stranger);
  }
  CHECK(kept <= 64);
  net->close_listen(listen_comm);
}

TEST_CASE("messages match in order, whole, empty and shorter than their receive; 32 are under way at most") {
  Pair pair;
  const std::string text = "a message";
  std::array<char, 64> data{};
  void* sent = pair.send(text.data(), text.size());
  void* empty = pair.send(text.data(), 0);
  void* received = pair.receive(data.data(), data.size());
  void* nothing = pair.receive(data.data() + 32, 0);
  CHECK(pair.test(nothing).done);  // and with it what came before
  const auto outcome = pair.test(received);
  CHECK(outcome.done);
  CHECK(outcome.size_bytes == text.size());
  CHECK(std::string(data.data()) == text);
  CHECK(pair.test(sent).done);
  CHECK(pair.test(empty).done);
  std::vector<void*> many;
  for (int i = 0; i < nccl::kMaxRequests; ++i) many.push_back(pair.send(text.data(), 1));
  CHECK(pair.send(text.data(), 1) == nullptr);
  for (void* request : many) {
    CHECK(pair.test(pair.receive(data.data(), 1)).done);
    CHECK(pair.test(request).done);
  }
  CHECK(pair.send(text.data(), 1) != nullptr);
}

TEST_CASE("a message longer than its receive, with another tag, or of memory that is gone is an error at both ends") {
  std::array<char, 8> data{};
  struct Story {
    const char* sent;
    std::size_t size_bytes;
    int tag;
    const char* words;
  };
  // The last address is not mapped in any process.
  for (const Story& story : {Story{"too much", 9, 7, "longer than what it was to be received in"},
                             Story{"another", 7, 8, "a receive with another tag is before it"},
                             Story{reinterpret_cast<const char*>(16), 8, 7, "cannot read it: Bad address"}}) {
    Pair pair;
    void* sent = pair.send(story.sent, story.size_bytes, story.tag);
    void* received = pair.receive(data.data(), data.size());
    CHECK(pair.test(received).code != 0);
    CHECK_MESSAGE(contains(last_word(), story.words), last_word());
    CHECK(pair.test(sent).code != 0);
    CHECK_MESSAGE(contains(last_word(), story.words), last_word());
    CHECK(contains(last_word(), "process " + std::to_string(getpid())));
  }
}

TEST_CASE("who waits for a peer that has closed learns it; what had come before its end still counts") {
  for (const bool sender_closes : {true, false}) {
    Pair pair;
    std::array<char, 8> data{};
    void* first = pair.send("first", 5);
    void* received = pair.receive(data.data(), data.size());
    CHECK(pair.test(received).done);
    void* waits = sender_closes ? pair.receive(data.data(), data.size()) : pair.send("second", 6);
    if (sender_closes) {
      CHECK(pair.test(first).done);
      pair.net->close_send(std::exchange(pair.send_comm, nullptr));
    } else {
      pair.net->close_receive(std::exchange(pair.recv_comm, nullptr));
      CHECK(pair.test(first).done);
    }
    CHECK(pair.test(waits).code == nccl::kNcclRemoteError);
    CHECK_MESSAGE(contains(last_word(), "has closed this connection"), last_word());
  }
}

TEST_CASE("who waits for a process that was killed learns its number, sender or receiver") {
  for (const bool victim_sends : {true, false}) {
    std::array<int, 2> pipe_ends{};
    REQUIRE(pipe(pipe_ends.data()) == 0);
    // One end each: the victim is killed when both have connected and the survivor waits for it.
    const auto body = [&](bool sends) -> std::string {
      Net net;
      const bool survives = sends != victim_sends;
      std::array<char, nccl::kHandleBytes> handle{};
      void *listen_comm = nullptr, *comm = nullptr, *request = nullptr;
      if (!sends) {
        if (net->listen(0, handle.data(), &listen_comm) != 0) return "listen";
        if (write(pipe_ends[1], handle.data(), handle.size()) != static_cast<ssize_t>(handle.size())) return "pipe";
        while (comm == nullptr) {
          if (net->accept(listen_comm, &comm) != 0) return "accept: " + last_word();
          sched_yield();
        }
      } else {
        if (read(pipe_ends[0], handle.data(), handle.size()) != static_cast<ssize_t>(handle.size())) return "pipe";
        while (comm == nullptr) {
          if (net->connect(0, handle.data(), &comm) != 0) return "connect: " + last_word();
          sched_yield();
        }
      }
      std::array<char, 8> data{};
      if (!survives) raise(SIGKILL);
      const int posted = sends ? net->send(comm, data.data(), data.size(), 7, &net, &request)
                               : net->receive(comm, data.data(), data.size(), 7, &net, &request);
      if (posted != 0) return "post: " + last_word();
      bool done = false;
      std::uint64_t size_bytes = 0;
      int code = 0;
      while (code == 0 && !done) code = net->test(request, &done, &size_bytes);
      return code == nccl::kNcclRemoteError ? last_word() : "no error";
    };
    const auto ends = run_children({[&] { return body(true); }, [&] { return body(false); }});
    for (const int end : pipe_ends) close(end);
    const ProcessEnd& victim = ends[victim_sends ? 0 : 1];
    const ProcessEnd& survivor = ends[victim_sends ? 1 : 0];
    CHECK(victim.signal == SIGKILL);
    CHECK(survivor.signal == 0);
    const std::string who = victim_sends ? "the sender, process " : "the receiver, process ";
    CHECK_MESSAGE(contains(survivor.said, who), survivor.said);
    CHECK_MESSAGE(contains(survivor.said, "is gone: it ended or was killed"), survivor.said);
  }
}

}  // namespace refusal_test
