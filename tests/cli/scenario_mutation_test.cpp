// Mutated scenario files: whatever is done to a file, it is read or refused, and nothing else happens. The sanitizer
// build runs the same test; tests/fuzz/scenario_fuzz.cpp goes on from here with coverage feedback.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command/lint.h"
#include "cli/scenario/scenario.h"
#include "plugin/base/prng.h"

namespace scenario_mutation_test {

using namespace meshbed;
using namespace meshbed::cli;

namespace {

struct File {
  std::string path;
  std::string text;
};

std::vector<File> scenario_files() {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MESHBED_SOURCE_DIR) + "/scenarios")) {
    if (entry.path().extension() != ".toml") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    files.push_back({entry.path().string(), text.str()});
  }
  // Directory order differs from machine to machine; the mutations must not.
  std::sort(files.begin(), files.end(), [](const File& left, const File& right) { return left.path < right.path; });
  // What the short files do not say: nodes, NICs, GIDs, cables, switches and faults one by one.
  files.push_back({"listed.toml",
                   "[[node]]\nname = \"a\"\ndevice_order = [\"y\"]\nenvironment = { A = 1 }\n"
                   "[[node.nic]]\ndevice = \"x\"\naddresses = [\"10.1.0.1/24\", \"fd00::1/64\"]\n"
                   "gids = [{ index = 0, type = \"v2\", address = \"10.1.0.1\" }]\n"
                   "[[node.nic]]\ndevice = \"y\"\nmtu = 1500\nlink = \"down\"\n"
                   "[[node]]\nname = \"b\"\nmanagement = \"10.0.0.9\"\n"
                   "[[node.nic]]\ndevice = \"x\"\n[[node.nic]]\ndevice = \"y\"\nrate = \"25Gb/s\"\n"
                   "[[cable]]\nname = \"c\"\nends = [\"a/x\", \"b/x\"]\nsubnet = \"10.1.0.0/24\"\nlatency = \"5ns\"\n"
                   "[[switch]]\nports = [\"a/y\", \"b/y\"]\nsubnet = \"10.2.0.0/29\"\n"
                   "[[fault]]\nkind = \"loss\"\ntarget = \"c\"\namount = 0.5\n"
                   "[[fault]]\nkind = \"address_change\"\ntarget = \"a/x\"\naddress = \"10.1.0.9/24\"\n"
                   "[expect]\nunreachable = [[\"a\", \"b\"]]\nerror = \"no path\"\n"});
  return files;
}

/// The start and size of a random line of `text`.
std::pair<std::size_t, std::size_t> random_line(const std::string& text, Prng& prng) {
  const std::size_t at = prng.below(text.size() + 1);
  const std::size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  return {begin, end - begin};
}

void mutate_once(std::string& text, const std::vector<File>& files, Prng& prng) {
  const std::size_t at = prng.below(text.size() + 1);
  switch (prng.below(7)) {
    case 0:  // one bit
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << prng.below(8)));
      break;
    case 1:  // one byte
      if (at < text.size()) text[at] = static_cast<char>(prng.below(256));
      break;
    case 2:
      text.resize(at);
      break;
    case 3: {  // splice: another file's tail
      const std::string& other = files[prng.below(files.size())].text;
      text = text.substr(0, at) + other.substr(prng.below(other.size() + 1));
      break;
    }
    case 4: {  // a line twice
      const auto [begin, size] = random_line(text, prng);
      text.insert(begin, text.substr(begin, size) + "\n");
      break;
    }
    case 5: {  // a line from elsewhere
      const std::string& other = files[prng.below(files.size())].text;
      const auto [begin, size] = random_line(other, prng);
      text.insert(random_line(text, prng).first, other.substr(begin, size) + "\n");
      break;
    }
    case 6: {  // a number that is too large, too small or odd
      static const char* const kNumbers[] = {"0", "-1", "999999999", "9223372036854775807", "65536", "nan", "1e308"};
      const std::size_t digit = text.find_first_of("0123456789", at);
      if (digit != std::string::npos) text.replace(digit, 1, kNumbers[prng.below(std::size(kNumbers))]);
      break;
    }
  }
}

}  // namespace

TEST_CASE("10,000 mutated scenario files are read or refused, and nothing else happens") {
  constexpr std::uint64_t kSeed = 20'260'101;
  MESSAGE("seed ", kSeed);
  const auto files = scenario_files();
  Prng prng(kSeed);
  int read = 0;
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    const File& file = files[prng.below(files.size())];
    std::string text = file.text;
    for (std::uint64_t step = 0; step <= prng.below(4); ++step) mutate_once(text, files, prng);
    try {
      (void)lint_findings(parse_scenario(text, file.path, {}));
      ++read;
    } catch (const ScenarioError& error) {
      ++refused;
      const std::string message = error.what();
      CHECK_MESSAGE(message.find(file.path) != std::string::npos, message);
    } catch (const std::exception& error) {
      FAIL_CHECK("mutation ", i, " of ", file.path, ": ", error.what(), "\n", text);
    }
  }
  // Both outcomes must be common, or the mutations test nothing.
  CHECK(read > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("mutated --set arguments are applied or refused, and nothing else happens") {
  const std::string text = "[topology]\nkind = \"ring\"\nnodes = 4\n[[cable]]\nname = \"node0-node1\"\n";
  const std::vector<File> arguments = {{"", "workload.bytes=64M"},
                                       {"", "cable.0.rate=10Gb/s"},
                                       {"", "node.node1.nic.rocep1s0f0.link=down"},
                                       {"", "cable.node1-node2.ends=[\"node1/rocep1s0f1\", \"node2/rocep1s0f0\"]"},
                                       {"", "environment.NCCL_DEBUG=INFO"},
                                       {"", "fault=[{kind=\"loss\",target=\"node0-node1\",amount=0.1}]"}};
  Prng prng(7);
  int refused = 0;
  for (int i = 0; i < 5'000; ++i) {
    std::string argument = arguments[prng.below(arguments.size())].text;
    mutate_once(argument, arguments, prng);
    try {
      (void)parse_scenario(text, "test.toml", {argument});
    } catch (const ScenarioError&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL_CHECK(error.what(), ": ", argument);
    }
  }
  CHECK(refused > 500);
}

}  // namespace scenario_mutation_test
