#include "plugin/coll/plan/tuning.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

#include "plugin/base/collective.h"
#include "plugin/base/name_list.h"
#include "plugin/coll/plan/schedule.h"

namespace meshbed::coll {
namespace {

enum Field : std::size_t { kType, kMin, kMax, kAlgorithm, kProtocol, kChannels, kNodes, kRanks, kPipelines, kBuffers };
constexpr std::array<const char*, 10> kFields = {"collective_type", "min_bytes", "max_bytes", "algorithm",  "protocol",
                                                 "channels",        "nNodes",    "nRanks",    "numPipeOps", "regBuff"};
constexpr std::size_t kFieldsLeast = kRanks + 1;

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  for (std::size_t begin = 0;;) {
    const std::size_t end = line.find(',', begin);
    fields.push_back(without_blanks(line.substr(begin, end - begin)));
    if (end == std::string_view::npos) return fields;
    begin = end + 1;
  }
}

/// One line; errors go without its number.
class Reader {
 public:
  explicit Reader(std::string_view line) : fields_(fields_of(line)) {}

  Result<TuningRow> read() const {
    if (fields_.size() < kFieldsLeast || fields_.size() > kFields.size()) {
      return refuse("it has " + std::to_string(fields_.size()) + " fields, and wants " + std::to_string(kFieldsLeast) +
                    " to " + std::to_string(kFields.size()));
    }
    TuningRow row;
    const auto named = std::find_if(kCollectives.begin(), kCollectives.end(), [&](const CollectiveInfo& one) {
      return !one.tuner_name.empty() && one.tuner_name == at(kType);
    });
    if (named == kCollectives.end()) return refuse_field(kType, "there is no such collective");
    row.collective = named->collective;
    const auto least = number(kMin), most = number(kMax), ranks = number(kRanks);
    if (!least || *least < 0) return refuse_field(kMin, "it is not a number of bytes");
    if (!most || *most < *least) return refuse_field(kMax, "it is not a number of bytes from min_bytes on");
    if (!ranks || (*ranks != -1 && *ranks < 1)) return refuse_field(kRanks, "it is not a number of ranks, or -1");
    row.bytes_min = static_cast<std::uint64_t>(*least);
    row.bytes_max = static_cast<std::uint64_t>(*most);
    row.ranks = static_cast<int>(std::min<std::int64_t>(*ranks, INT32_MAX));
    const auto algorithm = parse_algorithm(at(kAlgorithm));
    if (!algorithm || algorithm->automatic) return refuse_field(kAlgorithm, "the engine has none of that name");
    row.algorithm = algorithm->algorithm;
    if (row.algorithm != Algorithm::kRing && !has_schedule(row.algorithm, row.collective)) {
      return refuse_field(kAlgorithm, "that collective does not go that way");
    }
    const auto protocol = parse_protocol(at(kProtocol));
    if (!protocol) return refuse_field(kProtocol, "it is none of simple, ll and ll128");
    row.protocol = *protocol;
    for (const Field field : {kChannels, kNodes, kPipelines, kBuffers}) {
      if (field < fields_.size() && number(field) != -1) return refuse_field(field, "the engine takes only -1 there");
    }
    return row;
  }

 private:
  std::string_view at(Field field) const { return fields_[field]; }
  std::optional<std::int64_t> number(Field field) const {
    std::int64_t value = 0;
    const std::string_view text = at(field);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }
  static Error refuse(std::string text) { return {ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }
  Error refuse_field(Field field, const char* why) const {
    return refuse(std::string(kFields[field]) + " is \"" + std::string(at(field)) + "\": " + why);
  }

  std::vector<std::string_view> fields_;
};

}  // namespace

Result<TuningTable> parse_tuning(std::string_view text) {
  TuningTable table;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    const std::string_view line = without_blanks(text.substr(0, end).substr(0, text.substr(0, end).find('#')));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.substr(0, line.find(',')) == kFields[kType]) continue;
    auto row = Reader(line).read();
    if (!row) {
      Error error = row.error();
      error.text = "tuning table, line " + std::to_string(number) + ": " + error.text;
      return error;
    }
    table.push_back(*row);
  }
  return table;
}

std::string to_text(const TuningRow& row) {
  return std::string(info_of(row.collective).tuner_name) + "," + std::to_string(row.bytes_min) + "," +
         std::to_string(row.bytes_max) + "," + name_of(row.algorithm) + "," + name_of(row.protocol) + ",-1,-1," +
         std::to_string(row.ranks) + ",-1,-1\n";
}

std::string tuning_heading() {
  std::string heading;
  for (const char* field : kFields) heading += (heading.empty() ? "" : ",") + std::string(field);
  return heading + "\n";
}

std::uint64_t tuned_bytes(const PlanRequest& request) {
  const bool shares = has_shares(request.collective);
  return request.count * request.element_bytes * (shares ? static_cast<std::uint64_t>(request.ranks) : 1);
}

const TuningRow* find_row(const TuningTable& table, const PlanRequest& request) {
  const std::uint64_t bytes = tuned_bytes(request);
  const auto fits = [&](const TuningRow& row) {
    return row.collective == request.collective && row.bytes_min <= bytes && bytes <= row.bytes_max &&
           (row.ranks < 0 || row.ranks == request.ranks);
  };
  const auto found = std::find_if(table.begin(), table.end(), fits);
  return found != table.end() ? &*found : nullptr;
}

}  // namespace meshbed::coll
