#include "testbed/diagnose/evidence.h"

#include <algorithm>

#include "testbed/base/json_text.h"

namespace meshbed::testbed::diagnose {
namespace {

constexpr std::size_t kLinesEach = 4;  // of one symptom are kept
constexpr std::size_t kFactsMost = 2000;

}  // namespace

void Case::add_fact(const std::string& name, document::Value value, const Line& at) {
  if (facts_.size() >= kFactsMost || !known_facts_.insert(name + "\n" + json_text(value)).second) return;
  facts_.push_back({name, std::move(value), at});
}

void Case::add_sign(CauseCode cause, double weight, const std::string& key, const std::string& says, const Line& at) {
  if (sign_counts_[std::string(name_of(cause)) + "\n" + key]++ >= kLinesEach) return;
  signs_.push_back({cause, weight, key, says, at});
}

void Case::match(const Line& line) {
  for (const Symptom& symptom : symptoms()) {
    if (!matches(line.text, symptom.pattern)) continue;
    if (symptom.weight > 0) {
      add_sign(symptom.cause, symptom.weight, symptom.says, symptom.says, line);
    } else {
      to_be_judged.emplace_back(&symptom, line);
    }
  }
}

bool Case::has_sign(CauseCode cause) const {
  return std::any_of(signs_.begin(), signs_.end(), [&](const Sign& sign) { return sign.cause == cause; });
}

double Case::weight_of(CauseCode cause) const {
  std::map<std::string, double> by_key;
  for (const Sign& sign : signs_) {
    if (sign.cause != cause) continue;
    double& weight = by_key[sign.key];
    weight = std::max(weight, sign.weight);
  }
  double left = 1;
  for (const auto& [key, weight] : by_key) left *= 1 - weight;
  return 1 - left;
}

const Fact* Case::find_fact(const std::string& name) const {
  const auto found = std::find_if(facts_.begin(), facts_.end(), [&](const Fact& fact) { return fact.name == name; });
  return found == facts_.end() ? nullptr : &*found;
}

}  // namespace meshbed::testbed::diagnose
