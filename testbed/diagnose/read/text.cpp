#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

constexpr std::size_t kDepthMost = 64;

/// Line and column of a place in a text, from 1.
std::string place_in(const std::string& text, std::size_t at) {
  at = std::min(at, text.size());
  const auto begin = text.begin(), end = text.begin() + static_cast<std::ptrdiff_t>(at);
  const auto line = std::count(begin, end, '\n') + 1;
  const std::size_t last = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  return fmt::format("{}:{}", line, at - (last == std::string::npos ? 0 : last + 1) + 1);
}

/// The text with commas before the names of members that follow a value directly.
std::string with_commas(const std::string& text) {
  std::string result;
  bool in_string = false, escaped = false;
  char last = 0;  // the last character that is no space, outside of strings or the end of one
  for (const char letter : text) {
    if (in_string) {
      in_string = escaped || letter != '"';
      escaped = !escaped && letter == '\\';
    } else if (letter == '"') {
      const bool is_after_value =
          std::isalnum(static_cast<unsigned char>(last)) != 0 || last == '"' || last == '}' || last == ']';
      if (is_after_value) result += ',';
      in_string = true;
    }
    result += letter;
    if (!in_string && std::isspace(static_cast<unsigned char>(letter)) == 0) last = letter;
  }
  return result;
}

/// Deeper texts would overflow the stack of code that walks through the value.
bool is_too_deep(const std::string& text) {
  std::size_t depth = 0;
  bool in_string = false, escaped = false;
  for (const char letter : text) {
    if (in_string) {
      in_string = escaped || letter != '"';
      escaped = !escaped && letter == '\\';
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '{' || letter == '[') {
      if (++depth > kDepthMost) return true;
    } else if ((letter == '}' || letter == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

void read_json(const std::string& text, const std::string& file, Case& found) {
  const document::Value value = parse_json(text, file);
  if (read_summary(value, file, found) || read_job_report(value, file, found) || read_ras_json(value, file, found) ||
      read_flight_recorder(value, file, found)) {
    return;
  }
  throw std::runtime_error(file +
                           ": JSON, but none of RAS, of PyTorch's flight recorder, of the plugin's job report or of a "
                           "run (summary.json); for `meshbed state "
                           "--json` or Inspector logs give the lines as they were written");
}

/// Why a file is no text, and what to do; empty: it is one.
std::string why_no_text(const std::string& text) {
  const auto starts = [&](std::string_view with) { return text.compare(0, with.size(), with) == 0; };
  constexpr char kPickle = '\x80';
  if (text.size() > 2 && text[0] == kPickle && text[1] >= 2 && text[1] <= 5) {
    return "a pickle of Python's, as PyTorch's flight recorder writes it, which cannot be read without running what is "
           "in it; make JSON of it: python3 -c \"import json, pickle, sys; json.dump(pickle.load(open(sys.argv[1], "
           "'rb')), sys.stdout, default=str)\" FILE > FILE.json";
  }
  if (starts("\x7f"
             "ELF"))
    return "a program or library; give its log";
  if (starts("\x1f\x8b")) return "compressed; unpack it with gunzip or tar xzf, and give the files";
  if (starts("PK\x03\x04")) return "a ZIP archive; unpack it, and give the files";
  if (text.find('\0') != std::string::npos) return "binary; give a log, results or a scenario";
  return "";
}

}  // namespace

std::optional<std::string> between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  text.remove_prefix(begin + before.size());
  return std::string(text.substr(0, after.empty() ? text.size() : std::min(text.find(after), text.size())));
}

std::optional<double> leading_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

document::Value parse_json(const std::string& text, const std::string& file) {
  if (is_too_deep(text)) throw std::runtime_error(file + ": JSON nested more deeply than 64 levels; is it a log's?");
  try {
    return document::Value::parse(text);
  } catch (const document::Value::parse_error& problem) {
    try {
      return document::Value::parse(with_commas(text));
    } catch (const document::Value::exception&) {
      throw std::runtime_error(fmt::format("{}:{}: no JSON: {}", file,
                                           place_in(text, problem.byte > 0 ? problem.byte - 1 : 0), problem.what()));
    }
  } catch (const document::Value::exception& problem) {  // a number beyond those of a double
    const std::string what = problem.what(), number = between(what, "'", "'").value_or("");
    throw std::runtime_error(
        fmt::format("{}:{}: no JSON: {}", file, place_in(text, std::min(text.find(number), text.size())), what));
  }
}

void read_text(const std::string& text, const std::string& file, Case& found) {
  if (const std::string why = why_no_text(text); !why.empty()) throw std::runtime_error(file + ": " + why);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw std::runtime_error(file + ": empty; give a log, results or a scenario");
  if (text.compare(first, 6, "posted") == 0) return read_messages(text, file, found);
  // A document has its first member on the first or the next line; of lines of JSON each is a document.
  const bool is_json = text[first] == '{' || (text[first] == '[' && text.find_first_of("{]", first) ==
                                                                        text.find_first_not_of(" \t\r\n", first + 1));
  if (is_json) {
    const std::size_t end = text.find('\n', first);
    const std::string line = text.substr(first, end - first);
    const bool is_line_of_lines =
        line.size() > 2 && line.find("\"report\":\"mesh\"") == std::string::npos &&
        (line.back() == '}' || line.compare(std::max<std::size_t>(line.size(), 2) - 2, 2, "}\r") == 0) &&
        (line.find("\"coll_perf\"") != std::string::npos ||
         line.find("\"inspector_output_format_version\"") != std::string::npos ||
         line.find("\"dump_stats\"") != std::string::npos || line.find("\"connections\"") != std::string::npos);
    if (!is_line_of_lines) return read_json(text, file, found);
  }

  std::vector<std::unique_ptr<LineReader>> readers;
  for (const auto make : {nccl_log_reader, mesh_log_reader, nccl_tests_reader, ras_text_reader, kernel_log_reader,
                          inspector_reader, state_reader, system_text_reader}) {
    readers.push_back(make());
  }
  const std::size_t signs_before = found.signs().size();
  std::set<std::string> formats;
  Line line{.file = file, .number = 0, .text = ""};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::size_t size = end - begin;
    if (size > 0 && text[begin + size - 1] == '\r') --size;
    line.text = text.substr(begin, std::min(size, kLineShown));
    begin = end + 1;
    ++line.number;
    if (line.text.empty()) continue;
    for (const auto& reader : readers) {
      if (reader->take(line, found)) formats.insert(reader->format());
    }
    found.match(line);
  }
  for (const auto& reader : readers) reader->end(found);
  if (formats.empty() && found.signs().size() == signs_before) {
    throw std::runtime_error(
        file +
        ": none of its lines is of a format that diagnose knows: NCCL_DEBUG=INFO logs, nccl-tests, "
        "RAS, the flight recorder as JSON, Inspector, dmesg, meshbed state, results, scenarios");
  }
  found.formats.insert(formats.begin(), formats.end());
}

}  // namespace meshbed::testbed::diagnose
