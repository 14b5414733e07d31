#include "testbed/fidelity/measured_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "models/time/nccl_settings.h"
#include "plugin/base/units.h"
#include "testbed/base/files.h"
#include "testbed/base/units.h"
#include "testbed/fidelity/expert_rows.h"
#include "testbed/fidelity/tool_output.h"

namespace meshbed::testbed {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\"\xEF\xBB\xBF");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\"") - first + 1);
}

std::vector<std::string> fields_of(const std::string& line, char separator) {
  std::vector<std::string> fields;
  std::string field;
  bool quoted = false;
  for (const char letter : line) {
    if (letter == '"') quoted = !quoted;
    if (letter == separator && !quoted) {
      fields.push_back(trimmed(field));
      field.clear();
    } else {
      field += letter;
    }
  }
  fields.push_back(trimmed(field));
  return fields;
}

const std::map<std::string, std::string>& column_aliases() {
  static const std::map<std::string, std::string> all{
      {"op", "collective"},    {"coll", "collective"},  {"test", "collective"},    {"operation", "collective"},
      {"nranks", "ranks"},     {"gpus", "ranks"},       {"np", "ranks"},           {"n_ranks", "ranks"},
      {"nnodes", "nodes"},     {"hosts", "nodes"},      {"size", "bytes"},         {"size_bytes", "bytes"},
      {"size_b", "bytes"},     {"time", "time_us"},     {"latency_us", "time_us"}, {"t_us", "time_us"},
      {"algbw", "algbw_gbps"}, {"busbw", "busbw_gbps"}, {"place", "placement"},    {"in_place", "placement"}};
  return all;
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// 1024 of "1024", "1K" and "1KiB".
std::optional<double> bytes_of(const std::string& text) {
  if (const auto plain = number_of(text)) return plain;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const Result<std::uint64_t> size = parse_size_bytes(text);
  return size ? std::optional(static_cast<double>(*size)) : std::nullopt;
}

/// all_reduce from AllReduce, all-reduce, all_reduce_perf; alltoall from all_to_all.
std::optional<models::Collective> collective_of(const std::string& text) {
  std::string letters;
  for (const char letter : lower_case(text)) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) letters += letter;
  }
  if (letters.size() > 4 && letters.compare(letters.size() - 4, 4, "perf") == 0) letters.resize(letters.size() - 4);
  if (letters == "bcast") letters = "broadcast";
  for (const std::string& name : models::collective_names()) {
    std::string plain;
    std::copy_if(name.begin(), name.end(), std::back_inserter(plain), [](char letter) { return letter != '_'; });
    if (plain == letters) return models::parse_collective(name);
  }
  return std::nullopt;
}

/// The one whose name stands in a file's name.
std::string collective_in(const std::string& file) {
  std::string letters;
  for (const char letter : lower_case(file)) {
    if (letter != '_' && letter != '-') letters += letter;
  }
  for (const char* name : {"reducescatter", "allreduce", "allgather", "alltoall", "broadcast", "sendrecv"}) {
    if (letters.find(name) != std::string::npos) return name;
  }
  return "";
}

/// A comment's text, where the line is one.
std::optional<std::string> comment_of(const std::string& line) {
  const std::string text = trimmed(line);
  for (const char* mark : {"#", "//", "%", ";"}) {
    if (text.rfind(mark, 0) == 0)
      return trimmed(text.substr(
          text.find_first_not_of("#/%; ") == std::string::npos ? text.size() : text.find_first_not_of("#/%; ")));
  }
  return std::nullopt;
}

void take_comment(MeasuredFile& file, const std::string& text) {
  const auto mark = text.find_first_of(":=");
  if (mark == std::string::npos) {
    file.set_up += text + "\n";
    return;
  }
  std::string key = lower_case(trimmed(text.substr(0, mark)));
  std::replace(key.begin(), key.end(), ' ', '_');
  const std::string value = trimmed(text.substr(mark + 1));
  if (key == "source") {
    file.source += (file.source.empty() ? "" : "; ") + value;
  } else if (key == "topology_class" || key == "class" || key == "topology") {
    file.topology_class = value;
  } else if (key == "quality") {
    file.quality = value;
  } else if (key == "units") {
    file.units += value + "\n";
  } else if (key == "note" || key == "split" || key == "time_us") {
    // what readers see; nothing that the model reads
  } else {
    file.set_up += key == "setup" || key == "set-up" ? value + "\n" : text + "\n";
  }
}

/// A whole number at the beginning of `text`, 1 to a million.
std::optional<int> count_in(const std::string& text) {
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  constexpr int kMost = 1'000'000;
  if (error != std::errc() || end == text.data() || count < 1 || count > kMost) return std::nullopt;
  return count;
}

/// Iterations that share a test's time: the options of nccl-tests behind its name, as "-n 100 -m 2", "n=100" or
/// "iters: 100"; else its default. 0 where the set-up names no such test.
int iterations_of(const std::string& set_up) {
  constexpr int kDefault = 20;
  std::istringstream text(set_up);
  bool is_test = false;
  int iterations = kDefault, operations = 1;
  std::string before;
  const auto take = [](int& value, const std::string& number) { value = count_in(number).value_or(value); };
  for (std::string word; text >> word; before = word) {
    is_test = is_test || word.find("nccl-tests") != std::string::npos || word.find("_perf") != std::string::npos;
    if (!is_test) continue;
    if (before == "-n" || before == "--iters") take(iterations, word);
    if (before == "-m" || before == "--agg_iters") take(operations, word);
    for (const std::string mark : {"-n", "n=", "--iters="}) {
      if (word.rfind(mark, 0) == 0) take(iterations, word.substr(mark.size()));
    }
    if (word == "iters:" && before != "warmup" && before != "agg") {
      std::string number;
      if (text >> number) take(iterations, number);
    }
  }
  const auto all = std::int64_t{iterations} * operations;
  return is_test ? static_cast<int>(std::min<std::int64_t>(all, std::numeric_limits<int>::max())) : 0;
}

/// What the set-up or the variant forces upon the library.
void force(models::CollectiveCall& call, const std::string& set_up, const std::string& variant) {
  using Protocol = models::CollectiveProtocol;
  using Algorithm = models::CollectiveAlgorithm;
  const std::string words = lower_case(set_up), kind = lower_case(variant);
  models::apply_nccl_settings(call, set_up);
  if (words.find("ring-only") != std::string::npos) call.algorithm = Algorithm::kRing;
  if (kind == "ll") call.protocol = Protocol::kLl;
  if (kind == "ll128") call.protocol = Protocol::kLl128;
  if (kind.rfind("simple", 0) == 0) call.protocol = Protocol::kSimple;
  // A file of several kinds of software says by the variant which; one of a single kind says it in its set-up.
  const bool is_nccl = kind.rfind("nccl", 0) == 0;
  const bool is_one_shot = kind.rfind("oneshot", 0) == 0 || kind.rfind("lsa", 0) == 0 ||
                           (!is_nccl && words.find("one-shot") != std::string::npos);
  const bool is_two_shot = kind.rfind("twoshot", 0) == 0;
  if (is_one_shot || is_two_shot) {
    call.algorithm = is_two_shot ? Algorithm::kTwoShot : Algorithm::kDirect;
    call.protocol = Protocol::kSimple;
  }
  // A file of nccl-tests may have rows of its project's own sweep beside them.
  call.iterations = kind.rfind("own", 0) == 0 ? 0 : iterations_of(words);
  call.eager = kind.find("eager") != std::string::npos;
  call.barrier = kind.find("barrier") != std::string::npos;
}

/// One row, by the names of its columns.
class Row {
 public:
  Row(const std::map<std::string, std::size_t>& columns, const std::vector<std::string>& fields)
      : columns_(columns), fields_(fields) {}
  std::string text(const std::string& column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() || found->second >= fields_.size() ? "" : fields_[found->second];
  }
  std::optional<double> number(const std::string& column) const { return number_of(text(column)); }

 private:
  const std::map<std::string, std::size_t>& columns_;
  const std::vector<std::string>& fields_;
};

/// perftest's single points: value and unit in the place of a time. MB are 2^20 bytes there, Gb 10^9 bits.
std::optional<double> time_of_value(const Row& row, double bytes) {
  const auto value = row.number("value");
  if (!value || *value <= 0) return std::nullopt;
  const std::string unit = row.text("unit");
  if (unit == "us") return value;
  if (unit == "10^6B/s") return bytes / *value;
  if (unit == "Gb/s") return bytes * 8 / (*value * 1e3);
  if (unit == "Mb/s") return bytes * 8 / *value;
  if (unit == "MB/s" || unit == "MiB/s") return bytes / (*value * static_cast<double>(kMiB)) * 1e6;
  if (unit == "GB/s") return bytes / (*value * 1e3);
  return std::nullopt;
}

/// Both directions' sum, and how many messages go together: "bidir" and "batch128" of the variant, perftest's -b of the
/// set-up.
models::MessageTest with_set_up(models::MessageTest test, const std::string& set_up, const std::string& variant) {
  const std::string words = lower_case(set_up), kind = lower_case(variant);
  static const std::regex both_ways("_bw[^\n]* -b( |,|\n|$)"), batch("batch([0-9]{1,7})");
  const bool is_bidirectional = kind.find("bidir") != std::string::npos ||
                                words.find("bidirectional") != std::string::npos || std::regex_search(words, both_ways);
  if (!test.latency && is_bidirectional) test.both_ways = true;
  std::smatch match;
  if (std::regex_search(kind, match, batch)) test.batch = std::stoi(match[1]);
  return test;
}

/// 2 of the variant "concurrent2": calls that were started together. 1 of one without the word; nothing where the
/// number is none.
std::optional<int> calls_at_once_of(const std::string& variant) {
  constexpr int kMostAtOnce = 1024;
  const std::string kind = lower_case(variant), word = "concurrent";
  const std::size_t at = kind.find(word);
  if (at == std::string::npos) return 1;
  const auto count = count_in(kind.substr(at + word.size()));
  return count && *count <= kMostAtOnce ? count : std::nullopt;
}

/// Empty, and the row filled in; or why not.
std::string take_row(MeasuredRow& taken, const Row& row, const MeasuredFile& file, const MeasuredOptions& options) {
  taken.placement = row.text("placement");
  taken.variant = row.text("variant");
  taken.collective = row.text("collective");
  if (taken.collective.empty()) taken.collective = collective_in(file.name);
  if (taken.collective.empty()) return "no collective, and the file's name has none";
  models::SweepPoint& point = taken.point;
  const auto collective = collective_of(taken.collective);
  const auto expert = expert_operation(taken.collective);
  const auto message = models::parse_message_test(taken.collective);
  if (!collective && !message && !expert) return fmt::format("there is no collective \"{}\"", taken.collective);
  auto bytes = bytes_of(row.text("bytes"));
  auto ranks = row.number("ranks");
  if (options.ranks) ranks = *options.ranks;
  if (!collective && !expert && !ranks) ranks = 2;
  if (!ranks) return fmt::format("no rank count (\"{}\"); --ranks gives one", row.text("ranks"));
  if (*ranks < 2 || *ranks > 1e6 || *ranks != std::floor(*ranks)) return fmt::format("{} ranks; 2 to 1000000", *ranks);
  point.call.ranks = static_cast<int>(*ranks);
  const auto bytes_each = bytes_of(row.text("bytes_each"));
  if (!bytes && bytes_each) bytes = *bytes_each * *ranks;
  if (!bytes || *bytes < 1 || *bytes > 1e15)
    return fmt::format("bytes are not a positive number: \"{}\"", row.text("bytes"));
  point.call.bytes = static_cast<std::uint64_t>(*bytes);
  const auto nodes = row.number("nodes");
  const int each = options.ranks_per_node.value_or(1);
  if (nodes && !options.ranks && !options.ranks_per_node) {
    if (*nodes < 1 || *nodes > *ranks || *nodes != std::floor(*nodes)) {
      return fmt::format("{} nodes for {} ranks", *nodes, *ranks);
    }
    point.call.nodes = static_cast<int>(*nodes);
  } else {
    point.call.nodes = std::max(1, (point.call.ranks + each - 1) / each);
    taken.nodes_are_known = options.ranks_per_node.has_value();
  }
  if (collective) point.call.collective = *collective;
  point.is_message = !collective;
  const auto at_once = calls_at_once_of(taken.variant);
  if (!at_once) return fmt::format("variant \"{}\": concurrent needs a number of calls, 1 to 1024", taken.variant);
  if (*at_once > 1 && !collective) return fmt::format("{} at once; only collectives have a model of that", *at_once);
  point.at_once = *at_once;
  if (message && !collective) point.message = with_set_up(*message, file.set_up, taken.variant);
  if (expert) {
    try {
      point.expert = expert_call({.combine = *expert,
                                  .ranks = point.call.ranks,
                                  .nodes = point.call.nodes,
                                  .bytes = *bytes,
                                  .variant = taken.variant,
                                  .set_up = file.set_up + file.units});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  auto time = row.number("time_us");
  if (!time) time = time_of_value(row, *bytes);
  const auto algbw = row.number("algbw_gbps");
  if (!time && algbw && *algbw > 0) time = *bytes / (*algbw * 1e3);
  const auto busbw = row.number("busbw_gbps");
  if (!time && busbw && *busbw > 0 && collective) {
    time = *bytes / (*busbw * 1e3) * models::bus_factor(*collective, point.call.ranks);
  }
  if (!time || *time <= 0)
    return fmt::format("no time (\"{}\") and no bandwidth to derive it from",
                       row.text("time_us").empty() ? row.text("value") : row.text("time_us"));
  point.time_us = *time;
  force(point.call, file.set_up, taken.variant);
  return "";
}

}  // namespace

std::string lower_case(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

models::Sweep MeasuredFile::sweep() const {
  models::Sweep all{.name = name, .points = {}};
  for (const MeasuredRow& row : rows) all.points.push_back(row.point);
  return all;
}

MeasuredFile parse_measured(const std::string& text, const std::string& path, const MeasuredOptions& options,
                            const std::vector<int>& line_numbers) {
  MeasuredFile file;
  file.path = path;
  file.name = std::filesystem::path(path).filename();
  std::map<std::string, std::size_t> columns;
  char separator = ',';
  std::istringstream lines(text);
  int number = 0;
  std::size_t read = 0;
  for (std::string line; std::getline(lines, line);) {
    number = read < line_numbers.size() ? line_numbers[read] : number + 1;
    ++read;
    if (trimmed(line).empty()) continue;
    if (const auto comment = comment_of(line)) {
      take_comment(file, *comment);
      continue;
    }
    if (columns.empty()) {
      for (const char each : {';', '\t'}) {
        if (std::count(line.begin(), line.end(), each) > std::count(line.begin(), line.end(), separator))
          separator = each;
      }
      const std::vector<std::string> names = fields_of(line, separator);
      for (std::size_t index = 0; index < names.size(); ++index) {
        if (names[index].find("Gbps") != std::string::npos || names[index].find("Gbit") != std::string::npos) {
          throw std::runtime_error(fmt::format("{}:{}: column \"{}\" counts bits; algbw_GBps and busbw_GBps are bytes",
                                               path, number, names[index]));
        }
        std::string name = lower_case(names[index]);
        const auto alias = column_aliases().find(name);
        columns.emplace(alias == column_aliases().end() ? name : alias->second, index);
      }
      if (columns.count("bytes") == 0) {
        throw std::runtime_error(fmt::format(
            "{}:{}: no column \"bytes\" here; a measured file has a row of column names behind its comments, as "
            "collective,ranks,nodes,bytes,time_us,algbw_GBps,busbw_GBps,placement,variant",
            path, number));
      }
      continue;
    }
    const std::vector<std::string> fields = fields_of(line, separator);
    MeasuredRow row{
        .line = number, .collective = {}, .placement = {}, .variant = {}, .nodes_are_known = true, .point = {}};
    const std::string reason = take_row(row, Row(columns, fields), file, options);
    if (reason.empty()) {
      file.rows.push_back(std::move(row));
    } else {
      file.bad.push_back({number, reason});
    }
  }
  if (columns.empty()) throw std::runtime_error(path + ": no row of column names, and nothing below it");
  if (file.rows.empty()) {
    throw std::runtime_error(file.bad.empty() ? fmt::format("{}: no rows below the column names", path)
                                              : fmt::format("{}:{}: no usable row; the first: {}", path,
                                                            file.bad.front().line, file.bad.front().reason));
  }
  file.rate = stated_rate(file.topology_class, file.set_up);
  return file;
}

MeasuredFile read_measured_file(const std::string& path, const MeasuredOptions& options) {
  const std::string text = read_text_file(path);
  std::optional<ToolOutput> output;
  try {
    output = measured_text_of(text);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
  if (output && output->rows == 0) {
    throw std::runtime_error(path +
                             ": this looks like the output of a test, but no line of it is a row of results (a size, a "
                             "count, ...); what stands before the numbers on each line has to go");
  }
  return output ? parse_measured(output->text, path, options, output->lines) : parse_measured(text, path, options);
}

}  // namespace meshbed::testbed
