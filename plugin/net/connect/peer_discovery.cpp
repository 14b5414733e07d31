#include "plugin/net/connect/peer_discovery.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "plugin/base/log.h"
#include "plugin/net/connect/cabling_agreement.h"
#include "plugin/net/connect/rank_announcement.h"
#include "plugin/net/link/process_links.h"

namespace meshbed::net {
namespace {

/// A process that left this many queries unanswered is gone, if the first of them is so old that even a busy machine
/// would have replied by now.
constexpr std::size_t kUnansweredMost = 4;
constexpr std::int64_t kAnswersLatestNs = 250'000'000;
/// Likewise for what it had in flight, which is out of date much sooner.
constexpr std::size_t kUnweighedMost = 2;
constexpr std::int64_t kLoadsLatestNs = 20'000'000;
/// A query of one cable asks for a neighbour's addresses (whereabouts.h); a relay needs at least two cables.
constexpr int kCablesOfRelay = 2;

Error datagram_error(const std::string& what, int error_number) {
  return {.code = ErrorCode::kSystem,
          .scope = Scope::kJob,
          .text = what + ": " + std::strerror(error_number),
          .os_errno = error_number};
}

/// Non-blocking, on every address; `port` 0: one that the system chooses, else one that is shared.
Result<Socket> open_datagrams(bool ipv6, std::uint16_t port) {
  Socket socket(::socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return datagram_error("no UDP socket", errno);
  const int on = 1, off = 0;
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
  if (port != 0) ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (ipv6) ::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  SocketAddress any;
  any.address.family = ipv6 ? Family::kIpv6 : Family::kIpv4;
  any.port = port;
  sockaddr_storage name{};
  const socklen_t length = to_sockaddr(any, name);
  if (::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&name), length) != 0) {
    return datagram_error("cannot use UDP port " + std::to_string(port) + " (NCCL_MESH_RELAY_PORT)", errno);
  }
  return socket;
}

/// Lost datagrams are sent again; the reason helps you find out why a chain does not appear.
void note_unsent(const IpAddress& to, int error_number) {
  MESHBED_LOG(LogLevel::kTrace, "discovery message to %s: %s", to_text(to).c_str(), std::strerror(error_number));
}

/// The address that reaches all neighbours on this subnet. nullopt: the subnet has a single address.
std::optional<IpAddress> everybody_on(const IpPrefix& prefix) {
  IpAddress address = prefix.address;
  if (address.family == Family::kIpv6) {
    address.bytes = {};
    address.bytes[0] = 0xff;  // ff02::1, all nodes of the link: RFC 4291
    address.bytes[1] = 0x02;
    address.bytes[15] = 0x01;
    return address;
  }
  if (prefix.length_bits >= 32) return std::nullopt;
  if (prefix.length_bits == 31) {  // two addresses, no broadcast: RFC 3021
    address.bytes[3] ^= 1U;
    return address;
  }
  for (unsigned bit = prefix.length_bits; bit < 32; ++bit) {
    address.bytes[bit / 8] = static_cast<std::uint8_t>(address.bytes[bit / 8] | (0x80U >> (bit % 8)));
  }
  return address;
}

template <typename Condition>
bool any_address(const std::vector<Nic>& nics, const Condition& condition) {
  return std::any_of(nics.begin(), nics.end(), [&](const Nic& nic) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(), condition);
  });
}

/// As a bit; the last one is shared.
std::uint64_t way_by(std::size_t nic) {
  constexpr std::size_t kWaysMost = 64;
  return std::uint64_t{1} << std::min(nic, kWaysMost - 1);
}

/// A discovery message's bytes, with their room.
struct Encoded {
  explicit Encoded(const DiscoveryMessage& discovery_message)
      : size(encode_discovery_message(discovery_message, buffer)) {}
  std::span<const std::uint8_t> bytes() const { return std::span<const std::uint8_t>(buffer).first(size); }
  std::array<std::uint8_t, kDiscoveryMessageLargestBytes> buffer{};
  std::size_t size;
};

}  // namespace

Result<void> PeerDiscovery::open(std::uint16_t circuit_port) {
  circuit_port_ = circuit_port;
  ipv6_ = has_ipv6(process_.nics());
  auto discovery_message =
      open_datagrams(ipv6_, static_cast<std::uint16_t>(process_.config().number(Variable::kRelayPort)));
  if (!discovery_message) return discovery_message.error();
  auto mail = open_datagrams(ipv6_, 0);
  if (!mail) return mail.error();
  discovery_message_ = std::move(*discovery_message);
  mail_ = std::move(*mail);
  return ok();
}

void PeerDiscovery::ask(int cables) {
  const std::uint64_t query = process_.random() | 1U;
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t now = now_ns();
    const auto asked_before = [this](std::size_t questions) {
      return asked_[(next_asked_ + asked_.size() - questions) % asked_.size()].asked_ns;
    };
    map_.forget_before(std::min(asked_before(kUnansweredMost), now - kAnswersLatestNs));
    map_.forget_loads_before(std::min(asked_before(kUnweighedMost), now - kLoadsLatestNs));
    asked_[next_asked_++ % asked_.size()] = {.query = query, .asked_ns = now};
  }
  const Encoded discovery_message({.type = DiscoveryMessageType::kQuery,
                                   .hop_limit = static_cast<std::uint8_t>(cables),
                                   .query = query,
                                   .node = process_.node(),
                                   .process = process_.number(),
                                   .addresses = {}});
  flood(discovery_message.bytes(), std::nullopt);
}

void PeerDiscovery::inquire(std::uint64_t session) {
  const std::uint64_t query = process_.random() | 1U;
  {
    const std::lock_guard lock(mutex_);
    auto known = std::find_if(inquiries_.begin(), inquiries_.end(),
                              [&](const Inquiry& inquiry) { return inquiry.session == session; });
    if (known == inquiries_.end()) known = inquiries_.insert(known, Inquiry{.session = session});
    known->query = query;
  }
  const Encoded discovery_message({.type = DiscoveryMessageType::kInquiry,
                                   .hop_limit = static_cast<std::uint8_t>(process_.config().max_relay_hops()),
                                   .query = query,
                                   .node = process_.node(),
                                   .addresses = {},
                                   .session = session});
  flood(discovery_message.bytes(), std::nullopt);
}

bool PeerDiscovery::is_found(std::uint64_t session) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(inquiries_.begin(), inquiries_.end(),
                     [&](const Inquiry& inquiry) { return inquiry.session == session && inquiry.found; });
}

void PeerDiscovery::end_inquiry(std::uint64_t session) {
  const std::lock_guard lock(mutex_);
  std::erase_if(inquiries_, [&](const Inquiry& inquiry) { return inquiry.session == session; });
}

void PeerDiscovery::leave() {
  {
    const std::lock_guard lock(mutex_);
    if (attendance_.is_empty()) return;
    left_ = true;
  }
  const Encoded departure({.type = DiscoveryMessageType::kLeave,
                           .hop_limit = static_cast<std::uint8_t>(process_.config().max_relay_hops()),
                           .query = process_.random() | 1U,
                           .node = process_.node(),
                           .process = process_.number(),
                           .addresses = {}});
  flood(departure.bytes(), std::nullopt);
}

void PeerDiscovery::come_back() {
  {
    const std::lock_guard lock(mutex_);
    if (!left_) return;
    left_ = false;
    attendance_.forget_present();
  }
  ask(process_.config().max_relay_hops());
}

bool PeerDiscovery::is_needed() {
  const std::uint64_t ways = open_ways();
  const std::lock_guard lock(mutex_);
  return attendance_.need_us(ways);
}

bool PeerDiscovery::advance(CablingAgreement& agreement) {
  bool any = false;
  for (const Socket* socket : {&discovery_message_, &mail_}) {
    for (;;) {
      std::array<std::uint8_t, kDiscoveryMessageLargestBytes + 1> buffer{};  // one more, so that a longer one shows
      sockaddr_storage name{};
      socklen_t length = sizeof name;
      const ssize_t count = ::recvfrom(socket->descriptor(), buffer.data(), buffer.size(), 0,
                                       reinterpret_cast<sockaddr*>(&name), &length);
      if (count < 0) break;
      any = true;
      const auto from = from_sockaddr(reinterpret_cast<const sockaddr*>(&name));
      if (from) take_in(std::span<const std::uint8_t>(buffer).first(static_cast<std::size_t>(count)), *from, agreement);
    }
  }
  return any;
}

void PeerDiscovery::take_in(std::span<const std::uint8_t> datagram, const SocketAddress& from,
                            CablingAgreement& agreement) {
  const bool neighbour =
      any_address(*process_.recent_nics(), [&](const IpPrefix& prefix) { return contains(prefix, from.address); });
  // Only cables count: datagrams from elsewhere, such as the management network, are dropped.
  if (!neighbour) return;
  if (const auto discovery_message = decode_discovery_message(datagram)) {
    if (goes_round(discovery_message->type)) {
      take_query(*discovery_message, from);
    } else {
      take_answer(*discovery_message, from);
    }
  } else if (const auto call = decode_announcement(datagram)) {
    agreement.take_in(*call, from);
  }
}

void PeerDiscovery::take_query(const DiscoveryMessage& query, const SocketAddress& from) {
  // Our own broadcasts come back to us, and reach the other processes of our node, which have loads to report.
  const bool of_our_node = query.node == process_.node();
  const bool of_sibling =
      of_our_node && query.type == DiscoveryMessageType::kQuery && query.process != process_.number();
  if ((of_our_node && !of_sibling) || query.hops >= query.hop_limit) return;
  // What our node passes on comes back likewise. It has arrived over a cable before, perhaps so many queries ago that
  // heard_ no longer holds it.
  const bool from_our_node =
      any_address(*process_.recent_nics(), [&](const IpPrefix& prefix) { return prefix.address == from.address; });
  if (from_our_node && !of_sibling) return;
  const std::uint64_t way = way_of(from);
  {
    const std::lock_guard lock(mutex_);
    note(query, way);
    const bool known =
        std::any_of(heard_.begin(), heard_.end(), [&](const Heard& heard) { return heard.query == query.query; });
    if (known) return;
    heard_[next_heard_++ % heard_.size()] = {query.query, from};
  }
  if (const auto answer = own_answer(query)) send(Encoded(*answer).bytes(), from);
  if (of_sibling) return;
  DiscoveryMessage onward = query;
  if (++onward.hops < onward.hop_limit) flood(Encoded(onward).bytes(), from.address);
}

void PeerDiscovery::take_answer(const DiscoveryMessage& answer, const SocketAddress& from) {
  const std::uint64_t way = way_of(from);
  std::optional<SocketAddress> onward;
  {
    const std::lock_guard lock(mutex_);
    const bool is_ours = take_own(answer);
    for (const Heard& heard : heard_) {
      if (heard.query == answer.query) onward = heard.asker;
    }
    if (is_ours || onward) note(answer, way);
    if (is_ours) return;
  }
  // A reply goes back at most as many hops as the query came. Without this bound it could circulate for ever between
  // two nodes that each remember the other one as the asker, which happens when heard_ has overflowed.
  if (!onward || answer.hops == 0) return;
  DiscoveryMessage handed_on = answer;
  --handed_on.hops;
  send(Encoded(handed_on).bytes(), *onward);
}

void PeerDiscovery::note(const DiscoveryMessage& message, std::uint64_t way) {
  if (message.hop_limit < kCablesOfRelay || message.node == process_.node()) return;
  const Attendance::Who who{.node = message.node, .process = message.process, .circuit_port = message.circuit_port};
  if (message.type == DiscoveryMessageType::kQuery) attendance_.asked(who, message.query, way);
  if (message.type == DiscoveryMessageType::kAnswer) attendance_.answered(who, way, message.addresses);
  if (message.type == DiscoveryMessageType::kLeave) attendance_.left(who);
}

std::uint64_t PeerDiscovery::way_of(const SocketAddress& from) {
  const auto nics = process_.recent_nics();
  for (std::size_t nic = 0; nic < nics->size(); ++nic) {
    const std::vector<IpPrefix>& addresses = (*nics)[nic].addresses;
    const bool is_on_cable = std::any_of(addresses.begin(), addresses.end(),
                                         [&](const IpPrefix& prefix) { return contains(prefix, from.address); });
    if (is_on_cable) return way_by(nic);
  }
  return 0;
}

std::uint64_t PeerDiscovery::open_ways() {
  const auto nics = process_.recent_nics();
  std::uint64_t ways = 0;
  for (std::size_t nic = 0; nic < nics->size(); ++nic) ways |= (*nics)[nic].link_up ? way_by(nic) : 0;
  return ways;
}

bool PeerDiscovery::take_own(const DiscoveryMessage& answer) {
  if (answer.type == DiscoveryMessageType::kFound) {
    for (Inquiry& inquiry : inquiries_) {
      if (inquiry.session != answer.session || inquiry.query != answer.query) continue;
      inquiry.found = true;
      return true;
    }
    return false;
  }
  const bool is_ours = std::any_of(asked_.begin(), asked_.end(),
                                   [&](const Question& question) { return question.query == answer.query; });
  if (!is_ours) return false;
  RelayDoor door{.process = answer.process,
                 .port = answer.circuit_port,
                 .traffic = {},
                 .heard_ns = now_ns(),
                 .addresses = answer.addresses};
  for (std::size_t at = 0; at < answer.addresses.size(); ++at) {
    door.traffic.push_back({answer.addresses[at].prefix.address, answer.in_flight_bytes[at]});
  }
  map_.add(answer.node, std::move(door));
  return true;
}

std::optional<DiscoveryMessage> PeerDiscovery::own_answer(const DiscoveryMessage& query) const {
  if (query.type == DiscoveryMessageType::kLeave) return std::nullopt;
  if (query.type == DiscoveryMessageType::kInquiry) {
    if (!process_.sessions().has_sender(query.session)) return std::nullopt;
    return DiscoveryMessage{.type = DiscoveryMessageType::kFound,
                            .hops = query.hops,
                            .hop_limit = query.hop_limit,
                            .query = query.query,
                            .node = process_.node(),
                            .addresses = {},
                            .session = query.session};
  }
  DiscoveryMessage answer{.type = DiscoveryMessageType::kAnswer,
                          .hops = query.hops,
                          .hop_limit = query.hop_limit,
                          .query = query.query,
                          .node = process_.node(),
                          .process = process_.number(),
                          .circuit_port = circuit_port_,
                          .addresses = own_addresses()};
  const std::vector<std::uint64_t> in_flight = process_.in_flight_bytes();
  for (const PeerAddress& address : answer.addresses) answer.in_flight_bytes.push_back(in_flight[address.nic]);
  return answer;
}

std::vector<PeerAddress> PeerDiscovery::own_addresses() const {
  std::vector<PeerAddress> addresses;
  const auto recent = process_.recent_nics();
  const std::vector<Nic>& nics = *recent;
  for (std::size_t nic = 0; nic < nics.size(); ++nic) {
    if (!nics[nic].link_up) continue;
    for (const IpPrefix& prefix : nics[nic].addresses) {
      addresses.push_back({.prefix = prefix, .nic = static_cast<std::uint8_t>(std::min<std::size_t>(nic, 127))});
    }
  }
  return addresses;
}

void PeerDiscovery::send(std::span<const std::uint8_t> datagram, const SocketAddress& to) {
  sockaddr_storage name{};
  socklen_t length = to_sockaddr(to, name);
  if (to.address.family == Family::kIpv4 && ipv6_) length = to_mapped_sockaddr(to, name);
  if (::sendto(mail_.descriptor(), datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&name),
               length) < 0)
    note_unsent(to.address, errno);
}

void PeerDiscovery::send_to_link(std::span<const std::uint8_t> datagram, const SocketAddress& to, const Nic& nic,
                                 const IpAddress& source) {
  sockaddr_storage name{};
  in6_pktinfo from{};
  from.ipi6_ifindex = ::if_nametoindex(nic.netdev.c_str());
  if (from.ipi6_ifindex == 0) return note_unsent(to.address, errno);  // it has gone since
  std::copy(source.bytes.begin(), source.bytes.end(), from.ipi6_addr.s6_addr);
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(sizeof from)> control{};
  iovec bytes{.iov_base = const_cast<std::uint8_t*>(datagram.data()), .iov_len = datagram.size()};
  msghdr message{};
  message.msg_namelen = to_sockaddr(to, name);
  message.msg_name = &name;
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = IPPROTO_IPV6;
  part->cmsg_type = IPV6_PKTINFO;
  part->cmsg_len = CMSG_LEN(sizeof from);
  std::memcpy(CMSG_DATA(part), &from, sizeof from);
  if (::sendmsg(mail_.descriptor(), &message, 0) < 0) note_unsent(to.address, errno);
}

void PeerDiscovery::flood(std::span<const std::uint8_t> datagram, const std::optional<IpAddress>& except) {
  const auto port = static_cast<std::uint16_t>(process_.config().number(Variable::kRelayPort));
  const auto nics = process_.recent_nics();
  std::vector<std::pair<IpAddress, std::string>> asked;  // a subnet once, however many addresses we have in it
  for (const Nic& nic : *nics) {
    if (!nic.link_up) continue;
    for (const IpPrefix& prefix : nic.addresses) {
      const auto everybody = everybody_on(prefix);
      if (!everybody || (except && contains(prefix, *except))) continue;
      const bool ipv6 = everybody->family == Family::kIpv6;
      std::pair once(*everybody, ipv6 ? nic.netdev + " " + subnet_text(prefix) : std::string());
      if (std::find(asked.begin(), asked.end(), once) != asked.end()) continue;
      asked.push_back(std::move(once));
      const SocketAddress to{.address = *everybody, .port = port};
      if (ipv6) {
        send_to_link(datagram, to, nic, prefix.address);
      } else {
        send(datagram, to);
      }
    }
  }
}

std::optional<std::vector<Hop>> PeerDiscovery::chain(const ChainRequest& request) const {
  const std::lock_guard lock(mutex_);
  return map_.chain(request);
}

std::optional<RelayDoor> PeerDiscovery::find(const ProcessKey& key) const {
  const std::lock_guard lock(mutex_);
  const RelayDoor* door = map_.door(key);
  return door == nullptr ? std::nullopt : std::optional(*door);
}

void PeerDiscovery::forget() {
  const std::lock_guard lock(mutex_);
  map_ = {};
}

bool PeerDiscovery::expects_more(std::int64_t since_ns, std::int64_t patience_ms) {
  const std::vector<PeerAddress> own = own_addresses();
  const bool too_late = now_ns() - since_ns > patience_ms * 1'000'000;
  bool more = false;
  const std::lock_guard lock(mutex_);
  for (const PeerAddress& port : own) {
    if (!everybody_on(port.prefix)) continue;
    const auto silent = std::find(silent_.begin(), silent_.end(), port.prefix);
    const bool on_the_map = has_neighbour(port);
    if (on_the_map && silent != silent_.end()) silent_.erase(silent);
    if (on_the_map || silent != silent_.end()) continue;
    if (too_late) silent_.push_back(port.prefix);
    more = more || !too_late;
  }
  return more;
}

bool PeerDiscovery::has_neighbour(const PeerAddress& port) const {
  return std::any_of(map_.nodes().begin(), map_.nodes().end(), [&](const NeighbourNode& known) {
    return known.node != process_.node() && known.is_on_cable_of(port);
  });
}

std::vector<Nic> PeerDiscovery::unanswered(std::vector<Nic> nics) const {
  const std::lock_guard lock(mutex_);
  for (Nic& nic : nics) {
    std::erase_if(nic.addresses,
                  [this](const IpPrefix& prefix) { return has_neighbour({.prefix = prefix, .nic = 0}); });
  }
  std::erase_if(nics, [](const Nic& nic) { return nic.addresses.empty(); });
  return nics;
}

std::size_t PeerDiscovery::known_nodes() const {
  const std::lock_guard lock(mutex_);
  const auto is_other = [this](const NeighbourNode& known) { return known.node != process_.node(); };
  return static_cast<std::size_t>(std::count_if(map_.nodes().begin(), map_.nodes().end(), is_other));
}

}  // namespace meshbed::net
