#include "models/cluster.h"

#include <algorithm>
#include <charconv>

namespace meshbed::models {
namespace {

Error bad_text(std::string text) { return Error{ErrorCode::kInvalidArgument, Scope::kJob, std::move(text)}; }

/// "'TEXT' is not ...", where text from a file may hold anything: a long one is cut.
std::string quoted(const std::string& text) {
  return "'" + (text.size() > 60 ? text.substr(0, 60) + "..." : text) + "'";
}

}  // namespace

Result<IpAddress> parse_ip(const std::string& text) {
  if (const auto address = parse_ip_address(text)) return *address;
  return bad_text(quoted(text) + " is not an IPv4 or IPv6 address");
}

Result<IpPrefix> read_prefix(const std::string& text) {
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
  const unsigned bits = address_bits(address->family);
  if (length_bits > bits) {
    return bad_text(quoted(text) + " has a prefix length over " + std::to_string(bits));
  }
  return IpPrefix{*address, static_cast<std::uint8_t>(length_bits)};
}

bool is_ipv4_link_local(const IpAddress& address) { return address.family == Family::kIpv4 && is_link_local(address); }

bool same_subnet(const IpPrefix& left, const IpPrefix& right) {
  return left.length_bits == right.length_bits && contains(left, right.address);
}

bool overlaps(const IpPrefix& left, const IpPrefix& right) {
  if (left.length_bits == right.length_bits) return false;
  return left.length_bits < right.length_bits ? contains(left, right.address) : contains(right, left.address);
}

std::uint32_t rdma_mtu_bytes(std::uint32_t netdev_mtu_bytes) {
  for (std::uint32_t mtu_bytes = 4096; mtu_bytes >= 256; mtu_bytes /= 2) {
    if (netdev_mtu_bytes >= mtu_bytes + kRdmaHeadersMostBytes) return mtu_bytes;
  }
  return 0;
}

}  // namespace meshbed::models
