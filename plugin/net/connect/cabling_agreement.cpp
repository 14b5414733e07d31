#include "plugin/net/connect/cabling_agreement.h"

#include <poll.h>

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/link/process_links.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
/// Announcements are repeated after this pause, which then doubles: others start later, and datagrams get lost.
constexpr std::int64_t kFirstPause = 20 * kMillisecond, kLongestPause = 500 * kMillisecond;
/// Replies to new announcements are gathered for this long.
constexpr std::int64_t kAnswerPause = 2 * kMillisecond;
constexpr int kLookPauseMs = 1;
/// The pause of a rank that has waited kLongWait for a late rank.
constexpr int kLongLookPauseMs = 5;
constexpr std::int64_t kLongWait = 1000 * kMillisecond;
/// A process that is coming announces it once for all announcements that arrive within this time.
constexpr std::int64_t kComingPause = 200 * kMillisecond;
/// Longest wait for a node that does not announce itself as coming; about ten of our announcements reach it.
constexpr std::int64_t kSilentMs = 5'000;
/// Wait for the others' votes after a yes: far beyond the delay that loss or a busy node can cause.
constexpr std::int64_t kPromiseMs = 10'000;
/// Wait in doubt for processes that may have agreed: at least kDoubtMs, and kDoubtBeyondFailoverMs longer than
/// connections survive a silence (NCCL_MESH_FAILOVER_TIMEOUT_SEC). A process that is silent for longer has lost its
/// connections to us.
constexpr std::int64_t kDoubtMs = 20'000, kDoubtBeyondFailoverMs = 10'000;
/// How long a decided rank helps others to decide before it goes on; afterwards its service thread does so.
constexpr std::int64_t kAgreementLingerMs = 1000;
/// Agreements that are over and still replied to.
constexpr std::size_t kRemembered = 64;

}  // namespace

CablingAgreement::Entry* CablingAgreement::find(const AgreementKey& key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry->book.key() == key; });
  return found == entries_.end() ? nullptr : found->get();
}

CablingAgreement::Entry& CablingAgreement::entry_for(const AgreementKey& key) {
  if (Entry* known = find(key)) return *known;
  if (entries_.size() >= kRemembered) {
    const auto oldest_of = [this](bool coming) {
      return std::find_if(entries_.begin(), entries_.end(), [coming](const auto& one) {
        return one->waiting == 0 && (!coming || one->book.stand() == Stand::kComing);
      });
    };
    // Decided agreements are kept as long as possible.
    auto oldest = oldest_of(true);
    if (oldest == entries_.end()) oldest = oldest_of(false);
    if (oldest != entries_.end()) entries_.erase(oldest);
  }
  RankAnnouncement own{.key = key,
                       .node = process_.node(),
                       .process = process_.number(),
                       .rules = kTunerRules,
                       .hop_limit = static_cast<std::uint8_t>(process_.config().max_relay_hops()),
                       .addresses = discovery_.own_addresses()};
  entries_.push_back(std::make_unique<Entry>(std::move(own)));
  return *entries_.back();
}

bool CablingAgreement::expects(const AgreementKey& key) const {
  const Config& config = process_.config();
  return config.number(Variable::kTunerTimeoutMs) != 0 && is_our_tuner(config.text(Variable::kTunerPlugin)) &&
         process_.has_context_of(key.communicator);
}

CablingAgreement::Entry* CablingAgreement::begin_coming(const RankAnnouncement& heard) {
  const bool waits = !heard.done && heard.stand != Stand::kComing && heard.stand != Stand::kNo;
  if (!waits || !expects(heard.key)) return nullptr;
  const bool full = entries_.size() >= kRemembered &&
                    std::none_of(entries_.begin(), entries_.end(),
                                 [](const auto& one) { return one->book.stand() == Stand::kComing; });
  return full ? nullptr : &entry_for(heard.key);
}

void CablingAgreement::join(Entry& entry) {
  if (entry.book.stand() == Stand::kComing) {
    const std::int64_t patience_ms = process_.config().number(Variable::kTunerTimeoutMs);
    entry.vote = Deadline::after_ms_or_never(patience_ms);
    entry.silence = Deadline::after_ms_or_never(std::min(patience_ms, kSilentMs));
    entry.book.set_addresses(discovery_.own_addresses());
  }
  if (entry.book.stand() == Stand::kComing || entry.book.stand() == Stand::kHere) entry.book.join();
  speak_up(entry);
}

std::optional<Mesh> CablingAgreement::take_part(const AgreementKey& key) {
  std::unique_lock lock(mutex_);
  Entry& entry = entry_for(key);
  join(entry);
  ++entry.waiting;
  Wait wait;
  const std::int64_t begun_ns = now_ns();
  for (bool over = false; !over;) {
    over = look(entry, wait);
    const std::optional<RankAnnouncement> words = due(entry);
    lock.unlock();
    if (words) call(*words);
    if (!over) ::poll(nullptr, 0, now_ns() - begun_ns < kLongWait ? kLookPauseMs : kLongLookPauseMs);
    lock.lock();
  }
  --entry.waiting;
  return wait.result;
}

void CablingAgreement::step(Entry& entry) const {
  AgreementBook& book = entry.book;
  const bool nobody_comes = entry.silence.passed() && !book.is_somebody_coming(now_ns() - kSilentMs * kMillisecond);
  book.look(entry.vote.passed() || nobody_comes);
  if (book.stand() == Stand::kYes && !entry.promise.is_set()) entry.promise = Deadline::after_ms_or_never(kPromiseMs);
  if (entry.promise.passed()) book.doubt();
  if (book.stand() == Stand::kDoubt && !entry.doubt.is_set()) {
    const std::int64_t failover_ms = process_.config().number(Variable::kFailoverTimeoutSec) * 1000;
    entry.doubt = Deadline::after_ms_or_never(std::max(kDoubtMs, failover_ms + kDoubtBeyondFailoverMs));
  }
  if (entry.doubt.passed()) book.give_up();
  if (std::exchange(entry.said, book.stand()) != book.stand()) speak_up(entry);
}

bool CablingAgreement::look(Entry& entry, Wait& wait) const {
  AgreementBook& book = entry.book;
  step(entry);
  switch (book.outcome()) {
    case Outcome::kOpen:
      return false;
    case Outcome::kNone:
      tell(entry);
      break;
    case Outcome::kAgreed:
      if (wait.result) return book.everybody_done() || wait.linger.passed();
      wait.result = book.mesh();
      wait.linger = Deadline::after_ms_or_never(kAgreementLingerMs);
      break;
  }
  // Decided. A rank that declined returns now; one that agreed first helps the others to learn of it.
  book.set_done();
  speak_up(entry);
  return book.outcome() == Outcome::kNone;
}

void CablingAgreement::speak_up(Entry& entry) {
  entry.next_call_ns = now_ns();
  entry.pause_ns = kFirstPause;
}

std::optional<RankAnnouncement> CablingAgreement::due(Entry& entry) {
  const std::int64_t now = now_ns();
  if (now < entry.next_call_ns) return std::nullopt;
  entry.last_call_ns = now;
  entry.next_call_ns = now + entry.pause_ns;
  entry.pause_ns = std::min(2 * entry.pause_ns, kLongestPause);
  return entry.book.speak();
}

void CablingAgreement::call(const RankAnnouncement& call, const std::optional<IpAddress>& except) {
  std::array<std::uint8_t, kDiscoveryMessageLargestBytes> buffer{};
  discovery_.flood(std::span<const std::uint8_t>(buffer).first(encode_announcement(call, buffer)), except);
}

void CablingAgreement::take_in(const RankAnnouncement& heard, const SocketAddress& from) {
  if (heard.node == process_.node() && heard.process == process_.number()) return;
  std::optional<RankAnnouncement> answer;
  {
    const std::lock_guard lock(mutex_);
    if (!note(heard)) return;
    Entry* entry = find(heard.key);
    if (entry == nullptr) entry = begin_coming(heard);
    if (entry != nullptr && entry->book.hear(heard, now_ns())) {
      if (entry->book.stand() == Stand::kComing) {
        entry->next_call_ns = entry->last_call_ns + kComingPause;
      } else {
        entry->next_call_ns = std::min(entry->next_call_ns, std::max(now_ns(), entry->last_call_ns + kAnswerPause));
      }
      // A rank that waits in take_part() sends its own announcements. If the communicator ended first, none will join.
      const bool gone = entry->book.stand() == Stand::kComing && !expects(heard.key);
      if (entry->waiting == 0 && !gone) answer = due(*entry);
    }
  }
  if (answer) call(*answer);
  RankAnnouncement onward = heard;
  if (++onward.hops >= onward.hop_limit) return;
  // If nodes have several ranks, the first receivers also pass it on over the cable that it came by. The sender's
  // kernel may not loop broadcasts back, and then this is the only way to the other processes of the sender's node.
  const bool echo = heard.hops == 0 && heard.key.ranks > heard.key.nodes;
  call(onward, echo ? std::nullopt : std::optional(from.address));
}

bool CablingAgreement::note(const RankAnnouncement& call) {
  const Heard mark{.key = call.key, .node = call.node, .process = call.process, .sequence = call.sequence};
  if (std::find(heard_.begin(), heard_.end(), mark) != heard_.end()) return false;
  heard_[next_heard_++ % heard_.size()] = mark;
  return true;
}

void CablingAgreement::tell(Entry& entry) const {
  if (std::exchange(entry.told, true)) return;
  const std::string reason = entry.book.reason();
  MESHBED_WARN(
      "tuner: %s (NCCL_MESH_TUNER_TIMEOUT_MS=%lld): all ranks leave the choice of algorithms to NCCL, which may "
      "take some that relay. Is this plugin the tuner on every node?",
      reason.empty() ? "the ranks saw different cables" : reason.c_str(),
      static_cast<long long>(process_.config().number(Variable::kTunerTimeoutMs)));
}

}  // namespace meshbed::net
