#include "plugin/base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace meshbed {

Result<void> fill_unpredictable(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::getrandom(bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      return Error{ErrorCode::kSystem, Scope::kJob, std::string("getrandom: ") + std::strerror(errno), errno};
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return ok();
}

}  // namespace meshbed
