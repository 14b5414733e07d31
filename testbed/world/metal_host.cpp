#include "testbed/world/metal_host.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "plugin/coll/store/large_value.h"
#include "plugin/coll/store/store_meeting.h"
#include "testbed/base/files.h"
#include "testbed/world/fault_folder.h"

namespace meshbed::testbed {
namespace {

constexpr int kMeetingPort = 1, kEnginePort = 2;  // beyond MASTER_PORT
constexpr std::size_t kHandedOverBytesMax = std::size_t{1} << 30U;
constexpr int kFailurePollEvery = 1024;  // idle turns

std::string port_of(const MetalPlace& place, int beyond) {
  const std::string address = address_and_port(place.address, place.port + beyond);
  return place.job_key.empty() ? address : address + "/" + place.job_key;
}

}  // namespace

Result<std::unique_ptr<MetalHost>> MetalHost::meet(const MetalPlace& place, Deadline deadline) {
  std::unique_ptr<MetalHost> host(new MetalHost(place, deadline));
  host->bootstrap_ = port_of(place, kEnginePort);
  const std::string meeting = port_of(place, kMeetingPort);
  const coll::Identity identity{.world = static_cast<std::uint32_t>(place.ranks),
                                .rank = static_cast<std::uint32_t>(place.rank)};
  // Ranks hand over whole results, which rank 0 reads when it has its own.
  auto met =
      coll::meet_at_store(meeting, identity, {.linger_ms = 5000, .unread_bytes_max = kHandedOverBytesMax}, deadline);
  if (!met) return met.error();
  host->server_ = std::move(met->server);
  host->client_ = std::move(met->client);
  if (const Result<void> all = host->rendezvous(); !all) return all.error();
  return host;
}

Picoseconds MetalHost::now_ps() const { return now_ns() * kPicosecondsPerNanosecond; }

void MetalHost::idle(const char*) {
  if (++idle_turns_ % kFailurePollEvery == 0) static_cast<void>(failure());
  // While threads run together, the running thread holds the baton.
  if (together_) baton_.unlock();
  // Two ranks that poll on one core would otherwise alternate only once a timer tick.
  sched_yield();
  if (together_) baton_.lock();
}

void MetalHost::be_elsewhere(Picoseconds duration_ps) {
  const Picoseconds back_ps = now_ps() + duration_ps;
  while (now_ps() < back_ps) rest();
}

void MetalHost::rest(int rest_ms) {
  const std::lock_guard lock(store_);
  static_cast<void>(client_->poll(rest_ms));
}

Error MetalHost::broken() { return {.code = ErrorCode::kClosed, .scope = Scope::kJob, .text = *client_->failure()}; }

Result<void> MetalHost::rendezvous() {
  const std::lock_guard lock(store_);
  if (client_->failure()) return broken();
  const int left_ms = deadline_.remaining_ms();
  const Result<void> all = client_->barrier(std::max(left_ms, 1));
  if (!all && client_->failure()) return broken();
  return all;
}

Result<void> MetalHost::reach(const std::string& point) {
  const std::optional<std::string> folder = fault_folder();
  if (!folder) return ok();
  if (const Result<void> all = rendezvous(); !all) return all;
  if (place_.rank == 0) write_text_file(point_file(*folder, point), "");
  // A shared folder of the host sends no notification of a new file, so poll.
  while (access(answer_file(*folder, point).c_str(), F_OK) != 0) {
    if (!failure().empty()) return broken();
    if (deadline_.remaining_ms() == 0) {
      return Error{.code = ErrorCode::kTimeout,
                   .scope = Scope::kJob,
                   .text = fmt::format("the host did not carry out the faults of point '{}' in time", point)};
    }
    sched_yield();
  }
  return ok();
}

Result<void> MetalHost::publish(const std::string& key, const std::string& value) {
  const std::lock_guard lock(store_);
  return client_->set(key, value);
}

Result<std::optional<std::string>> MetalHost::look_up(const std::string& key) {
  const std::lock_guard lock(store_);
  auto request = asked_.find(key);
  if (request == asked_.end()) {
    const Result<std::uint32_t> begun = client_->begin_get(key);
    if (!begun) return begun.error();
    request = asked_.emplace(key, *begun).first;
  }
  if (const Result<void> polled = client_->poll(0); !polled) return polled.error();
  std::optional<std::string> value = client_->take(request->second);
  if (value) asked_.erase(request);
  return value;
}

bool MetalHost::others_failed() {
  const std::lock_guard lock(store_);
  return client_->failure().has_value();
}

std::string MetalHost::failure() {
  const std::lock_guard lock(store_);
  static_cast<void>(client_->poll(0));  // a lost store shows at the next wait
  return client_->failure().value_or("");
}

void MetalHost::announce_failure(const std::string& text) {
  const std::lock_guard lock(store_);
  client_->announce_failure(text);
}

void MetalHost::run_together(std::vector<RankThread> threads) {
  std::vector<std::thread> running;
  together_ = true;
  for (RankThread& thread : threads) {
    running.emplace_back([this, body = std::move(thread.body)] {
      const std::lock_guard lock(baton_);
      body();
    });
  }
  for (std::thread& thread : running) thread.join();
  together_ = false;
}

Result<void*> MetalHost::load(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return Error{.code = ErrorCode::kSystem, .scope = Scope::kJob, .text = fmt::format("cannot load {}", dlerror())};
}

void* MetalHost::symbol(void* library, const char* name) { return dlsym(library, name); }

Result<void> MetalHost::hand_over(const std::string& key, const std::string& text) {
  const std::lock_guard lock(store_);
  return coll::set_large(*client_, key, text);
}

Result<std::string> MetalHost::take_over(const std::string& key) {
  const std::lock_guard lock(store_);
  return coll::get_large(*client_, key, deadline_, {});
}

}  // namespace meshbed::testbed
