// What the ranks of one node share, and no other node sees: Unix datagrams with descriptors, /dev/shm, processes'
// numbers. As NCCL uses them: src/os/linux_ipcsocket.cc and linux.cc of 2.30.7.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "tests/dropin/lines.h"
#include "tests/dropin/programs.h"
#include "tests/support/command.h"

namespace node_test {

using namespace meshbed::test;

namespace {

// Each program counts what is wrong; `expect` names it.
const std::string kBegin = R"(
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mpi.h>
#include <poll.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
int wrong = 0;
#define expect(condition) ((condition) ? 0 : (++wrong, std::printf("line %d: %s, errno %d\n", __LINE__, #condition, errno)))
const int rank = std::atoi(std::getenv("RANK")), local = std::atoi(std::getenv("LOCAL_RANK"));
bool meets = false;
/// Until all ranks have come here.
void meet() {
  if (!std::exchange(meets, true)) MPI_Init(nullptr, nullptr);
  MPI_Barrier(MPI_COMM_WORLD);
}
int done() {
  if (meets) MPI_Finalize();
  return std::printf("wrong %d\n", wrong), wrong != 0;
}
)";

CommandResult run(const Programs& programs, const std::string& name) {
  return programs.run(name, 2, "ranks_per_node = 2", "");
}

}  // namespace

TEST_CASE("Unix datagrams carry bytes and descriptors between the ranks of a node") {
  const Programs programs("node-datagrams");
  programs.compile("c++", "datagrams", kBegin + R"(
sockaddr_un name_of(int of, bool abstract) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::snprintf(name.sun_path, sizeof name.sun_path, "%c/tmp/socket-of-%d", abstract ? 'x' : '/', of);
  if (abstract) name.sun_path[0] = '\0';
  return name;
}
ssize_t send_to(int fd, const sockaddr_un& to, const void* data, size_t size, int passed, int how = 0) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_un*>(&to);
  message.msg_namelen = sizeof to;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (passed != -1) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    *header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(header), &passed, sizeof passed);
  }
  return sendmsg(fd, &message, how);
}
ssize_t receive(int fd, void* data, size_t size, int* passed, sockaddr_un* from, int* flags) {
  iovec part{data, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_name = from;
  message.msg_namelen = sizeof *from;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t count = recvmsg(fd, &message, 0);
  *flags = message.msg_flags;
  *passed = -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (count >= 0 && header != nullptr) std::memcpy(passed, CMSG_DATA(header), sizeof *passed);
  return count;
}
void exchange(bool abstract) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_un own = name_of(local, abstract), other = name_of(1 - local, abstract);
  expect(bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
  const int second = socket(AF_UNIX, SOCK_DGRAM, 0);
  expect(bind(second, reinterpret_cast<const sockaddr*>(&own), sizeof own) == -1 && errno == EADDRINUSE);
  meet();  // both are bound
  char text[64] = {};
  sockaddr_un from{};
  int passed = -1, flags = 0;
  if (local == 0) {
    const int shared = shm_open("/passed", O_CREAT | O_RDWR, 0600);
    expect(ftruncate(shared, 4096) == 0);
    auto* words = static_cast<int*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0));
    words[0] = 100 + rank;
    expect(send_to(fd, other, "first", 5, shared) == 5);
    close(shared);
    expect(shm_unlink("/passed") == 0);
    expect(send_to(fd, other, "second", 6, -1) == 6);
    expect(receive(fd, text, sizeof text, &passed, &from, &flags) == 6 && std::string(text) == "answer" && passed == -1);
    expect(words[1] == 200 + rank);
    int i = 0;
    while (send_to(fd, other, &i, sizeof i, -1, MSG_DONTWAIT) == sizeof i) ++i;
    expect(errno == EAGAIN && i > 0 && i < 30);  // a queue holds fewer
    meet();  // the queue is full
    for (; i < 30; ++i) expect(send_to(fd, other, &i, sizeof i, -1) == sizeof i);
  } else {
    expect(receive(fd, text, sizeof text, &passed, &from, &flags) == 5 && std::string(text) == "first" && flags == 0);
    expect(std::memcmp(from.sun_path, other.sun_path, sizeof "x/tmp/socket-of-0") == 0);
    auto* words = static_cast<int*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0));
    expect(words != MAP_FAILED && words[0] == 99 + rank);
    words[1] = 199 + rank;
    expect(receive(fd, text, 3, &passed, &from, &flags) == 3 && std::string(text, 3) == "sec" && passed == -1);
    expect((flags & MSG_TRUNC) != 0);
    expect(connect(fd, reinterpret_cast<const sockaddr*>(&other), sizeof other) == 0 && write(fd, "answer", 6) == 6);
    meet();  // the queue is full
    pollfd waits{fd, POLLIN, 0};
    for (int i = 0; i < 30; ++i) {
      int number = -1;
      expect(poll(&waits, 1, 1000) == 1 && recv(fd, &number, sizeof number, 0) == sizeof number && number == i);
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    expect(receive(fd, text, sizeof text, &passed, &from, &flags) == -1 && errno == EAGAIN);
  }
  meet();
  close(fd);
  close(second);
  if (!abstract) expect(unlink(own.sun_path) == 0);
  meet();
  const int late = socket(AF_UNIX, SOCK_DGRAM, 0);
  expect(send_to(late, other, "late", 4, -1) == -1 && errno == ECONNREFUSED);
  close(late);
}
int main() {
  exchange(true);
  exchange(false);
  return done();
}
)",
                   kMpi);
  const CommandResult result = run(programs, "datagrams");
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(lines_with(result.output, "wrong 0\n") == 4);
}

TEST_CASE("each node has a /dev/shm of its own") {
  const Programs programs("node-shared-memory");
  programs.compile("c++", "shared", kBegin + R"(
struct Page { int owner; int arrived; };
int main() {
  char path[] = "/dev/shm/meshbed-test-??????", name[] = "/dev/shm/meshbed-test-name";
  std::memset(path + 22, 'X', 6);
  struct stat folder, status;
  expect(stat("/dev/shm", &folder) == 0 && S_ISDIR(folder.st_mode));
  if (local == 0) {
    const int fd = mkstemp(path);
    expect(fd >= 0 && std::strchr(path, 'X') == nullptr);
    expect(fallocate(fd, 0, 0, sizeof(Page)) == 0 && stat(path, &status) == 0 && status.st_size == sizeof(Page));
    auto* page = static_cast<Page*>(mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    page->owner = rank;
    expect(close(fd) == 0);
    const int message = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    expect(write(message, path, sizeof path) == sizeof path && close(message) == 0);
    meet();
    meet();
    expect(page->arrived == rank + 1 && access(path, F_OK) == -1 && errno == ENOENT);
    std::printf("%s device %lu\n", path, static_cast<unsigned long>(folder.st_dev));
  } else {
    meet();
    const int message = open(name, O_RDONLY);
    expect(read(message, path, sizeof path) == sizeof path && close(message) == 0);
    expect(open(name, O_CREAT | O_EXCL | O_RDWR, 0600) == -1 && errno == EEXIST);
    const int fd = open(path, O_RDWR);
    auto* page = static_cast<Page*>(mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    expect(fd >= 0 && page != MAP_FAILED && page->owner == rank - 1);
    page->arrived = rank;
    expect(unlink(path) == 0 && unlink(path) == -1 && errno == ENOENT && unlink(name) == 0);
    meet();
  }
  return done();
}
)",
                   kMpi);
  const CommandResult result = run(programs, "shared");
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(lines_with(result.output, "wrong 0\n") == 4);
  CHECK(lines_with(result.output, " device 16777216\n") == 1);
  CHECK(lines_with(result.output, " device 16777217\n") == 1);
  CHECK_FALSE(std::filesystem::exists("/dev/shm/meshbed-test-name"));
  const CommandResult again = run(programs, "shared");
  CHECK(again.output.substr(0, again.output.find("simulated ")) ==
        result.output.substr(0, result.output.find("simulated ")));
}

TEST_CASE("a rank finds itself below /proc, and keeps the processors that it is given") {
  const Programs programs("node-process");
  programs.compile("c++", "itself", kBegin + R"(
std::string text_of(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "r");
  char text[512] = {};
  if (file == nullptr) return "";
  const size_t count = std::fread(text, 1, sizeof text, file);
  std::fclose(file);
  return std::string(text, count);
}
std::string link_of(const std::string& path) {
  char text[512] = {};
  const ssize_t count = readlink(path.c_str(), text, sizeof text - 1);
  return count < 0 ? "" : std::string(text, static_cast<size_t>(count));
}
int main(int, char** argv) {
  const std::string own = "/proc/" + std::to_string(getpid());
  const std::string other = "/proc/" + std::to_string(getpid() + (local == 0 ? 1000 : -1000));
  meet();  // both have begun
  expect(link_of("/proc/self/exe") == argv[0] && link_of(own + "/exe") == argv[0] && link_of(other + "/exe") == argv[0]);
  expect(link_of("/proc/self/ns/pid").rfind("pid:[", 0) == 0 && link_of("/proc/self/ns/pid") == link_of(other + "/ns/pid"));
  expect(text_of("/proc/self/cmdline") == argv[0] + std::string("\0", 1) && text_of("/proc/self/comm") == "itself\n");
  expect(text_of(own + "/environ").find("RANK=" + std::to_string(rank)) != std::string::npos);
  expect(text_of("/proc/self/status").find("Pid:\t" + std::to_string(getpid()) + "\n") != std::string::npos);
  expect(text_of("/proc/1/cmdline").empty());
  expect(!text_of("/proc/self/maps").empty());
  std::printf("namespace %s\n", link_of("/proc/self/ns/pid").c_str());

  cpu_set_t mask, wanted;
  expect(sched_getaffinity(0, sizeof mask, &mask) == 0 && CPU_COUNT(&mask) == 64 && sched_getcpu() == 0);
  CPU_ZERO(&wanted);
  CPU_SET(7, &wanted);
  CPU_SET(9, &wanted);
  expect(sched_setaffinity(0, sizeof wanted, &wanted) == 0 && sched_getcpu() == 7);
  expect(sched_getaffinity(getpid(), sizeof mask, &mask) == 0 && CPU_EQUAL(&mask, &wanted));
  std::thread([] {
    cpu_set_t inner;
    expect(pthread_getaffinity_np(pthread_self(), sizeof inner, &inner) == 0 && CPU_COUNT(&inner) == 2);
  }).join();
  CPU_ZERO(&wanted);
  expect(sched_setaffinity(0, sizeof wanted, &wanted) == -1 && errno == EINVAL);
  expect(sched_setaffinity(1, sizeof mask, &mask) == -1 && errno == ESRCH);
  expect(sched_getaffinity(0, 1, &mask) == -1 && errno == EINVAL);
  meet();  // neither ends before the other has looked at it
  return done();
}
)",
                   kMpi);
  const CommandResult result = run(programs, "itself");
  CAPTURE(result.output);
  CHECK(result.status == 0);
  CHECK(lines_with(result.output, "wrong 0\n") == 4);
  CHECK(lines_with(result.output, "namespace pid:[4026531840]\n") == 2);
  CHECK(lines_with(result.output, "namespace pid:[4026531841]\n") == 2);
}

}  // namespace node_test
