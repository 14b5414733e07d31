// NCCL's debug log: "host:pid:tid [dev] NCCL INFO text", with file:line before NCCL WARN, and since 2.26 with a time in
// brackets before it (src/debug.cc, v2.28.9-1). Lines of ranks and files may be mixed, and have what a launcher puts
// before each line: mpirun --tag-output "[1,0]<stdout>:".

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "plugin/base/name_list.h"
#include "testbed/base/words.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

/// "host:pid" of a line's head; empty: there is none. The last such word counts: a time before it looks like one.
std::string owner_in(std::string_view head) {
  std::string owner;
  for (const std::string& word : words_of(head)) {
    const std::size_t tid = word.rfind(':');
    const std::size_t pid = tid == std::string::npos || tid == 0 ? std::string::npos : word.rfind(':', tid - 1);
    if (pid == std::string::npos || pid == 0) continue;
    const std::size_t before = word.rfind(':', pid - 1);
    const std::size_t host = word.find_first_not_of("`'\"(>", before == std::string::npos ? 0 : before + 1);
    if (host >= pid || !is_digits(word.substr(pid + 1, tid - pid - 1)) || !is_digits(word.substr(tid + 1))) continue;
    owner = word.substr(host, tid - host);
  }
  return owner;
}

/// "[0]eth1:10.0.0.1<0>" without the index.
std::string without_index(const std::string& listed) {
  const std::size_t bracket = listed.find(']');
  return !listed.empty() && listed[0] == '[' && bracket != std::string::npos ? listed.substr(bracket + 1) : listed;
}

/// Symptoms have an error's words, which stand on the next line where a terminal or an editor has wrapped the line.
void match_words(const QueuePairFailure& failure, Case& found) {
  const char* const words = failure.error > 0 ? strerrordesc_np(failure.error) : nullptr;
  if (words == nullptr || failure.at.text.find(words) != std::string::npos) return;
  Line whole = failure.at;
  whole.text = fmt::format("ibv_modify_qp failed with {} {}", failure.error, words);
  found.match(whole);
}

class NcclLog final : public LineReader {
 public:
  const char* format() const override { return "NCCL log"; }
  bool take(const Line& line, Case& found) override;

 private:
  void environment(const std::string& text, const Line& line, Case& found);
  void devices(const std::string& text, const Line& line, Case& found);
  void communicator(const std::string& text, const Line& line, Case& found);
  void queue_pair(const std::string& text, const Line& line, Case& found);
  void completion(const std::string& text, const Line& line, Case& found);
};

void NcclLog::environment(const std::string& text, const Line& line, Case& found) {
  const std::size_t at = text.find("NCCL_");
  if (at == std::string::npos) return;
  const std::string name = text.substr(at, text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", at) - at);
  for (const char* words : {" set by environment to ", " set to "}) {
    if (text.compare(std::min(text.size(), at + name.size()), std::string(words).size(), words) != 0) continue;
    std::string value = text.substr(at + name.size() + std::string(words).size());
    while (!value.empty() && (value.back() == '.' || value.back() == ' ')) value.pop_back();
    found.add_fact("environment." + name, value, line);
    found.environment[name] = value;
    found.environment_lines[name] = line;
  }
}

void NcclLog::devices(const std::string& text, const Line& line, Case& found) {
  if (text.find("NET/IB : Using") != std::string::npos) {
    const std::string list = between(text, "NET/IB : Using", ";").value_or("");
    for (const std::string& word : words_of(list)) {
      const std::size_t bracket = word.find(']');
      const std::size_t colon = word.find(':');
      if (word[0] != '[' || bracket == std::string::npos || colon == std::string::npos || colon < bracket) continue;
      const std::string device = word.substr(bracket + 1, colon - bracket - 1);
      if (device.empty()) continue;
      found.add_fact("rdma_device", word.substr(bracket + 1), line);
      found.devices.push_back(device);
      if (device.rfind("roceP2p", 0) == 0) found.is_spark = true;
    }
    if (const auto interface = between(text, "OOB ", ":")) {
      found.add_fact("out_of_band_interface", *interface, line);
      found.out_of_band = *interface;
      found.out_of_band_line = line;
    }
  }
  if (const auto listed = between(text, "NET/Socket : Using", "")) {
    for (const std::string& word : words_of(*listed)) {
      const std::size_t bracket = word.find(']');
      if (word[0] == '[' && bracket != std::string::npos)
        found.add_fact("socket_interface", word.substr(bracket + 1), line);
    }
  }
  for (const char* words : {"Bootstrap: Using ", "Bootstrap : Using "}) {
    if (const auto listed = between(text, words, "")) {
      found.add_fact("bootstrap_interface", without_index(*listed), line);
    }
  }
  if (const auto network = between(text, "Using network ", "")) {
    found.add_fact("network", *network, line);
    found.networks.insert(*network);
    found.network_lines.emplace(*network, line);
  }
  if (const auto network = between(text, "] via NET/", "/")) {
    const std::string name = network->substr(0, network->find(' '));
    found.add_fact("data_over", name, line);
    found.networks.insert(name);
    found.network_lines.emplace(name, line);
  }
  // "NET/IB: [0] mlx5_0:uverbs0:1/RoCE provider=Mlx5 speed=200000 context=..." (src/transport/net_ib.cc:801 v2.28.9-1)
  if (const auto speed = between(text, " speed=", " "); speed && text.find("provider=") != std::string::npos) {
    const std::string device = between(text, "] ", ":").value_or("");
    const double megabits = leading_number(*speed).value_or(0);
    if (!device.empty() && megabits > 0) {
      found.add_fact("rate_Gbps." + device, megabits / 1000, line);
      found.adapters.push_back({.owner = owner_in(line.text),
                                .device = device,
                                .netdev = "",
                                .rate_Gbps = megabits / 1000,
                                .addresses = {},
                                .at = line});
    }
  }
}

void NcclLog::communicator(const std::string& text, const Line& line, Case& found) {
  if (text.find("Init COMPLETE") != std::string::npos || text.find("Init START") != std::string::npos) {
    if (const auto ranks = between(text, " nranks ", " ")) {
      if (const auto count = leading_number(*ranks))
        found.add_fact("ranks", static_cast<std::int64_t>(std::clamp(*count, 0.0, 1e9)), line);
    }
    if (text.find("busId f01000") != std::string::npos) found.is_spark = true;
    if (text.find("Init COMPLETE") != std::string::npos) {
      const std::string rank = between(text, " rank ", " ").value_or("?");
      found.add_fact("initialised_rank", rank, line);
    }
  }
  if (const auto nodes = between(text, " nNodes ", " ")) {
    if (const auto count = leading_number(*nodes)) {
      found.nodes = std::max(found.nodes, static_cast<int>(std::clamp(*count, 0.0, 1e6)));
      found.add_fact("nodes", found.nodes, line);
    }
  }
  if (const auto version = between(text, "cudaDriverVersion ", " ")) found.add_fact("cuda_driver", *version, line);
  // "NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 345 mtu 5 GID 3 (...)" (src/transport/net_ib.cc:1490 v2.28.9-1)
  if (text.find("NET/IB") != std::string::npos && text.find(" qpn ") != std::string::npos) {
    if (const auto mtu = between(text, " mtu ", " ")) {
      found.mtus["NET/IB"].insert(*mtu);
      found.mtu_lines[*mtu] = line;
      found.add_fact("mtu", *mtu, line);
    }
    if (const auto index = between(text, " GID ", " ")) found.add_fact("gid_index", *index, line);
  }
}

void NcclLog::queue_pair(const std::string& text, const Line& line, Case& found) {
  if (text.find("ibv_modify_qp failed") == std::string::npos) return;
  QueuePairFailure failure{.error = 0,
                           .device = between(text, "on dev ", ",").value_or(""),
                           .local_gid = "",
                           .remote_gid = "",
                           .gid_index = -1,
                           .at = line};
  if (const auto number = between(text, "ibv_modify_qp failed with ", " ")) {
    failure.error = static_cast<int>(std::clamp(leading_number(*number).value_or(0), 0.0, 1e4));
  }
  if (const auto number = between(text, " errno ", " "); failure.error == 0 && number) {
    failure.error = static_cast<int>(std::clamp(leading_number(*number).value_or(0), 0.0, 1e4));
  }
  if (failure.error == 0 && text.find("Connection timed out") != std::string::npos) failure.error = 110;
  if (const auto index = between(text, "local GID index ", ",")) {
    failure.gid_index = static_cast<int>(std::clamp(leading_number(*index).value_or(-1), -1.0, 1e4));
  }
  failure.local_gid = between(text, "local GID ::", ",").value_or("");
  if (!failure.local_gid.empty()) failure.local_gid = "::" + failure.local_gid;
  if (failure.local_gid.empty()) {
    const std::size_t at = text.rfind("local GID ");
    if (at != std::string::npos && text.compare(at, 16, "local GID index ") != 0) {
      const std::string gid = between(std::string_view(text).substr(at), "local GID ", ",").value_or("");
      failure.local_gid = without_blanks(gid);
    }
  }
  const std::vector<std::string> rest = words_of(between(text, "remote GID ", "").value_or(""), " ,");
  if (!rest.empty()) failure.remote_gid = rest.front();
  if (failure.error > 0) found.add_fact("ibv_modify_qp_error", failure.error, line);
  if (!failure.local_gid.empty()) found.add_fact("local_gid", failure.local_gid, line);
  if (!failure.remote_gid.empty()) found.add_fact("remote_gid", failure.remote_gid, line);
  match_words(failure, found);
  found.queue_pairs.push_back(std::move(failure));
}

void NcclLog::completion(const std::string& text, const Line& line, Case& found) {
  if (text.find("Got completion") == std::string::npos) return;
  std::string status = between(text, "status=", " ").value_or("");
  if (const auto number = between(status, "(", ")")) status = *number;
  if (status.empty()) status = between(text, "with error ", ",").value_or("");
  const auto number = leading_number(status);
  if (number) found.add_fact("completion_status", static_cast<std::int64_t>(std::clamp(*number, 0.0, 1e3)), line);
  for (const char* key : {"vendor err ", "vendor_err="}) {
    if (const auto vendor = between(text, key, " ")) found.add_fact("vendor_err", *vendor, line);
  }
  if (const auto peer = between(text, "from peer ", "<")) found.add_fact("completion_peer", *peer, line);
  if (const auto device = between(text, " hca ", " ")) found.add_fact("completion_device", *device, line);
  // "localGid ::ffff:10.0.0.1 remoteGids::ffff:10.0.0.2" (src/transport/net_ib.cc:2368 v2.26.2-1)
  for (const auto& [fact, key] : {std::pair{"local_gid", "localGid "}, std::pair{"remote_gid", "remoteGids"}}) {
    const std::vector<std::string> behind = words_of(between(text, key, "").value_or(""), " ,");
    if (!behind.empty()) found.add_fact(fact, behind.front(), line);
  }
}

/// Calls that fail without an error text where memory cannot be locked (the first two are in NVIDIA's guide).
void failure_without_text(const std::string& text, const Line& line, Case& found) {
  for (const char* call :
       {"Call to ibv_create_qp failed", "Call to ibv_reg_mr failed", "Call to ibv_create_cq failed"}) {
    if (!without_blanks(text).ends_with(call)) continue;
    found.add_sign(CauseCode::kMemlock, 0.45, "verbs call failed",
                   "a verbs call that locks memory failed without an error text", line);
  }
}

bool NcclLog::take(const Line& line, Case& found) {
  if (const auto version = between(line.text, "NCCL version ", " "); version && leading_number(*version)) {
    found.add_fact("nccl_version", *version, line);
    return true;
  }
  std::size_t at = std::string::npos;
  bool warns = false;
  for (const char* level : {"NCCL INFO ", "NCCL WARN ", "NCCL TRACE ", "NCCL CALL "}) {
    at = std::min(at, line.text.find(level));
  }
  if (at == std::string::npos) return false;
  warns = line.text.compare(at, 9, "NCCL WARN") == 0;
  const std::string text = line.text.substr(at + 10);
  const std::string owner = owner_in(std::string_view(line.text).substr(0, at));
  if (!owner.empty()) {
    found.owners.emplace(owner, line);
    found.add_fact("process", owner, line);
    if (warns) found.failed.emplace(owner, line);
  }
  environment(text, line, found);
  devices(text, line, found);
  communicator(text, line, found);
  queue_pair(text, line, found);
  completion(text, line, found);
  failure_without_text(text, line, found);
  return true;
}

}  // namespace

std::unique_ptr<LineReader> nccl_log_reader() { return std::make_unique<NcclLog>(); }

}  // namespace meshbed::testbed::diagnose
