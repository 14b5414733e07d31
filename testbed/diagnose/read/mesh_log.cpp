// What Meshbed's plugin and engine log, on their own or through NCCL, and what `meshbed run` prints around it.

#include <algorithm>

#include "testbed/base/words.h"
#include "testbed/diagnose/diagnose.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

/// "rank 0" of "meshbed: warning: rank 0: ...", "host:pid" of NCCL's; empty: neither.
std::string owner_of(const std::string& text) {
  const std::size_t rank = text.find("rank ");
  const std::size_t words = text.find("NET/Mesh");
  if (rank != std::string::npos && (words == std::string::npos || rank < words)) {
    const std::size_t end = text.find_first_not_of("0123456789", rank + 5);
    if (end != std::string::npos && end > rank + 5 && text[end] == ':') return text.substr(rank, end - rank);
  }
  const std::string first = text.substr(0, text.find(' '));
  const std::size_t colon = first.rfind(':');
  if (colon == std::string::npos || first.find(':') == colon) return "";
  return first.substr(0, colon);
}

class MeshLog final : public LineReader {
 public:
  const char* format() const override { return "Meshbed log"; }
  bool take(const Line& line, Case& found) override;

 private:
  void adapters(const std::string& text, const std::string& owner, const Line& line, Case& found);
  void connections(const std::string& text, const std::string& owner, const Line& line, Case& found);
};

/// "Mesh 0.1.0: 2 NICs: rocep1s0f0:1 enp1s0f0np0 100 Gb/s up 192.168.100.1/24; ..."
void MeshLog::adapters(const std::string& text, const std::string& owner, const Line& line, Case& found) {
  const auto summary = between(text, "NET/Mesh : Mesh ", "");
  if (!summary) return;
  found.add_fact("plugin_version", summary->substr(0, summary->find(':')), line);
  const auto list = between(*summary, "NIC", "");
  if (!list || list->find(": ") == std::string::npos) return;
  std::string_view rest = std::string_view(*list).substr(list->find(": ") + 2);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("; "), rest.size());
    const std::vector<std::string> words = words_of(rest.substr(0, end));
    rest.remove_prefix(std::min(rest.size(), end + 2));
    if (words.size() < 5 || words[3] != "Gb/s") continue;
    Adapter adapter{.owner = owner,
                    .device = words[0].substr(0, words[0].find(':')),
                    .netdev = words[1],
                    .rate_Gbps = leading_number(words[2]).value_or(0),
                    .addresses = {words.begin() + 5, words.end()},
                    .at = line};
    found.add_fact("rate_Gbps." + adapter.device, adapter.rate_Gbps, line);
    for (const std::string& address : adapter.addresses)
      found.add_fact("address." + (owner.empty() ? "" : owner + ".") + adapter.device, address, line);
    if (words[4] == "down") found.add_fact("link_down", owner + " " + adapter.device, line);
    found.adapters.push_back(std::move(adapter));
  }
}

void MeshLog::connections(const std::string& text, const std::string& owner, const Line& line, Case& found) {
  if (const auto peer = between(text, "failure peer=", " ")) {
    const std::string status = between(text, "status=\"", "\"").value_or("");
    found.add_fact("completion_status", status, line);
    found.link_failures.push_back(
        {owner, *peer, text.find("the port of ") != std::string::npos && text.find(" is down") != std::string::npos,
         line});
  }
  if (const auto summary = between(text, "connection-summary ", "")) {
    if (!owner.empty()) found.ended.insert(owner);
    if (summary->find("unfinished=0 ") != std::string::npos) found.late_operation = true;
    if (const auto over = between(*summary, "transport=", " ")) {
      found.add_fact("data_over", *over, line);
    }
    if (const auto bytes = between(*summary, " bytes=", " ")) found.add_fact("bytes", *bytes, line);
  }
  if (text.find(": connected, GID ") != std::string::npos) {
    if (const auto index = between(text, "(index ", ",")) found.add_fact("gid_index", *index, line);
    if (const auto mtu = between(text, "path MTU ", " "))
      found.add_fact("path_mtu", mtu->substr(0, mtu->find_first_not_of("0123456789")), line);
  }
}

bool MeshLog::take(const Line& line, Case& found) {
  const std::string& text = line.text;
  const bool is_ours = text.find("NET/Mesh : ") != std::string::npos;
  const bool is_command = text.rfind("meshbed: ", 0) == 0;
  const bool is_error = text.rfind("error at ", 0) == 0 || text.rfind("expected error seen at ", 0) == 0;
  if (text.rfind("digest ", 0) == 0) found.add_fact("digest", text.substr(7), line);
  const bool is_report =
      text.rfind("digest ", 0) == 0 || (text.rfind("seed ", 0) == 0 && text.find("  scenario ") != std::string::npos);
  if (is_report) return true;
  if (!is_ours && !is_command && !is_error) return false;
  const std::string owner = owner_of(text);
  if (!owner.empty()) {
    found.owners.emplace(owner, line);
    if (is_ours && (text.find("warning: ") != std::string::npos || text.find("NCCL WARN") != std::string::npos))
      found.failed.emplace(owner, line);
  }
  if (is_ours) {
    adapters(text, owner, line, found);
    connections(text, owner, line, found);
  }
  // A finding, as lint and run print them: "meshbed: warning: PLACE: CAUSE; FIX [crossed-cable]".
  if (is_command && !is_ours && text.back() == ']' && text.find(": note: ") == std::string::npos) {
    const std::size_t begin = text.rfind('[');
    if (begin != std::string::npos) sign_of_finding(text.substr(begin + 1, text.size() - begin - 2), line, found);
  }
  return true;
}

}  // namespace

std::unique_ptr<LineReader> mesh_log_reader() { return std::make_unique<MeshLog>(); }

}  // namespace meshbed::testbed::diagnose
