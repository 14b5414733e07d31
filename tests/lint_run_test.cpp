// What `lint` finds and what `run` refuses are one: a changed scenario that lint passes without an error is not refused
// by `run`, and one that `run` refuses (status 2) has an error of lint's. Each change keeps the file's lines whole, so
// that most changed files still say something about machines.
//
// A seeded sample ordinarily; 10,000 files with MESHBED_TEST_WALKS=full, and as many as MESHBED_TEST_MUTATIONS says.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "plugin/base/prng.h"
#include "tests/support/command.h"
#include "tests/support/walk.h"

namespace lint_run_test {

using namespace meshbed;
using namespace meshbed::test;
namespace fs = std::filesystem;

namespace {

using Lines = std::vector<std::string>;

constexpr std::uint64_t kSeed = 20'261'128;

// Of larger ones each run takes seconds, and their files say nothing that others do not.
constexpr std::size_t kMostNodes = 8;

bool is_small(const Lines& lines) {
  return std::none_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.rfind("nodes = ", 0) == 0 && std::strtoul(line.c_str() + 8, nullptr, 10) > kMostNodes;
  });
}

std::vector<Lines> scenarios() {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(std::string(MESHBED_SOURCE_DIR) + "/scenarios")) {
    // An idle cluster simulates minutes before the limit of a run is looked at.
    const bool is_idle = entry.path().stem().string().find("idle") != std::string::npos;
    if (entry.path().extension() == ".toml" && !is_idle) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Lines> files;
  for (const fs::path& path : paths) {
    std::ifstream file(path);
    Lines lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    if (is_small(lines)) files.push_back(std::move(lines));
  }
  return files;
}

bool is_key(const std::string& line) { return line.find(" = ") != std::string::npos && line[0] != '#'; }

/// The places of lines for which `holds`.
template <typename Predicate>
std::vector<std::size_t> places(const Lines& lines, Predicate holds) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (holds(lines[at])) found.push_back(at);
  }
  return found;
}

const std::string& any_key_line(const std::vector<Lines>& files, Prng& prng) {
  for (;;) {
    const Lines& lines = files[prng.below(files.size())];
    const std::string& line = lines[prng.below(lines.size())];
    if (is_key(line)) return line;
  }
}

void change_once(Lines& lines, const std::vector<Lines>& files, Prng& prng) {
  static const char* const kValues[] = {
      "0",        "-1",          "1",        "2",        "3",        "17",        "1000000",   "9223372036854775807",
      "nan",      "\"x\"",       "true",     "[]",       "\"1M\"",   "\"\"",      "[0]",       "[1, 2]",
      "{}",       "\"100Gb/s\"", "0.5",      "\"10ms\"", "\"down\"", "\"node0\"", "\"node9\"", "\"10.0.0.1/24\"",
      "\"none\"", "\"GB10\"",    "\"spark\""};
  const auto keys = places(lines, is_key);
  if (keys.empty()) return;
  std::string& line = lines[keys[prng.below(keys.size())]];
  switch (prng.below(6)) {
    case 0:
      line.clear();
      break;
    case 1:  // another value
      line = line.substr(0, line.find(" = ") + 3) + kValues[prng.below(std::size(kValues))];
      break;
    case 2:  // a key from elsewhere
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(prng.below(lines.size())), any_key_line(files, prng));
      break;
    case 3: {  // the same key's value elsewhere
      const std::string key = line.substr(0, line.find(" = ") + 3);
      for (int attempt = 0; attempt < 200; ++attempt) {
        const std::string& other = any_key_line(files, prng);
        if (other.rfind(key, 0) != 0) continue;
        line = other;
        break;
      }
      break;
    }
    case 4: {  // another digit
      const std::size_t digit = line.find_first_of("0123456789", line.find(" = "));
      if (digit != std::string::npos) line[digit] = static_cast<char>('0' + prng.below(10));
      break;
    }
    case 5: {  // without a section
      const auto heads = places(lines, [](const std::string& text) { return !text.empty() && text[0] == '['; });
      if (heads.empty()) break;
      const std::size_t index = prng.below(heads.size());
      const std::size_t end = index + 1 < heads.size() ? heads[index + 1] : lines.size();
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(heads[index]),
                  lines.begin() + static_cast<std::ptrdiff_t>(end));
      break;
    }
  }
}

std::string text_of(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::size_t mutations() {
  constexpr std::size_t kWhole = 10'000, kSample = 60;
  if (const char* const wanted = std::getenv("MESHBED_TEST_MUTATIONS")) return std::strtoul(wanted, nullptr, 10);
  return walks_whole() ? kWhole : kSample;
}

/// Of the mutants that one worker has seen: how many lint accepted and refused.
struct Counts {
  std::size_t passed = 0, refused = 0;
};

/// Mutants first, first + step ... below `count`, in a folder of the worker's own.
Counts try_mutants(const std::vector<Lines>& files, std::size_t first, std::size_t step, std::size_t count) {
  constexpr int kRefused = 2;
  const std::string number = std::to_string(first);
  const std::string folder = scratch_folder("lint-run-" + number),
                    results = scratch_folder("lint-run-results-" + number);
  // Recordings and programs are named beside the file.
  for (const auto& entry : fs::directory_iterator(std::string(MESHBED_SOURCE_DIR) + "/scenarios")) {
    if (entry.is_directory())
      fs::create_directory_symlink(entry.path(), folder + "/" + entry.path().filename().string());
  }
  const std::string path = folder + "/changed.toml";
  Counts counts;
  for (std::size_t index = first; index < count; index += step) {
    Prng prng(kSeed + index);
    Lines lines = files[prng.below(files.size())];
    for (std::uint64_t steps = prng.below(3) + 1; steps > 0; --steps) change_once(lines, files, prng);
    const std::string text = text_of(lines);
    std::ofstream(path) << text;
    // The limit of simulated time ends a run that has been accepted. It stands in the place of the file's own, for
    // both.
    const std::string limit = "' --set limits.time=1us ";
    const CommandResult lint = run_command_line(meshbed_program() + " lint '" + path + limit + "2>&1");
    const CommandResult run = run_command_line("timeout 120 " + meshbed_program() + " run '" + path + limit +
                                               "--no-trace --results '" + results + "' 2>&1");
    // That depends on the machine, not on the file.
    if (run.status == kRefused && run.output.find("this machine has ") != std::string::npos) continue;
    CHECK_MESSAGE(run.status <= 3, "mutation ", index, ": ", run.output, "\n", text);
    CHECK_MESSAGE((lint.status == 1) == (run.status == kRefused), "mutation ", index, ": lint ", lint.status, ", run ",
                  run.status, "\n", lint.output, run.output, "\n", text);
    ++(lint.status == 0 ? counts.passed : counts.refused);
  }
  return counts;
}

}  // namespace

TEST_CASE("run refuses what lint has an error for, and nothing else") {
  const std::vector<Lines> files = scenarios();
  const std::size_t count = mutations();
  MESSAGE("seed ", kSeed, ", ", count, " files (MESHBED_TEST_MUTATIONS)");
  std::array<Counts, 2> counts;
  {
    std::vector<std::jthread> workers;
    for (std::size_t first = 0; first < counts.size(); ++first) {
      workers.emplace_back([&, first] { counts[first] = try_mutants(files, first, counts.size(), count); });
    }
  }
  // Both must be common, or the changes test nothing.
  CHECK(counts[0].passed + counts[1].passed > count / 10);
  CHECK(counts[0].refused + counts[1].refused > count / 10);
}

}  // namespace lint_run_test
