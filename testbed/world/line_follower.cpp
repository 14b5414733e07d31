#include "testbed/world/line_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>

namespace meshbed::testbed {

bool LineFollower::follow() {
  std::ifstream file(path_, std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(read_bytes_))) return false;
  std::array<char, 65536> block{};
  for (std::size_t step = 0; step < kStepBytes;) {
    file.read(block.data(), static_cast<std::streamsize>(std::min(block.size(), kStepBytes - step)));
    const auto size = static_cast<std::size_t>(file.gcount());
    if (size == 0) return false;
    step += size;
    read_bytes_ += size;
    lines_.take({block.data(), size}, say_);
  }
  return true;
}

void LineFollower::finish(const std::function<bool()>& stops) {
  for (bool more = true; more;) {
    if (stops()) {
      const std::uint64_t written = written_bytes();
      if (written > read_bytes_) say_(fmt::format("... {} bytes of output are left out", written - read_bytes_));
      return;
    }
    more = follow();
  }
  lines_.finish(say_);
}

std::uint64_t LineFollower::written_bytes() const {
  std::error_code problem;
  const auto size = std::filesystem::file_size(path_, problem);
  return problem ? 0 : size;  // it has not begun to write
}

}  // namespace meshbed::testbed
