// dmesg: "[  123.456789] mlx5_core 0000:01:00.0: ..." and the same behind the time and host of journalctl.

#include <algorithm>

#include "testbed/diagnose/read/read.h"

namespace meshbed::testbed::diagnose {
namespace {

class KernelLog final : public LineReader {
 public:
  const char* format() const override { return "kernel log"; }
  bool take(const Line& line, Case& found) override;
};

bool is_kernel_line(const std::string& text) {
  if (text.find(" kernel: ") != std::string::npos) return true;
  if (text.empty() || text[0] != '[') return false;
  const std::size_t end = text.find(']');
  if (end == std::string::npos || end < 3) return false;
  const std::string time = text.substr(1, end - 1);
  return time.find('.') != std::string::npos && time.find_first_not_of(" 0123456789.") == std::string::npos;
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
    if (has > 0 && could >= 1.9 * has && !is_spark) {
      found.add_sign(CauseCode::kHalfRate, 0.65, "PCIe below",
                     "the PCIe link gives half of what the card could use, or less", line);
    }
  }
  if (text.find("Link up") != std::string::npos || text.find("NIC Link is Up") != std::string::npos) {
    found.add_fact("link_up", text, line);
  }
  return true;
}

}  // namespace

std::unique_ptr<LineReader> kernel_log_reader() { return std::make_unique<KernelLog>(); }

}  // namespace meshbed::testbed::diagnose
