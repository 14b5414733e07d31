#include "testbed/base/processors.h"

#include <sched.h>

#include <algorithm>

namespace meshbed::testbed {

int own_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace meshbed::testbed
