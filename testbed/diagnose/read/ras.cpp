// RAS, what `ncclras` prints of a running job, as text and as JSON (src/ras/client_support.cc of NVIDIA/nccl,
// v2.28.9-1; the members of JSON at 1892 to 1986).

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

std::int64_t integer_of(const document::Value& object, const char* key, std::int64_t otherwise) {
  return static_cast<std::int64_t>(std::clamp(number_at(object, key, static_cast<double>(otherwise)), -1e15, 1e15));
}

/// Whether RAS's output begins here: people quote parts of it.
bool begins(const std::string& text) {
  for (const char* words : {"Gathering data about the NCCL communicators", "Job summary", "Group     Comms     Nodes",
                            "Communicator ranks have different ", "Communicators... ("}) {
    if (text.find(words) != std::string::npos) return true;
  }
  // "#0-0 (78db2f...) MISMATCH"
  const std::size_t dash = text.find('-');
  return text[0] == '#' && dash != std::string::npos && dash > 1 && text.find_first_not_of("0123456789", 1) == dash &&
         text.find(" (", dash) != std::string::npos;
}

class RasText final : public LineReader {
 public:
  const char* format() const override { return "RAS"; }
  bool take(const Line& line, Case& found) override;
  void end(Case& found) override { judge_counts(found); }

 private:
  bool takes_counts(const Line& line, Case& found);
  void judge_counts(Case& found);

  std::string operation_;  // of the mismatch under way
  Line mismatch_;
  std::vector<double> launched_;  // by groups of ranks that are equally far
  bool is_dead_ = false;
  bool is_ras_ = false;
};

/// Groups of ranks that have launched as much: "  7 ranks have launched up to operation 64", "  1 rank has launched up
/// to operation 63:" with the ranks below it, and "  3 ranks have not launched any operations".
bool RasText::takes_counts(const Line& line, Case& found) {
  const std::string& text = line.text;
  const bool none = text.find(" not launched any operations") != std::string::npos;
  std::optional<std::string> launched = between(text, " ranks have launched up to operation ", "");
  if (!launched) launched = between(text, " rank has launched up to operation ", "");
  if (!launched && !none) return false;
  if (launched) {
    while (!launched->empty() && launched->back() == ':') launched->pop_back();
    found.add_fact("ras." + operation_ + ".launched", *launched, line);
  }
  launched_.push_back(launched ? leading_number(*launched).value_or(0) : 0);
  return true;
}

/// NVIDIA's guide: counts that differ by one are no cause for concern, because RAS asks the ranks one after the other.
void RasText::judge_counts(Case& found) {
  if (operation_.empty()) return;
  const auto [least, most] = std::minmax_element(launched_.begin(), launched_.end());
  const bool is_near = launched_.size() > 1 && *most - *least <= 1;
  found.add_sign(CauseCode::kRankLate, is_near ? 0.25 : 0.60, "RAS: counts",
                 is_near ? "RAS: the ranks' numbers of operations differ by one, which may be the moment alone"
                         : "RAS: ranks have launched different numbers of operations",
                 mismatch_);
  operation_.clear();
  launched_.clear();
}

bool RasText::take(const Line& line, Case& found) {
  const std::string& text = line.text;
  const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
  is_ras_ = is_ras_ || begins(text);
  if (!is_ras_) return false;
  if (has(" operation counts") && has("Communicator ranks have different ")) {
    judge_counts(found);
    operation_ = between(text, "Communicator ranks have different ", " operation counts").value_or("");
    mismatch_ = line;
    return true;
  }
  if (text == "DEAD") return is_dead_ = true;
  // The title of another part: "INCOMPLETE", "#0-0 (...) MISMATCH".
  if (text[0] == '#' || text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos) is_dead_ = false;
  if (takes_counts(line, found)) return true;
  if (has("  Rank ") && has(" launched ") && !operation_.empty()) {
    const auto rank = leading_number(between(text, "Rank ", " ").value_or(""));
    const auto launched = leading_number(between(text, "launched up to operation ", " ").value_or("0"));
    found.add_sign(CauseCode::kRankLate, 0.70, "RAS: rank behind",
                   fmt::format("RAS: rank {} is at another {} than the others", rank.value_or(-1), operation_), line);
    found.add_fact("ras.rank", fmt::format("rank {}: {} {}", rank.value_or(-1), operation_, launched.value_or(0)),
                   line);
    return true;
  }
  // "    Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210": of the group above
  if (has("  Rank ") && has(" managed by process ") && !operation_.empty() && !launched_.empty()) {
    const auto rank = leading_number(between(text, "Rank ", " ").value_or(""));
    found.add_fact("ras.rank", fmt::format("rank {}: {} {}", rank.value_or(-1), operation_, launched_.back()), line);
    return true;
  }
  if (has("Communicator ranks have different status")) {
    found.add_sign(CauseCode::kRankLate, 0.30, "RAS: status", "RAS: the communicator's ranks have different status",
                   line);
    return true;
  }
  if (is_dead_ && has("  Process ")) {
    found.add_fact("dead_process", text.substr(text.find_first_not_of(' ')), line);
    return true;
  }
  if (text.find("Missing communicator data from ") != std::string::npos) {
    found.add_sign(CauseCode::kRankDead, 0.35, "RAS: missing",
                   "RAS has no data of a process: it is gone, or does not answer", line);
    return true;
  }
  if (has("Asynchronous error"))
    found.add_fact("ras.asynchronous_error", text.substr(text.find_first_not_of(' ')), line);
  return true;
}

void read_rank(const document::Value& rank, const std::string& hash, const Line& at, Case& found) {
  const document::Value& counts =
      rank.is_object() && rank.contains("collective_counts") ? rank.at("collective_counts") : rank;
  if (!counts.is_object()) return;
  for (const auto& [operation, count] : counts.items()) {
    if (&counts == &rank || !count.is_number()) continue;
    found.progress.push_back({.communicator = hash,
                              .rank = static_cast<int>(integer_of(rank, "rank", -1)),
                              .operation = operation,
                              .launched = integer_of(counts, operation.c_str(), 0),
                              .kind = operation,
                              .at = at});
  }
  const document::Value status = rank.is_object() && rank.contains("status") ? rank.at("status") : document::Value();
  if (const std::int64_t error = integer_of(status, "async_error", 0); error != 0) {
    found.add_fact(fmt::format("ras.rank{}.async_error", integer_of(rank, "rank", -1)), error, at);
  }
}

}  // namespace

bool read_ras_json(const document::Value& value, const std::string& file, Case& found) {
  if (!value.is_object() || !value.contains("communicators") || !value.at("communicators").is_array()) return false;
  const Line whole{.file = file, .number = 0, .text = "RAS"};
  found.formats.insert("RAS JSON");
  if (const std::string version = text_at(value, "nccl_version"); !version.empty())
    found.add_fact("nccl_version", version, whole);
  for (const document::Value& communicator : value.at("communicators")) {
    const std::string hash = text_at(communicator, "hash");
    const std::int64_t size = integer_of(communicator, "size", 0);
    if (size > 0) found.add_fact("ranks", size, whole);
    for (const document::Value& rank : list_at(communicator, "ranks")) {
      const Line at{.file = file,
                    .number = 0,
                    .text = fmt::format("communicator {}, rank {} on {}", hash, integer_of(rank, "rank", -1),
                                        text_at(rank, "host"))};
      read_rank(rank, hash, at, found);
    }
    for (const document::Value& rank : list_at(communicator, "missing_ranks")) {
      const Line at{.file = file,
                    .number = 0,
                    .text = fmt::format("communicator {}, missing rank {} on {}", hash, integer_of(rank, "rank", -1),
                                        text_at(rank, "host"))};
      const document::Value status =
          rank.is_object() && rank.contains("status") ? rank.at("status") : document::Value();
      found.add_fact("missing_rank", integer_of(rank, "rank", -1), at);
      const bool is_dead = flag_at(status, "considered_dead");
      if (is_dead || flag_at(status, "unresponsive")) {
        found.add_sign(CauseCode::kRankDead, is_dead ? 0.85 : 0.55, "RAS JSON: missing",
                       is_dead ? "RAS considers the rank dead" : "RAS gets no answer of the rank", at);
      }
    }
  }
  return true;
}

std::unique_ptr<LineReader> ras_text_reader() { return std::make_unique<RasText>(); }

}  // namespace meshbed::testbed::diagnose
