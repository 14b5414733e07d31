#include "cli/nccl_recording.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "cli/files.h"

namespace meshbed::cli {
namespace {

using nlohmann::json;

constexpr int kMostRanks = 4096;
constexpr int kMostNumbers = 1 << 20;  // of listeners, comms, registrations in one file

const std::map<std::string, NetCall>& call_names() {
  static const std::map<std::string, NetCall> names{{"init", NetCall::kInit},
                                                    {"devices", NetCall::kDevices},
                                                    {"getProperties", NetCall::kGetProperties},
                                                    {"listen", NetCall::kListen},
                                                    {"connect", NetCall::kConnect},
                                                    {"accept", NetCall::kAccept},
                                                    {"regMr", NetCall::kRegMr},
                                                    {"deregMr", NetCall::kDeregMr},
                                                    {"closeSend", NetCall::kCloseSend},
                                                    {"closeRecv", NetCall::kCloseRecv},
                                                    {"closeListen", NetCall::kCloseListen},
                                                    {"setNetAttr", NetCall::kSetNetAttr},
                                                    {"isend", NetCall::kIsend},
                                                    {"irecv", NetCall::kIrecv},
                                                    {"finalize", NetCall::kFinalize}};
  return names;
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

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Recording read(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++line_;
      if (line.empty()) continue;
      try {
        line_ == 1 ? read_meta(json::parse(line)) : read_call(json::parse(line));
      } catch (const std::exception& error) {  // nlohmann's, and ours without a place
        throw std::runtime_error(fmt::format("{}:{}: {}", path_, line_, error.what()));
      }
    }
    check_complete();
    recording_.name = std::filesystem::path(path_).stem();
    return std::move(recording_);
  }

 private:
  void read_meta(const json& object) {
    const json& meta = object.at("meta");
    const int ranks = number(meta, "ranks", kMostRanks);
    if (ranks < 1) throw std::runtime_error("no ranks");
    recording_.ranks.resize(static_cast<std::size_t>(ranks));
    recording_.program = meta.value("program", "");
    recording_.gpus_per_node = number(meta, "gpus_per_node", ranks);
    recording_.devices_per_node = number(meta, "net_devices_per_node", kMostNumbers);
  }

  void read_call(const json& object) {
    const int rank = number(object, "rank", static_cast<int>(recording_.ranks.size()) - 1);
    RankRecording& rank_calls = recording_.ranks.at(static_cast<std::size_t>(rank));
    const std::string name = object.at("call");
    if (name == "done") return read_done(object, rank);
    const auto known = call_names().find(name);
    if (known == call_names().end()) throw std::runtime_error("no call \"" + name + "\"");

    RecordedCall call;
    call.call = known->second;
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
    calls_of(rank_calls, object.at("thread")).push_back(call);
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
        call.size_bytes = object.at("size");
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
        call.size_bytes = object.at("size");
        call.tag = object.at("tag");
        return true;
      case NetCall::kIrecv:
        if (object.at("n") != 1) throw std::runtime_error("a grouped receive: the replay has none");
        call.size_bytes = object.at("sizes").at(0);
        call.tag = object.at("tags").at(0);
        call.optional = object.value("optional", 0) != 0;
        return true;
      default:
        return true;
    }
  }

  /// The first poll keeps its place among the calls; the comm's number comes with the last.
  bool read_connect(const json& object, int rank, const RecordedCall& call) {
    const bool pending = object.value("result", "") == "pending";
    if (!pending) ends_[call.listener].connects += 1;
    const auto first = connecting_.find({rank, call.listener});
    if (first == connecting_.end()) {
      connecting_[{rank, call.listener}] =
          calls_of(recording_.ranks.at(static_cast<std::size_t>(rank)), object.at("thread")).size();
      return true;
    }
    if (!pending) recording_.ranks.at(static_cast<std::size_t>(rank)).service.at(first->second).comm = call.comm;
    return false;
  }

  static nccl::NetAttr read_attributes(const json& object) {
    nccl::NetAttr attributes{};
    const auto fill = [&](const char* peers, const char* flows, nccl::CommAttr& attr) {
      std::tie(attr.minConcurrentPeers, attr.maxConcurrentPeers) = parse_range(object.at(peers));
      std::tie(attr.minFlowsPerPeer, attr.maxFlowsPerPeer) = parse_range(object.at(flows));
    };
    fill("send_peers", "send_flows", attributes.sendCommAttr);
    fill("recv_peers", "recv_flows", attributes.recvCommAttr);
    // Bit masks, -1 where undefined.
    attributes.op = static_cast<std::uint32_t>(object.at("op").get<std::int64_t>());
    attributes.algo = static_cast<std::uint32_t>(object.at("algo").get<std::int64_t>());
    attributes.proto = static_cast<std::uint32_t>(object.at("proto").get<std::int64_t>());
    return attributes;
  }

  void read_done(const json& object, int rank) {
    const auto request = open_.find({rank, number(object, "req", kMostNumbers)});
    if (request == open_.end()) throw std::runtime_error("this request was never started, or is done already");
    recording_.ranks[static_cast<std::size_t>(rank)].progress[request->second].arrived_bytes = object.at("sizes").at(0);
    open_.erase(request);
  }

  void check_complete() const {
    if (recording_.ranks.empty()) throw std::runtime_error(path_ + ": empty: there is no meta line");
    if (!open_.empty()) {
      throw std::runtime_error(fmt::format("{}: {} requests never finish, first request {} of rank {}", path_,
                                           open_.size(), open_.begin()->first.second, open_.begin()->first.first));
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
    throw std::runtime_error("no thread \"" + thread + "\"");
  }

  static int number(const json& object, const char* key, int most) {
    const auto value = object.at(key).get<std::int64_t>();
    if (value < 0 || value > most) throw std::runtime_error(fmt::format("{} is {}, not in 0..{}", key, value, most));
    return static_cast<int>(value);
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

Recording parse_recording(const std::string& text, const std::string& path) { return Reader(path).read(text); }

}  // namespace meshbed::cli
