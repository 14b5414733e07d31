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
#include "plugin/coll/store/job_key.h"

namespace meshbed::dropin::mpi {
namespace {

constexpr std::uint32_t kIsMpi = 0x4d504931;          // Identity::choice: an engine at the same port is refused
constexpr std::size_t kPieceBytes = 8000;             // fits into a frame of the store
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
  const bool launched = variable("RANK").has_value() || variable("OMPI_COMM_WORLD_RANK").has_value() ||
                        variable("SLURM_PROCID").has_value();
  if (!launched) return std::unique_ptr<Job>(new Job(0, 1));
  const auto launch = coll::read_launcher(variable);
  if (!launch) return launch.error();
  std::unique_ptr<Job> job(new Job(launch->rank, launch->world));
  if (launch->world == 1) return job;
  // The first member of a communicator sends one answer of at most kMessageBytesMax to each other member.
  const std::size_t unread_bytes_max = 2 * kMessageBytesMax * std::max<std::size_t>(2, launch->world);
  const coll::Identity identity{.world = static_cast<std::uint32_t>(launch->world),
                                .rank = static_cast<std::uint32_t>(launch->rank),
                                .choice = kIsMpi};
  if (launch->rank == 0) {
    const auto place = coll::parse_meeting_place(launch->bootstrap);
    if (!place) return place.error();
    auto server = coll::StoreServer::start({.address = place->address,
                                            .identity = identity,
                                            .linger_ms = 0,
                                            .key = place->key,
                                            .unread_bytes_max = unread_bytes_max});
    if (!server) return server.error();
    job->server_ = std::move(*server);
  }
  auto store = coll::StoreClient::connect(launch->bootstrap, identity, Deadline::after_ms(kReachMs));
  if (!store) return store.error();
  job->store_ = std::move(*store);
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
  // The first piece begins with their number.
  const std::size_t pieces = std::max<std::size_t>(1, (bytes.size() + kPieceBytes - 1) / kPieceBytes);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    std::string value = bytes.substr(piece * kPieceBytes, kPieceBytes);
    if (piece == 0) value = coll::encode_u32(static_cast<std::uint32_t>(pieces)) + value;
    auto set = store_->set(name + "." + std::to_string(piece), value);
    if (!set) return set;
  }
  return ok();
}

Result<std::string> Job::receive(const std::string& name, int from) {
  if (from == rank_) {
    auto message = to_self_.extract(name);
    if (!message.empty()) return std::move(message.mapped());
    // Calls do not overlap (MPI_THREAD_SERIALIZED), so no later call could send it.
    return Error{ErrorCode::kInvalidArgument, Scope::kRequest,
                 "this rank receives from itself, and has sent no such message: send it before"};
  }
  const auto piece_of = [&](std::size_t piece) {
    return store_->get(name + "." + std::to_string(piece), Deadline::never(), {.for_rank = from});
  };
  auto first = piece_of(0);
  if (!first) return first.error();
  const auto pieces = coll::decode_u32(std::string_view(*first).substr(0, sizeof(std::uint32_t)));
  if (!pieces) return Error{ErrorCode::kRemote, Scope::kJob, "rank " + std::to_string(from) + " sent no MPI message"};
  std::string bytes = first->substr(sizeof(std::uint32_t));
  for (std::size_t piece = 1; piece < *pieces; ++piece) {
    auto next = piece_of(piece);
    if (!next) return next.error();
    bytes += *next;
  }
  return bytes;
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
