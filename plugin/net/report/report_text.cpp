#include "plugin/net/report/report_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <utility>

#include "plugin/base/log.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr mode_t kReportMode = 0644;

void add_time(ReportCarried& carried, const ReportAccount& account) {
  carried.begun_ns = carried.begun_ns == 0 ? account.begun_ns : std::min(carried.begun_ns, account.begun_ns);
  carried.ended_ns = std::max(carried.ended_ns, account.ended_ns);
}

void add_bytes(ReportCarried& carried, bool sends, std::uint64_t bytes) {
  (sends ? carried.sent_bytes : carried.received_bytes) += bytes;
}

void add_connection(ReportCarried& carried, const ReportAccount& account) {
  const ConnectionState& state = account.state;
  ++carried.connections;
  (state.sends ? carried.sends : carried.receives) += state.done;
  add_bytes(carried, state.sends, state.bytes);
  carried.resumed += state.resumed;
  carried.failbacks += state.returned;
  if (state.sends) carried.failovers += state.resumed - std::min(state.returned, state.resumed);
  if (std::strcmp(state.phase, "failed") == 0) ++carried.failed;
  add_time(carried, account);
}

std::uint64_t per_second(const ReportCarried& carried, std::uint64_t bytes) {
  const std::int64_t ns = carried.ended_ns - carried.begun_ns;
  if (ns <= 0) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * kNsPerSecond / static_cast<double>(ns));
}

/// The number of a node, as `meshbed state` has it; "": not known.
std::string node_text(std::uint64_t node) {
  if (node == 0) return "";
  char text[32];
  std::snprintf(text, sizeof text, "0x%016llx", static_cast<unsigned long long>(node));
  return text;
}

void write_bytes(JsonText& json, const ReportCarried& carried) {
  json.number("sent_bytes", carried.sent_bytes).number("received_bytes", carried.received_bytes);
}

void write_rates(JsonText& json, const ReportCarried& carried) {
  json.number("sent_bytes_per_s", per_second(carried, carried.sent_bytes))
      .number("received_bytes_per_s", per_second(carried, carried.received_bytes));
}

void write_changes(JsonText& json, const ReportCarried& carried) {
  json.number("failovers", carried.failovers)
      .number("failbacks", carried.failbacks)
      .number("resumed", carried.resumed)
      .number("failed", carried.failed);
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
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

std::string report_path(const ReportName& name, unsigned number) {
  std::string path = name.name;
  if (path.front() != '/' && !name.folder.empty()) path = name.folder + "/" + path;
  const std::string process = std::to_string(name.pid) + (number > 1 ? "-" + std::to_string(number) : "");
  const bool has_process = path.find("%p") != std::string::npos;
  if (!has_process) {
    const std::size_t slash = path.rfind('/'), dot = path.rfind('.');
    const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1) && dot > 0;
    path.insert(has_ending ? dot : path.size(), ".%h-%p");
  }
  replace_all(path, "%h", name.host);
  replace_all(path, "%p", process);
  return path;
}

void ReportSums::add_cable(const ReportAccount& account, const CableState& used) {
  auto found = std::find_if(cables_.begin(), cables_.end(), [&](const Cable& known) {
    return known.cable.ours.nic == used.ours.nic && known.cable.ours.address == used.ours.address &&
           known.cable.theirs.nic == used.theirs.nic && known.cable.theirs.address == used.theirs.address;
  });
  // Where relays are on the way, the other end of the cable is the next one's.
  const std::uint64_t node = account.state.relayed ? 0 : account.state.peer_node;
  if (found == cables_.end()) found = cables_.insert(cables_.end(), {.cable = used, .peer_node = node, .carried = {}});
  if (found->peer_node == 0) found->peer_node = node;
  ++found->carried.connections;
  add_bytes(found->carried, account.state.sends, used.bytes);
  add_time(found->carried, account);
}

void ReportSums::add_peer(const ReportAccount& account) {
  const ConnectionState& state = account.state;
  auto found = std::find_if(peers_.begin(), peers_.end(), [&](const Peer& known) {
    return state.peer_node != 0 ? known.node == state.peer_node : known.node == 0 && known.name == state.peer;
  });
  if (found == peers_.end()) {
    found = peers_.insert(peers_.end(), {.node = state.peer_node, .name = state.peer, .ways = {}, .carried = {}});
  }
  found->name = std::min(found->name, state.peer);
  found->ways.insert(state.way);
  add_connection(found->carried, account);
}

void ReportSums::add(const ReportAccount& account) {
  add_connection(all_, account);
  if (account.is_open) ++open_;
  if (account.state.busy) return;  // only its name is known
  for (const CableState& used : account.state.cables) add_cable(account, used);
  add_peer(account);
}

void ReportSums::write(JsonText& json, const NicState& nic) const {
  ReportCarried carried;
  for (const Cable& cable : cables_) {
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

void ReportSums::write(JsonText& json, const Cable& one) {
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

void ReportSums::write(JsonText& json, const Peer& peer) {
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

std::string ReportSums::text(const ProcessState& process, std::int64_t open_ns) const {
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
      .number("connections", all_.connections)
      .number("still_open", open_)
      .number("sends", all_.sends)
      .number("receives", all_.receives);
  write_bytes(json, all_);
  write_changes(json, all_);
  json.open_list("nics");
  for (const NicState& nic : process.nics) write(json, nic);
  json.close_list().open_list("cables");
  std::vector<Cable> cables = cables_;
  std::sort(cables.begin(), cables.end(), [](const Cable& left, const Cable& right) {
    const auto key = [](const Cable& one) {
      return std::tie(one.cable.ours.nic, one.cable.ours.address, one.cable.theirs.address, one.cable.theirs.nic);
    };
    return key(left) < key(right);
  });
  for (const Cable& cable : cables) write(json, cable);
  json.close_list().open_list("peers");
  std::vector<Peer> peers = peers_;
  std::sort(peers.begin(), peers.end(), [](const Peer& left, const Peer& right) {
    return std::tie(left.name, left.node) < std::tie(right.name, right.node);
  });
  for (const Peer& peer : peers) write(json, peer);
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
