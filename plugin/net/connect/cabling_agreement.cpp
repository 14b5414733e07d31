#include "plugin/net/connect/cabling_agreement.h"

#include <poll.h>

#include <algorithm>

#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/link/process_links.h"

namespace meshbed::net {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
/// Said again after this, then after twice as long: others start later, and datagrams get lost.
constexpr std::int64_t kFirstPause = 20 * kMillisecond, kLongestPause = 500 * kMillisecond;
/// Answers to what is new are gathered for so long.
constexpr std::int64_t kAnswerPause = 2 * kMillisecond;
constexpr int kLookPauseMs = 1;
/// To hear of the others' decision after a yes: far beyond what loss or a node that is busy can cost.
constexpr std::int64_t kPromiseMs = 20'000;
/// So long a decided rank helps others to decide before it goes on; its service thread does so later.
constexpr std::int64_t kAgreementLingerMs = 1000;
/// Surveys that are over and still answered for.
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
    const auto oldest =
        std::find_if(entries_.begin(), entries_.end(), [](const auto& one) { return one->waiting == 0; });
    if (oldest != entries_.end()) entries_.erase(oldest);
  }
  RankAnnouncement own{.key = key,
                       .node = process_.node(),
                       .process = process_.number(),
                       .rules = kTunerRules,
                       .hop_limit = static_cast<std::uint8_t>(process_.config().max_relay_hops()),
                       .addresses = discovery_.own_addresses()};
  entries_.push_back(std::make_unique<Entry>(std::move(own)));
  Entry& entry = *entries_.back();
  entry.vote = Deadline::in_ms(process_.config().number(Variable::kTunerTimeoutMs));
  return entry;
}

Result<std::optional<Mesh>> CablingAgreement::take_part(const AgreementKey& key) {
  std::unique_lock lock(mutex_);
  Entry& entry = entry_for(key);
  if (entry.book.stand() == Stand::kHere) entry.book.join();
  speak_up(entry);
  ++entry.waiting;
  Wait wait;
  for (bool over = false; !over;) {
    over = look(entry, wait);
    const std::optional<RankAnnouncement> words = due(entry);
    lock.unlock();
    if (words) call(*words);
    if (!over) ::poll(nullptr, 0, kLookPauseMs);
    lock.lock();
  }
  --entry.waiting;
  return wait.result;
}

bool CablingAgreement::look(Entry& entry, Wait& wait) const {
  AgreementBook& book = entry.book;
  if (book.look(entry.vote.passed())) {
    entry.promise = Deadline::in_ms(kPromiseMs);
    speak_up(entry);
  }
  switch (book.outcome()) {
    case Outcome::kOpen:
      if (!entry.promise.passed()) return false;
      wait.result = broken_promise(book);
      book.set_done();
      return true;
    case Outcome::kNone:
      tell(entry);
      break;
    case Outcome::kAgreed:
      if (wait.result->has_value()) return book.everybody_done() || wait.linger.passed();
      wait.result = std::optional(book.mesh());
      wait.linger = Deadline::in_ms(kAgreementLingerMs);
      break;
  }
  // Decided. Who does without is through; who agreed first helps the others to hear of it.
  book.set_done();
  speak_up(entry);
  return book.outcome() == Outcome::kNone;
}

Error CablingAgreement::broken_promise(const AgreementBook& book) const {
  return {.code = ErrorCode::kTimeout,
          .scope = Scope::kJob,
          .text = "tuner: every rank was found, but no word came from " + book.missing() +
                  " whether it changes its algorithms as we would: are those processes alive, and is UDP port " +
                  std::to_string(process_.config().number(Variable::kRelayPort)) +
                  " open on the cables? NCCL_MESH_TUNER_TIMEOUT_MS=0 does without the tuner",
          .os_errno = 0};
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
    if (entry != nullptr && entry->book.hear(heard)) {
      entry->next_call_ns = std::min(entry->next_call_ns, std::max(now_ns(), entry->last_call_ns + kAnswerPause));
      // A rank that waits here speaks for itself.
      if (entry->waiting == 0) answer = due(*entry);
    }
  }
  if (answer) call(*answer);
  RankAnnouncement onward = heard;
  if (++onward.hops >= onward.hop_limit) return;
  // Where nodes have several ranks, those who hear it first say it on the cable that it came by as well: should the
  // sender's kernel hand no broadcast back, the other processes of its node hear it only that way.
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
