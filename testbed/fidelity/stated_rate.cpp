#include "testbed/fidelity/stated_rate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <regex>

namespace meshbed::testbed {
namespace {

/// `any`: "450G" is a rate, too; else that may be a memory.
std::optional<StatedRate> rate_in(const std::string& text, bool any) {
  // A capital B is bytes; "80GB" is a memory.
  static const std::regex expression(R"((?:^|[^0-9A-Za-z.])(?:([0-9]{1,2}) ?x ?)?([0-9]{1,4}(?:\.[0-9]{1,2})?) ?)"
                                     R"((Gb/s|Gbps|Gbit/s|Gbit|GbE|Gb|G|GB/s)(?![0-9A-Za-z/]))");
  constexpr std::array<double, 19> kRates{1,  2.5, 5,   10,  20,  25,  32,  40,   50,  56,
                                          80, 100, 120, 160, 200, 400, 800, 1600, 3200};
  for (auto match = std::sregex_iterator(text.begin(), text.end(), expression); match != std::sregex_iterator();
       ++match) {
    const std::string adapters = (*match)[1], unit = (*match)[3];
    double gbits = std::stod((*match)[2]);
    if (unit == "GB/s") gbits *= kGbitsOfGByte;
    const bool is_known = std::find(kRates.begin(), kRates.end(), gbits) != kRates.end();
    if (gbits <= 0 || (unit == "G" && !any && !is_known && adapters.empty())) continue;
    StatedRate rate{.adapters = adapters.empty() ? 1 : std::stod(adapters),
                    .each_GBps = gbits / kGbitsOfGByte,
                    .counted = !adapters.empty(),
                    .one_per_gpu = false,
                    .source = match->str()};
    rate.source.erase(0, rate.source.find_first_not_of(" ,;:("));
    if (rate.adapters >= 1) return rate;
  }
  return std::nullopt;
}

struct NamedRate {
  const char* word;  // in lower case, without hyphens
  double gbits;
  double adapters = 0;  // of a node; 0: one for each GPU
};
/// Data sheets of NVIDIA, Broadcom and AMD; AWS's pages of instance types. The longest name first.
constexpr std::array<NamedRate, 29> kNamed{{{"p5.48xlarge", 100, 32},
                                            {"p4d.24xlarge", 100, 4},
                                            {"p4de.24xlarge", 100, 4},
                                            {"dgx spark", 200, 1},
                                            {"gb10", 200, 1},
                                            {"connectx8", 800},
                                            {"cx8", 800},
                                            {"connectx7", 400},
                                            {"cx7", 400},
                                            {"connectx6", 200},
                                            {"cx6", 200},
                                            {"connectx5", 100},
                                            {"cx5", 100},
                                            {"connectx4", 100},
                                            {"cx4", 100},
                                            {"bluefield3", 400},
                                            {"bf3", 400},
                                            {"thor2", 400},
                                            {"thor 2", 400},
                                            {"pollara", 400},
                                            {"ndr200", 200},
                                            {"hdr100", 100},
                                            {"hdr200", 200},
                                            {"xdr", 800},
                                            {"ndr", 400},
                                            {"hdr", 200},
                                            {"edr", 100},
                                            {"fdr", 56},
                                            {"qdr", 32}}};

/// Whether the word stands in the text by itself.
bool has_word(const std::string& text, const std::string& word) {
  const auto is_part = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + word.size())) return true;
  }
  return false;
}

std::optional<StatedRate> named_in(const std::string& text) {
  std::string plain;  // names of adapters are written with and without hyphens
  for (const char letter : text) {
    if (letter != '-') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  }
  for (const NamedRate& each : kNamed) {
    if (!has_word(plain, each.word)) continue;
    return StatedRate{.adapters = std::max(each.adapters, 1.0),
                      .each_GBps = each.gbits / kGbitsOfGByte,
                      .counted = each.adapters > 1,
                      .one_per_gpu = each.adapters == 0,
                      .source = each.word};
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
  rate.each_GBps = std::stod(number) / (number.find("GB/s") == std::string::npos ? kGbitsOfGByte : 1);
  rate.source = "--rate " + text;
  if (rate.adapters < 1 || rate.each_GBps <= 0) return std::nullopt;
  return rate;
}

std::optional<StatedRate> stated_rate(const std::string& topology_class, const std::string& set_up) {
  if (auto rate = rate_in(topology_class, /*any=*/true)) return rate;
  if (auto named = named_in(topology_class)) return named;
  if (auto rate = rate_in(set_up, /*any=*/false)) return rate;
  return named_in(set_up);
}

}  // namespace meshbed::testbed
