#include "plugin/local/refusal.h"

#include <array>
#include <cstring>
#include <utility>

#include "plugin/base/log.h"

namespace meshbed::local {

Error refuse(ErrorCode code, std::string text) {
  MESHBED_WARN("%s", text.c_str());
  return {code, Scope::kQueuePair, std::move(text)};
}

Error refused_by_kernel(const std::string& what, int number) {
  Error error = refuse(ErrorCode::kSystem, what + ": " + text_of_errno(number));
  error.os_errno = number;
  return error;
}

std::string text_of_errno(int number) {
  std::array<char, 128> buffer{};
  return strerror_r(number, buffer.data(), buffer.size());
}

}  // namespace meshbed::local
