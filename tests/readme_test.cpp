// The README and the pages in docs/ are correct: each command in them works (the fenced sh blocks are run from the
// root, line by line), each link leads to a file, each path in the lists of files exists, and sentences are short.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/files.h"
#include "tests/support/command.h"
#include "tests/support/emulation.h"
#include "tests/support/walk.h"

namespace readme_test {

using namespace meshbed::test;

namespace {

namespace fs = std::filesystem;

constexpr std::ptrdiff_t kMostReadmeLines = 150;

struct Page {
  std::string path;  // seen from the root: "docs/relays.md"
  std::string text;
};

Page read_page(const std::string& path) {
  std::ifstream file(fs::path(MESHBED_SOURCE_DIR) / path);
  return {path, {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}};
}

std::string readme() { return read_page("README.md").text; }

std::vector<Page> pages_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(MESHBED_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ".md") paths.push_back(folder + "/" + entry.path().filename().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Page> pages;
  for (const std::string& path : paths) pages.push_back(read_page(path));
  return pages;
}

std::vector<Page> docs() { return pages_in("docs"); }

/// Lists of symbols, fields and codes, apart from the pages that people read.
std::vector<Page> reference() { return pages_in("docs/reference"); }

std::vector<Page> all_pages() {
  std::vector<Page> pages = docs();
  pages.insert(pages.begin(), {read_page("README.md"), read_page("sim/cuda/README.md")});
  for (Page& page : reference()) pages.push_back(std::move(page));
  return pages;
}

/// The lines between ```KIND and ```; comments and empty lines left out.
std::vector<std::string> lines_in_blocks(const std::string& text, const std::string& kind) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "```" + kind) {
      inside = true;
    } else if (line.rfind("```", 0) == 0) {
      inside = false;
    } else if (inside && !line.empty() && line.front() != '#') {
      lines.push_back(line);
    }
  }
  return lines;
}

/// The text without its fenced blocks.
std::string prose_of(const std::string& text) {
  std::string prose;
  std::istringstream in(text);
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    const bool is_fence = line.rfind("```", 0) == 0;
    if (is_fence) inside = !inside;
    if (!is_fence && !inside) prose += line + "\n";
  }
  return prose;
}

/// The paragraphs and list items of a page, each on one line; without headings and tables.
std::vector<std::string> paragraphs_of(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream in(prose_of(text));
  bool continues = false;
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    const bool is_prose = begin != std::string::npos && std::string("|#<").find(line[begin]) == std::string::npos;
    if (!is_prose) {
      continues = false;
      continue;
    }
    const bool is_item = line.compare(begin, 2, "- ") == 0 || line.compare(begin, 2, "* ") == 0;
    if (!continues || is_item) found.emplace_back();
    found.back() += line.substr(is_item ? begin + 2 : begin) + " ";
    continues = true;
  }
  return found;
}

/// Whether the words are a list of identifiers, as the generated lists of calls are.
bool is_name_list(const std::string& paragraph) {
  return std::all_of(paragraph.begin(), paragraph.end(), [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == ',' || letter == ' ';
  });
}

/// The number of words of each sentence, with its beginning.
std::vector<std::pair<int, std::string>> sentences_of(const std::string& paragraph) {
  std::vector<std::pair<int, std::string>> found{{0, ""}};
  std::istringstream words(paragraph);
  constexpr int kShownWords = 8;
  for (std::string word; words >> word;) {
    if (++found.back().first <= kShownWords) found.back().second += word + " ";
    const std::size_t last = word.find_last_not_of("\"')`*");
    if (last != std::string::npos && std::string(".!?").find(word[last]) != std::string::npos) found.emplace_back();
  }
  return found;
}

/// Of a page, from the heading to the next one of its level.
std::string section_of(const std::string& text, const std::string& heading) {
  const std::size_t begin = text.find("\n" + heading + "\n");
  if (begin == std::string::npos) return "";
  const std::size_t end = text.find("\n## ", begin + heading.size());
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

/// What stands between `open` and `close`.
std::vector<std::string> all_between(const std::string& text, const std::string& open, const std::string& close) {
  std::vector<std::string> found;
  for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    const std::size_t begin = at + open.size();
    const std::size_t end = text.find(close, begin);
    if (end == std::string::npos) break;
    found.push_back(text.substr(begin, end - begin));
    at = end + close.size();
  }
  return found;
}

/// Links to files: without anchors, and without those into the web.
std::vector<std::string> file_links(const std::string& text) {
  std::vector<std::string> links;
  for (const std::string& target : all_between(prose_of(text), "](", ")")) {
    const std::string file = target.substr(0, target.find('#'));
    if (!file.empty() && file.find("://") == std::string::npos) links.push_back(file);
  }
  return links;
}

bool is_project_path(const std::string& text) {
  constexpr std::array<const char*, 9> kFolders{"plugin/", "sim/",   "testbed/",   "cli/", "emu/",
                                                "models/", "tests/", "scenarios/", "docs/"};
  return std::any_of(kFolders.begin(), kFolders.end(), [&](const char* folder) { return text.rfind(folder, 0) == 0; });
}

void check_paths(const std::string& where, const std::string& text) {
  int paths = 0;
  for (const std::string& quoted : all_between(prose_of(text), "`", "`")) {
    if (!is_project_path(quoted)) continue;
    ++paths;
    CHECK_MESSAGE(fs::exists(fs::path(MESHBED_SOURCE_DIR) / quoted), where, " names ", quoted, ", which is not there");
  }
  CHECK_MESSAGE(paths > 0, where, " names no path");
}

std::string without_remark(const std::string& command) { return command.substr(0, command.find("  #")); }

/// In a folder of its own, with links to what the commands read, so that what they write stays out of the working tree.
/// `meshbed`: what ./meshbed is there. `elsewhere`: commands that another page's turn runs; what a run leaves may be
/// wanted on this page, too.
void check_commands(const Page& page, const std::string& meshbed, const std::set<std::string>& elsewhere = {}) {
  const std::string folder = scratch_folder("readme");
  for (const std::string& command : lines_in_blocks(page.text, "sh")) {
    if (command.rfind("./meshbed test", 0) == 0) continue;     // it is what runs this
    if (command.rfind("./meshbed install", 0) == 0) continue;  // tests/library/install_test.cpp
    if (command.rfind("./meshbed run", 0) != 0 && elsewhere.count(without_remark(command)) > 0) continue;
    if (command.find(" emu") != std::string::npos && !why_not_emulated().empty()) continue;
    const bool is_long =
        command.find("meshbed bench ") != std::string::npos || command.find("meshbed fuzz ") != std::string::npos;
    if (is_long && !walks_whole()) continue;
    const CommandResult result = run_command_line(
        "cd '" + folder + "' && ln -sfn " + meshbed +
        " meshbed && ln -sfn '" MESHBED_SOURCE_DIR "'/scenarios scenarios && ln -sfn '" MESHBED_SOURCE_DIR
        "'/models models && ln -sfn '" MESHBED_SOURCE_DIR "'/docs docs && MESHBED_BUILD_DIR='" MESHBED_BINARY_DIR "' " +
        command + " 2>&1");
    CHECK_MESSAGE(result.status == 0, page.path, ": ", command, "\n", result.output);
  }
}

void say_what_is_left_out() {
  if (const std::string why = why_not_emulated(); !why.empty()) MESSAGE("skipped: those of the emulated world: ", why);
  if (!walks_whole()) MESSAGE("left to the stage walks: those that measure or walk (bench, fuzz)");
}

}  // namespace

TEST_CASE("the README's two commands stand in it") {
  const std::vector<std::string> commands = lines_in_blocks(readme(), "sh");
  REQUIRE(commands.size() >= 2);
  CHECK(commands[0] == "./meshbed run scenarios/spark-triangle.toml");
  CHECK(commands[1] == "./meshbed test");
}

TEST_CASE("the README reads in one sitting") {
  const std::string text = readme();
  const auto lines = std::count(text.begin(), text.end(), '\n');
  CHECK_MESSAGE(lines <= kMostReadmeLines, "README.md has ", lines, " lines: what is more belongs to a page in docs/");
}

TEST_CASE("the pictures of docs are what topo draw makes of their scenarios") {
  std::size_t pictures = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(MESHBED_SOURCE_DIR) / "docs/pictures")) {
    const std::string scenario = entry.path().stem().string();
    const CommandResult drawn = run_command_line(meshbed_program() + " topo draw " + scenario_file(scenario) + " 2>&1");
    CHECK(drawn.status == 0);
    CHECK_MESSAGE(drawn.output == meshbed::testbed::read_text_file(entry.path().string()), entry.path().string(),
                  " is stale: meshbed topo draw scenarios/", scenario, ".toml -o ", entry.path().string());
    ++pictures;
  }
  CHECK(pictures > 0);
}

TEST_CASE("every command in the README succeeds") {
  say_what_is_left_out();
  check_commands(read_page("README.md"), "'" MESHBED_SOURCE_DIR "/meshbed'");
}

TEST_CASE("every command in docs succeeds") {
  say_what_is_left_out();
  const std::vector<Page> pages = docs();
  CHECK(pages.size() >= 10);
  std::set<std::string> in_readme;
  for (const std::string& command : lines_in_blocks(readme(), "sh")) in_readme.insert(without_remark(command));
  // The program itself: what the launcher does before it, half a second a command, the README's commands have shown.
  for (const Page& page : walk(pages, 9)) check_commands(page, meshbed_program(), in_readme);
}

TEST_CASE("every link of the README and of docs leads to a file; every page of docs is linked from the README") {
  for (const Page& page : all_pages()) {
    const fs::path folder = (fs::path(MESHBED_SOURCE_DIR) / page.path).parent_path();
    for (const std::string& link : file_links(page.text)) {
      CHECK_MESSAGE(fs::exists(folder / link), page.path, " links to ", link, ", which is not there");
    }
  }
  const std::vector<std::string> linked = file_links(readme());
  for (const Page& page : docs()) {
    CHECK_MESSAGE(std::find(linked.begin(), linked.end(), page.path) != linked.end(), "README.md has no link to ",
                  page.path);
  }
  std::string prose;
  for (const Page& page : docs()) prose += page.text;
  for (const Page& page : reference()) {
    const std::string name = page.path.substr(page.path.find('/') + 1);
    CHECK_MESSAGE(prose.find("](" + name) != std::string::npos, "no page of docs links to ", page.path);
  }
}

TEST_CASE("pages of docs are read as text: no table is longer than 40 lines") {
  constexpr int kMostRows = 40;
  for (const Page& page : docs()) {
    int rows = 0;
    std::istringstream lines(page.text);
    for (std::string line; std::getline(lines, line);) {
      rows = line.rfind('|', 0) == 0 ? rows + 1 : 0;
      if (rows == kMostRows + 1) FAIL_CHECK(page.path, " has a longer one: move it to docs/reference: ", line);
    }
  }
}

TEST_CASE("every path in the lists of files exists") {
  check_paths("README.md", section_of(readme(), "## Where things are"));
  check_paths("docs/architecture.md", read_page("docs/architecture.md").text);
}

TEST_CASE("no sentence of the README and of docs has more than 40 words") {
  constexpr int kMostWords = 40;
  for (const Page& page : all_pages()) {
    for (const std::string& paragraph : paragraphs_of(page.text)) {
      if (is_name_list(paragraph)) continue;
      for (const auto& [words, begin] : sentences_of(paragraph)) {
        CHECK_MESSAGE(words <= kMostWords, page.path, ": ", words, " words: ", begin, "...");
      }
    }
  }
  const auto example = sentences_of("One two `three.` Four (five), six.");
  CHECK(example.at(0) == std::pair(3, std::string("One two `three.` ")));
  CHECK(example.at(1).first == 3);
  CHECK(paragraphs_of("# Head\na\nb\n- c\n| d |\n```sh\ne\n```\nf\n") == std::vector<std::string>{"a b ", "c ", "f "});
}

TEST_CASE("the README's transcript is what the command prints") {
  const std::vector<std::string> expected = lines_in_blocks(readme(), "text");
  const CommandResult result = run_command_line("cd '" + scratch_folder("readme_transcript") + "' && " +
                                                meshbed_program() + " run " + scenario_file("spark-triangle"));
  // Times of this machine and the plugin's hash may differ; the digest and every simulated figure may not.
  for (const char* start : {"seed 1 ", "3 nodes, ", "all_reduce ", "digest "}) {
    for (const std::string& line : expected) {
      if (line.rfind(start, 0) == 0) CHECK_MESSAGE(result.output.find(line + "\n") != std::string::npos, line);
    }
  }
  CHECK(expected.size() > 10);
}

}  // namespace readme_test
