#include "plugin/net/process/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace meshbed::net {
namespace {

bool equal_bits(const IpAddress& left, const IpAddress& right, unsigned bits) {
  for (unsigned at = 0; at < bits; at += 8) {
    const unsigned rest = std::min(8U, bits - at);
    const unsigned mask = (0xff00U >> rest) & 0xffU;
    if (((left.bytes[at / 8] ^ right.bytes[at / 8]) & mask) != 0) return false;
  }
  return true;
}

}  // namespace

unsigned address_bits(Family family) { return family == Family::kIpv4 ? 32 : 128; }

bool contains(const IpPrefix& prefix, const IpAddress& address) {
  if (prefix.address.family != address.family || prefix.length_bits > address_bits(address.family)) return false;
  return equal_bits(prefix.address, address, prefix.length_bits);
}

std::optional<unsigned> shared_bits(const IpPrefix& left, const IpPrefix& right) {
  if (!contains(left, right.address) || !contains(right, left.address)) return std::nullopt;
  return std::min(left.length_bits, right.length_bits);
}

bool is_link_local(const IpAddress& address) {
  if (address.family == Family::kIpv4) return address.bytes[0] == 169 && address.bytes[1] == 254;
  return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0U) == 0x80;
}

std::optional<IpPrefix> parse_prefix(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string address(text.substr(0, slash));
  const bool ipv6 = address.find(':') != std::string::npos;
  IpPrefix prefix;
  prefix.address.family = ipv6 ? Family::kIpv6 : Family::kIpv4;
  if (::inet_pton(ipv6 ? AF_INET6 : AF_INET, address.c_str(), prefix.address.bytes.data()) != 1) return std::nullopt;
  const std::string_view length = text.substr(slash + 1);
  const auto [stop, error] = std::from_chars(length.data(), length.data() + length.size(), prefix.length_bits);
  const bool whole = error == std::errc() && stop == length.data() + length.size();
  if (!whole || prefix.length_bits > address_bits(prefix.address.family)) return std::nullopt;
  return prefix;
}

std::string to_text(const IpPrefix& prefix) {
  return to_text(prefix.address) + "/" + std::to_string(prefix.length_bits);
}

std::string subnet_text(const IpPrefix& prefix) {
  IpPrefix subnet = prefix;
  for (unsigned bit = prefix.length_bits; bit < address_bits(prefix.address.family); ++bit) {
    subnet.address.bytes[bit / 8] &= static_cast<std::uint8_t>(~(0x80U >> (bit % 8)));
  }
  return to_text(subnet);
}

}  // namespace meshbed::net
