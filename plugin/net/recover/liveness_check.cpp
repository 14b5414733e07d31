#include "plugin/net/recover/liveness_check.h"

#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/connect/service.h"
#include "plugin/net/link/process_links.h"

namespace meshbed::net {
namespace {

/// Inquiries get lost: they are repeated after this pause, which doubles each time.
constexpr std::int64_t kFirstQuestionPauseMs = 50;

}  // namespace

LivenessCheck::LivenessCheck(ProcessLinks& process, const Lost& lost)
    : discovery_(process.service() != nullptr ? process.service()->discovery() : nullptr),
      session_(lost.session),
      ends_(Deadline::after_ms_or_never(ServiceCall::kPatienceMs)),
      question_pause_ms_(kFirstQuestionPauseMs) {
  if (lost.sender.wants_notice) {
    who_ = "its sender, behind relay " + to_text(lost.sender.address.address) + ",";
    why_ = "no process has confirmed it";
  } else {
    who_ = "its sender's process at " + to_text(lost.sender.address.address);
    const auto interfaces = read_interfaces();
    const IpPrefix own =
        interfaces ? own_address(*interfaces, lost.local, lost.sender.address.address) : lost.local.address;
    call_.emplace(own.address, lost.sender,
                  WireMessage{.type = WireType::kLivenessCheck, .cookie = session_, .end = {}, .reason = ""});
  }
}

LivenessCheck::~LivenessCheck() {
  if (discovery_ != nullptr) discovery_->end_inquiry(session_);
}

LivenessCheck::Answer LivenessCheck::advance() {
  if (is_found_elsewhere()) return Answer::kThere;
  const auto answer = call_ ? call_->advance() : ServiceCall::Answer::kNone;
  if (answer == ServiceCall::Answer::kThere) return Answer::kThere;
  if (call_) why_ = call_->why();
  if (answer == ServiceCall::Answer::kNone) call_.reset();
  const bool may_come = !ends_.passed() && (call_ || discovery_ != nullptr);
  if (answer != ServiceCall::Answer::kGone && may_come) return Answer::kNotYet;
  why_ = who_ + " was asked whether it is alive: " + why_;
  return Answer::kGone;
}

bool LivenessCheck::is_found_elsewhere() {
  if (discovery_ == nullptr) return false;
  if (discovery_->is_found(session_)) return true;
  if (question_pause_ms_ == kFirstQuestionPauseMs || next_question_.passed()) {
    discovery_->inquire(session_);
    next_question_ = Deadline::after_ms_or_never(question_pause_ms_);
    question_pause_ms_ *= 2;
  }
  return false;
}

}  // namespace meshbed::net
