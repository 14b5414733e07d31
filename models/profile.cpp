#include "models/profile.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>

namespace meshbed::models {
namespace {

constexpr std::array<std::pair<const char*, Basis>, 4> kBases{{{"measured", Basis::kMeasured},
                                                               {"data sheet", Basis::kDataSheet},
                                                               {"calibrated", Basis::kCalibrated},
                                                               {"guess", Basis::kGuess}}};
constexpr std::array<std::pair<const char*, double>, 5> kTimes{
    {{"ps", 1}, {"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}}};

Error wrong(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text), .os_errno = 0};
}

/// Reads one table; errors are of the form "FILE:LINE: PARAMETER: ...".
class Reader {
 public:
  Reader(const toml::table& table, const std::string& name, const std::string& place)
      : table_(table), where_(place + ":" + std::to_string(table.source().begin.line) + ": " + name + ": ") {}

  Result<Parameter> parameter() {
    for (const auto& [key, node] : table_) {
      constexpr std::array kKeys{"value", "unit", "basis", "source", "range"};
      const std::string name(key.str());
      if (std::find(kKeys.begin(), kKeys.end(), name) == kKeys.end()) {
        return wrong(where_ + "there is no \"" + name + "\"; accepted: value, unit, basis, source, range");
      }
    }
    Parameter found;
    const auto value = table_["value"].value<double>();
    if (!value || !std::isfinite(*value)) return wrong(where_ + "value has to be a number");
    found.value = *value;
    const auto unit = table_["unit"].value<std::string>();
    if (!unit || unit->empty()) return wrong(where_ + "unit is missing (\"ns\", \"Gb/s\"; \"1\" of a plain number)");
    found.unit = *unit;
    const auto source = table_["source"].value<std::string>();
    if (!source || source->empty()) {
      return wrong(where_ + "source is missing: where does the number come from?");
    }
    found.source = *source;
    const auto basis = table_["basis"].value<std::string>();
    const auto known =
        std::find_if(kBases.begin(), kBases.end(), [&](const auto& one) { return basis && *basis == one.first; });
    if (known == kBases.end()) {
      return wrong(where_ + "basis has to be one of: measured, data sheet, calibrated, guess");
    }
    found.basis = known->second;
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
  std::string where_;
};

}  // namespace

const char* name_of(Basis basis) { return kBases[static_cast<std::size_t>(basis)].first; }

Result<Profile> Profile::parse(const std::string& text, const std::string& place) {
  Profile profile;
  toml::table root;
  try {
    root = toml::parse(text, place);
  } catch (const toml::parse_error& error) {
    return wrong(place + ":" + std::to_string(error.source().begin.line) + ": " + std::string(error.description()));
  }
  for (const auto& [key, node] : root) {
    const std::string name(key.str());
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
    auto parameter = Reader(*table, name, place).parameter();
    if (!parameter) return parameter.error();
    profile.parameters_.emplace(name, std::move(*parameter));
  }
  if (profile.name_.empty()) return wrong(place + ": name is missing");
  return profile;
}

Result<Profile> Profile::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return wrong(path + ": cannot be read");
  return parse({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, path);
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
