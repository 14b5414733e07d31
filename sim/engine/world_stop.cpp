// Nodes that stop, go on, or lose their power: what belongs to one is held up, in order.

#include <algorithm>
#include <utility>

#include "plugin/base/check.h"
#include "sim/engine/world_impl.h"

namespace meshbed::sim {

bool World::Impl::hold(const World& world, const Event& event) {
  const auto& exempt = world.never_held_;
  if (std::find(exempt.begin(), exempt.end(), event.function) != exempt.end()) return false;
  held_events.push_back(event);
  return true;
}

void World::stop(int node, Stop how) {
  MESHBED_CHECK_MSG(current() == nullptr, "nodes are stopped by events");
  if (stopped_.empty()) stopped_.resize(options_.cluster.nodes.size(), Stop::kNo);
  stopped_.at(static_cast<std::size_t>(node)) = how;
  // A thread that was woken a moment ago and has not run yet stands still as well.
  std::erase_if(impl_->woken, [&](Thread* thread) {
    if (thread->process_->node != node) return false;
    thread->blocked_ = true;
    --impl_->runnable;
    resume(*thread);
    return true;
  });
}

void World::stop_node(int node) {
  if (!stopped(node)) stop(node, Stop::kStopped);
}

void World::kill_node(int node) {
  if (killed(node)) return;
  stop(node, Stop::kKilled);
  for (const auto& thread : impl_->threads) {
    if (thread->process_->node != node || thread->ended_) continue;
    // One that another event of this instant has woken runs until it blocks, or ends: then it must not count again.
    if (!std::exchange(thread->daemon_, true)) --impl_->live;
  }
}

void World::continue_node(int node) {
  if (!stopped(node) || killed(node)) return;
  stopped_[static_cast<std::size_t>(node)] = Stop::kNo;
  for (const Event& event : std::exchange(impl_->held_events, {})) {
    if (event.host == node) {
      at(now_ps_, node, event.function, event.self, event.argument);
    } else {
      impl_->held_events.push_back(event);
    }
  }
  for (Thread* thread : std::exchange(impl_->held_threads, {})) {
    if (thread->process_->node == node) {
      thread->held_ = false;
      resume(*thread);
    } else {
      impl_->held_threads.push_back(thread);
    }
  }
}

}  // namespace meshbed::sim
