#include "plugin/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace meshbed {

void check_failed(const char* condition, const char* file, int line, const char* detail) {
  std::fprintf(stderr, "meshbed: check failed: %s (%s:%d)%s%s\n", condition, file, line, detail[0] != '\0' ? ": " : "",
               detail);
  std::fflush(stderr);
  std::abort();
}

}  // namespace meshbed
