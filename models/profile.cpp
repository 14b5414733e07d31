#include "models/profile.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "models/toml_keys.h"

namespace meshbed::models {
namespace {

constexpr std::array<const char*, 6> kBases{"measured",      "data sheet", "constant",
                                            "other classes", "calibrated", "guess"};
constexpr std::array<std::pair<const char*, const char*>, 5> kUnitsOfNames{
    {{"_us", "us"}, {"_ns", "ns"}, {"_bytes", "bytes"}, {"_GBps", "GB/s"}, {"_fraction", "1"}}};
constexpr std::array<std::pair<const char*, double>, 5> kTimes{
    {{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}}};

Error wrong(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text), .os_errno = 0};
}

/// A list of texts; nothing where it is something else.
std::optional<std::vector<std::string>> texts_of(const toml::node* node) {
  std::vector<std::string> texts;
  if (node == nullptr) return texts;
  const toml::array* list = node->as_array();
  if (list == nullptr) return std::nullopt;
  for (const toml::node& each : *list) {
    const auto text = each.value<std::string>();
    if (!text) return std::nullopt;
    texts.push_back(*text);
  }
  return texts;
}

/// [topology] and, where it is there, [match].
Result<ProfileClass> class_of(const toml::table& topology, const toml::table* match, const std::string& place) {
  ProfileClass found;
  found.place = place + ":" + std::to_string(topology.source().begin.line);
  for (const auto& [key, node] : topology) {
    if (key.str() != "cabling" && key.str() != "ranks_per_node" && key.str() != "transport") {
      return wrong(found.place + ": topology: there is no \"" + std::string(key.str()) +
                   "\"; accepted: cabling, ranks_per_node, transport");
    }
  }
  found.cabling = topology["cabling"].value<std::string>().value_or("");
  found.transport = topology["transport"].value<std::string>().value_or("");
  constexpr std::int64_t kMost = 1024;
  const auto ranks = topology["ranks_per_node"].value<std::int64_t>();
  if (!ranks || *ranks < 1 || *ranks > kMost) return wrong(found.place + ": ranks_per_node has to be 1 to 1024");
  found.ranks_per_node = static_cast<int>(*ranks);
  if (match == nullptr) return found;
  for (const auto& [key, node] : *match) {
    const std::string where = place + ":" + std::to_string(node.source().begin.line) + ": match: ";
    if (key.str() == "library") {
      found.library = node.value<std::string>().value_or("");
      if (found.library.empty()) return wrong(where + "library has to be a text, as \"nccl\"");
      continue;
    }
    auto texts = texts_of(&node);
    if (!texts) return wrong(where + std::string(key.str()) + " has to be a list of texts");
    if (key.str() == "class") {
      found.classes = std::move(*texts);
    } else if (key.str() == "setup") {
      found.set_up_words = std::move(*texts);
    } else if (key.str() == "variant") {
      found.variants = std::move(*texts);
    } else {
      return wrong(where + "there is no \"" + std::string(key.str()) + "\"; accepted: class, setup, variant, library");
    }
  }
  return found;
}

/// Reads one table; errors are of the form "FILE:LINE: PARAMETER: ...".
class Reader {
 public:
  Reader(const toml::table& table, const std::string& name, const std::string& place)
      : table_(table),
        unit_(unit_of_name(name)),
        place_(place + ":" + std::to_string(table.source().begin.line)),
        where_(place_ + ": " + name + ": ") {}

  Result<Parameter> parameter() {
    for (const auto& [key, node] : table_) {
      constexpr std::array kKeys{"value", "unit", "basis", "source", "range"};
      const std::string name(key.str());
      if (std::find(kKeys.begin(), kKeys.end(), name) == kKeys.end()) {
        return wrong(where_ + "there is no \"" + name + "\"; accepted: value, unit, basis, source, range");
      }
    }
    Parameter found;
    found.place = place_;
    const auto value = table_["value"].value<double>();
    if (!value || !std::isfinite(*value)) return wrong(where_ + "value has to be a number");
    found.value = *value;
    found.unit = table_["unit"].value<std::string>().value_or(unit_);
    if (found.unit.empty()) return wrong(where_ + "unit is missing (\"ns\", \"Gb/s\"; \"1\" of a plain number)");
    if (!unit_.empty() && found.unit != unit_) {
      return wrong(where_ + "its name says that it is in " + unit_ + ", its unit " + found.unit);
    }
    const auto source = table_["source"].value<std::string>();
    if (!source || source->find_first_not_of(" \t\n") == std::string::npos) {
      return wrong(where_ + "source is missing: where does the number come from?");
    }
    found.source = *source;
    const auto basis = parse_basis(table_["basis"].value<std::string>().value_or(""));
    if (!basis) {
      return wrong(where_ + "basis has to be one of: measured, data sheet, constant, other classes, calibrated, guess");
    }
    found.basis = *basis;
    return with_range(std::move(found));
  }

 private:
  Result<Parameter> with_range(Parameter found) {
    const toml::array* range = table_["range"].as_array();
    if (range == nullptr && table_.contains("range")) return wrong(where_ + "range has to be [lowest, highest]");
    if (range == nullptr) {
      if (found.basis == Basis::kGuess) return wrong(where_ + "a guess needs a range, as in range = [1, 4]");
      return found;
    }
    const auto low = range->size() == 2 ? (*range)[0].value<double>() : std::nullopt;
    const auto high = range->size() == 2 ? (*range)[1].value<double>() : std::nullopt;
    if (!low || !high || *low > *high) return wrong(where_ + "range has to be [lowest, highest]");
    if (found.value < *low || found.value > *high) return wrong(where_ + "value lies outside its own range");
    found.range = {*low, *high};
    return found;
  }

  const toml::table& table_;
  std::string unit_;  // the unit in the name
  std::string place_, where_;
};

}  // namespace

std::string unit_of_name(const std::string& name) {
  for (const auto& [tail, unit] : kUnitsOfNames) {
    const std::string_view end(tail);
    if (name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0) return unit;
  }
  return "";
}

std::optional<ToldErrors> parse_errors(std::string_view text) {
  constexpr double kPercent = 100;
  ToldErrors errors;
  for (const auto& [word, value] :
       {std::pair{std::string_view("median "), &errors.median}, std::pair{std::string_view(" %, p90 "), &errors.p90}}) {
    if (text.substr(0, word.size()) != word) return std::nullopt;
    text.remove_prefix(word.size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (error != std::errc() || !(*value >= 0)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    *value /= kPercent;
  }
  if (text.substr(0, 2) != " %") return std::nullopt;
  return errors;
}

std::string sizes_text(const MeasuredSizes& sizes) {
  return std::to_string(sizes.least_bytes) + " to " + std::to_string(sizes.most_bytes) + " bytes, " +
         std::to_string(sizes.points) + " points";
}

std::optional<MeasuredSizes> parse_sizes(std::string_view text) {
  MeasuredSizes sizes;
  std::uint64_t points = 0;
  for (const auto& [value, words] : {std::pair{&sizes.least_bytes, std::string_view(" to ")},
                                     {&sizes.most_bytes, std::string_view(" bytes, ")},
                                     {&points, std::string_view(" points")}}) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.substr(0, words.size()) != words) return std::nullopt;
    text.remove_prefix(words.size());
  }
  if (!text.empty() || sizes.least_bytes > sizes.most_bytes) return std::nullopt;
  sizes.points = static_cast<std::size_t>(points);
  return sizes;
}

const char* name_of(Basis basis) { return kBases[static_cast<std::size_t>(basis)]; }

std::optional<Basis> parse_basis(std::string_view name) {
  const auto found = std::find(kBases.begin(), kBases.end(), name);
  if (found == kBases.end()) return std::nullopt;
  return static_cast<Basis>(found - kBases.begin());
}

Result<Profile> Profile::parse(std::string_view text, const std::string& place) {
  Profile profile;
  toml::table root;
  if (overlong_key(text)) {
    return wrong(place + ": a key has more than " + std::to_string(kKeyPartsMax) + " parts; no key of a profile has");
  }
  try {
    root = toml::parse(text, place);
  } catch (const toml::parse_error& error) {
    return wrong(place + ":" + std::to_string(error.source().begin.line) + ": " + std::string(error.description()));
  }
  const auto fitted_on = texts_of(root.get(kFittedOn));
  if (!fitted_on) return wrong(place + ": fitted_on has to be a list of texts");
  profile.fitted_on_ = *fitted_on;
  std::string all_fitted;
  for (const std::string& file : profile.fitted_on_) all_fitted += (all_fitted.empty() ? "" : ", ") + file;
  for (const auto& [key, node] : root) {
    const std::string name(key.str());
    if (name == kFittedOn) continue;
    if (name == "name" || name == "description") {
      const auto words = node.value<std::string>();
      if (!words) return wrong(place + ": " + name + " has to be text");
      (name == "name" ? profile.name_ : profile.description_) = *words;
      continue;
    }
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return wrong(place + ":" + std::to_string(node.source().begin.line) + ": " + name +
                   ": a parameter is a table of its own: [" + name + "] with value, unit, basis, source");
    }
    if (name == "match") continue;
    if (name == "residuals" || name == "held_out") {
      for (const auto& [what, text] : *table) {
        const auto errors = parse_errors(text.value<std::string>().value_or(""));
        if (errors) {
          (name == "residuals" ? profile.residuals_ : profile.held_out_).emplace(std::string(what.str()), *errors);
        } else if (name == "held_out") {
          return wrong(place + ":" + std::to_string(text.source().begin.line) + ": held_out: " +
                       std::string(what.str()) + " has to be of the form \"median 13.4 %, p90 21.2 %\"");
        }
      }
      continue;
    }
    if (name == "measured") {
      for (const auto& [kind, text] : *table) {
        const auto sizes = parse_sizes(text.value<std::string>().value_or(""));
        if (!sizes) {
          return wrong(place + ":" + std::to_string(text.source().begin.line) + ": measured: " +
                       std::string(kind.str()) + " has to be of the form \"8 to 1048576 bytes, 18 points\"");
        }
        profile.measured_.emplace(std::string(kind.str()), *sizes);
      }
      continue;
    }
    if (name == "topology") {
      auto found = class_of(*table, root["match"].as_table(), place);
      if (!found) return found.error();
      profile.class_ = std::move(*found);
      continue;
    }
    auto parameter = Reader(*table, name, place).parameter();
    if (!parameter) return parameter.error();
    if (parameter->source == kFittedOn) {
      if (all_fitted.empty()) {
        return wrong(parameter->place + ": " + name + ": its source is the list fitted_on, which has no file");
      }
      parameter->source = all_fitted;
    }
    profile.parameters_.emplace(name, std::move(*parameter));
  }
  if (profile.name_.empty()) return wrong(place + ": name is missing");
  return profile;
}

Result<Profile> Profile::read(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::uintmax_t kProfileMostBytes = std::uintmax_t{16} << 20U;
  std::error_code problem;
  if (fs::exists(path, problem) && !fs::is_regular_file(path, problem)) {
    return wrong(path + ": this is no regular file; a profile is a TOML file");
  }
  if (fs::is_regular_file(path, problem) && fs::file_size(path, problem) > kProfileMostBytes) {
    return wrong(path + ": larger than 16 MiB; this is no profile");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return wrong(path + ": cannot be read");
  return parse(std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()), path);
}

Result<double> Profile::value(const std::string& parameter, const std::string& unit) const {
  const auto found = parameters_.find(parameter);
  if (found == parameters_.end()) return wrong("the profile " + name_ + " says nothing of " + parameter);
  if (found->second.unit == unit) return found->second.value;
  return wrong("the profile " + name_ + " has " + parameter + " in " + found->second.unit + ", not in " + unit);
}

Result<Picoseconds> Profile::time_ps(const std::string& parameter) const {
  const auto found = parameters_.find(parameter);
  if (found == parameters_.end()) return wrong("the profile " + name_ + " says nothing of " + parameter);
  for (const auto& [unit, picoseconds] : kTimes) {
    if (found->second.unit == unit) {
      return static_cast<Picoseconds>(std::llround(found->second.value * picoseconds));
    }
  }
  return wrong("the profile " + name_ + " has " + parameter + " in " + found->second.unit + ", which is no time");
}

}  // namespace meshbed::models
