#include "models/cluster.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace meshbed::models {
namespace {

int address_bits(IpFamily family) { return family == IpFamily::kIpv4 ? 32 : 128; }

/// True where the first `length_bits` bits of the two are equal; families must be equal.
bool share_bits(const IpAddress& left, const IpAddress& right, unsigned length_bits) {
  const unsigned whole = length_bits / 8U;
  if (!std::equal(left.bytes.begin(), left.bytes.begin() + whole, right.bytes.begin())) return false;
  const unsigned rest = length_bits % 8U;
  if (rest == 0) return true;
  return ((left.bytes[whole] ^ right.bytes[whole]) >> (8U - rest)) == 0;
}

Error bad_text(std::string text) { return Error{ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }

/// "'TEXT' is not ...", where text from a file may hold anything: a long one is cut.
std::string quoted(const std::string& text) {
  return "'" + (text.size() > 60 ? text.substr(0, 60) + "..." : text) + "'";
}

}  // namespace

Result<IpAddress> parse_ip(const std::string& text) {
  IpAddress address;
  // inet_pton reads up to a NUL; text behind one would be dropped in silence.
  const bool one_word = text.find('\0') == std::string::npos;
  if (one_word && inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) return address;
  address.family = IpFamily::kIpv6;
  if (one_word && inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) return address;
  return bad_text(quoted(text) + " is not an IPv4 or IPv6 address");
}

Result<IpPrefix> parse_prefix(const std::string& text) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) return bad_text(quoted(text) + " has no prefix length; write ADDRESS/LENGTH");
  auto address = parse_ip(text.substr(0, slash));
  if (!address) return address.error();
  const char* const end = text.data() + text.size();
  unsigned length_bits = 0;
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, length_bits);
  if (error != std::errc() || stop != end) {
    return bad_text(quoted(text) + " has a prefix length that is not a number");
  }
  const int bits = address_bits(address->family);
  if (length_bits > static_cast<unsigned>(bits)) {
    return bad_text(quoted(text) + " has a prefix length over " + std::to_string(bits));
  }
  return IpPrefix{*address, static_cast<std::uint8_t>(length_bits)};
}

std::string to_string(const IpAddress& address) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(address.family == IpFamily::kIpv4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
}

std::string to_string(const IpPrefix& prefix) {
  return to_string(prefix.address) + "/" + std::to_string(prefix.length_bits);
}

std::string subnet_string(const IpPrefix& prefix) {
  IpAddress network = prefix.address;
  for (unsigned byte = 0; byte < network.bytes.size(); ++byte) {
    const unsigned first_bit = byte * 8;
    if (first_bit >= prefix.length_bits) {
      network.bytes[byte] = 0;
    } else if (prefix.length_bits - first_bit < 8) {
      network.bytes[byte] &= static_cast<std::uint8_t>(0xff00U >> (prefix.length_bits - first_bit));
    }
  }
  return to_string(network) + "/" + std::to_string(prefix.length_bits);
}

bool contains(const IpPrefix& prefix, const IpAddress& address) {
  return prefix.address.family == address.family && share_bits(prefix.address, address, prefix.length_bits);
}

bool is_ipv4_link_local(const IpAddress& address) {
  return address.family == IpFamily::kIpv4 && address.bytes[0] == 169 && address.bytes[1] == 254;
}

bool same_subnet(const IpPrefix& left, const IpPrefix& right) {
  return left.length_bits == right.length_bits && contains(left, right.address);
}

bool overlaps(const IpPrefix& left, const IpPrefix& right) {
  if (left.length_bits == right.length_bits) return false;
  return left.length_bits < right.length_bits ? contains(left, right.address) : contains(right, left.address);
}

RawGid gid_of(const IpAddress& address) {
  if (address.family == IpFamily::kIpv6) return address.bytes;
  RawGid gid{};
  gid[10] = gid[11] = 0xff;
  std::copy_n(address.bytes.begin(), 4, gid.begin() + 12);
  return gid;
}

std::uint32_t rdma_mtu_bytes(std::uint32_t netdev_mtu_bytes) {
  for (std::uint32_t mtu_bytes = 4096; mtu_bytes >= 256; mtu_bytes /= 2) {
    if (netdev_mtu_bytes >= mtu_bytes + kRdmaHeadersMostBytes) return mtu_bytes;
  }
  return 0;
}

}  // namespace meshbed::models
