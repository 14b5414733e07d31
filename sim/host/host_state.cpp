#include "sim/host/host_state.h"

#include <unistd.h>

#include <string_view>
#include <utility>

#include "sim/host/file/sysfs_tree.h"

namespace meshbed::sim {
namespace {

std::unique_ptr<Host> g_host;  // of the one World

// Long enough for a chain of hand-overs between threads without any time passing, short enough to be cheap where two
// threads merely poll under one mutex. A poller that is not notified finds the unlock at the end of its pause.
constexpr int kTellsPerInstant = 8;

}  // namespace

ProcessState::ProcessState(Process& owner)
    : process(owner), random(mix64(World::get().options().seed ^ mix64(static_cast<std::uint64_t>(owner.index) + 1))) {}

void ProcessState::refresh_environ() {
  variables.clear();
  for (const auto& [name, value] : process.environment) {
    variables.push_back(const_cast<char*>(strings.insert(name + "=" + value).first->c_str()));
  }
  variables.push_back(nullptr);
  environ_block = variables.data();
  for (char*** copy : environ_copies) *copy = environ_block;
}

ProcessState& state_of(Process& process) {
  if (!process.host_state) process.host_state = std::make_shared<ProcessState>(process);
  return *static_cast<ProcessState*>(process.host_state.get());
}

ProcessState& current_state() { return state_of(*World::current_process()); }

ThreadRecord& current_record() {
  Thread* thread = World::current();
  ProcessState& state = state_of(thread->process());
  ThreadRecord*& record = state.record_of_thread[thread];
  if (record == nullptr) {
    auto made = std::make_unique<ThreadRecord>();
    made->id = state.next_thread_id++;
    made->name = thread->name();
    record = made.get();
    state.threads[made->id] = std::move(made);
  }
  return *record;
}

std::uint32_t number_in(std::uint32_t& place) {
  if (place == 0) place = static_cast<std::uint32_t>(World::get().new_number());
  return place;
}

void tell_pollers() {
  Process& process = *World::current_process();
  if (process.spinning.empty()) return;
  ProcessState& state = state_of(process);
  World& world = World::get();
  if (state.told_ps != world.now()) {
    state.told_ps = world.now();
    state.told_count = 0;
  }
  if (state.told_count == kTellsPerInstant) return;
  ++state.told_count;
  world.signal(process);
}

bool first_time(ProcessState& state, const std::string& text) { return state.warned.insert(text).second; }

Host::Host() = default;
Host::~Host() {
  World::set_turn_hook(nullptr);
  for (const auto& [name, descriptor] : shared_files) ::close(descriptor);
}

Host& host() {
  if (g_host == nullptr) g_host = std::make_unique<Host>();
  return *g_host;
}

void install_host(World&, HostOptions options) {
  g_host = std::make_unique<Host>();
  g_host->options = std::move(options);
}

const HostCounters& host_counters() { return host().counters; }

}  // namespace meshbed::sim
