#include "testbed/sweep/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "testbed/base/files.h"
#include "testbed/base/json_text.h"

namespace meshbed::testbed::sweep {
namespace {

using document::Value;

/// What makes two sweeps the same: the version, the texts of the scenario and of cabling files, and each point's
/// changes.
Value identity_of(const Options& options) {
  Value identity{{"meshbed", kVersion},
                 {"scenario_sha256", sha256_of_file(options.scenario_path)},
                 {"overrides", options.overrides},
                 {"faults", options.faults}};
  for (const std::string& path : cabling_files_of(options.axes)) identity["cablings"][path] = sha256_of_file(path);
  return identity;
}

std::string key_of(const Point& point) {
  Value key = Value::array();
  for (const auto& [name, value] : point.changes) key.push_back(name + "=" + value);
  key.push_back(point.failed);
  return json_text(key);
}

std::string job_line(const Part& part) { return json_text(Value{{"job", part.job}}) + "\n"; }

/// The points that a journal has behind its first line; of a point that stands there twice the first.
std::map<std::string, Measured> read_points_of(std::istream& file) {
  std::map<std::string, Measured> points;
  std::string line;
  while (std::getline(file, line)) {
    const Value entry = Value::parse(line, nullptr, false);
    if (entry.is_discarded() || !entry.is_object() || !entry.contains("point")) continue;
    try {
      points.emplace(entry.at("point").get<std::string>(), measured_of(entry.at("measured")));
    } catch (const Value::exception&) {
      continue;  // cut off
    }
  }
  return points;
}

/// Held by one process at a time, which waits for it.
Descriptor locked(const std::string& path, int flags) {
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!lock.is_open()) throw std::runtime_error(fmt::format("{}: {}", path, std::strerror(errno)));
  if (::flock(lock.number(), LOCK_EX | flags) == 0) return lock;
  return Descriptor();
}

std::string line_of(const std::string& key, const Measured& measured) {
  return json_text(Value{{"point", key}, {"measured", value_of(measured)}}) + "\n";
}

}  // namespace

Journal::Journal(const Options& options) : options_(options), path_(path_of(options.part.index)) {
  if (path_.empty()) return;
  lock_ = locked(path_ + ".lock", LOCK_NB);
  if (!lock_.is_open()) {
    throw std::runtime_error(path_ + " is being written by another sweep; name another folder by --results");
  }
  std::string kept = options.resume ? take_over(first_line_of(options.part.index)) : "";
  kept = first_line_of(options.part.index) + "\n" + (options.part.count > 1 ? job_line(options.part) : "") + kept;
  write_text_file(path_, kept);
  file_.open(path_, std::ios::app);
  if (!file_) throw std::runtime_error(path_ + " cannot be written to; name a folder that you may write to");
}

std::string Journal::path_of(int part) const {
  const std::string& whole = options_.journal;
  if (whole.empty() || options_.part.count == 1) return whole;
  const std::size_t dot = whole.rfind('.');
  return fmt::format("{}-{}-of-{}{}", whole.substr(0, dot), part + 1, options_.part.count, whole.substr(dot));
}

std::string Journal::first_line_of(int part) const {
  Value identity = identity_of(options_);
  if (options_.part.count > 1) identity["part"] = {part, options_.part.count};
  return json_text(identity);
}

bool Journal::gather(const std::vector<Point>& points, std::vector<Measured>& measured) const {
  const Descriptor turn = locked(options_.journal + ".lock", 0);
  const std::string done = options_.journal + ".done";
  if (std::ifstream file(done); file) {
    std::string job;
    std::getline(file, job);
    if (job == options_.part.job) return false;  // another part was the last one
  }
  std::map<std::string, Measured> known;
  for (int part = 0; part < options_.part.count; ++part) {
    std::ifstream file(path_of(part));
    std::string first, job;
    if (!std::getline(file, first) || first != first_line_of(part)) return false;
    if (!std::getline(file, job) || job + "\n" != job_line(options_.part)) return false;
    known.merge(read_points_of(file));
  }
  for (std::size_t index = 0; index < points.size(); ++index) {
    const auto found = known.find(key_of(points[index]));
    if (found == known.end()) return false;
    measured[index] = found->second;
  }
  write_text_file(done, options_.part.job + "\n");
  return true;
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

/// The lines of its points.
std::string Journal::take_over(const std::string& first) {
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line)) return "";
  if (line != first) {
    throw std::runtime_error(path_ +
                             " is of another scenario, other --set or --fault, or another version; leave out "
                             "--resume to begin anew");
  }
  known_ = read_points_of(file);
  std::string kept;
  for (const auto& [key, measured] : known_) kept += line_of(key, measured);
  return kept;
}

}  // namespace meshbed::testbed::sweep
