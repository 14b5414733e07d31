// What several readers need, and which of them a part is for.

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "testbed/base/words.h"
#include "testbed/import/read/readers.h"

namespace meshbed::testbed::hosts {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return text;
}

std::optional<std::uint64_t> parse_digits(std::string_view text, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size() || value > most) return std::nullopt;
  return value;
}

std::optional<models::RawGid> parse_gid(const std::string& text) {
  const std::optional<IpAddress> address = parse_ip_address(text);
  if (!address || address->family != Family::kIpv6) return std::nullopt;
  return address->bytes;
}

std::string pci_address(const std::string& text) {
  std::string all = lower(text);
  const auto colons = std::count(all.begin(), all.end(), ':');
  if (colons == 1) all = "0000:" + all;
  const std::size_t colon = all.find(':');
  if (colons > 2 || colon == std::string::npos || colon > 8) return "";
  if (colon > 4) all.erase(0, colon - 4);  // NVML writes a domain of eight digits
  const auto is_hex = [](char digit) { return std::isxdigit(static_cast<unsigned char>(digit)) != 0; };
  if (all.size() != 12 || all[4] != ':' || all[7] != ':' || all[10] != '.') return "";
  for (const std::size_t at : {0, 1, 2, 3, 5, 6, 8, 9, 11}) {
    if (!is_hex(all[at])) return "";
  }
  return all;
}

int pcie_generation(double gigatransfers) {
  constexpr std::array<double, 6> kRates{2.5, 5, 8, 16, 32, 64};
  for (std::size_t index = 0; index < kRates.size(); ++index) {
    if (std::abs(kRates[index] - gigatransfers) < 0.1) return static_cast<int>(index) + 1;
  }
  return 0;
}

void take_bond_option(NicFacts& bond, const std::string& name, const std::string& value, const std::string& source,
                      Origin origin) {
  std::string option = lower(name);
  option.erase(std::remove_if(option.begin(), option.end(), [](char letter) { return letter == '-' || letter == '_'; }),
               option.end());
  if (option.rfind("bond", 0) == 0) option.erase(0, 4);  // ifupdown's bond-mode
  std::string said = lower(value);
  if (said.empty() || said == "none" || said == "(null)") return;
  // Documentation/networking/bonding.rst: both are taken by number, too.
  constexpr std::array<const char*, 7> kModes{"balance-rr", "active-backup", "balance-xor", "broadcast",
                                              "802.3ad",    "balance-tlb",   "balance-alb"};
  constexpr std::array<const char*, 6> kPolicies{"layer2",   "layer3+4", "layer2+3",
                                                 "encap2+3", "encap3+4", "vlan+srcmac"};
  if (option == "mode") {
    if (const auto number = parse_digits(said, kModes.size() - 1)) said = kModes.at(*number);
    bond.bond_mode.offer(said, source, origin);
  } else if (option == "xmithashpolicy" || option == "transmithashpolicy") {
    if (const auto number = parse_digits(said, kPolicies.size() - 1)) said = kPolicies.at(*number);
    bond.bond_hash.offer(said, source, origin);
  } else if (option == "activeslave" || option == "primary" || option == "primaryslave") {
    // What is active counts more than what was to be.
    const bool is_active = option == "activeslave";
    bond.bond_active.offer(value, source, is_active ? origin : Origin::kConfigured);
  }
}

void take_bond_default(NicFacts& bond, const std::string& source) {
  if (!bond.bond_mode.known()) bond.bond_mode.offer("balance-rr", source, Origin::kConfigured);
}

void add_address(NicFacts& nic, const std::string& text, const std::string& source, bool is_dynamic) {
  const std::optional<IpPrefix> prefix = parse_prefix(text);
  // fe80:: is on every interface. 169.254.0.0/16 is an address that netplan was asked for, as on two Sparks on one
  // cable.
  if (!prefix || (prefix->address.family == Family::kIpv6 && is_link_local(prefix->address))) return;
  const auto same = std::find_if(nic.addresses.begin(), nic.addresses.end(),
                                 [&](const AddressFact& known) { return known.prefix == *prefix; });
  if (same == nic.addresses.end()) nic.addresses.push_back({*prefix, source, is_dynamic});
}

bool read_part(const Part& part, Reading& into) {
  const std::size_t first = part.text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return false;
  const auto ends = [&](std::string_view tail) {
    return part.name.size() >= tail.size() && part.name.compare(part.name.size() - tail.size(), tail.size(), tail) == 0;
  };
  if (ends(".yaml") || ends(".yml")) return read_yaml(part, into);
  const bool is_connection = part.name.find("system-connections/") != std::string::npos;
  if (ends(".nmconnection") || ends(".network") || ends(".netdev") || is_connection) return read_key_file(part, into);
  const char letter = part.text[first];
  if (ends(".xml") || (letter == '<' && part.text.compare(first, 2, "<<") != 0)) return read_xml(part, into);
  // "[0] NCCL INFO" is no JSON, and neither is "{" of a configuration file.
  if (ends(".json") || part.text.compare(first, 2, "[{") == 0 || part.text.compare(first, 2, "{\"") == 0) {
    return read_json(part, into);
  }
  if (read_lines(part, into)) return true;
  // YAML without its ending: a key of one of those formats at the start of a line.
  for (const char* key : {"network:", "topology:", "instances:", "infrastructure:"}) {
    const std::size_t found = part.text.find(key);
    const bool starts_line = found != std::string::npos && (found == 0 || part.text[found - 1] == '\n');
    if (starts_line) return read_yaml(part, into);
  }
  return false;
}

bool read_lines(const Part& part, Reading& into) {
  std::vector<std::unique_ptr<LineReader>> readers = ip_readers(into.host);
  for (auto& more : {verbs_readers, machine_readers}) {
    for (auto& reader : more(into.host)) readers.push_back(std::move(reader));
  }
  bool knew = false;
  std::size_t at = 0, number = 0;
  while (at < part.text.size()) {
    const std::size_t end = std::min(part.text.find('\n', at), part.text.size());
    std::string line = part.text.substr(at, end - at);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    at = end + 1;
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) continue;
    const std::string source = part.path + ":" + std::to_string(number);
    const auto taker = std::find_if(readers.begin(), readers.end(),
                                    [&](const auto& reader) { return reader->take(line, words, source); });
    knew = knew || taker != readers.end();
    if (line[0] == ' ' || line[0] == '\t') continue;
    for (auto other = readers.begin(); other != readers.end(); ++other) {
      if (other != taker) (*other)->end_block();
    }
  }
  for (const auto& reader : readers) reader->end_block();
  return knew;
}

}  // namespace meshbed::testbed::hosts
