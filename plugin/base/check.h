#pragma once
// check(cond): our own mistake. Stops the program, prints the condition and the place; on in every build.

namespace meshbed {

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* detail);

}  // namespace meshbed

#define MESHBED_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::meshbed::check_failed(#condition, __FILE__, __LINE__, ""))
#define MESHBED_CHECK_MSG(condition, detail) \
  (static_cast<bool>(condition) ? void(0) : ::meshbed::check_failed(#condition, __FILE__, __LINE__, detail))
