// What the drop-in answers to one rank alone: groups, wrong use, and what is not supported.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "plugin/dropin/nccl.h"
#include "tests/support/free_address.h"

namespace usage_test {

using namespace meshbed::test;

namespace {

/// What `body` prints to standard error.
std::string said_during(const std::function<void()>& body) {
  std::FILE* file = std::tmpfile();
  REQUIRE(file != nullptr);
  const int kept = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  body();
  dup2(kept, STDERR_FILENO);
  close(kept);
  std::string text;
  std::rewind(file);
  for (int letter = std::fgetc(file); letter != EOF; letter = std::fgetc(file)) text += static_cast<char>(letter);
  std::fclose(file);
  return text;
}

/// Exactly one line, a warning with these words; and ncclGetLastError has them, too.
void check_one_warning(const std::string& said, const std::string& words) {
  CAPTURE(said);
  CHECK(said.rfind("meshbed: warning: ", 0) == 0);
  CHECK(said.find('\n') == said.size() - 1);
  CHECK(said.find(words) != std::string::npos);
  CHECK(std::string(ncclGetLastError(nullptr)).find(words) != std::string::npos);
}

ncclComm_t alone() {
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  return comm;
}

}  // namespace

TEST_CASE("a communicator of one: every call moves what it should") {
  const ncclComm_t comm = alone();
  int version = 0, count = 0, rank = -1;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == 22809);
  CHECK(ncclCommCount(comm, &count) == ncclSuccess);
  CHECK(count == 1);
  CHECK(ncclCommUserRank(comm, &rank) == ncclSuccess);
  CHECK(rank == 0);
  const int sent[3] = {1, 2, 3};
  const auto moves = [&](const std::function<ncclResult_t(int*)>& call) {
    int received[3] = {};
    CHECK(call(received) == ncclSuccess);
    CHECK(received[0] == 1);
    CHECK(received[2] == 3);
  };
  moves([&](int* to) { return ncclAllReduce(sent, to, 3, ncclInt, ncclAvg, comm, nullptr); });
  moves([&](int* to) { return ncclReduce(sent, to, 3, ncclInt, ncclSum, 0, comm, nullptr); });
  moves([&](int* to) { return ncclBroadcast(sent, to, 3, ncclInt, 0, comm, nullptr); });
  moves([&](int* to) { return ncclAllGather(sent, to, 3, ncclInt, comm, nullptr); });
  moves([&](int* to) { return ncclReduceScatter(sent, to, 3, ncclInt, ncclMax, comm, nullptr); });
  moves([&](int* to) { return ncclAlltoAll(sent, to, 3, ncclInt, comm, nullptr); });
  moves([&](int* to) { return ncclGather(sent, to, 3, ncclInt, 0, comm, nullptr); });
  moves([&](int* to) { return ncclScatter(sent, to, 3, ncclInt, 0, comm, nullptr); });
  moves([&](int* to) {
    CHECK(ncclGroupStart() == ncclSuccess);
    CHECK(ncclRecv(to, 3, ncclInt, 0, comm, nullptr) == ncclSuccess);
    CHECK(ncclSend(sent, 3, ncclInt, 0, comm, nullptr) == ncclSuccess);
    CHECK(to[0] == 0);  // nothing has begun
    return ncclGroupEnd();
  });
  void* handle = nullptr;
  int buffer[8] = {};
  CHECK(ncclCommRegister(comm, buffer, sizeof buffer, &handle) == ncclSuccess);
  CHECK(ncclCommDeregister(comm, handle) == ncclSuccess);
  CHECK(ncclCommFinalize(comm) == ncclSuccess);
  check_one_warning(said_during([&] { CHECK(ncclBcast(buffer, 1, ncclInt, 0, comm, nullptr) == ncclInvalidUsage); }),
                    "ncclBcast: the communicator was finalized");
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  check_one_warning(said_during([&] { CHECK(ncclCommCount(comm, &count) == ncclInvalidArgument); }),
                    "ncclCommCount: this is no communicator (any more)");
}

TEST_CASE("a wrong call names itself and its fault, spoils its group, and breaks nothing") {
  const ncclComm_t comm = alone();
  int sent = 7, received = 0;
  const auto stream = reinterpret_cast<cudaStream_t>(&sent);
  check_one_warning(said_during([&] {
                      CHECK(ncclAllReduce(&sent, &received, 1, ncclInt, ncclSum, comm, stream) == ncclInvalidUsage);
                    }),
                    "ncclAllReduce: the stream is not NULL");
  check_one_warning(
      said_during([&] { CHECK(ncclBroadcast(&sent, &received, 1, ncclInt, 1, comm, nullptr) == ncclInvalidArgument); }),
      "ncclBroadcast: root is 1 in a world of 1");
  check_one_warning(said_during([&] { CHECK(ncclSend(&sent, 1, ncclInt, -1, comm, nullptr) == ncclInvalidArgument); }),
                    "ncclSend: to is ");
  ncclResult_t state = ncclInternalError;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  CHECK(state == ncclSuccess);
  const std::string said = said_during([&] {
    CHECK(ncclGroupStart() == ncclSuccess);
    CHECK(ncclAllReduce(&sent, &received, 1, ncclInt, ncclSum, comm, nullptr) == ncclSuccess);
    CHECK(ncclAllReduce(&sent, nullptr, 1, ncclInt, ncclSum, comm, nullptr) == ncclInvalidArgument);
    CHECK(ncclGroupEnd() == ncclInvalidArgument);
  });
  CAPTURE(said);
  CHECK(said.find("ncclGroupEnd: recv is null") != std::string::npos);
  CHECK(received == 0);
  check_one_warning(said_during([&] {
                      CHECK(ncclGroupStart() == ncclSuccess);
                      CHECK(ncclSend(&sent, 1, ncclInt, 0, comm, nullptr) == ncclSuccess);
                      CHECK(ncclGroupEnd() == ncclInvalidUsage);
                    }),
                    "ncclGroupEnd: rank 0's ncclSend to itself has no ncclRecv in its group");
  check_one_warning(said_during([&] { CHECK(ncclGroupEnd() == ncclInvalidUsage); }),
                    "ncclGroupEnd: there is no ncclGroupStart before it");
  CHECK(ncclAllReduce(&sent, &received, 1, ncclInt, ncclSum, comm, nullptr) == ncclSuccess);
  CHECK(received == 7);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("a thread's group is its own") {
  const ncclComm_t comm = alone();
  CHECK(ncclGroupStart() == ncclSuccess);
  std::thread([&] {
    int sent = 7, received = 0;
    CHECK(ncclAllReduce(&sent, &received, 1, ncclInt, ncclSum, comm, nullptr) == ncclSuccess);
    CHECK(received == 7);
  }).join();
  CHECK(ncclGroupEnd() == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a group whose thread has ended starts nothing, and is no other thread's") {
  const ncclComm_t comm = alone();
  int sent = 7, received = 0;
  const auto add = [&] { return ncclAllReduce(&sent, &received, 1, ncclInt, ncclSum, comm, nullptr); };
  check_one_warning(said_during([&] {
                      std::thread([&] {
                        CHECK(ncclGroupStart() == ncclSuccess);
                        CHECK(add() == ncclSuccess);
                      }).join();
                    }),
                    "ncclGroupEnd: a thread ended between ncclGroupStart and ncclGroupEnd");
  CHECK(received == 0);
  // The next thread may well have the number of the one that ended.
  std::thread([&] { CHECK(add() == ncclSuccess); }).join();
  CHECK(received == 7);
  received = 0;
  CHECK(add() == ncclSuccess);
  CHECK(received == 7);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a communicator that is refused spoils its group like any call: nothing of it starts") {
  const ncclComm_t comm = alone();
  ncclUniqueId id{};
  ncclComm_t other = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const auto spoils = [&](ncclResult_t code, const std::function<ncclResult_t()>& make) {
    int sent = 7, received = 0;
    const std::string said = said_during([&] {
      CHECK(ncclGroupStart() == ncclSuccess);
      CHECK(make() == code);
      CHECK(ncclAllReduce(&sent, &received, 1, ncclInt, ncclSum, comm, nullptr) == ncclSuccess);
      CHECK(ncclGroupEnd() == code);
    });
    CAPTURE(said);
    CHECK(received == 0);
  };
  spoils(ncclInvalidUsage, [&] { return ncclCommInitRankConfig(&other, 1, id, 0, &config); });
  spoils(ncclInvalidArgument, [&] { return ncclCommInitRank(nullptr, 1, id, 0); });
  spoils(ncclInvalidUsage, [&] { return ncclCommInitAll(&other, 2, nullptr); });
  spoils(ncclInvalidUsage, [&] { return ncclCommInitRankScalable(&other, 1, 0, 2, &id, nullptr); });
  spoils(ncclInvalidUsage, [&] { return ncclCommSplit(comm, 0, 0, &other, nullptr); });
  CHECK(other == nullptr);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a text of ncclGetLastError stays with the thread that asked for it, while others fail and destroy") {
  const ncclComm_t comm = alone();
  int number = 0;
  static_cast<void>(said_during([&] {
    CHECK(ncclBcast(&number, 1, ncclInt, 3, comm, nullptr) == ncclInvalidArgument);
    const char* text = ncclGetLastError(comm);
    const std::string first = text;
    CHECK(first == "ncclBcast: root is 3 in a world of 1");
    const char* other = text;
    std::thread([&] {
      CHECK(ncclBcast(&number, 1, ncclInt, 4, comm, nullptr) == ncclInvalidArgument);
      CHECK(ncclCommDestroy(comm) == ncclSuccess);
      other = ncclGetLastError(nullptr);
      CHECK(std::string(other) == "ncclBcast: root is 4 in a world of 1");
    }).join();
    CHECK(other != text);
    CHECK(text == first);
  }));
}

TEST_CASE("a communicator may be made in a group, as programs for several devices do it; two ranks may not") {
  ncclUniqueId id;
  setenv("NCCL_COMM_ID", free_address().c_str(), 1);
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  unsetenv("NCCL_COMM_ID");
  ncclComm_t comm = nullptr, other = nullptr;
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  CHECK(comm == nullptr);
  CHECK(ncclGroupEnd() == ncclSuccess);
  REQUIRE(comm != nullptr);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  const std::string said = said_during([&] {
    CHECK(ncclGroupStart() == ncclSuccess);
    CHECK(ncclCommInitRank(&comm, 2, id, 0) == ncclSuccess);
    CHECK(ncclCommInitRank(&other, 2, id, 1) == ncclInvalidUsage);
    CHECK(ncclGroupEnd() == ncclInvalidUsage);
  });
  CAPTURE(said);
  CHECK(said.find("ncclCommInitRank: several ranks in one group") != std::string::npos);
}

TEST_CASE("config: what is not honoured is refused by its name") {
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.splitShare = 0;
  config.commName = "mine";
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  const auto refuses = [&](ncclResult_t code, const std::string& words) {
    check_one_warning(said_during([&] { CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == code); }),
                      "ncclCommInitRankConfig: " + words);
    config = NCCL_CONFIG_INITIALIZER;
  };
  config.blocking = 0;
  refuses(ncclInvalidUsage, "config.blocking = 0 is not supported, only 1");
  config.maxCTAs = 4;
  refuses(ncclInvalidUsage, "config.maxCTAs = 4 is not supported: leave it undefined");
  config.netName = "IB";
  refuses(ncclInvalidUsage, "config.netName = \"IB\" is not supported: set NCCL_NET_PLUGIN");
  config.magic = 1;
  refuses(ncclInvalidArgument, "the config was not made by NCCL_CONFIG_INITIALIZER");
  // A program of NCCL 2.14 brings four fields and four bytes of padding, one of 2.18 nine fields and as many.
  for (const auto& known : {std::pair(NCCL_VERSION(2, 14, 3), offsetof(ncclConfig_t, cgaClusterSize)),
                            std::pair(NCCL_VERSION(2, 18, 1), offsetof(ncclConfig_t, trafficClass))}) {
    const std::size_t last = known.second;
    CAPTURE(known.first);
    ncclConfig_t older = NCCL_CONFIG_INITIALIZER;
    older.version = known.first;
    older.size = last + 4;
    std::memset(reinterpret_cast<char*>(&older) + last, 0x7f, sizeof older - last);
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &older) == ncclSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
  }
}

TEST_CASE("what is not supported is an error, and one warning with its name") {
  const ncclComm_t comm = alone();
  int number = 0;
  ncclRedOp_t op = ncclSum;
  const auto refuses = [&](const char* name, const std::function<ncclResult_t()>& call) {
    CAPTURE(name);
    check_one_warning(said_during([&] {
                        CHECK(call() == ncclInvalidUsage);
                        CHECK(call() == ncclInvalidUsage);  // and no second warning
                      }),
                      std::string(name) + " is not supported: ");
  };
  refuses("ncclCommCuDevice", [&] { return ncclCommCuDevice(comm, &number); });
  refuses("ncclCommRevoke", [&] { return ncclCommRevoke(comm, 0); });
  refuses("ncclCommShrink", [&] { return ncclCommShrink(comm, nullptr, 0, nullptr, nullptr, 0); });
  refuses("ncclCommWindowRegister", [&] { return ncclCommWindowRegister(comm, &number, 4, nullptr, 0); });
  refuses("ncclCommWindowDeregister", [&] { return ncclCommWindowDeregister(comm, nullptr); });
  refuses("ncclRedOpCreatePreMulSum",
          [&] { return ncclRedOpCreatePreMulSum(&op, &number, ncclInt, ncclScalarHostImmediate, comm); });
  refuses("ncclRedOpDestroy", [&] { return ncclRedOpDestroy(op, comm); });
  refuses("ncclGroupSimulateEnd", [&] { return ncclGroupSimulateEnd(nullptr); });
  ncclComm_t several[2] = {};
  check_one_warning(said_during([&] { CHECK(ncclCommInitAll(several, 2, nullptr) == ncclInvalidUsage); }),
                    "ncclCommInitAll: it is for one rank only");
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

TEST_CASE("a unique id is an address of this machine, or what NCCL_COMM_ID says; a wrong one is refused") {
  ncclUniqueId id{}, other{};
  setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  CHECK(ncclGetUniqueId(&other) == ncclSuccess);
  CHECK(std::string(id.internal).rfind("127.0.0.1:", 0) == 0);
  CHECK(std::string(id.internal) != other.internal);
  setenv("NCCL_SOCKET_FAMILY", "AF_IPX", 1);
  check_one_warning(said_during([&] { CHECK(ncclGetUniqueId(&id) == ncclInvalidArgument); }),
                    "NCCL_SOCKET_FAMILY is \"AF_IPX\"; set AF_INET or AF_INET6");
  unsetenv("NCCL_SOCKET_FAMILY");
  setenv("NCCL_SOCKET_IFNAME", "=nowhere", 1);
  check_one_warning(said_during([&] { CHECK(ncclGetUniqueId(&id) == ncclInvalidArgument); }),
                    "NCCL_SOCKET_IFNAME \"=nowhere\"");
  unsetenv("NCCL_SOCKET_IFNAME");
  setenv("NCCL_COMM_ID", "here", 1);
  check_one_warning(said_during([&] { CHECK(ncclGetUniqueId(&id) == ncclInvalidUsage); }),
                    "NCCL_COMM_ID: bootstrap \"here\" is not ADDRESS:PORT");
  setenv("NCCL_COMM_ID", "[fd00::7]:4711", 1);
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  CHECK(std::string(id.internal) == "[fd00::7]:4711");
  unsetenv("NCCL_COMM_ID");
}

}  // namespace usage_test
