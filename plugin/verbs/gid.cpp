#include "plugin/verbs/gid.h"

#include <cstdio>

namespace meshbed::verbs {

const char* to_text(GidType type) { return type == GidType::kRoceV2 ? "RoCE v2" : "RoCE v1"; }

std::string to_text(const Gid& gid) {
  char text[40];
  int length = 0;
  for (std::size_t byte = 0; byte < gid.size(); byte += 2) {
    length += std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), "%s%02x%02x",
                            byte == 0 ? "" : ":", gid[byte], gid[byte + 1]);
  }
  return text;
}

}  // namespace meshbed::verbs
