#include <algorithm>
#include <cstring>

#include "plugin/nccl/exports.h"
#include "plugin/nccl/process.h"

std::size_t meshbedState(std::int64_t now_ns, char* text, std::size_t size_bytes) {
  const std::string state = meshbed::nccl::state_while_frozen(now_ns);
  if (text != nullptr && size_bytes > 0) {
    const std::size_t length = std::min(state.size(), size_bytes - 1);
    std::memcpy(text, state.data(), length);
    text[length] = '\0';
  }
  return state.size();
}
