#include "testbed/scenario/nccl/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "plugin/base/counted.h"
#include "testbed/base/files.h"
#include "testbed/base/json_text.h"
#include "testbed/scenario/placement.h"

namespace meshbed::testbed {
namespace {

using nlohmann::json;

constexpr int kMostRanks = 4096;
constexpr int kMostNumbers = 1 << 20;  // of listeners, comms, registrations in one file

struct CallForm {
  const char* name;
  NetCall call;
  const char* fields;  // beside rank, thread and call
};

constexpr std::array<CallForm, 15> kCalls{{
    {"init", NetCall::kInit, ""},
    {"devices", NetCall::kDevices, "n"},
    {"getProperties", NetCall::kGetProperties, "dev"},
    {"listen", NetCall::kListen, "listener, dev"},
    {"connect", NetCall::kConnect, "listener, dev"},
    {"accept", NetCall::kAccept, "listener, dev, comm"},
    {"regMr", NetCall::kRegMr, "comm, mr, size"},
    {"deregMr", NetCall::kDeregMr, "comm, mr"},
    {"closeSend", NetCall::kCloseSend, "comm"},
    {"closeRecv", NetCall::kCloseRecv, "comm"},
    {"closeListen", NetCall::kCloseListen, "listener"},
    {"setNetAttr", NetCall::kSetNetAttr, "op, algo, proto, send_peers, send_flows, recv_peers, recv_flows"},
    {"isend", NetCall::kIsend, "comm, req, size, tag"},
    {"irecv", NetCall::kIrecv, "comm, req, n, sizes, tags"},
    {"finalize", NetCall::kFinalize, ""},
}};
constexpr const char* kDone = "done";  // not a call: what a request's last test reported
constexpr const char* kDoneFields = "req, sizes";
constexpr const char* kMetaForm =
    R"(the first line is {"meta": {...}} with ranks, gpus_per_node and net_devices_per_node)";

const CallForm* find_call(const std::string& name) {
  const auto* const found =
      std::find_if(kCalls.begin(), kCalls.end(), [&](const CallForm& form) { return form.name == name; });
  return found == kCalls.end() ? nullptr : found;
}

std::string call_names() {
  std::string names;
  for (const CallForm& form : kCalls) names += std::string(form.name) + ", ";
  return names + kDone;
}

/// "isend has rank, thread, call, comm, req, size, tag"; for a line without a known call, what every line has.
std::string form_of(const std::string& name) {
  const CallForm* const form = find_call(name);
  if (form == nullptr && name != kDone) return "a line has rank, thread, call and the call's own fields";
  const std::string own = form == nullptr ? kDoneFields : form->fields;
  const bool connects = form != nullptr && form->call == NetCall::kConnect;
  return fmt::format("{} has rank, thread, call{}{}{}", name, own.empty() ? "" : ", ", own,
                     connects ? R"(, and either comm or "result": "pending")" : "");
}

/// One field that is missing or of another type than it should be; the reader adds which fields the line has.
class FieldError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

const json& field(const json& object, const char* key) {
  if (!object.is_object()) {
    throw FieldError(fmt::format("expects a JSON object with '{}', got {}", key, object.type_name()));
  }
  const auto found = object.find(key);
  if (found == object.end()) throw FieldError(fmt::format("field '{}' is missing", key));
  return *found;
}

/// `keys`: "comm, mr".
void require_fields(const json& object, std::string_view keys) {
  while (!keys.empty()) {
    const std::size_t end = std::min(keys.find(", "), keys.size());
    (void)field(object, std::string(keys.substr(0, end)).c_str());
    keys.remove_prefix(std::min(end + 2, keys.size()));
  }
}

[[noreturn]] void refuse(const char* key, const char* wanted, const json& value) {
  constexpr std::size_t kShownMax = 40;
  // A text may hold anything: what is no UTF-8 is replaced.
  const std::string shown = json_text(value, kOneLine, true);
  throw FieldError(fmt::format("field '{}' expects {}, got {} {}", key, wanted, value.type_name(),
                               shown.size() > kShownMax ? shown.substr(0, kShownMax) + "..." : shown));
}

/// JSON numbers with a fraction and those beyond 64 bits are none of these.
std::int64_t whole(const json& value, const char* key, std::int64_t least, std::int64_t most) {
  if (!value.is_number_integer()) refuse(key, "a whole number", value);
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (too_large || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    throw std::runtime_error(fmt::format("{} is {}, not in {}..{}", key, json_text(value), least, most));
  }
  return value.get<std::int64_t>();
}

int number(const json& object, const char* key, int most) {
  return static_cast<int>(whole(field(object, key), key, 0, most));
}

std::uint64_t size_of(const json& value, const char* key) {
  return static_cast<std::uint64_t>(whole(value, key, 0, std::numeric_limits<std::int64_t>::max()));
}

int tag_of(const json& value, const char* key) {
  return static_cast<int>(whole(value, key, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

/// Bit masks, -1 where undefined.
std::uint32_t mask_of(const json& object, const char* key) {
  return static_cast<std::uint32_t>(
      whole(field(object, key), key, std::numeric_limits<int>::min(), std::numeric_limits<std::uint32_t>::max()));
}

std::string text_of(const json& object, const char* key) {
  const json& value = field(object, key);
  if (!value.is_string()) refuse(key, "text", value);
  return value;
}

const json& only_entry(const json& object, const char* key) {
  const json& list = field(object, key);
  if (!list.is_array() || list.size() != 1) refuse(key, "a list of one whole number", list);
  return list.front();
}

/// "1..3": least and most.
std::pair<int, int> parse_range(const std::string& text) {
  int least = 0, most = 0;
  char dots[3]{};
  std::istringstream in(text);
  if (!(in >> least >> dots[0] >> dots[1] >> most) || dots[0] != '.' || dots[1] != '.') {
    throw std::runtime_error("\"" + text + "\" is not a range like 1..3");
  }
  return {least, most};
}

class RecordingReader {
 public:
  explicit RecordingReader(std::string path) : path_(std::move(path)) {}

  Recording read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      if (line.empty()) continue;
      read_line(line);
    }
    check_complete();
    recording_.name = std::filesystem::path(path_).stem();
    return std::move(recording_);
  }

 private:
  /// Whatever is wrong in it is said with its place.
  void read_line(const std::string& line) {
    std::string name;  // of the call, as far as it is known
    const auto refuse_line = [&](const std::string& problem) {
      throw std::runtime_error(fmt::format("{}:{}: {}", path_, line_, problem));
    };
    try {
      const json object = json::parse(line);
      if (line_ == 1) return read_meta(object);
      name = text_of(object, "call");
      read_call(object, name);
    } catch (const json::parse_error& error) {
      refuse_line(fmt::format("column {}: no JSON; each line is one object in braces", error.byte));
    } catch (const FieldError& error) {
      refuse_line(fmt::format("{}; {}", error.what(), line_ == 1 ? kMetaForm : form_of(name)));
    } catch (const std::exception& error) {  // ours without a place
      refuse_line(error.what());
    }
  }

  void read_meta(const json& object) {
    const json& meta = field(object, "meta");
    const int ranks = number(meta, "ranks", kMostRanks);
    if (ranks < 1) throw std::runtime_error("no ranks: meta.ranks is 0, and a recording has 1 at least");
    recording_.ranks.resize(static_cast<std::size_t>(ranks));
    if (meta.contains("program")) recording_.program = text_of(meta, "program");
    recording_.gpus_per_node = number(meta, "gpus_per_node", ranks);
    recording_.devices_per_node = number(meta, "net_devices_per_node", kMostNumbers);
  }

  void read_call(const json& object, const std::string& name) {
    const int rank = number(object, "rank", static_cast<int>(recording_.ranks.size()) - 1);
    RankRecording& rank_calls = recording_.ranks.at(static_cast<std::size_t>(rank));
    if (name == kDone) return read_done(object, rank);
    const CallForm* const known = find_call(name);
    if (known == nullptr) throw std::runtime_error("no call \"" + name + "\"; known: " + call_names());

    require_fields(object, known->fields);

    RecordedCall call;
    call.call = known->call;
    call.line = line_;
    if (object.contains("comm")) {
      call.comm = number(object, "comm", kMostNumbers);
      rank_calls.comms = std::max(rank_calls.comms, call.comm + 1);
    }
    if (object.contains("listener")) {
      call.listener = number(object, "listener", kMostNumbers);
      recording_.listeners = std::max(recording_.listeners, call.listener + 1);
    }
    if (object.contains("dev")) call.device = number(object, "dev", kMostNumbers);
    if (object.contains("mr")) call.mr = number(object, "mr", kMostNumbers);
    if (!read_arguments(object, rank, call)) return;
    calls_of(rank_calls, text_of(object, "thread")).push_back(call);
    if (call.call == NetCall::kIsend || call.call == NetCall::kIrecv) {
      const bool is_new =
          open_.try_emplace({rank, number(object, "req", kMostNumbers)}, rank_calls.progress.size() - 1).second;
      if (!is_new) throw std::runtime_error("this request is already under way");
    }
  }

  /// What belongs to one call only; false where the line is one more poll of a pending connect.
  bool read_arguments(const json& object, int rank, RecordedCall& call) {
    switch (call.call) {
      case NetCall::kDevices:
        call.count = number(object, "n", kMostNumbers);
        return true;
      case NetCall::kRegMr:
        call.size_bytes = size_of(field(object, "size"), "size");
        return true;
      case NetCall::kConnect:
        return read_connect(object, rank, call);
      case NetCall::kAccept:
        ends_[call.listener].accepts += 1;
        return true;
      case NetCall::kSetNetAttr:
        call.attributes = read_attributes(object);
        return true;
      case NetCall::kIsend:
        call.size_bytes = size_of(field(object, "size"), "size");
        call.tag = tag_of(field(object, "tag"), "tag");
        return true;
      case NetCall::kIrecv:
        if (number(object, "n", kMostNumbers) != 1) {
          throw std::runtime_error("a grouped receive: the replay has none; record with NCCL's n = 1");
        }
        call.size_bytes = size_of(only_entry(object, "sizes"), "sizes");
        call.tag = tag_of(only_entry(object, "tags"), "tags");
        call.optional = object.contains("optional") && number(object, "optional", 1) != 0;
        return true;
      default:
        return true;
    }
  }

  /// The first poll keeps its place among the calls; the comm's number comes with the last.
  bool read_connect(const json& object, int rank, const RecordedCall& call) {
    const bool pending = object.contains("result") && text_of(object, "result") == "pending";
    if (!pending) {
      (void)field(object, "comm");
      ends_[call.listener].connects += 1;
    }
    const auto first = connecting_.find({rank, call.listener});
    if (first == connecting_.end()) {
      connecting_[{rank, call.listener}] =
          calls_of(recording_.ranks.at(static_cast<std::size_t>(rank)), text_of(object, "thread")).size();
      return true;
    }
    if (!pending) recording_.ranks.at(static_cast<std::size_t>(rank)).service.at(first->second).comm = call.comm;
    return false;
  }

  static nccl::NetAttr read_attributes(const json& object) {
    nccl::NetAttr attributes{};
    const auto fill = [&](const char* peers, const char* flows, nccl::CommAttr& attr) {
      std::tie(attr.minConcurrentPeers, attr.maxConcurrentPeers) = parse_range(text_of(object, peers));
      std::tie(attr.minFlowsPerPeer, attr.maxFlowsPerPeer) = parse_range(text_of(object, flows));
    };
    fill("send_peers", "send_flows", attributes.sendCommAttr);
    fill("recv_peers", "recv_flows", attributes.recvCommAttr);
    attributes.op = mask_of(object, "op");
    attributes.algo = mask_of(object, "algo");
    attributes.proto = mask_of(object, "proto");
    return attributes;
  }

  void read_done(const json& object, int rank) {
    const auto request = open_.find({rank, number(object, "req", kMostNumbers)});
    if (request == open_.end()) throw std::runtime_error("this request was never started, or is done already");
    recording_.ranks[static_cast<std::size_t>(rank)].progress[request->second].arrived_bytes =
        size_of(only_entry(object, "sizes"), "sizes");
    open_.erase(request);
  }

  void check_complete() const {
    if (recording_.ranks.empty()) throw std::runtime_error(path_ + ": empty: there is no meta line");
    if (!open_.empty()) {
      throw std::runtime_error(fmt::format("{}: {} without an end, first request {} of rank {}", path_,
                                           counted(open_.size(), "request"), open_.begin()->first.second,
                                           open_.begin()->first.first));
    }
    for (const auto& [listener, ends] : ends_) {
      if (ends.connects != 1 || ends.accepts != 1) {
        throw std::runtime_error(fmt::format("{}: listener {} has {} connects and {} accepts", path_, listener,
                                             ends.connects, ends.accepts));
      }
    }
  }

  static std::vector<RecordedCall>& calls_of(RankRecording& rank, const std::string& thread) {
    if (thread == "main") return rank.main;
    if (thread == "service") return rank.service;
    if (thread == "progress") return rank.progress;
    throw std::runtime_error("no thread \"" + thread + "\"; known: main, service, progress");
  }

  struct Ends {
    int connects = 0, accepts = 0;
  };

  std::string path_;
  int line_ = 0;
  Recording recording_;
  std::map<std::pair<int, int>, std::size_t> open_;        // rank, request -> index in progress
  std::map<std::pair<int, int>, std::size_t> connecting_;  // rank, listener -> index in service
  std::map<int, Ends> ends_;                               // by listener
};

}  // namespace

std::uint64_t Recording::requests() const {
  std::uint64_t count = 0;
  for (const RankRecording& rank : ranks) {
    for (const RecordedCall& call : rank.progress) {
      count += call.call == NetCall::kIsend || call.call == NetCall::kIrecv ? 1U : 0U;
    }
  }
  return count;
}

std::uint64_t Recording::connections() const {
  std::uint64_t count = 0;
  for (const RankRecording& rank : ranks) {
    for (const RecordedCall& call : rank.service) count += call.call == NetCall::kConnect ? 1U : 0U;
  }
  return count;
}

Recording read_recording(const std::string& path) { return parse_recording(read_text_file(path), path); }

Recording parse_recording(const std::string& text, const std::string& path) { return RecordingReader(path).read(text); }

std::string recording_misfit(const Scenario& scenario, const Recording& recording) {
  const int ranks = ranks_of(scenario);
  bool is_same = static_cast<int>(recording.ranks.size()) == ranks;
  for (int rank = 0; is_same && rank < ranks; ++rank) {
    is_same = node_of(scenario, rank) == rank / recording.gpus_per_node;
  }
  if (is_same) return "";
  return fmt::format("{} was recorded on {} ranks, {} a node; {} has {} ranks, {} a node", recording.name,
                     recording.ranks.size(), recording.gpus_per_node, scenario.name, ranks,
                     ranks_per_node_text(scenario));
}

}  // namespace meshbed::testbed
