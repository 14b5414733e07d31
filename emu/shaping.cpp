#include "emu/shaping.h"

#include <fmt/format.h>

#include <utility>

namespace meshbed::emu {
namespace {

// Packets that netem holds back at most; its default of 1000 would drop those of one large message.
constexpr int kQueuePackets = 1'000'000;

}  // namespace

std::vector<std::string> shaping_command(const std::string& netdev, const Shaping& shaping) {
  // Replaced in any case: netem without options passes everything on, and deleting a queue drops what is in it.
  std::vector<std::string> words{
      "tc", "qdisc", "replace", "dev", netdev, "root", "netem", "limit", std::to_string(kQueuePackets)};
  const auto add = [&](const char* what, std::string value) {
    words.emplace_back(what);
    words.push_back(std::move(value));
  };
  if (shaping.delay_us > 0) add("delay", fmt::format("{:.3f}us", shaping.delay_us));
  if (shaping.loss > 0) add("loss", fmt::format("{:.6f}%", shaping.loss * 100));
  if (shaping.reorder > 0) add("reorder", fmt::format("{:.6f}%", shaping.reorder * 100));
  if (shaping.rate_bps > 0) add("rate", fmt::format("{}bit", shaping.rate_bps));
  return words;
}

}  // namespace meshbed::emu
