// The house rules: allowed includes, banned calls, plain English, and files that read in one sitting.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/base/deadline.h"
#include "tests/support/arrows.h"
#include "tests/support/sources.h"

namespace tidy_test {

using namespace meshbed::test;

namespace {

namespace fs = std::filesystem;

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

const std::vector<Arrow>& arrows() {
  static const std::vector<Arrow> all = every_arrow();
  return all;
}

/// Why the file may not include that; empty: it may.
std::string upward(const std::string& path, const std::string& include) {
  const auto arrow =
      std::find_if(arrows().begin(), arrows().end(), [&](const Arrow& one) { return starts_with(path, one.room); });
  if (arrow == arrows().end()) return path + " stands in no room: add it to every_arrow() in tests/support/arrows.cpp";
  const bool allowed = starts_with(include, arrow->room) ||
                       std::any_of(arrow->allowed.begin(), arrow->allowed.end(),
                                   [&](const std::string& start) { return starts_with(include, start); });
  return allowed ? "" : path + " includes " + include + ": " + arrow->reason;
}

/// Words that once stood for something else than what they say, and what they stood for. In brackets, so that a search
/// for the word does not find this list.
/// Words divided by |, with brackets so that no search of the tree finds them here; and what to say instead.
std::string metaphor_in(const std::string& code) {
  static const std::vector<std::pair<std::string, const char*>> kAll{
      {"L[e]g", "QpLink, or SubPlan of a plan"},
      {"La[n]e", "ChannelRun"},
      {"Carri[e]r", "SendPath"},
      {"Sco[u]t", "PeerDiscovery"},
      {"Atl[a]s", "NeighbourMap"},
      {"Beac[o]n", "DiscoveryMessage"},
      {"ResumeDe[s]k|RelayDe[s]k", "ResumeServer, RelayServer"},
      {"MoveDe[s]k|AnnounceDe[s]k", "AddressNotifier, CtsTimer"},
      {"Por[c]h", "AcceptQueue"},
      {"Kno[c]k", "LivenessCheck"},
      {"Homecomi[n]g", "Failback"},
      {"Reachi[n]g", "PendingConnect"},
      {"LostWa[y]s", "FailedPaths"},
      {"SpentLe[g]s", "RetiredLinks"},
      {"StateDo[o]r", "StateSocket"},
      {"Surv[e]y|RollBo[o]k|RollCa[l]l", "CablingAgreement, AgreementBook, RankAnnouncement"},
      {"Meetin[g]s|Meeti[n]g", "IdListeners, Handshake"},
      {"Be[l]l|Patien[c]e", "Doorbell, PollBackoff"},
      {"Tur[n]s|CaseBoa[r]d", "Interleaver, CaseResults"},
  };
  static const std::map<std::string, std::string, std::less<>> kInstead = [] {
    std::map<std::string, std::string, std::less<>> instead;
    for (auto [words, say] : kAll) {
      std::erase_if(words, [](char letter) { return letter == '[' || letter == ']'; });
      std::istringstream each(words);
      for (std::string word; std::getline(each, word, '|');) instead[word] = say;
    }
    return instead;
  }();
  const auto is_of_name = [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_'; };
  for (auto begin = code.begin(); begin != code.end();) {
    begin = std::find_if(begin, code.end(), is_of_name);
    const auto end = std::find_if_not(begin, code.end(), is_of_name);
    const auto found = kInstead.find(std::string_view(begin, end));
    if (found != kInstead.end()) return found->first + ": say " + found->second;
    begin = end;
  }
  return "";
}

constexpr std::size_t kMostFilesOfAFolder = 40;

std::vector<std::string> overfull(const std::vector<std::string>& paths) {
  std::map<std::string, std::size_t> count;
  for (const std::string& path : paths) ++count[fs::path(path).parent_path()];
  std::vector<std::string> found;
  for (const auto& [folder, files] : count) {
    if (files > kMostFilesOfAFolder) {
      found.push_back(folder + " has " + std::to_string(files) + " files: make rooms of it by what they do");
    }
  }
  return found;
}

/// Pattern over code without comments and strings, where it is allowed, and what to do instead.
struct Ban {
  std::vector<const char*> words;  // one of which every match has: std::regex is slow
  const char* pattern;
  std::vector<std::string> allowed;  // folders or files
  const char* instead;
};

const std::vector<Ban>& bans() {
  static const std::vector<Ban> all{
      {{"catch"},
       R"(catch\s*\(\s*\.\.\.)",
       {},
       "catch const std::exception&: the simulator ends a thread by an exception that must pass through"},
      {{"sleep"},
       R"(\bsleep_for\b|\busleep\s*\(|\bnanosleep\s*\()",
       {"sim/host/", "sim/engine/"},
       "wait for what you wait for (completion.poll, a deadline, World::block): a sleep hides a race"},
      {{"rand", "mt19937"},
       R"(\b(s?rand|[dl]rand48)\s*\(|std::random_device|std::mt19937)",
       {},
       "take a Prng from plugin/base/prng.h, seeded from the run's seed: randomness has one door"},
      {{"getrandom", "getentropy"},
       R"(\b(getrandom|getentropy)\s*\()",
       {"plugin/base/random.cpp", "sim/host/"},
       "take what strangers must not guess from plugin/base/random.h"},
      {{"chrono"},
       R"(std::chrono::(system|steady|high_resolution)_clock)",
       {"plugin/base/deadline.h", "sim/cuda/process/process_host.h", "sim/host/load/standard_library.cpp"},
       "use the room's clock door, so that simulated time moves there"},
      {{"clock_gettime", "gettimeofday"},
       R"(\bclock_gettime\s*\(|\bgettimeofday\s*\()",
       {"plugin/", "sim/host/", "cli/bench/bench_measure.cpp", "cli/nccl/program/"},
       "only the plugin's clock doors and the host that stands in for them read clocks"},
      {{"getenv"},
       R"(\bgetenv\s*\()",
       {"plugin/net/process/config.cpp", "plugin/profiler/config.cpp", "plugin/coll/", "sim/host/", "sim/engine/",
        "emu/config.cpp", "cli/command/env.cpp", "testbed/base/environment.cpp", "cli/nccl/program/"},
       "read the variable in the room's configuration file, once"},
      {{"printf", "puts", "cout"},
       R"((^|[^_\w:.>])printf\s*\(|std::printf\s*\(|std::puts\s*\(|std::cout)",
       {"cli/command/program.cpp", "cli/bench/cost/main.cpp", "cli/bench/cost/engine_main.cpp",
        "sim/host/load/program_output.cpp", "cli/nccl/program/"},
       "log through plugin/base/log.h, or write to the stream that you were given: standard output is the result's"},
      {{"thread_local"},
       R"(\bthread_local\b)",
       {"sim/"},
       "keep it in an object: many ranks share one process and one thread in a simulation"},
      {{"exit", "abort", "terminate"},
       R"(std::(exit|abort|quick_exit|terminate)\b|(^|[^\w.>:])_?exit\s*\()",
       {"plugin/base/check.cpp", "testbed/base/child_process.cpp", "testbed/base/interruption.cpp", "sim/host/",
        "emu/process.cpp", "testbed/world/metal_session.cpp", "testbed/verify/conformance_simulate.cpp",
        "testbed/verify/choice_tree.cpp"},
       "return an Error: a library does not end the process"},
      {{"rdtsc", "_mm_pause", "asm"},
       R"(\b__rdtsc\b|\b_mm_pause\b|\basm\s+volatile\b)",
       {"emu/microvm/host_tsc.cpp"},  // which measures that counter
       "the plugin reads no cycle counter and spins on nothing that cannot yield"},
      {{"using namespace std"}, R"(\busing namespace std\b)", {}, "name what you use"},
      {{"ifdef"}, R"(#\s*ifdef\s+SIM)", {}, "the plugin does not know which world it runs in"},
  };
  return all;
}

/// Comments and string literals of a source, with line numbers kept: what code_of() leaves out.
std::string prose_of(const std::string& text) {
  const std::string code = code_of(text);
  std::string prose = text;
  for (std::size_t at = 0; at < text.size(); ++at) {
    // code_of() keeps the quotes and the comment's first slash.
    if (code[at] == text[at] && text[at] != '\n') prose[at] = ' ';
  }
  return prose;
}

/// Words that plain English does not use of code, data or peers (a peer is "it").
const std::set<std::string>& odd_words() {
  static const std::set<std::string> all{"told", "tells", "nobody", "whoever", "somebody",  "someone", "hears",
                                         "he",   "him",   "his",    "anybody", "everybody", "whomever"};
  return all;
}

/// Files that may contain them: only this list and its test.
const std::vector<std::string>& files_with_odd_words() {
  static const std::vector<std::string> all{"tests/tidy_test.cpp"};
  return all;
}

/// "PATH:LINE: WORD" for each odd word in comments and string literals; of a page in all of it.
std::vector<std::string> odd_words_in(const Source& source) {
  const std::string prose = source.path.ends_with(".md") ? source.text : prose_of(source.text);
  const auto is_letter = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
  };
  std::vector<std::string> found;
  for (std::size_t at = 0; at < prose.size(); ++at) {
    if (!is_letter(prose[at])) continue;
    const std::size_t begin = at;
    std::string word;
    for (; at < prose.size() && is_letter(prose[at]); ++at) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(prose[at])));
    }
    if (odd_words().count(word) != 0) found.push_back(place(source, begin) + ": " + word);
  }
  return found;
}

bool is_allowed(const std::string& path, const std::vector<std::string>& allowed) {
  return std::any_of(allowed.begin(), allowed.end(),
                     [&](const std::string& start) { return starts_with(path, start); });
}

}  // namespace

TEST_CASE("comments and strings are not code, code stays where it was") {
  CHECK(code_of("a; // throw\nb;") == "a; /       \nb;");
  CHECK(code_of("f(\"rand()\"); 1'000;") == "f(\"      \"); 1'000;");
  CHECK(code_of("/* x */ y; 'z' w") == "/       y; ' ' w");
}

TEST_CASE("include arrows only go down") {
  for (const Source& source : product_sources()) {
    for (const std::string& include : project_includes(source.text)) {
      const std::string why = upward(source.path, include);
      CHECK_MESSAGE(why.empty(), why);
    }
  }
}

TEST_CASE("an arrow that goes up is found: between folders, between rooms, and from a file that no room has") {
  CHECK(upward("testbed/result/verdict.cpp", "testbed/workload/result.h").empty());
  CHECK(
      upward("testbed/workload/result.cpp", "testbed/result/verdict.h").find("testbed/workload/result.cpp includes") ==
      0);
  CHECK(upward("testbed/topology/check.cpp", "testbed/verify/conformance.h").find("beside one another") !=
        std::string::npos);
  CHECK(upward("plugin/net/link/qp_link.cpp", "plugin/net/rdma/send.h").find("layers are process") !=
        std::string::npos);
  CHECK_FALSE(upward("plugin/net/transport.cpp", "plugin/coll/meshcoll.h").empty());
  CHECK_FALSE(upward("sim/host/host.h", "testbed/world/simulate.h").empty());
  CHECK(upward("attic/box.cpp", "plugin/base/result.h").find("stands in no room") != std::string::npos);
}

TEST_CASE("no folder of the product has more files than one looks through") {
  std::vector<std::string> paths;
  for (const Source& source : product_sources()) paths.push_back(source.path);
  for (const std::string& folder : overfull(paths)) FAIL_CHECK(folder);
  CHECK(overfull(std::vector<std::string>(kMostFilesOfAFolder, "sim/engine/world.h")).empty());
  CHECK(overfull(std::vector<std::string>(kMostFilesOfAFolder + 1, "sim/engine/world.h")) ==
        std::vector<std::string>{"sim/engine has 41 files: make rooms of it by what they do"});
}

TEST_CASE("comments and messages are plain English") {
  std::set<std::string> unused(files_with_odd_words().begin(), files_with_odd_words().end());
  std::vector<Source> all =
      sources({"plugin", "models", "sim", "emu", "testbed", "cli", "tests"}, {".h", ".cpp", ".def"});
  for (Source& page : sources({"docs", "scenarios", "sim", "plugin", "python"}, {".md"}))
    all.push_back(std::move(page));
  for (const Source& source : all) {
    const bool allowed = is_allowed(source.path, files_with_odd_words());
    for (const std::string& word : odd_words_in(source)) {
      if (!allowed) FAIL_CHECK(word, ": say \"reports\", \"a peer\", \"the caller\", \"it\"");
      for (const std::string& start : files_with_odd_words()) {
        if (starts_with(source.path, start)) unused.erase(start);
      }
    }
  }
  for (const std::string& start : unused) FAIL_CHECK(start, " uses no odd words: remove it from the list");
  CHECK(odd_words_in({"a.h", "int told;  // a peer is told\nlog(\"Nobody hears\");\n/* the told_ flag */"}) ==
        std::vector<std::string>{"a.h:1: told", "a.h:2: nobody", "a.h:2: hears"});
  CHECK(odd_words_in({"a.md", "A peer\nis told."}) == std::vector<std::string>{"a.md:2: told"});
}

TEST_CASE("names are the field's words") {
  for (const Source& source : sources({"plugin", "models", "sim", "emu", "testbed", "cli", "tests"})) {
    if (source.path == "tests/tidy_test.cpp") continue;
    const std::string found = metaphor_in(code_of(source.text));
    CHECK_MESSAGE(found.empty(), source.path, ": ", found);
  }
  CHECK(metaphor_in("class Por"
                    "ch;") ==
        "Por"
        "ch: say AcceptQueue");
  CHECK(metaphor_in("class PorchLight; a_Leg(legs);").empty());
}

TEST_CASE("project headers are included by their whole path") {
  for (const Source& source : sources({"plugin", "models", "sim", "emu", "testbed", "cli", "tests"})) {
    for (const std::string& include : project_includes(source.text)) {
      // What is installed is included as its users do: "meshbed/run.h".
      const fs::path root(MESHBED_SOURCE_DIR), beside = include.rfind("meshbed/", 0) == 0 ? "testbed/include" : "";
      CHECK_MESSAGE(fs::exists(root / beside / include), source.path, " includes \"", include,
                    "\": write it as seen from the root");
    }
  }
}

TEST_CASE("SimGrid is known to sim/engine alone, by its public headers") {
  for (const Source& source : sources({"plugin", "models", "sim", "emu", "testbed", "cli", "tests"})) {
    if (source.path == "tests/tidy_test.cpp") continue;
    const bool includes = source.text.find("#include <simgrid/") != std::string::npos;
    CHECK_MESSAGE((!includes || starts_with(source.path, "sim/engine/")), source.path,
                  " includes SimGrid: go through sim/engine/world.h");
    CHECK_MESSAGE(source.text.find("#include <simgrid/src") == std::string::npos, source.path,
                  " includes a private header of SimGrid");
  }
}

TEST_CASE("no banned call is used where there is a replacement") {
  for (const Source& source : product_sources()) {
    const std::string code = code_of(source.text);
    for (const Ban& ban : bans()) {
      const bool may_be_there = std::any_of(ban.words.begin(), ban.words.end(),
                                            [&](const char* word) { return code.find(word) != std::string::npos; });
      if (!may_be_there || is_allowed(source.path, ban.allowed)) continue;
      const std::regex pattern(ban.pattern);
      for (std::sregex_iterator at(code.begin(), code.end(), pattern), end; at != end; ++at) {
        FAIL_CHECK(place(source, static_cast<std::size_t>(at->position())), ": ", at->str(), ": ",
                   std::string(ban.instead));
      }
    }
  }
}

TEST_CASE("every header has its guard, every source includes its own header first") {
  for (const Source& source : product_sources()) {
    if (source.path.size() > 2 && source.path.substr(source.path.size() - 2) == ".h") {
      const bool for_c = source.path == "plugin/coll/meshcoll.h" || source.path == "plugin/dropin/nccl.h" ||
                         source.path == "plugin/dropin/mpi/mpi.h" || source.path == "sim/cuda/meshbed_cuda.h" ||
                         source.path == "plugin/ring/include/meshbed/ring.h";
      CHECK_MESSAGE((source.text.find("#pragma once") != std::string::npos || for_c), source.path,
                    ": begin with #pragma once");
      continue;
    }
    const std::string own = source.path.substr(0, source.path.size() - 4) + ".h";
    const std::vector<std::string> includes = project_includes(source.text);
    if (std::find(includes.begin(), includes.end(), own) == includes.end()) continue;
    const std::size_t first = source.text.find("#include");
    CHECK_MESSAGE(source.text.compare(first, own.size() + 11, "#include \"" + own + "\"") == 0, source.path,
                  ": include ", own, " first, so that it is seen to stand alone");
  }
}

TEST_CASE("every file reads in one sitting, and nothing is left for later") {
  constexpr std::ptrdiff_t kMostLines = 500;
  const std::regex later("TO[D]O|FIX[M]E|X[X]X|not implemented [y]et");
  for (const Source& source : sources({"plugin", "models", "sim", "emu", "testbed", "cli", "tests"})) {
    const auto lines = std::count(source.text.begin(), source.text.end(), '\n');
    CHECK_MESSAGE(lines <= kMostLines, source.path, " has ", lines, " lines: split it by what it does");
    CHECK_MESSAGE(!std::regex_search(source.text, later), source.path,
                  ": finish it, or say in docs/limits.md that it is missing");
  }
}

TEST_CASE("each defect of the ancestor has a test that is named after it") {
  constexpr int kDefects = 31;
  std::string names;
  const std::regex name("TEST_CASE\\(\\s*\"(D[^:\"]*):");
  for (const Source& source : sources({"tests"})) {
    for (std::sregex_iterator at(source.text.begin(), source.text.end(), name), end; at != end; ++at) {
      names += (*at)[1].str() + ",";
    }
  }
  for (int defect = 1; defect <= kDefects; ++defect) {
    const std::string wanted = "D" + std::to_string(defect) + ",";
    CHECK_MESSAGE(names.find(wanted) != std::string::npos, "no test is named after D", defect);
  }
}

TEST_CASE("every file of test cases is a namespace of its own name, so that many can be compiled at a time") {
  for (const Source& source : sources({"tests"})) {
    const std::string stem = fs::path(source.path).stem();
    if (source.path.find("_test.cpp") == std::string::npos) continue;
    CHECK_MESSAGE(source.text.find("\nnamespace " + stem + " {\n") != std::string::npos, source.path,
                  ": put everything below its includes into namespace ", stem);
  }
}

}  // namespace tidy_test
