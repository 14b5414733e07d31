#include "plugin/net/report/report_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>

#include "plugin/base/json_text.h"
#include "plugin/base/log.h"
#include "plugin/net/report/job_report.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr mode_t kReportMode = 0644;

/// What went each way, and when.
struct Carried {
  std::uint64_t connections = 0, sends = 0, receives = 0, sent_bytes = 0, received_bytes = 0;
  std::uint64_t failovers = 0, failbacks = 0, resumed = 0, failed = 0;
  std::int64_t begun_ns = 0, ended_ns = 0;

  void add_time(const ReportAccount& account) {
    begun_ns = begun_ns == 0 ? account.begun_ns : std::min(begun_ns, account.begun_ns);
    ended_ns = std::max(ended_ns, account.ended_ns);
  }
  void add_bytes(bool sends_it, std::uint64_t bytes) { (sends_it ? sent_bytes : received_bytes) += bytes; }
  void add(const ReportAccount& account) {
    const ConnectionState& state = account.state;
    ++connections;
    (state.sends ? sends : receives) += state.done;
    add_bytes(state.sends, state.bytes);
    resumed += state.resumed;
    failbacks += state.returned;
    if (state.sends) failovers += state.resumed - std::min(state.returned, state.resumed);
    if (std::strcmp(state.phase, "failed") == 0) ++failed;
    add_time(account);
  }
  std::uint64_t per_second(std::uint64_t bytes) const {
    const std::int64_t ns = ended_ns - begun_ns;
    if (ns <= 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * kNsPerSecond / static_cast<double>(ns));
  }
};

struct Cable {
  CableState cable;
  std::uint64_t peer_node = 0;
  Carried carried;
};

struct Peer {
  std::uint64_t node = 0;
  std::string name;
  std::set<std::string> ways;
  Carried carried;
};

std::vector<Cable> cables_of(const std::vector<ReportAccount>& accounts) {
  std::vector<Cable> cables;
  for (const ReportAccount& account : accounts) {
    for (const CableState& used : account.state.cables) {
      const auto same = [&](const Cable& known) {
        return known.cable.ours.nic == used.ours.nic && known.cable.ours.address == used.ours.address &&
               known.cable.theirs.nic == used.theirs.nic && known.cable.theirs.address == used.theirs.address;
      };
      auto found = std::find_if(cables.begin(), cables.end(), same);
      // Where relays are on the way, the other end of the cable is the next one's.
      const std::uint64_t node = account.state.relayed ? 0 : account.state.peer_node;
      if (found == cables.end()) found = cables.insert(cables.end(), {.cable = used, .peer_node = node, .carried = {}});
      if (found->peer_node == 0) found->peer_node = node;
      ++found->carried.connections;
      found->carried.add_bytes(account.state.sends, used.bytes);
      found->carried.add_time(account);
    }
  }
  std::sort(cables.begin(), cables.end(), [](const Cable& left, const Cable& right) {
    const auto key = [](const Cable& one) {
      return std::tie(one.cable.ours.nic, one.cable.ours.address, one.cable.theirs.address, one.cable.theirs.nic);
    };
    return key(left) < key(right);
  });
  return cables;
}

std::vector<Peer> peers_of(const std::vector<ReportAccount>& accounts) {
  std::vector<Peer> peers;
  for (const ReportAccount& account : accounts) {
    const ConnectionState& state = account.state;
    if (state.busy) continue;  // only its name is known
    const auto same = [&](const Peer& known) {
      return state.peer_node != 0 ? known.node == state.peer_node : known.node == 0 && known.name == state.peer;
    };
    auto found = std::find_if(peers.begin(), peers.end(), same);
    if (found == peers.end()) {
      found = peers.insert(peers.end(), {.node = state.peer_node, .name = state.peer, .ways = {}, .carried = {}});
    }
    found->name = std::min(found->name, state.peer);
    found->ways.insert(state.way);
    found->carried.add(account);
  }
  std::sort(peers.begin(), peers.end(), [](const Peer& left, const Peer& right) {
    return std::tie(left.name, left.node) < std::tie(right.name, right.node);
  });
  return peers;
}

/// The number of a node, as `meshbed state` has it; "": not known.
std::string node_text(std::uint64_t node) {
  if (node == 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(node));
  return text;
}

void write_bytes(JsonText& json, const Carried& carried) {
  json.number("sent_bytes", carried.sent_bytes).number("received_bytes", carried.received_bytes);
}

void write_rates(JsonText& json, const Carried& carried) {
  json.number("sent_bytes_per_s", carried.per_second(carried.sent_bytes))
      .number("received_bytes_per_s", carried.per_second(carried.received_bytes));
}

void write_changes(JsonText& json, const Carried& carried) {
  json.number("failovers", carried.failovers)
      .number("failbacks", carried.failbacks)
      .number("resumed", carried.resumed)
      .number("failed", carried.failed);
}

void write(JsonText& json, const NicState& nic, const std::vector<Cable>& cables) {
  Carried carried;
  for (const Cable& cable : cables) {
    if (cable.cable.ours.nic != nic.name) continue;
    carried.sent_bytes += cable.carried.sent_bytes;
    carried.received_bytes += cable.carried.received_bytes;
  }
  json.open_object()
      .text("name", nic.name)
      .signed_number("port", nic.port)
      .text("netdev", nic.netdev)
      .flag("link_up", nic.link_up)
      .number("rate_mbps", nic.rate_mbps)
      .open_list("addresses");
  for (const std::string& address : nic.addresses) json.text(nullptr, address);
  json.close_list();
  write_bytes(json, carried);
  json.close_object();
}

void write(JsonText& json, const Cable& one) {
  json.open_object()
      .text("nic", one.cable.ours.nic)
      .text("address", one.cable.ours.address)
      .text("peer_nic", one.cable.theirs.nic)
      .text("peer_address", one.cable.theirs.address)
      .text("peer_node", node_text(one.peer_node))
      .number("rate_mbps", one.cable.rate_mbps)
      .number("connections", one.carried.connections);
  write_bytes(json, one.carried);
  write_rates(json, one.carried);
  json.close_object();
}

void write(JsonText& json, const Peer& peer) {
  json.open_object().text("node", node_text(peer.node)).text("peer", peer.name).open_list("ways");
  for (const std::string& way : peer.ways) json.text(nullptr, way);
  json.close_list()
      .number("connections", peer.carried.connections)
      .number("sends", peer.carried.sends)
      .number("receives", peer.carried.receives);
  write_bytes(json, peer.carried);
  write_rates(json, peer.carried);
  write_changes(json, peer.carried);
  json.close_object();
}

Error file_error(const std::string& path, const char* what, int os_errno) {
  return {.code = ErrorCode::kSystem,
          .scope = Scope::kRequest,
          .text = path + ": " + what + ": " + std::strerror(os_errno) +
                  "; the job goes on without its report: name a file in a folder that exists and may be written to",
          .os_errno = os_errno};
}

/// 0, or errno.
int write_all(int descriptor, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t count = ::write(descriptor, text.data() + at, text.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    at += static_cast<std::size_t>(count);
  }
  return 0;
}

}  // namespace

std::string report_text(const ProcessState& process, const std::vector<ReportAccount>& accounts, std::int64_t open_ns) {
  Carried all;
  std::uint64_t open = 0;
  for (const ReportAccount& account : accounts) {
    all.add(account);
    if (account.is_open) ++open;
  }
  const std::vector<Cable> cables = cables_of(accounts);
  JsonText json;
  json.open_object()
      .text("report", "mesh")
      .signed_number("format", kReportFormat)
      .text("version", process.version)
      .signed_number("pid", process.pid)
      .text("host", process.host)
      .text("node", node_text(process.node))
      .signed_number("open_ns", open_ns)
      .number("warnings", warnings_logged())
      .number("connections", all.connections)
      .number("still_open", open)
      .number("sends", all.sends)
      .number("receives", all.receives);
  write_bytes(json, all);
  write_changes(json, all);
  json.open_list("nics");
  for (const NicState& nic : process.nics) write(json, nic, cables);
  json.close_list().open_list("cables");
  for (const Cable& cable : cables) write(json, cable);
  json.close_list().open_list("peers");
  for (const Peer& peer : peers_of(accounts)) write(json, peer);
  json.close_list().close_object();
  return json.take() + "\n";
}

Result<void> write_report_file(const std::string& path, const std::string& text) {
  const std::string aside = path + ".partial-" + std::to_string(::getpid());
  const int descriptor = ::open(aside.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, kReportMode);
  if (descriptor < 0) return file_error(path, "cannot be written", errno);
  int problem = write_all(descriptor, text);
  if (::close(descriptor) != 0 && problem == 0) problem = errno;
  if (problem == 0 && ::rename(aside.c_str(), path.c_str()) != 0) problem = errno;
  if (problem == 0) return ok();
  ::unlink(aside.c_str());
  return file_error(path, "cannot be written", problem);
}

}  // namespace meshbed::net
