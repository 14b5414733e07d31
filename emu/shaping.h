#pragma once
// Shaping: what an emulated NIC does to the packets that it sends, as tc-netem(8) does it.

#include <cstdint>
#include <string>
#include <vector>

namespace meshbed::emu {

/// All 0: nothing.
struct Shaping {
  double loss = 0;     // fraction of the packets
  double reorder = 0;  // fraction that goes ahead of those that are delayed; needs delay_us
  double delay_us = 0;
  std::uint64_t rate_bps = 0;
};

/// The command for the guest: "tc qdisc replace dev eth0 root netem ...".
std::vector<std::string> shaping_command(const std::string& netdev, const Shaping& shaping);

}  // namespace meshbed::emu
