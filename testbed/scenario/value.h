#pragma once
// Value: one TOML value on its way into a member, with the name and place that an error needs.
//
// Each reader sets `out` only if the value is valid; otherwise it reports the expected value, the actual one and its
// place, and leaves `out` unchanged.

#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testbed/base/diagnostics.h"
#include "testbed/scenario/spec.h"

namespace meshbed::testbed {

struct IntegerRange {
  std::int64_t min, max;
};
struct NumberRange {
  double min, max;
};

class Value {
 public:
  Value(const toml::node& node, std::string name, Diagnostics& diagnostics)
      : node_(node), name_(std::move(name)), diagnostics_(diagnostics) {}

  void text(std::string& out) const;
  void text(std::optional<std::string>& out) const;
  /// A name that may appear in paths and in "node/device": letters, digits and _ . : + -, not starting with a dot or
  /// dash.
  void name(std::string& out) const;
  void choice(std::string& out, const std::vector<std::string>& accepted) const;
  /// The same by the names of a list of kinds (testbed/scenario/kinds); false where it is none of them.
  template <typename Kind, typename Kinds>
  bool kind(Kind& out, const Kinds& accepted) const {
    std::vector<std::string> names;
    for (const auto& each : accepted) names.emplace_back(each.name);
    std::string name;
    choice(name, names);
    for (const auto& each : accepted) {
      if (each.name != name) continue;
      out = each.kind;
      return true;
    }
    return false;
  }
  void boolean(bool& out) const;
  void number(std::optional<double>& out, NumberRange range) const;
  void numbers(std::vector<double>& out, NumberRange range) const;
  void rate(std::uint64_t& out) const;
  void time(Picoseconds& out) const;
  void size(std::uint64_t& out) const;
  void prefix(models::IpPrefix& out) const;
  void address(models::IpAddress& out) const;
  /// A number, a percentage, a rate or a time: what a fault's amount may be.
  void amount(double& out, AmountUnit& unit) const;
  void addresses(std::vector<Located<models::IpPrefix>>& out) const;
  void texts(std::vector<Located<std::string>>& out) const;
  void name_pairs(std::vector<std::pair<std::string, std::string>>& out) const;
  void environment(Environment& out) const;
  void device_order(NodeSpec& out) const;
  void placement(WorkloadSpec& out) const;
  /// One number, or a list of them.
  void counts(int& each, std::vector<int>& listed, IntegerRange range) const;

  template <typename Integer>
  void integer(Integer& out, IntegerRange range) const {
    if (const auto value = read_integer(range)) out = static_cast<Integer>(*value);
  }
  template <typename Integer>
  void integer(std::optional<Integer>& out, IntegerRange range) const {
    if (const auto value = read_integer(range)) out = static_cast<Integer>(*value);
  }
  template <typename Integer>
  void integers(std::vector<Integer>& out, IntegerRange range) const {
    const toml::array* array = node_.as_array();
    if (array == nullptr) return refuse_type("a list of integers");
    out.clear();
    for (const auto& element : *array) {
      const auto value = Value(element, name_, diagnostics_).read_integer(range);
      if (value) out.push_back(static_cast<Integer>(*value));
    }
  }
  template <typename T>
  void table(T& out) const;
  template <typename T>
  void tables(std::vector<T>& out) const;

 private:
  std::optional<std::int64_t> read_integer(IntegerRange range) const;
  std::optional<std::string> read_text(const char* expected) const;
  void refuse(const std::string& message) const;
  void refuse_type(const char* expected) const;

  const toml::node& node_;
  std::string name_;
  Diagnostics& diagnostics_;
};

/// Why `text` cannot be a name, or nothing where it can.
std::optional<std::string> name_problem(const std::string& text);

}  // namespace meshbed::testbed
