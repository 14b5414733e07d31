// Asynchronous events (ibv_get_async_event(3)) and the ports' part of them.

#include <algorithm>
#include <cerrno>

#include "sim/host/file/descriptors.h"
#include "sim/verbs/system.h"

namespace meshbed::sim {
namespace verbs {
namespace {

bool about_completion_queue(std::uint32_t type) { return type == IBV_EVENT_CQ_ERR; }
bool about_port(std::uint32_t type) {
  return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_GID_CHANGE;
}

std::string describe_waiter(std::uint64_t context) {
  const Context* found = system().contexts.find(static_cast<std::uint32_t>(context));
  return found != nullptr ? "an event of " + describe(system(), *found) : "an event of a closed device";
}

void tell_all(System& system, models::PortRef port, ibv_event_type type) {
  system.contexts.for_each([&](Context& context) {
    if (context.port == port) raise_event(system, context, type, nic_of(system, port).port);
  });
}

/// Compares a device with its last reported state; if it changed, raises the event for every context on it.
void watch_device(System& system, models::PortRef port) {
  PortWatch& last = system.port(port);
  const bool up = system.network.port_up(port);
  if (up == last.up) return;
  last.up = up;
  tell_all(system, port, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

/// A port, and the device that it is a function of.
void watch(System& system, models::PortRef port) {
  PortWatch& last = system.port(port);
  const bool link = system.network.link_up(port);
  if (last.link && !link) ++last.flaps;
  last.link = link;
  watch_device(system, system.network.device(port));
}

}  // namespace

void raise_event(System& system, Context& context, ibv_event_type type, std::uint32_t object) {
  context.events.push_back({static_cast<std::uint32_t>(type), object});
  set_readable(*context.process, context.async_fd, true);
  if (!context.waiting.empty()) system.world.wake(*context.waiting.front());
  deliver(system, *context.process);
}

void forget_events(System&, Context& context, bool completion_queue, std::uint32_t object) {
  std::erase_if(context.events, [&](const BackendAsyncEvent& event) {
    return !about_port(event.type) && about_completion_queue(event.type) == completion_queue && event.object == object;
  });
  if (context.events.empty()) set_readable(*context.process, context.async_fd, false);
}

int get_async_event(System& system, std::uint32_t handle, bool block, BackendAsyncEvent& event) {
  for (;;) {
    Context* context = system.contexts.find(handle);
    if (context == nullptr) return EBADF;
    if (!context->events.empty()) {
      event = context->events.front();
      context->events.pop_front();
      if (context->events.empty()) set_readable(*context->process, context->async_fd, false);
      system.world.note_activity();
      return 0;
    }
    if (!block || is_nonblocking(*context->process, context->async_fd)) return EAGAIN;
    Thread* self = World::current();
    context->waiting.push_back(self);
    system.world.block({.what = "ibv_get_async_event", .object = handle, .describe = describe_waiter});
    if (Context* still = system.contexts.find(handle)) std::erase(still->waiting, self);
  }
}

}  // namespace verbs

void gids_changed(models::PortRef port) {
  verbs::System& system = verbs::system();
  system.port(port).gids_changed = true;
  verbs::tell_all(system, port, IBV_EVENT_GID_CHANGE);
}

void port_changed(models::PortRef port) {
  verbs::System& system = verbs::system();
  verbs::watch(system, port);
  for (const models::PortRef other : system.network.joined(port)) verbs::watch(system, other);
}

void bond_changed(models::PortRef device) {
  verbs::System& system = verbs::system();
  system.queue_pairs.for_each([&](verbs::QueuePair& qp) {
    if (qp.route.path == nullptr || (qp.context->port != device && qp.route.peer != device)) return;
    const Path* const path = system.network.path(qp.context->port, qp.route.peer, qp.route.flow);
    if (path == nullptr || path == qp.route.path) return;
    qp.route.path = path;
    ++qp.route.moves;
  });
}

}  // namespace meshbed::sim
