// How a sending connection goes on after it lost its QP link: everything that was sent and that the receiver has not
// served is sent again, in the same order, as soon as the receiver has announced its memory again. New messages follow.
#include "plugin/net/rdma/send_recovery.h"

#include <algorithm>
#include <utility>

#include "plugin/base/counted.h"
#include "plugin/base/log.h"
#include "plugin/net/connect/peer_discovery.h"
#include "plugin/net/connect/service.h"
#include "plugin/net/link/process_links.h"
#include "plugin/net/process/memory.h"
#include "plugin/net/rdma/direct_send_path.h"
#include "plugin/net/rdma/relayed_send_path.h"
#include "plugin/net/rdma/send.h"

namespace meshbed::net {
namespace {

/// The relays of a send path through relays.
const std::vector<Hop>& relays_of(const SendPath& send_path) {
  return static_cast<const RelayedSendPath&>(send_path).circuit().hops;
}

}  // namespace

void SendRecovery::remember(Origin origin, const std::vector<Nic>& nics, std::uint32_t events) {
  origin_ = std::move(origin);
  events_seen_ = events;
  failback_ = std::make_unique<Failback>(*origin_, connection_.local(), connection_.peer(), failed_paths_);
  began_relayed_ = connection_.is_relayed();
  plan_rails(nics);
  if (rail_layer_ != nullptr) rail_layer_->join(origin_->process->joining_ms());
}

void SendRecovery::plan_rails(const std::vector<Nic>& nics) {
  // Messages that are lost with a rail require a resumption.
  if (!connection_.send_path_->takes_rails() || !can_resume()) return;
  if (rail_layer_ == nullptr) {
    rail_layer_ = std::make_unique<RailLayer>(*origin_, connection_.settings().qp_link, connection_.qp_link(),
                                              std::max(connection_.settings().stripes.queue_pairs, 1U), failed_paths_);
  }
  rail_layer_->plan(nics);
  if (rail_layer_->done()) rail_layer_.reset();
}

bool SendRecovery::rails_joined(const std::vector<Nic>& nics) {
  if (rail_layer_ == nullptr) return true;
  lay_rails();
  if (rail_layer_ != nullptr && !rail_layer_->joined(nics)) return false;
  if (rail_layer_ != nullptr && rail_layer_->done()) rail_layer_.reset();
  return true;
}

void SendRecovery::lay_rails() {
  if (const auto laid = rail_layer_->advance()) {
    connection_.send_path_->rail_laid(*laid);
    MESHBED_INFO("%s: long messages are striped over %s too", connection_.ends_text().c_str(),
                 connection_.qp_link().rail(*laid)->ends_text().c_str());
  }
  if (rail_layer_->wants_plan()) rail_layer_->plan(origin_->process->current_nics());
  if (rail_layer_->done()) rail_layer_.reset();
}

void SendRecovery::enroll() { origin_->process->sessions().add_sender(origin_->session); }

void SendRecovery::ended() {
  if (origin_) origin_->process->sessions().remove_sender(origin_->session);
}

bool SendRecovery::can_resume() const {
  return connection_.settings().failover_ms > 0 && origin_ && origin_->service_port != 0;
}

void SendRecovery::resume() {
  if (events_seen_ != origin_->process->port_events()) {
    events_seen_ = origin_->process->port_events();
    // The old search would go on with outdated addresses.
    const bool moved = take_moved() != nullptr;
    if (moved || (resumption_ != nullptr && !resumption_->stands())) resumption_.reset();
  }
  if (resumption_ == nullptr) {
    resumption_ = std::make_unique<Resumption>(*origin_, connection_.settings().qp_link,
                                               connection_.settings().failover_ms, failed_paths_);
  }
  auto resumed = resumption_->advance();
  if (!resumed) {
    const std::uint64_t served = resumption_->served_in_the_end();
    if (served <= connection_.group_) finish_served(served);
    Error error = connection_.suspension();
    error.text += "; " + resumed.error().text;
    connection_.fail(std::move(error));
    return;
  }
  if (!*resumed) return;
  resumption_.reset();
  continue_on(std::move(**resumed));
}

/// Finishes the requests that the receiver has served, whether or not they were acknowledged.
void SendRecovery::finish_served(std::uint64_t served) {
  for (Request* request : connection_.unfinished()) {
    if (request->group < served) connection_.finish(*request, request->sizes[0]);
  }
}

void SendRecovery::continue_on(Resumption::Resumed resumed) {
  const std::uint64_t served = resumed.served;
  if (served < connection_.confirmed_ || served > connection_.group_) {
    connection_.fail({.code = ErrorCode::kRemote,
                      .scope = Scope::kQueuePair,
                      .text = connection_.ends_text() + ": the peer has served " + counted(served, "receive") +
                              ", but " + std::to_string(connection_.confirmed_) + " were acknowledged and " +
                              std::to_string(connection_.group_) + " were sent to: a message is lost",
                      .os_errno = 0});
    return;
  }
  rail_layer_.reset();
  moved_ends_.clear();
  // The sizes of parts that need not be sent again; no stripes of them follow.
  const std::uint32_t* records = connection_.size_records(0);
  auto* kept = resumed.qp_link->memory().as<std::uint32_t>() + kSizesAt / sizeof(std::uint32_t);
  for (std::uint32_t slot = 0; slot < kRingSlots; ++slot) kept[slot] = records[slot] & ~kStripedSize;
  connection_.send_path_->retire();
  connection_.stand_on(std::move(resumed.qp_link));
  origin_->peer.addresses = std::move(resumed.addresses);
  std::unique_ptr<SendPath> next;
  if (resumed.circuit) {
    auto send_path = RelayedSendPath::create(connection_, *resumed.circuit);
    if (!send_path) {
      connection_.fail(send_path.error());
      return;
    }
    (*send_path)->attach(std::move(resumed.control));
    next = std::move(*send_path);
  } else {
    next = std::make_unique<DirectSendPath>(connection_, connection_.settings().stripes);
  }
  retired_send_path_ = std::exchange(connection_.send_path_, std::move(next));  // its memory is its QP link's
  replays_.clear();
  replayed_ = 0;
  finish_served(served);
  for (Request* request : connection_.unfinished()) {
    if (const char* problem = connection_.send_path_->size_problem(request->sizes[0])) {
      connection_.fail(
          {.code = ErrorCode::kSystem,
           .scope = Scope::kQueuePair,
           .text = connection_.ends_text() + ": a send of " + counted(request->sizes[0], "byte") + " " + problem,
           .os_errno = 0});
      return;
    }
    request->work_requests = 0;
    replays_.push_back(request);
  }
  // The same NIC, but the peer has another address on that cable now: this is the new first cable.
  if (!resumed.circuit && failback_->is_from_home(connection_.local())) {
    failback_ = std::make_unique<Failback>(*origin_, connection_.local(), connection_.peer(), failed_paths_);
  }
  // A connection that began through relays has no cable to return to.
  const bool was_away = away_;
  away_ = !failback_->is_home(connection_.local(), connection_.peer()) && !(began_relayed_ && resumed.circuit);
  going_home_ = false;
  connection_.group_seen_ = false;
  known_carried_ = connection_.matched_ == 0;
  detour_.reset();
  held_back_ = !replays_.empty();
  // A MOVED for the new QP link may have arrived already: then has_news() must be true.
  events_seen_ = origin_->process->port_events() - (unmatched_ends_.empty() ? 0 : 1);
  const bool wanted = std::exchange(going_back_, false) && resumed.circuit;
  connection_.go_on(wanted ? LogLevel::kInfo : LogLevel::kWarn);
  if (was_away && !away_) connection_.note_return();
  if (!resumed.circuit) plan_rails(origin_->process->current_nics());
}

void SendRecovery::replay() {
  for (; replayed_ < replays_.size(); ++replayed_) {
    Request& request = *replays_[replayed_];
    // The present group still has parts without a message: a later send will close it.
    const bool last_of_group = request.group < connection_.group_ &&
                               (replayed_ + 1 == replays_.size() || replays_[replayed_ + 1]->group != request.group);
    if (!replay(request, last_of_group)) return;
  }
  replays_.clear();
  replayed_ = 0;
  held_back_ = false;
}

/// Returns false if it is not possible yet.
bool SendRecovery::replay(Request& request, bool last_of_group) {
  const std::uint32_t parts = connection_.parts_arrived(request.group);
  if (parts == 0 || !connection_.send_path_->has_room(request.sizes[0])) return false;
  const bool first_of_group = replayed_ == 0 || replays_[replayed_ - 1]->group != request.group;
  if (first_of_group && parts > 1 && !carry_what_is_known(request.group, parts)) return false;
  const GroupSlot place{.group = request.group,
                        .part = request.part,
                        .parts = parts,
                        .last = last_of_group,
                        .entry = connection_.first_slot(request.group) + request.part};
  const SendArguments send{
      .data = request.data, .size_bytes = request.sizes[0], .tag = place.entry->tag, .memory = request.memory};
  if (send.memory != nullptr && send.size_bytes > 0 && send.memory->on(connection_.device()) == nullptr) {
    connection_.fail({.code = ErrorCode::kSystem,
                      .scope = Scope::kQueuePair,
                      .text = connection_.ends_text() +
                              ": what was sent cannot be sent again: " + send.memory->problem_on(connection_.device()),
                      .os_errno = 0});
    return false;
  }
  return connection_.send_path_->carry(send, place, request);
}

bool SendRecovery::carry_what_is_known(std::uint64_t group, std::uint32_t parts) {
  if (group == connection_.group_) known_carried_ = true;
  std::uint32_t unknown = group < connection_.group_ ? 0 : ~connection_.matched_;
  for (std::size_t at = replayed_; at < replays_.size() && replays_[at]->group == group; ++at) {
    unknown |= 1U << replays_[at]->part;
  }
  const std::uint32_t* sizes = connection_.size_records(group);
  for (std::uint32_t part = 0; part < parts; ++part) {
    const GroupSlot place{.group = group, .part = part, .parts = parts, .entry = connection_.first_slot(group) + part};
    if ((unknown >> part & 1U) == 0 && !connection_.send_path_->carry_known(place, sizes[part])) return false;
  }
  return true;
}

void SendConnection::polled(int count) {
  if (impaired()) return;
  send_path_->polled(count);
  if (recovery_.has_work()) recovery_.update_routes();
  if (count != 0 || !recovery_.knows_receiver() || impaired()) return;
  if (recovery_.has_news()) recovery_.look_around();
  if (!impaired()) listen_to_silence();
}

void SendRecovery::update_routes() {
  if (!connection_.impaired() && !replays_.empty()) replay();
  if (away_ && !connection_.impaired()) look_homewards();
  if (rail_layer_ != nullptr && !connection_.impaired()) lay_rails();
}

void SendRecovery::look_around() {
  if (events_seen_ != origin_->process->port_events()) look_at_port();
  if (detour_ != nullptr && !connection_.impaired()) look_for_detour();
}

void SendRecovery::look_homewards() {
  if (!going_home_ && failback_->advance()) {
    going_home_ = true;
    held_back_ = true;
  }
  if (!going_home_ || !replays_.empty() || !connection_.send_path_->settled() || connection_.impaired()) return;
  MESHBED_INFO("%s: going back to the first cable", connection_.ends_text().c_str());
  connection_.suspend({.code = ErrorCode::kRemote,
                       .scope = Scope::kPort,
                       .text = connection_.ends_text() + ": its first cable is back",
                       .os_errno = 0},
                      LogLevel::kInfo);
}

bool SendRecovery::takes(const Nic& nic, const SendArguments& send) {
  return send.memory->on(origin_->process->device_of(nic)) != nullptr;
}

bool SendRecovery::goes_back_for(const SendArguments& send) {
  if (went_back_ || !can_resume()) return false;
  if (!replays_.empty() || !connection_.send_path_->settled()) {
    connection_.poll();
    return true;
  }
  auto chain = way_back_for(send);
  if (!chain) return false;
  went_back_ = true;
  connection_.suspend({.code = ErrorCode::kRemote,
                       .scope = Scope::kPort,
                       .text = connection_.ends_text() +
                               ": it goes back to the way before: " + send.memory->problem_on(connection_.device()),
                       .os_errno = 0},
                      LogLevel::kInfo);
  going_back_ = !chain->empty() && connection_.is_relayed();
  resumption_ = std::make_unique<Resumption>(*origin_, connection_.settings().qp_link,
                                             connection_.settings().failover_ms, failed_paths_, std::move(*chain));
  return true;
}

/// The previous chain; empty for the first cable. nullopt: neither is available with a NIC that can register the
/// memory.
std::optional<std::vector<Hop>> SendRecovery::way_back_for(const SendArguments& send) {
  const std::vector<Nic> nics = origin_->process->current_nics();
  const auto nic_of = [&nics](const Route& route) -> const Nic& { return nics[static_cast<std::size_t>(route.nic)]; };
  if (const auto ways = ways_to(*origin_, nics)) {
    const Route& first = ways->front();
    const bool works = failed_paths_.may_try(CableEnds::of(nic_of(first), first));
    return works && takes(nic_of(first), send) ? std::optional(std::vector<Hop>{}) : std::nullopt;
  }
  if (retired_send_path_ == nullptr || !retired_send_path_->is_relayed()) return std::nullopt;
  const std::vector<Hop>& hops = relays_of(*retired_send_path_);
  const auto route = route_to_first(*origin_->process, hops, origin_->dev, nics);
  if (!route || !takes(nic_of(*route), send)) return std::nullopt;
  return hops;
}

/// Our port is down and no other cable leads to the peer: looks for relays.
void SendRecovery::look_for_detour() {
  if (!detour_->advance(detour_nics_)) return;
  const auto ours = connection_.local().port_in(detour_nics_);
  const bool up = ours != detour_nics_.end() && ours->link_up;
  connection_.suspend(
      {.code = ErrorCode::kRemote,
       .scope = Scope::kPort,
       .text = connection_.ends_text() + ": the port of " + connection_.local().nic.device_name +
               (up ? " has another address or GID, which no cable leads from" : " is down (look at its cable)") +
               ", and other nodes lead to the peer",
       .os_errno = 0});
}

/// A port changed, but not the QP link's: checks those of the rails.
void SendRecovery::look_at_rails(const std::vector<Nic>& nics) {
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    const QpLink* rail = connection_.qp_link().rail(number);
    if (rail != nullptr && !rail->local().stands(nics)) {
      connection_.suspend({.code = ErrorCode::kRemote,
                           .scope = Scope::kPort,
                           .text = connection_.ends_text() + ": the port of " + rail->local().nic.device_name +
                                   ", over which it is striped too, is down or has another GID: look at its cable",
                           .os_errno = 0});
      return;
    }
  }
  plan_rails(nics);
}

/// Takes in the receiver's notices about its own ports (address_notifier.h), so that later searches use its present
/// addresses. Returns the QP link, or its rail, that no longer leads to the peer; nullptr: none, or one that was
/// replaced.
const QpLink* SendRecovery::take_moved() {
  const QpLink* broken = nullptr;
  std::vector<WireEnd> ends = origin_->process->sessions().take_moved(origin_->session);
  ends.insert(ends.begin(), unmatched_ends_.begin(), unmatched_ends_.end());
  unmatched_ends_.clear();
  for (const WireEnd& end : ends) {
    const QpLink* one = qp_link_to(end);
    // The end of a QP link that was replaced, or of one that is being connected.
    if (one == nullptr && unmatched_ends_.size() < kMaxRails) unmatched_ends_.push_back(end);
    if (one == nullptr) continue;
    // The end may have moved before, and notices are repeated.
    const auto told = std::find_if(moved_ends_.begin(), moved_ends_.end(),
                                   [&](const WireEnd& known) { return known.is_same_queue_pair(end); });
    const bool first = told == moved_ends_.end();
    const IpAddress before = first ? one->peer().address.address : told->address.address;
    if (!first && before == end.address.address) continue;
    for (PeerAddress& known : origin_->peer.addresses) {
      if (known.prefix.address == before) known.prefix = end.address;
    }
    if (first) {
      moved_ends_.push_back(end);
    } else {
      *told = end;
    }
    broken = one;
  }
  return broken;
}

/// The QP link, or its rail, whose other end this is.
const QpLink* SendRecovery::qp_link_to(const WireEnd& end) {
  if (connection_.peer().is_same_queue_pair(end)) return &connection_.qp_link();
  for (std::size_t number = 0; number < kMaxRails; ++number) {
    const QpLink* rail = connection_.qp_link().rail(number);
    if (rail != nullptr && rail->peer().is_same_queue_pair(end)) return rail;
  }
  return nullptr;
}

/// A port changed, perhaps ours. If another path leads to the peer it is used at once. If none does, the adapter's
/// retries may survive a short interruption, and waiting for them costs nothing.
void SendRecovery::look_at_port() {
  events_seen_ = origin_->process->port_events();
  failback_->hurry();
  if (!can_resume()) return;
  const std::vector<Nic> nics = origin_->process->current_ports();
  failed_paths_.forgive(nics);
  detour_.reset();
  const auto ours = connection_.local().port_in(nics);
  if (const QpLink* moved = take_moved()) {
    const bool is_rail = moved != &connection_.qp_link();
    connection_.suspend({.code = ErrorCode::kRemote,
                         .scope = Scope::kPort,
                         .text = (is_rail ? moved->ends_text() + ", a rail of " : "") + connection_.ends_text() +
                                 ": the peer reports that its address or GID there has changed",
                         .os_errno = 0});
    return;
  }
  if (ours == nics.end()) return;
  const bool has_gid = connection_.local().has_gid_in(ours->gids);
  if (ours->link_up && has_gid) {
    look_at_rails(nics);
    return;
  }
  if (!ways_to(*origin_, nics)) {
    Service* service = origin_->process->service();
    if (service == nullptr || service->discovery() == nullptr) return;
    detour_ = std::make_unique<ChainSearch>(*origin_->process, *service->discovery(), origin_->peer, origin_->dev);
    detour_->begin(true);
    detour_nics_ = nics;  // a change of them causes an event, and this function is called again
    return;
  }
  connection_.suspend(
      {.code = ErrorCode::kRemote,
       .scope = Scope::kPort,
       .text = connection_.ends_text() + ": the port of " + connection_.local().nic.device_name +
               (ours->link_up ? " has another GID than " + verbs::to_text(connection_.local().gid.gid) + " now"
                              : " is down: look at its cable"),
       .os_errno = 0});
}

}  // namespace meshbed::net
