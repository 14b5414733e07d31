#include "plugin/coll/store/store_client.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "plugin/coll/store/long_wait.h"

namespace meshbed::coll {
namespace {

// The store answers or expires a request by itself; after this additional time the store itself is gone.
constexpr std::int64_t kAnswerMarginMs = 5000;
// A store that does not take a small frame for this long does not read any more.
constexpr std::int64_t kSendTimeoutMs = 10000;

// How long rank 0 may take to reply to a request that it can answer at once.
constexpr std::int64_t kAliveTimeoutMs = 2000;
// How long rank 0 may take to pass a failure on.
constexpr std::int64_t kEchoTimeoutMs = 2000;
// Rank 0's echo of our own abort ends a wait at once; where rank 0 is silent, a look at the flag does.
constexpr int kAbortLookMs = 1000;
// How often a rank without a key introduces itself to a rank 0 that dropped it. With a key, rank 0 sends the reason for
// a refusal: a rank that is dropped without one was displaced by other clients, and connects again as long as it may.
constexpr int kIntroductionsMax = 8;
constexpr int kPauseMostMs = 20;
// How long a rank 0 that has dropped us may refuse connections before it counts as ended.
constexpr std::int64_t kCallAgainMs = 1000;
// Leaves room for rank 0 to add the rank that failed.
constexpr std::size_t kAnnouncementBytesMax = kFrameBodyBytesMax / 2;

std::vector<int> ranks_in(std::string_view body) {
  std::vector<int> ranks;
  for (; body.size() >= sizeof(std::uint32_t); body.remove_prefix(sizeof(std::uint32_t))) {
    ranks.push_back(static_cast<int>(*decode_u32(body.substr(0, sizeof(std::uint32_t)))));
  }
  return ranks;
}

/// At most seven weeks.
std::string encode_ms(std::int64_t timeout_ms) {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return encode_u32(static_cast<std::uint32_t>(std::min(timeout_ms, kMost)));
}

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const std::string& place, const Identity& identity,
                                                          Deadline reached_by, Deadline welcome_by) {
  const auto parsed = parse_meeting_place(place);
  if (!parsed) return parsed.error();
  const std::string address = to_text(parsed->address);
  std::optional<Error> lost_before;
  for (int attempt = 1;; ++attempt) {
    const Deadline again_by = Deadline::after_ms(kCallAgainMs);
    auto socket = connect_to(parsed->address, lost_before && again_by < reached_by ? again_by : reached_by);
    if (!socket && lost_before) {
      // A rank 0 that dropped us still listens, though strangers may fill the queue; one that has ended does not.
      const bool no_room = socket.error().os_errno == ETIMEDOUT;
      if (!no_room || reached_by.passed()) return *lost_before;
      continue;
    }
    if (!socket) {
      return Error{ErrorCode::kTimeout, Scope::kJob,
                   "rank 0 does not answer at " + address + ": " + socket.error().text, socket.error().os_errno};
    }
    std::unique_ptr<StoreClient> client(new StoreClient(address, static_cast<int>(identity.rank), std::move(*socket)));
    const auto introduced = client->introduce(parsed->key, identity, welcome_by);
    if (introduced) return client;
    lost_before = introduced.error();
    // A crowd of strangers from our own address may have displaced us.
    const bool dropped = !client->failure_ && client->failed_rank_ == 0;
    const bool is_last = !parsed->key && attempt == kIntroductionsMax;
    if (!dropped || is_last || reached_by.passed()) return *lost_before;
    if (parsed->key) ::poll(nullptr, 0, std::min(attempt, kPauseMostMs));
  }
}

Result<void> StoreClient::introduce(const std::optional<JobKey>& key, const Identity& identity, Deadline deadline) {
  std::string hello = encode_hello(identity);
  std::string expected;
  if (key) {
    const auto nonce = draw_nonce();
    if (!nonce) return nonce.error();
    if (auto sent = send({FrameType::kProve, 0, *nonce}); !sent) return sent;
    const auto challenge = await_answer(FrameType::kChallenge, deadline);
    if (!challenge) return challenge.error();
    expected = key->proof(JobKey::Side::kServer, *nonce, *challenge, hello);
    hello += key->proof(JobKey::Side::kRank, *nonce, *challenge, hello);
  }
  if (auto sent = send({FrameType::kHello, 0, hello}); !sent) return sent;
  const auto welcome = await_answer(FrameType::kWelcome, deadline);
  if (!welcome) return welcome.error();
  if (are_equal(*welcome, expected)) return ok();
  return Error{ErrorCode::kRemote, Scope::kJob,
               "rank 0 at " + address_ + " does not know this job's key: another job's rank 0, or a stranger, has " +
                   "this address"};
}

StoreClient::~StoreClient() {
  if (owner_ != ::getpid()) return;  // a child (fork) that ends is not the rank that leaves
  std::string bye = encode({FrameType::kBye, 0, {}});
  if (socket_.is_open()) write_from(socket_, &bye);
}

Error StoreClient::lost() {
  if (!failure_) failed_rank_ = 0;
  return {ErrorCode::kRemote, Scope::kJob, "the connection to rank 0's store at " + address_ + " is lost"};
}

Result<void> StoreClient::send(const Frame& frame) {
  if (!write(frame)) return lost();
  return ok();
}

bool StoreClient::write(const Frame& frame) {
  const std::lock_guard<std::mutex> lock(sending_);
  return write_alone(frame);
}

bool StoreClient::write_alone(const Frame& frame) {
  std::string bytes = encode(frame);
  const Deadline deadline = Deadline::after_ms(kSendTimeoutMs);
  for (;;) {
    const SocketOutcome outcome = write_from(socket_, &bytes);
    if (outcome == SocketOutcome::kMoved) return true;
    if (outcome == SocketOutcome::kClosed || deadline.passed()) return false;
    socket_.wait_for(POLLOUT, deadline.remaining_ms());
  }
}

Result<std::string> StoreClient::await_answer(FrameType wanted, Deadline deadline) {
  for (;;) {
    if (wanted == FrameType::kChallenge && welcome_) {
      return Error{ErrorCode::kRemote, Scope::kJob, "rank 0 at " + address_ + " welcomes us without a proof"};
    }
    auto& answer = wanted == FrameType::kChallenge ? challenge_ : welcome_;
    if (answer) return std::move(*answer);
    if (deadline.passed()) {
      return Error{ErrorCode::kTimeout, Scope::kJob,
                   "rank 0 at " + address_ + " accepted our connection but does not reply"};
    }
    auto polled = poll(deadline.remaining_ms());
    if (!polled) return polled.error();
  }
}

Result<void> StoreClient::poll(int timeout_ms) {
  if (aborted() && !failure_) {
    failure_ = "rank " + std::to_string(rank_) + ": " + abort_text_;
    failed_rank_ = rank_;
    failure_is_abort_ = true;
    timeout_ms = 0;
  }
  const int wait_ms = timeout_ms < 0 ? kAbortLookMs : std::min(timeout_ms, kAbortLookMs);
  if (wait_ms != 0 && !socket_.wait_for(POLLIN, wait_ms)) return ok();
  const SocketOutcome outcome = read_into(socket_, &received_);
  bool broken = false;
  while (auto frame = take_frame(&received_, &broken)) {
    auto handled = handle(std::move(*frame));
    if (!handled) return handled.error();
  }
  if (broken) {
    return Error{ErrorCode::kRemote, Scope::kJob,
                 "the process that listens at " + address_ + " is not a meshcoll store"};
  }
  if (outcome == SocketOutcome::kClosed) return lost();
  return ok();
}

Result<void> StoreClient::handle(Frame frame) {
  switch (frame.type) {
    case FrameType::kChallenge:
      challenge_ = std::move(frame.body);
      return ok();
    case FrameType::kWelcome:
      welcome_ = std::move(frame.body);
      return ok();
    case FrameType::kRefused:
      return Error{ErrorCode::kInvalidArgument, Scope::kJob, "rank 0 at " + address_ + " refuses us: " + frame.body};
    case FrameType::kValue:
    case FrameType::kExpired:
      if (frame.request == life_request_) {
        life_request_ = 0;
        note_who_left(&frame.body);
        return ok();
      }
      answers_.push_back({frame.request, frame.type == FrameType::kExpired, std::move(frame.body)});
      return ok();
    case FrameType::kFailed:
      told_ = true;
      if (failure_) return ok();
      failure_ = std::move(frame.body);
      failed_rank_ = static_cast<int>(frame.request & ~kAbortedBit) - 1;
      failure_is_abort_ = (frame.request & kAbortedBit) != 0;
      return ok();
    default:
      return Error{ErrorCode::kRemote, Scope::kJob, "the store at " + address_ + " sent a frame that is not for us"};
  }
}

Result<void> StoreClient::set(const std::string& key, const std::string& value) {
  return send({FrameType::kSet, 0, encode_pair(key, value)});
}

Result<std::uint32_t> StoreClient::begin_get(const std::string& key) {
  const std::uint32_t request = next_request_++;
  auto sent = send({FrameType::kGet, request, key});
  if (!sent) return sent.error();
  return request;
}

std::optional<std::string> StoreClient::take(std::uint32_t request) {
  const auto found =
      std::find_if(answers_.begin(), answers_.end(), [&](const Answer& answer) { return answer.request == request; });
  if (found == answers_.end()) return std::nullopt;
  std::string text = std::move(found->text);
  answers_.erase(found);
  return text;
}

Result<std::string> StoreClient::get(const std::string& key, Deadline deadline, const WaitLimits& patience) {
  auto request = begin_get(key);
  if (!request) return request.error();
  std::optional<LongWait> wait;
  if (patience.long_ms > 0) wait.emplace(*this, patience.long_ms);
  for (;;) {
    if (auto value = take(*request)) return std::move(*value);
    if (failure_) return Error{ErrorCode::kRemote, Scope::kJob, *failure_};
    if (has_left(patience.for_rank)) return Error{ErrorCode::kRemote, Scope::kJob, "it has left"};
    if (deadline.passed()) return Error{ErrorCode::kTimeout, Scope::kJob, "no rank has set \"" + key + "\""};
    if (wait) {
      if (auto looked = wait->look(patience.for_rank); !looked) return looked.error();
    }
    const Deadline& next = wait && wait->next() < deadline ? wait->next() : deadline;
    auto polled = poll(next.remaining_ms());
    if (!polled) return polled.error();
  }
}

Result<void> StoreClient::barrier(std::int64_t timeout_ms, std::int64_t long_wait_ms) {
  const std::uint32_t request = next_request_++;
  auto sent = send({FrameType::kBarrier, request, encode_ms(timeout_ms)});
  if (!sent) return sent.error();
  const Deadline deadline = timeout_ms > 0 ? Deadline::after_ms(timeout_ms + kAnswerMarginMs) : Deadline::never();
  std::optional<LongWait> wait;
  if (long_wait_ms > 0) wait.emplace(*this, long_wait_ms);
  for (;;) {
    const auto found =
        std::find_if(answers_.begin(), answers_.end(), [&](const Answer& answer) { return answer.request == request; });
    if (found != answers_.end()) {
      const Answer answer = std::move(*found);
      answers_.erase(found);
      // The failure was received before the report that its rank has left, and is the better reason.
      if (answer.expired && failure_) return Error{ErrorCode::kRemote, Scope::kJob, *failure_};
      if (answer.expired) return Error{ErrorCode::kTimeout, Scope::kJob, answer.text};
      return ok();
    }
    if (failure_) return Error{ErrorCode::kRemote, Scope::kJob, *failure_};
    if (deadline.passed()) return lost();
    if (wait) {
      if (auto looked = wait->look(-1); !looked) return looked;
    }
    const Deadline& next = wait && wait->next() < deadline ? wait->next() : deadline;
    auto polled = poll(next.remaining_ms());
    if (!polled) return polled.error();
  }
}

Result<void> StoreClient::tell_waiting(int peer) {
  const std::string body = encode_u32(peer >= 0 ? static_cast<std::uint32_t>(peer) : kNoPeer);
  return send({FrameType::kWaits, 0, calls_ ? body + calls_() : body});
}

void StoreClient::note_who_left(std::string* waiting_and_left) {
  left_ = waiting_and_left->substr(waiting_and_left->size() / 2);
  waiting_and_left->resize(waiting_and_left->size() - left_.size());
}

bool StoreClient::has_left(int rank) const {
  const auto byte = static_cast<std::size_t>(rank) / 8;
  return rank >= 0 && byte < left_.size() && (static_cast<unsigned char>(left_[byte]) >> (rank % 8) & 1U) != 0;
}

Result<std::vector<bool>> StoreClient::waiting_ranks() {
  auto bits = ask_who_waits({});
  if (!bits) return bits.error();
  note_who_left(&*bits);
  std::vector<bool> waits(bits->size() * 8);
  for (std::size_t rank = 0; rank < waits.size(); ++rank) {
    waits[rank] = (static_cast<unsigned char>((*bits)[rank / 8]) >> (rank % 8) & 1U) != 0;
  }
  return waits;
}

Result<std::vector<int>> StoreClient::waits_behind(int rank) {
  const auto answered = ask_who_waits(encode_u32(static_cast<std::uint32_t>(rank)));
  if (!answered) return answered.error();
  return ranks_in(*answered);
}

Result<std::vector<int>> StoreClient::agree_on_survivors(std::int64_t timeout_ms) {
  const std::uint32_t request = next_request_++;
  auto sent = send({FrameType::kRebuild, request, encode_ms(timeout_ms)});
  if (!sent) return sent.error();
  const Deadline deadline = Deadline::after_ms(timeout_ms + kAnswerMarginMs);
  const auto find_answer = [&] {
    return std::find_if(answers_.begin(), answers_.end(),
                        [&](const Answer& answer) { return answer.request == request; });
  };
  auto found = find_answer();
  for (; found == answers_.end(); found = find_answer()) {
    if (deadline.passed()) return silent(timeout_ms + kAnswerMarginMs);
    auto polled = poll(deadline.remaining_ms());
    if (!polled) return polled.error();
  }
  const Answer answer = std::move(*found);
  answers_.erase(found);
  if (answer.expired) return Error{ErrorCode::kRemote, Scope::kJob, answer.text};
  failure_.reset();
  failed_rank_ = -1;
  failure_is_abort_ = told_ = false;
  aborted_.store(false);
  return ranks_in(answer.text);
}

Result<void> StoreClient::ask_alive(std::int64_t before_ms) {
  if (life_request_ != 0) return silent(before_ms);
  life_request_ = next_request_++;
  return send({FrameType::kWhoWaits, life_request_, {}});
}

Error StoreClient::silent(std::int64_t for_ms) {
  if (!failure_) failed_rank_ = 0;
  return {ErrorCode::kTimeout, Scope::kJob,
          "rank 0's store at " + address_ + " has not answered for " + std::to_string(for_ms) + " ms"};
}

Result<std::string> StoreClient::ask_who_waits(const std::string& question) {
  const std::uint32_t request = next_request_++;
  auto sent = send({FrameType::kWhoWaits, request, question});
  if (!sent) return sent.error();
  for (const Deadline deadline = Deadline::after_ms(kAliveTimeoutMs);;) {
    if (auto answered = take(request)) return std::move(*answered);
    if (failure_) return Error{ErrorCode::kRemote, Scope::kJob, *failure_};
    // A machine that lost its power ends no connection: only a reply shows that it is alive.
    if (deadline.passed()) return silent(kAliveTimeoutMs);
    auto polled = poll(deadline.remaining_ms());
    if (!polled) return polled.error();
  }
}

void StoreClient::announce_failure(const std::string& text, int culprit) {
  Result<void> told;
  if (!told_ && !aborted()) {
    told = send({FrameType::kFail, static_cast<std::uint32_t>(culprit + 1), text.substr(0, kAnnouncementBytesMax)});
  }
  const Deadline deadline = Deadline::after_ms(kEchoTimeoutMs);
  while (told && !told_ && !deadline.passed()) told = poll(deadline.remaining_ms());
  if (told) return;
  // If the store cannot be reached, it is gone, which every rank detects on its own connection.
  const std::lock_guard<std::mutex> lock(sending_);
  socket_.close();
}

void StoreClient::abort(const std::string& text) {
  // One lock for both: who finds aborted() refuses peers, and they must read the abort before that.
  const std::lock_guard<std::mutex> lock(sending_);
  if (aborted()) return;
  abort_text_ = text.substr(0, kAnnouncementBytesMax);
  aborted_.store(true, std::memory_order_release);
  (void)write_alone({FrameType::kFail, kAbortedBit, abort_text_});  // as above
}

}  // namespace meshbed::coll
