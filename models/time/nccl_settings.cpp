#include "models/time/nccl_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace meshbed::models {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return result;
}

bool is_part_of_name(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_'; }

struct Found {
  std::string text;
  std::size_t end = 0;  // behind it
};

/// What follows "NAME=" or "NAME ", up to a blank, a quote or a bracket, without the punctuation that ends a clause.
/// The last one counts.
std::optional<Found> value_of(const std::string& words, const std::string& name) {
  static const std::string prefix = "nccl_";
  std::optional<Found> found;
  for (std::size_t at = words.find(name); at != std::string::npos; at = words.find(name, at + 1)) {
    std::size_t begin = at + name.size();
    if (begin >= words.size() || (words[begin] != '=' && words[begin] != ' ')) continue;
    const bool has_prefix = at >= prefix.size() && words.compare(at - prefix.size(), prefix.size(), prefix) == 0;
    if (at > 0 && is_part_of_name(words[at - 1]) && !has_prefix) continue;
    ++begin;
    if (begin < words.size() && (words[begin] == '"' || words[begin] == '\'')) ++begin;
    // "NCCL_ALGO=Tree;NCCL_PROTO=LL" has two of them.
    const std::size_t end =
        std::min({words.find_first_of(" \t\n\"'()", begin), words.find(";" + prefix, begin), words.size()});
    std::string value = words.substr(begin, end - begin);
    while (!value.empty() && (value.back() == ',' || value.back() == ';' || value.back() == '.')) value.pop_back();
    if (!value.empty()) found = Found{std::move(value), end};
  }
  return found;
}

std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(mark, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// "allreduce" for Collective::kAllReduce: NCCL's names of functions in its lists.
std::string function_of(Collective collective) {
  std::string name = name_of(collective);
  name.erase(std::remove(name.begin(), name.end(), '_'), name.end());
  return name;
}

/// Whether each of `names` is enabled for the function; nullopt: the list has another name, or nothing
/// for the function.
template <std::size_t N>
std::optional<std::array<bool, N>> enabled_by(const std::string& list, const std::array<const char*, N>& names,
                                              const std::vector<std::string>& others, Collective collective) {
  std::optional<std::array<bool, N>> result;
  for (const std::string& clause : split(list, ';')) {
    std::string items = clause;
    if (const std::size_t colon = clause.find(':'); colon != std::string::npos) {
      if (clause.substr(0, colon) != function_of(collective)) continue;
      items = clause.substr(colon + 1);
    }
    const bool excludes = !items.empty() && items.front() == '^';
    if (excludes) items.erase(0, 1);
    std::array<bool, N> enabled;
    enabled.fill(excludes);
    for (const std::string& item : split(items, ',')) {
      const auto found = std::find_if(names.begin(), names.end(), [&](const char* name) { return item == name; });
      if (found != names.end()) {
        enabled.at(static_cast<std::size_t>(found - names.begin())) = !excludes;
      } else if (std::find(others.begin(), others.end(), item) == others.end()) {
        return std::nullopt;
      }
    }
    result = enabled;
  }
  return result;
}

template <std::size_t N>
std::uint8_t refused_of(const std::array<bool, N>& enabled) {
  std::uint8_t refused = 0;
  for (std::size_t index = 0; index < N; ++index) {
    if (!enabled.at(index)) refused = static_cast<std::uint8_t>(refused | 1U << index);
  }
  return refused;
}

/// "8388608", "8m", "8 mib": the unit may be the next word.
std::optional<std::uint64_t> bytes_of(const std::string& words, const std::string& name) {
  const auto found = value_of(words, name);
  if (!found) return std::nullopt;
  const char* const last = found->text.data() + found->text.size();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(found->text.data(), last, number);
  if (error != std::errc() || number == 0) return std::nullopt;
  std::string unit(end, last);
  if (unit.empty() && found->end < words.size() && words[found->end] == ' ') {
    const std::size_t begin = found->end + 1;
    const std::string next = words.substr(begin, words.find_first_of(" \t\n,;)", begin) - begin);
    for (const char* each : {"kib", "mib", "gib", "kb", "mb", "gb"}) {
      if (next == each) unit = next;
    }
  }
  constexpr std::string_view kPrefixes = "kmg";
  const std::size_t prefix = unit.empty() ? 0 : kPrefixes.find(unit.front());
  if (prefix == std::string_view::npos) return std::nullopt;
  constexpr unsigned kBits = 10;
  const unsigned shift = unit.empty() ? 0 : kBits * static_cast<unsigned>(prefix + 1);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  return number > kMost >> shift ? std::nullopt : std::optional(number << shift);
}

std::optional<int> number_of(const std::string& words, const std::string& name) {
  const auto found = value_of(words, name);
  if (!found) return std::nullopt;
  int number = 0;
  const char* const last = found->text.data() + found->text.size();
  const auto [end, error] = std::from_chars(found->text.data(), last, number);
  return error == std::errc() && end == last && number > 0 ? std::optional(number) : std::nullopt;
}

/// Of "NCCL 2.4.7": its second number; nullopt: the text names no version.
std::optional<int> minor_version(const std::string& words) {
  const std::size_t at = words.find("nccl 2.");
  if (at == std::string::npos) return std::nullopt;
  int minor = 0;
  const char* begin = words.data() + at + 7;
  return std::from_chars(begin, words.data() + words.size(), minor).ec == std::errc() ? std::optional(minor)
                                                                                      : std::nullopt;
}

constexpr std::array<const char*, 3> kProtocols{"ll", "ll128", "simple"};  // by CollectiveProtocol
constexpr std::array<const char*, 2> kAlgorithms{"ring", "tree"};          // by CollectiveAlgorithm

void take_protocols(CollectiveCall& call, const std::string& words) {
  // Sends and receives have a threshold of their own.
  if (is_of_pairs(call) || call.collective == Collective::kSendRecv) return;
  std::optional<std::array<bool, 3>> enabled;
  if (const auto list = value_of(words, "nccl_proto"))
    enabled = enabled_by(list->text, kProtocols, {}, call.collective);
  if (!enabled && words.find("^ll128") != std::string::npos) enabled = {true, false, true};
  if (!enabled) return;
  const auto left = std::count(enabled->begin(), enabled->end(), true);
  if (left == 1) {
    call.protocol =
        static_cast<CollectiveProtocol>(std::find(enabled->begin(), enabled->end(), true) - enabled->begin());
  } else if (left > 1) {
    call.limits.refused_protocols = refused_of(*enabled);
  }
}

void take_algorithms(CollectiveCall& call, const std::string& words) {
  static const std::vector<std::string> others{"collnetdirect", "collnetchain", "collnet", "nvls", "nvlstree", "pat"};
  if (const auto list = value_of(words, "nccl_algo")) {
    if (const auto enabled = enabled_by(list->text, kAlgorithms, others, call.collective)) {
      if (enabled->at(0) != enabled->at(1)) {
        call.algorithm = enabled->at(0) ? CollectiveAlgorithm::kRing : CollectiveAlgorithm::kTree;
      } else {
        call.limits.refused_algorithms = enabled->at(0) ? 0 : refused_of(*enabled);
      }
    }
  }
  constexpr int kWithThreshold = 4;
  if (minor_version(words).value_or(kWithThreshold) != kWithThreshold || call.algorithm) return;
  const auto found = value_of(words, "tree_threshold");
  std::uint64_t threshold = 0;
  if (!found) return;
  if (std::from_chars(found->text.data(), found->text.data() + found->text.size(), threshold).ec != std::errc()) return;
  if (may_tree(call))
    call.algorithm = call.bytes <= threshold ? CollectiveAlgorithm::kTree : CollectiveAlgorithm::kRing;
}

}  // namespace

void apply_nccl_settings(CollectiveCall& call, const std::string& set_up) {
  const std::string words = lower(set_up);
  take_protocols(call, words);
  take_algorithms(call, words);
  for (const char* name : {"max_nchannels", "max_ctas"}) {
    if (const auto most = number_of(words, name)) call.limits.most_channels = *most;
  }
  if (const auto bytes = bytes_of(words, "buffsize")) call.limits.buffer_bytes = *bytes;
}

}  // namespace meshbed::models
