#pragma once
// Causes: what can be wrong with a job, by which words of logs it shows, how to check it and what to do. One table
// (causes.def, symptoms.def), from which docs/troubleshooting.md is generated as well. Pure functions; any thread.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace meshbed::testbed::diagnose {

enum class CauseCode : std::uint8_t {
#define MESHBED_CAUSE(constant, code, reproducible, title, cause, check, fix) constant,
#include "testbed/diagnose/causes/causes.def"
#undef MESHBED_CAUSE
};

struct CauseInfo {
  CauseCode code;
  const char* name;   // "crossed-cable"
  bool reproducible;  // a run of a changed scenario shows it
  const char* title;
  const char* cause;
  const char* check;
  const char* fix;
};
std::span<const CauseInfo> cause_infos();
const CauseInfo& info_of(CauseCode code);
const char* name_of(CauseCode code);
/// nullopt: not the name of a cause.
std::optional<CauseCode> cause_named(std::string_view name);

/// Words of a log that point to a cause.
struct Symptom {
  CauseCode cause;
  double weight;        // 0 to 1: how far the words alone point to it
  const char* pattern;  // '*' stands for any text within the line
  const char* says;
  const char* source;  // whose words they are: file, line and tag
};
std::span<const Symptom> symptoms();

/// The parts of `pattern` between its asterisks are in `line`, in their order. O(length of both) for each part.
bool matches(std::string_view line, std::string_view pattern);

/// docs/troubleshooting.md.
std::string troubleshooting_page();

}  // namespace meshbed::testbed::diagnose
