#include "cli/bench/callgrind.h"

#include <fmt/format.h>

#include <cctype>
#include <cstddef>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "emu/process.h"

namespace meshbed::testbed {
namespace {

/// The rest of a line that begins so; nullptr: it does not.
const char* after(const std::string& line, const char* start) {
  const std::size_t length = std::char_traits<char>::length(start);
  return line.compare(0, length, start) == 0 ? line.c_str() + length : nullptr;
}

/// "16 2048": line and cost.
std::uint64_t cost_of(const std::string& line) {
  std::istringstream in(line);
  std::uint64_t position = 0, cost = 0;
  if (in >> position >> cost) return cost;
  throw std::runtime_error("callgrind: this is not a cost line with one event: " + line);
}

}  // namespace

std::string toggle_collect(const std::string& prefix) { return "--toggle-collect=" + prefix + "*"; }

std::string run_under_callgrind(const std::string& who, const std::string& file,
                                const std::vector<std::string>& options, const std::vector<std::string>& command) {
  std::vector<std::string> words = {"valgrind",          "--quiet",
                                    "--tool=callgrind",  "--compress-strings=no",
                                    "--compress-pos=no", "--callgrind-out-file=" + file};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), command.begin(), command.end());
  const emu::ProgramResult run = emu::run_program(words);
  if (run.status != 0) {
    throw std::runtime_error(fmt::format("{}: {} under valgrind ended with status {}: {}", who, command.front(),
                                         run.status, emu::last_line(run.errors)));
  }
  return run.output;
}

std::vector<CountedFunction> read_callgrind(const std::string& text) {
  std::map<std::pair<std::string, std::string>, CountedFunction> functions;
  CountedFunction* current = nullptr;
  std::string object;
  std::uint64_t total = 0, sum = 0;
  bool complete = false, is_call = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const char* file = after(line, "ob=")) {
      object = file;
    } else if (const char* name = after(line, "fn=")) {
      current = &functions[{object, name}];
      current->name = name;
      current->object = object;
    } else if (after(line, "calls=") != nullptr) {
      is_call = true;  // the next line is what it cost in all
    } else if (const char* number = after(line, "totals: ")) {
      total = std::stoull(number);
      complete = true;
    } else if (!line.empty() && std::isdigit(static_cast<unsigned char>(line.front())) != 0 && current != nullptr) {
      const std::uint64_t cost = cost_of(line);
      (std::exchange(is_call, false) ? current->called : current->self) += cost;
    }
  }
  if (!complete) throw std::runtime_error("callgrind: its file has no totals: it was cut off, or is another program's");
  std::vector<CountedFunction> all;
  for (auto& [key, function] : functions) {
    sum += function.self;
    all.push_back(std::move(function));
  }
  if (sum != total) {
    throw std::runtime_error(fmt::format("callgrind: its functions make {} instructions, its total is {}", sum, total));
  }
  return all;
}

}  // namespace meshbed::testbed
