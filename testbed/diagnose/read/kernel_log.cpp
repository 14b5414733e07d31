// dmesg: "[  123.456789] mlx5_core 0000:01:00.0: ..." with and without "<6>" (-r), "kern  :info  : " (-x) or the date
// in the brackets (-T), and the same behind the time and host of journalctl.

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "testbed/base/words.h"
#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

class KernelLog final : public LineReader {
 public:
  const char* format() const override { return "kernel log"; }
  bool take(const Line& line, Case& found) override;

 private:
  void module_event(const Line& line, Case& found);

  std::map<std::string, bool> had_link_;  // PCI functions
};

/// A network adapter's driver reports the PCIe link of its own card; the PCI core ("pci 0000:...") that of any device.
bool is_adapter(const std::string& text) {
  static const std::set<std::string> kDrivers{"mlx4_core", "mlx5_core", "bnxt_en", "ice",  "i40e",  "irdma", "ixgbe",
                                              "ionic",     "efa",       "hns3",    "qede", "cxgb4", "igb",   "igc"};
  const std::vector<std::string> words = words_of(text);
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return kDrivers.count(word) > 0; });
}

/// What stands in a line's brackets; nullopt: it is no kernel line.
std::optional<std::string> time_of(const std::string& text) {
  std::size_t begin = 0;
  if (text[0] == '<') {
    begin = text.find('>') + 1;  // 0 where there is none
  } else if (const std::size_t level = text.find(": ["); text.rfind("kern ", 0) == 0 && level != std::string::npos) {
    begin = level + 2;
  }
  if (begin >= text.size() || text[begin] != '[') return std::nullopt;
  const std::size_t end = text.find(']', begin);
  if (end == std::string::npos || end < begin + 3) return std::nullopt;
  return text.substr(begin + 1, end - begin - 1);
}

/// "Tue Jun  2 10:00:00 2026".
bool is_date(const std::string& time) {
  static constexpr std::array kDays{"Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun "};
  return time.size() > 20 && std::isdigit(static_cast<unsigned char>(time.back())) != 0 &&
         std::any_of(kDays.begin(), kDays.end(), [&](const char* day) { return time.rfind(day, 0) == 0; });
}

bool is_since_boot(const std::string& time) {
  return time.find('.') != std::string::npos && time.find_first_not_of(" 0123456789.") == std::string::npos;
}

bool is_kernel_line(const std::string& text) {
  if (text.find(" kernel: ") != std::string::npos) return true;
  const auto time = time_of(text);
  return time && (is_since_boot(*time) || is_date(*time));
}

/// The PCI function of "mlx5_core 0000:41:00.1: ..."; empty: the line names none.
std::string function_of(const std::string& text) {
  constexpr std::size_t kLength = 12;
  for (std::size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    if (colon < 4 || colon + kLength - 4 > text.size()) continue;
    const std::string word = text.substr(colon - 4, kLength);
    if (word[7] == ':' && word[10] == '.' && word.find_first_not_of("0123456789abcdef:.") == std::string::npos) {
      return word;
    }
  }
  return "";
}

/// "Port module event: module 1, Cable unplugged" (drivers/net/ethernet/mellanox/mlx5/core/events.c, port_module): the
/// driver prints it for an empty cage when it starts, and when a cable is pulled out.
void KernelLog::module_event(const Line& line, Case& found) {
  const std::string& text = line.text;
  const bool is_up = text.find("Link up") != std::string::npos || text.find("Cable plugged") != std::string::npos ||
                     text.find("NIC Link is Up") != std::string::npos;
  bool& had_link = had_link_[function_of(text)];
  if (text.find("Cable unplugged") != std::string::npos) {
    constexpr double kStart_s = 60;
    const auto time = time_of(text);
    const bool is_known = time && is_since_boot(*time);
    const bool is_later = is_known && leading_number(*time).value_or(0) > kStart_s;
    if (had_link || is_later || !is_known) {
      found.add_sign(CauseCode::kPortDown, had_link || is_later ? 0.75 : 0.45, "module unplugged",
                     "the transceiver or cable was pulled out", line);
    }
    found.add_fact("unplugged", function_of(text), line);
  }
  had_link = had_link || is_up;
  if (is_up) found.add_fact("link_up", text, line);
}

bool KernelLog::take(const Line& line, Case& found) {
  const std::string& text = line.text;
  const bool is_pcie = text.find("available PCIe bandwidth") != std::string::npos;
  if (!is_pcie && !is_kernel_line(text)) return false;
  // "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.0 (capable of 126.016 Gb/s
  // with 8.0 GT/s PCIe x16 link)": drivers/pci/pci.c, __pcie_print_link_status.
  if (is_pcie) {
    const std::size_t at = text.find(" Gb/s available PCIe bandwidth");
    const std::size_t begin = at == std::string::npos ? at : text.find_last_of(" \t", at - 1);
    const double has = at == std::string::npos
                           ? 0
                           : leading_number(text.substr(begin == std::string::npos ? 0 : begin + 1)).value_or(0);
    const double could = leading_number(between(text, "capable of ", " ").value_or("")).value_or(0);
    if (has > 0) found.add_fact("pcie_Gbps", has, line);
    if (could > 0) found.add_fact("pcie_capable_Gbps", could, line);
    // Each function of a Spark's port has four lanes of a card that could use sixteen.
    const bool is_spark = text.find("32.0 GT/s PCIe x4") != std::string::npos;
    if (has > 0 && could >= 1.9 * has && !is_spark && is_adapter(text)) {
      found.add_sign(CauseCode::kHalfRate, 0.65, "PCIe below",
                     "the PCIe link gives half of what the card could use, or less", line);
    }
  }
  module_event(line, found);
  return true;
}

}  // namespace

std::unique_ptr<LineReader> kernel_log_reader() { return std::make_unique<KernelLog>(); }

}  // namespace meshbed::testbed::diagnose
