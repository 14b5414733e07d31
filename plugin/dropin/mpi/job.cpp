#include "plugin/dropin/mpi/job.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
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

constexpr std::uint32_t kIsMpi = 0x4d504931;          // in the place where engines say how they choose algorithms
constexpr std::size_t kPieceBytes = 8000;             // of a store's frame
constexpr std::size_t kMessageBytesMax = 16U << 20U;  // of one rank in one call: it waits in rank 0's memory
constexpr std::int64_t kReachMs = 60000;              // as the engine has it

Error too_large(std::size_t bytes) {
  return {ErrorCode::kUnsupported, Scope::kRequest,
          std::to_string(bytes) + " bytes: at most " + std::to_string(kMessageBytesMax) +
              " go through MPI here, which is for meeting; collectives carry data"};
}

/// Length-prefixed, one behind the other.
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
  const coll::Identity identity{.world = static_cast<std::uint32_t>(launch->world),
                                .rank = static_cast<std::uint32_t>(launch->rank),
                                .choice = kIsMpi};
  if (launch->rank == 0) {
    const auto place = coll::parse_meeting_place(launch->bootstrap);
    if (!place) return place.error();
    auto server =
        coll::StoreServer::start({.address = place->address, .identity = identity, .linger_ms = 0, .key = place->key});
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

Result<void> Job::send(const std::string& name, const std::string& bytes) {
  if (bytes.size() > kMessageBytesMax) return too_large(bytes.size());
  // The first piece says how many there are.
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
  const auto to = [&](int member) { return name + ">" + std::to_string(member); };
  if (rank_ != hub) {
    if (auto sent = send(name + "<" + std::to_string(rank_), mine); !sent) return sent.error();
    auto all = receive(to(rank_), hub);
    if (!all) return all.error();
    auto parts = take_apart(*all);
    if (!parts || parts->size() != members.size()) {
      return Error{ErrorCode::kRemote, Scope::kJob, "rank " + std::to_string(hub) + " sent no answer of MPI's"};
    }
    return std::move(*parts);
  }
  std::vector<std::string> parts;
  std::string all;
  for (const int member : members) {
    auto part = member == rank_ ? Result<std::string>(mine) : receive(name + "<" + std::to_string(member), member);
    if (!part) return part.error();
    append(&all, *part);
    parts.push_back(std::move(*part));
  }
  for (const int member : members) {
    if (member == rank_) continue;
    if (auto sent = send(to(member), all); !sent) return sent.error();
  }
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

}  // namespace meshbed::dropin::mpi
