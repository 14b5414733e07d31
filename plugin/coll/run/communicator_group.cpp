// Groups: communicators of some of a communicator's ranks, which meet at the first of them.
#include <algorithm>

#include "plugin/base/check.h"
#include "plugin/coll/run/communicator.h"
#include "plugin/coll/store/frame.h"

namespace meshbed::coll {
namespace {

// Marks a value that contains the reason for the missing group instead of an address.
constexpr char kRefusal = '!';

constexpr int kRebuiltRanksMost = kFrameBodyBytesMax / sizeof(std::uint32_t);

std::string key_of(const std::string& group, int rank) { return group + "/" + std::to_string(rank); }

/// All members derive it, so that it need not be sent.
std::optional<JobKey> key_of_group(const std::optional<JobKey>& key, const std::string& name) {
  return key ? std::optional(key->derive(name)) : std::nullopt;
}

std::string place_of_group(const std::string& address, const std::optional<JobKey>& key, const std::string& name) {
  const auto own = key_of_group(key, name);
  return own ? address + "/" + own->text() : address;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::split(int color, int key) {
  struct Wish {
    std::int32_t color, key;
  };
  const Wish own{color, key};
  std::vector<Wish> wishes(static_cast<std::size_t>(options_.world));
  auto gathered = run({.collective = Collective::kAllGather,
                       .input = &own,
                       .output = wishes.data(),
                       .count = sizeof(Wish) / sizeof(std::int32_t),
                       .type = DataType::kInt32});
  if (!gathered) return gathered.error();
  const auto key_of_rank = [&](int rank) { return wishes[static_cast<std::size_t>(rank)].key; };
  std::vector<int> members;
  for (int rank = 0; color >= 0 && rank < options_.world; ++rank) {
    if (wishes[static_cast<std::size_t>(rank)].color != color) continue;
    const auto behind =
        std::find_if(members.begin(), members.end(), [&](int other) { return key_of_rank(rank) < key_of_rank(other); });
    members.insert(behind, rank);
  }
  return create_group(members);
}

Result<std::unique_ptr<Communicator>> Communicator::create_group(const std::vector<int>& members) {
  Result<void> usable_now;
  service_->call([&] { usable_now = usable(); });
  if (!usable_now) return usable_now.error();
  ++groups_;
  if (members.empty()) return std::unique_ptr<Communicator>();
  return meet(members, "group " + std::to_string(groups_));
}

Result<std::unique_ptr<Communicator>> Communicator::rebuild() {
  abort("rebuild");
  if (store_ == nullptr) return create(options_);
  if (options_.world > kRebuiltRanksMost) {
    return Error{ErrorCode::kSystem, Scope::kJob,
                 "rebuild: rank 0's list of survivors has room for " + std::to_string(kRebuiltRanksMost) + " ranks"};
  }
  Result<std::vector<int>> survivors = std::vector<int>();
  service_->call([&] { survivors = store_->agree_on_survivors(options_.patience_ms()); });
  if (survivors) return meet(*survivors, "rebuild");
  Error error = survivors.error();
  error.text = "rebuild: " + error.text;
  if (store_->failed_rank() == 0) error.text += "; without rank 0 the others cannot agree";
  return error;
}

Result<std::unique_ptr<Communicator>> Communicator::meet(const std::vector<int>& members, const std::string& name) {
  CommunicatorOptions options = options_;
  const auto own = std::find(members.begin(), members.end(), options_.rank);
  MESHBED_CHECK(own != members.end());
  options.rank = static_cast<int>(own - members.begin());
  options.world = static_cast<int>(members.size());
  options.cables = cables_among(mesh_, members);
  options.shape.clear();
  options.rank_mbps.clear();
  for (const int member : members) {
    if (!options_.rank_mbps.empty()) options.rank_mbps.push_back(options_.rank_mbps[static_cast<std::size_t>(member)]);
  }
  if (options.world == 1) return create(options);
  Result<std::unique_ptr<StoreServer>> server = std::unique_ptr<StoreServer>();
  service_->call([&] {
    server = meet_group(members, name, &options);
    if (server) return;
    Error error = server.error();
    if (store_->failure() && store_->failure_is_abort()) error.code = ErrorCode::kClosed;
    error.text = name + ": " + error.text;
    server = error;
  });
  if (!server) return server.error();
  auto made = create(options, std::move(*server));
  if (made) return made;
  Error error = made.error();
  error.text = name + ", whose rank 0 is rank " + std::to_string(members.front()) + " here: " + error.text;
  return error;
}

/// The first member's server; the others learn its address.
Result<std::unique_ptr<StoreServer>> Communicator::meet_group(const std::vector<int>& members, const std::string& name,
                                                              CommunicatorOptions* options) {
  const auto place = parse_meeting_place(options_.bootstrap);
  if (!place) return place.error();
  const std::optional<JobKey>& key = place->key;
  if (options->rank > 0) {
    auto address = store_->get(key_of(name, options_.rank), Deadline::after_ms_or_never(options->connect_timeout_ms),
                               {.long_ms = options->long_wait_ms(), .for_rank = members.front()});
    if (!address) {
      Error error = address.error();
      error.text = "rank " + std::to_string(members.front()) + " published no address to meet at: " + error.text;
      return error;
    }
    if (!address->empty() && address->front() == kRefusal) {
      return Error{ErrorCode::kRemote, Scope::kJob,
                   "rank " + std::to_string(members.front()) + ": " + address->substr(1)};
    }
    options->bootstrap = place_of_group(*address, key, name);
    return std::unique_ptr<StoreServer>();
  }
  const auto address = store_->own_address();
  auto server = address ? StoreServer::start(server_options(
                              *options, {.address = at_any_port(*address), .key = key_of_group(key, name)}))
                        : Result<std::unique_ptr<StoreServer>>(address.error());
  const std::string word = server ? (*server)->address() : kRefusal + server.error().text;
  for (const int member : members) {
    if (member == options_.rank) continue;
    auto told = store_->set(key_of(name, member), word);
    if (!told) return told.error();
  }
  if (server) options->bootstrap = place_of_group((*server)->address(), key, name);
  return server;
}

}  // namespace meshbed::coll
