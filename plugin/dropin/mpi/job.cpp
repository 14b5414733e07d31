#include "plugin/dropin/mpi/job.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "plugin/base/deadline.h"
#include "plugin/coll/api/launcher.h"
#include "plugin/coll/store/environment.h"
#include "plugin/coll/store/large_value.h"
#include "plugin/coll/store/store_meeting.h"

namespace meshbed::dropin::mpi {
namespace {

constexpr std::uint32_t kIsMpi = 0x4d504931;          // Identity::choice: an engine at the same port is refused
constexpr std::size_t kMessageBytesMax = 16U << 20U;  // of a message, and of all ranks in one collective call
constexpr std::int64_t kReachMs = 60000;              // as the engine waits for rank 0

// The first byte of what ranks send in an exchange.
constexpr char kFits = '+', kTooLarge = '-';

Error too_large() {
  return {ErrorCode::kUnsupported, Scope::kRequest,
          "more than " + std::to_string(kMessageBytesMax >> 20U) +
              " MiB in one call, of all its ranks together: this MPI carries ids and small results; use NCCL for data"};
}

/// Each part follows its length, in eight bytes.
void append(std::string* all, std::string_view one) {
  const std::uint64_t bytes = one.size();
  all->append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  all->append(one);
}

std::optional<std::vector<std::string>> take_apart(std::string_view all) {
  std::vector<std::string> parts;
  while (!all.empty()) {
    std::uint64_t bytes = 0;
    if (all.size() < sizeof(bytes)) return std::nullopt;
    std::memcpy(&bytes, all.data(), sizeof(bytes));
    all.remove_prefix(sizeof(bytes));
    if (bytes > all.size()) return std::nullopt;
    parts.emplace_back(all.substr(0, bytes));
    all.remove_prefix(bytes);
  }
  return parts;
}

}  // namespace

Result<std::unique_ptr<Job>> Job::join() {
  const auto variable = [](const char* name) { return coll::variable(name); };
  if (!coll::has_launcher(variable)) return std::unique_ptr<Job>(new Job(0, 1));
  const auto launch = coll::read_launcher(variable);
  if (!launch) return launch.error();
  std::unique_ptr<Job> job(new Job(launch->rank, launch->world));
  if (launch->world == 1) return job;
  // The first member of a communicator sends one answer of at most kMessageBytesMax to each other member.
  const std::size_t unread_bytes_max = 2 * kMessageBytesMax * std::max<std::size_t>(2, launch->world);
  const coll::Identity identity{.world = static_cast<std::uint32_t>(launch->world),
                                .rank = static_cast<std::uint32_t>(launch->rank),
                                .choice = kIsMpi};
  auto meeting =
      coll::meet_at_store(launch->bootstrap, identity, {.linger_ms = 0, .unread_bytes_max = unread_bytes_max},
                          Deadline::after_ms(kReachMs));
  if (!meeting) return meeting.error();
  job->server_ = std::move(meeting->server);
  job->store_ = std::move(meeting->client);
  auto met = job->barrier();
  if (!met) return met.error();
  return job;
}

Result<void> Job::check_size(std::size_t bytes) {
  if (bytes > kMessageBytesMax) return too_large();
  return ok();
}

Result<void> Job::send(const std::string& name, int to, const std::string& bytes) {
  if (to == rank_) {
    to_self_[name] = bytes;
    return ok();
  }
  return coll::set_large(*store_, name, bytes);
}

Result<std::string> Job::receive(const std::string& name, int from) {
  if (from == rank_) {
    auto message = to_self_.extract(name);
    if (!message.empty()) return std::move(message.mapped());
    // Calls do not overlap (MPI_THREAD_SERIALIZED), so no later call could send it.
    return Error{ErrorCode::kInvalidArgument, Scope::kRequest,
                 "this rank receives from itself, and has sent no such message: send it before"};
  }
  return coll::get_large(*store_, name, Deadline::never(), {.for_rank = from});
}

Result<std::vector<std::string>> Job::exchange(const std::string& name, const std::vector<int>& members,
                                               const std::string& mine) {
  if (members.size() == 1) return std::vector<std::string>{mine};
  const int hub = members.front();
  return rank_ == hub ? gather(name, members, mine) : ask(name, hub, members.size(), mine);
}

Result<std::vector<std::string>> Job::ask(const std::string& name, int hub, std::size_t members,
                                          const std::string& mine) {
  const bool fits = mine.size() <= kMessageBytesMax;
  const auto sent = send(name + "<" + std::to_string(rank_), hub, fits ? kFits + mine : std::string(1, kTooLarge));
  if (!sent) return sent.error();
  const auto all = receive(name + ">" + std::to_string(rank_), hub);
  if (!all) return all.error();
  if (*all == std::string(1, kTooLarge)) return too_large();
  auto parts = all->empty() ? std::nullopt : take_apart(std::string_view(*all).substr(1));
  if (!parts || parts->size() != members) {
    return Error{ErrorCode::kRemote, Scope::kJob,
                 "rank " + std::to_string(hub) + " sent something else than the parts of this call"};
  }
  return std::move(*parts);
}

Result<std::vector<std::string>> Job::gather(const std::string& name, const std::vector<int>& members,
                                             const std::string& mine) {
  std::vector<std::string> parts;
  std::string all(1, kFits);
  std::size_t bytes = 0;
  bool fits = true;
  for (const int member : members) {
    auto part =
        member == rank_ ? Result<std::string>(kFits + mine) : receive(name + "<" + std::to_string(member), member);
    if (!part) return part.error();
    bytes += part->size() - 1;
    fits = fits && part->front() == kFits && bytes <= kMessageBytesMax;
    if (!fits) continue;
    append(&all, std::string_view(*part).substr(1));
    parts.push_back(part->substr(1));
  }
  if (!fits) all = kTooLarge;
  for (const int member : members) {
    if (member == rank_) continue;
    if (auto sent = send(name + ">" + std::to_string(member), member, all); !sent) return sent.error();
  }
  if (!fits) return too_large();
  return parts;
}

Result<void> Job::barrier() {
  if (store_ == nullptr) return ok();
  constexpr std::int64_t kNoLimit = 0;
  return store_->barrier(kNoLimit);
}

void Job::fail(const std::string& text) {
  if (store_ != nullptr) store_->announce_failure(text);
}

void Job::abort(const std::string& text) {
  if (store_ != nullptr) store_->abort(text);
}

}  // namespace meshbed::dropin::mpi
