#include "testbed/diagnose/causes/causes.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace meshbed::testbed::diagnose {
namespace {

constexpr std::array kCauses{
#define MESHBED_CAUSE(constant, code, reproducible, title, cause, check, fix) \
  CauseInfo{CauseCode::constant, code, reproducible, title, cause, check, fix},
#include "testbed/diagnose/causes/causes.def"
#undef MESHBED_CAUSE
};

constexpr std::array kSymptoms{
#define MESHBED_SYMPTOM(cause, weight, pattern, says, source) Symptom{CauseCode::cause, weight, pattern, says, source},
#include "testbed/diagnose/causes/symptoms.def"
#undef MESHBED_SYMPTOM
};

}  // namespace

std::span<const CauseInfo> cause_infos() { return kCauses; }
const CauseInfo& info_of(CauseCode code) { return kCauses[static_cast<std::size_t>(code)]; }
const char* name_of(CauseCode code) { return info_of(code).name; }

std::optional<CauseCode> cause_named(std::string_view name) {
  const auto found =
      std::find_if(kCauses.begin(), kCauses.end(), [&](const CauseInfo& each) { return each.name == name; });
  if (found == kCauses.end()) return std::nullopt;
  return found->code;
}

std::span<const Symptom> symptoms() { return kSymptoms; }

bool matches(std::string_view line, std::string_view pattern) {
  std::size_t at = 0;
  while (!pattern.empty()) {
    const std::size_t star = std::min(pattern.find('*'), pattern.size());
    const std::string_view part = pattern.substr(0, star);
    const std::size_t found = line.find(part, at);
    if (found == std::string_view::npos) return false;
    at = found + part.size();
    pattern.remove_prefix(std::min(pattern.size(), star + 1));
  }
  return true;
}

}  // namespace meshbed::testbed::diagnose
