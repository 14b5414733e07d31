#include "testbed/fidelity/stated_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <regex>

namespace meshbed::testbed {
namespace {

constexpr double kBitsOfByte = 8;

std::optional<StatedRate> rate_in(const std::string& text) {
  // A capital B is bytes; "80GB" is a memory.
  static const std::regex expression(R"((?:^|[^0-9A-Za-z.])(?:([0-9]{1,2}) ?x ?)?([0-9]{1,4}(?:\.[0-9]{1,2})?) ?)"
                                     R"((Gb/s|Gbps|Gbit/s|Gbit|GbE|G|GB/s)(?![0-9A-Za-z/]))");
  constexpr std::array<double, 19> kRates{1,  2.5, 5,   10,  20,  25,  32,  40,   50,  56,
                                          80, 100, 120, 160, 200, 400, 800, 1600, 3200};
  for (auto match = std::sregex_iterator(text.begin(), text.end(), expression); match != std::sregex_iterator();
       ++match) {
    const std::string adapters = (*match)[1], unit = (*match)[3];
    double gbits = std::stod((*match)[2]);
    if (unit == "GB/s") gbits *= kBitsOfByte;
    const bool is_known = std::find(kRates.begin(), kRates.end(), gbits) != kRates.end();
    if (gbits <= 0 || (unit == "G" && !is_known)) continue;
    StatedRate rate{.adapters = adapters.empty() ? 1 : std::stod(adapters),
                    .each_GBps = gbits / kBitsOfByte,
                    .source = match->str()};
    rate.source.erase(0, rate.source.find_first_not_of(" ,;:("));
    if (rate.adapters >= 1) return rate;
  }
  return std::nullopt;
}

struct NamedRate {
  const char* word;
  double adapters, gbits;
};
constexpr std::array<NamedRate, 17> kNamed{{{"NDR200", 1, 200},
                                            {"HDR100", 1, 100},
                                            {"HDR200", 1, 200},
                                            {"XDR", 1, 800},
                                            {"NDR", 1, 400},
                                            {"HDR", 1, 200},
                                            {"EDR", 1, 100},
                                            {"FDR", 1, 56},
                                            {"QDR", 1, 32},
                                            {"GB10", 1, 200},
                                            {"DGX Spark", 1, 200},
                                            {"p5.48xlarge", 32, 100},
                                            {"p4d.24xlarge", 4, 100},
                                            {"p4de.24xlarge", 4, 100},
                                            {"Pollara", 1, 400},
                                            {"Thor2", 1, 400},
                                            {"Thor 2", 1, 400}}};

std::optional<StatedRate> named_in(const std::string& text) {
  for (const NamedRate& each : kNamed) {
    if (text.find(each.word) == std::string::npos) continue;
    return StatedRate{.adapters = each.adapters, .each_GBps = each.gbits / kBitsOfByte, .source = each.word};
  }
  return std::nullopt;
}

}  // namespace

std::optional<StatedRate> parse_rate(const std::string& text) {
  static const std::regex whole(
      R"((?:([0-9]{1,2})x)?[0-9]{1,4}(?:\.[0-9]{1,3})? ?(?:Gb/s|Gbps|Gbit/s|Gbit|GbE|G|GB/s))");
  if (!std::regex_match(text, whole)) return std::nullopt;
  StatedRate rate;
  const auto times = text.find('x');
  const std::string number = times == std::string::npos ? text : text.substr(times + 1);
  if (times != std::string::npos) rate.adapters = std::stod(text.substr(0, times));
  rate.each_GBps = std::stod(number) / (number.find("GB/s") == std::string::npos ? kBitsOfByte : 1);
  rate.source = "--rate " + text;
  if (rate.adapters < 1 || rate.each_GBps <= 0) return std::nullopt;
  return rate;
}

std::optional<StatedRate> stated_rate(const MeasuredFile& file) {
  for (const std::string& text : {file.topology_class, file.set_up}) {
    if (auto rate = rate_in(text)) return rate;
    if (auto named = named_in(text)) return named;
  }
  return std::nullopt;
}

}  // namespace meshbed::testbed
