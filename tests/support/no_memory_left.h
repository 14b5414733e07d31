#pragma once
// While it lives this process gets hardly any further memory: nothing that is larger than `spare_bytes`.

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace meshbed::test {

class NoMemoryLeft {
 public:
  explicit NoMemoryLeft(rlim_t spare_bytes) {
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    CHECK(::getrlimit(RLIMIT_AS, &before_) == 0);
    const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + spare_bytes;
    const rlimit no_more{.rlim_cur = most, .rlim_max = before_.rlim_max};
    CHECK(::setrlimit(RLIMIT_AS, &no_more) == 0);
  }
  ~NoMemoryLeft() { ::setrlimit(RLIMIT_AS, &before_); }
  NoMemoryLeft(const NoMemoryLeft&) = delete;
  NoMemoryLeft& operator=(const NoMemoryLeft&) = delete;

 private:
  rlimit before_{};
};

}  // namespace meshbed::test
