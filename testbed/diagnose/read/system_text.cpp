// What `meshbed state` prints, and what tools of a node print that people put beside a log: ulimit, ibv_devinfo,
// iptables-save, lspci, Python's and PyTorch's errors. Their faults are symptoms (causes/symptoms.def); this knows the
// formats, so that a healthy one is read as well.

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>

#include "testbed/diagnose/read/read.h"
#include "testbed/result/state_report.h"

namespace meshbed::testbed::diagnose {
namespace {

class StateText final : public LineReader {
 public:
  const char* format() const override { return "meshbed state"; }
  bool take(const Line& line, Case& found) override;
};

bool StateText::take(const Line& line, Case& found) {
  const std::string& text = line.text;
  if (text[0] == '{') {
    try {
      const document::Value state = parse_state(text);
      for (const std::string& stuck : stuck_lines(state)) {
        const Line at{.file = line.file, .number = line.number, .text = stuck.substr(0, kLineShown)};
        found.add_fact("waits", stuck, at);
        found.match(at);
      }
      found.add_fact("state", state_verdict(state), {.file = line.file, .number = line.number, .text = ""});
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  const bool is_connection =
      (text.find("send ") != std::string::npos || text.find("recv ") != std::string::npos ||
       text.find("connect ") != std::string::npos || text.find("accept ") != std::string::npos) &&
      text.find("waits for") != std::string::npos;
  if (!is_connection) return false;
  found.add_fact("waits", text.substr(text.find_first_not_of(' ')), line);
  if (text.find("waits for a path to") != std::string::npos) {
    found.add_sign(CauseCode::kPortDown, 0.40, "state: path", "a connection waits for a path to its peer", line);
  }
  if (text.find("waits for a message") != std::string::npos) {
    found.add_sign(CauseCode::kRankLate, 0.15, "state: message", "a connection waits for a message of its peer", line);
  }
  return true;
}

class SystemText final : public LineReader {
 public:
  const char* format() const override { return "system text"; }
  bool take(const Line& line, Case& found) override;
};

bool SystemText::take(const Line& line, Case& found) {
  const std::string& text = line.text;
  // bash's ulimit -a: "max locked memory       (kbytes, -l) 64"
  if (text.find("max locked memory") != std::string::npos) {
    const std::string limit = text.substr(text.rfind(text.find(')') != std::string::npos ? ')' : ' ') + 1);
    const auto kilobytes = leading_number(limit);
    found.add_fact("memlock", kilobytes ? document::Value(*kilobytes) : document::Value("unlimited"), line);
    constexpr double kEnoughKilobytes = 4.0 * 1024 * 1024;
    if (kilobytes && *kilobytes < kEnoughKilobytes) {
      found.add_sign(CauseCode::kMemlock, 0.80, "ulimit", "the limit of locked memory is low", line);
    }
    return true;
  }
  static constexpr std::array kKnown{
      "hca_id:",           "transport:",       "fw_ver:",    "LnkSta:",         "LnkCap:",
      "-A INPUT",          ":INPUT ",          "-P INPUT",   "table inet",      "Traceback (most recent call last)",
      "torch.distributed", "ProcessGroupNCCL", "[rank",      "ncclSystemError", "ncclRemoteError",
      "ncclInternalError", "DistBackendError", "libibverbs:"};
  return std::any_of(kKnown.begin(), kKnown.end(),
                     [&](const char* words) { return text.find(words) != std::string::npos; });
}

}  // namespace

std::unique_ptr<LineReader> state_reader() { return std::make_unique<StateText>(); }
std::unique_ptr<LineReader> system_text_reader() { return std::make_unique<SystemText>(); }

}  // namespace meshbed::testbed::diagnose
