#include "testbed/sweep/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testbed/base/files.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed::sweep {
namespace {

using document::Value;

/// What makes two sweeps the same: the version, the scenario's text, and each point's changes.
Value identity_of(const Options& options) {
  return {{"meshbed", kVersion},
          {"scenario_sha256", sha256_of_file(options.scenario_path)},
          {"overrides", options.overrides},
          {"faults", options.faults}};
}

std::string key_of(const Point& point) {
  Value key = Value::array();
  for (const auto& [name, value] : point.changes) key.push_back(name + "=" + value);
  key.push_back(point.failed);
  return json_text(key);
}

std::string line_of(const std::string& key, const Measured& measured) {
  return json_text(Value{{"point", key}, {"measured", value_of(measured)}}) + "\n";
}

}  // namespace

Journal::Journal(const Options& options) : path_(options.journal) {
  if (path_.empty()) return;
  lock_ = Descriptor(::open((path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock_.is_open()) throw std::runtime_error(fmt::format("{}.lock: {}", path_, std::strerror(errno)));
  if (::flock(lock_.number(), LOCK_EX | LOCK_NB) != 0) {
    throw std::runtime_error(path_ + " is being written by another sweep; name another folder by --results");
  }
  const std::string first = json_text(identity_of(options));
  std::string kept = first + "\n";
  if (options.resume) kept = take_over(first);
  write_text_file(path_, kept);
  file_.open(path_, std::ios::app);
  if (!file_) throw std::runtime_error(path_ + " cannot be written to; name a folder that you may write to");
}

std::optional<Measured> Journal::find(const Point& point) const {
  const auto found = known_.find(key_of(point));
  return found == known_.end() ? std::nullopt : std::optional<Measured>(found->second);
}

void Journal::add(const Point& point, const Measured& measured) {
  if (path_.empty()) return;
  file_ << line_of(key_of(point), measured);
  file_.flush();
  if (!file_) throw std::runtime_error(path_ + ": no space is left, or the file is gone");
}

std::string Journal::take_over(const std::string& first) {
  std::string kept = first + "\n";
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line)) return kept;
  if (line != first) {
    throw std::runtime_error(path_ +
                             " is of another scenario, other --set or --fault, or another version; leave out "
                             "--resume to begin anew");
  }
  while (std::getline(file, line)) {
    const Value entry = Value::parse(line, nullptr, false);
    if (entry.is_discarded() || !entry.is_object()) continue;
    try {
      const std::string key = entry.at("point");
      const Measured measured = measured_of(entry.at("measured"));
      if (known_.emplace(key, measured).second) kept += line_of(key, measured);
    } catch (const Value::exception&) {
      continue;  // cut off
    }
  }
  return kept;
}

}  // namespace meshbed::testbed::sweep
