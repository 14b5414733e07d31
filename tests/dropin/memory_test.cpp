// No memory left: every call says so, and nothing thrown crosses.
#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include "plugin/dropin/nccl.h"

namespace memory_test {

// This program's malloc() is the drop-in's as well: its libstdc++ is its own, but operator new calls it.
extern "C" void* __libc_malloc(std::size_t);

namespace {

thread_local bool t_no_memory = false;

/// Of this thread; the engine's own have some.
class NoMemory {
 public:
  NoMemory() { t_no_memory = true; }
  ~NoMemory() { t_no_memory = false; }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

template <typename Call>
ncclResult_t without_memory(const Call& call) {
  const NoMemory none;
  return call();
}

}  // namespace

extern "C" void* malloc(std::size_t size) noexcept { return t_no_memory ? nullptr : __libc_malloc(size); }

TEST_CASE("without memory a call is an error, in a group the group's, and the communicator is as well as before") {
  ncclComm_t comm = nullptr, other = nullptr;
  int sent = 7, received = 0;
  const auto add = [&] { return ncclAllReduce(&sent, &received, 1, ncclInt, ncclSum, comm, nullptr); };
  CHECK(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  CHECK(add() == ncclSuccess);
  received = 0;
  CHECK(without_memory(add) == ncclInternalError);
  CHECK(std::string(ncclGetLastError(comm)).rfind("ncclAllReduce: ", 0) == 0);
  CHECK(without_memory([&] { return ncclCommInitAll(&other, 1, nullptr); }) == ncclInternalError);
  CHECK(without_memory([] { return ncclGroupStart(); }) == ncclInternalError);
  CHECK(without_memory([&] { return ncclCommCount(other, &sent); }) == ncclInternalError);  // the words do not fit
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(without_memory(add) == ncclInternalError);
  CHECK(add() == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInternalError);
  CHECK(received == 0);
  CHECK(add() == ncclSuccess);
  CHECK(received == 7);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
}

}  // namespace memory_test
