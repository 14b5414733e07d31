// poll and ppoll: simulated files in virtual time. Real descriptors in the same set are looked at without waiting each
// time that something wakes the caller.
#include <poll.h>

#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "sim/host/load/calls.h"
#include "sim/host/load/redirection.h"
#include "sim/host/thread/clocks.h"

namespace meshbed::sim {
namespace {

// What poll(2) reports whether asked for or not.
constexpr short kAlways = POLLERR | POLLHUP | POLLNVAL;

/// Fills the results; the number of entries that have one.
int look(std::span<pollfd> entries, const std::vector<std::shared_ptr<File>>& files) {
  int ready = 0;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    pollfd& entry = entries[index];
    entry.revents = 0;
    if (entry.fd < 0) continue;
    if (!is_simulated(entry.fd)) {
      ::poll(&entry, 1, 0);
    } else if (files[index] == nullptr) {
      entry.revents = POLLNVAL;
    } else {
      entry.revents = static_cast<short>(files[index]->events() & (entry.events | kAlways));
    }
    ready += entry.revents != 0 ? 1 : 0;
  }
  return ready;
}

/// Waits for any of the files, then looks again, until something is ready or the time is over.
int wait_and_look(std::span<pollfd> entries, const std::vector<std::shared_ptr<File>>& files, Picoseconds deadline) {
  std::deque<Waiter> waiters;
  const File* named = nullptr;
  for (const auto& file : files) {
    if (file == nullptr) continue;
    waiters.emplace_back(file->watchers, *World::current());
    named = file.get();
  }
  for (;;) {
    wait_any(named != nullptr ? note_of("poll", *named) : WaitNote{.what = "poll"}, deadline);
    const int ready = look(entries, files);
    if (ready > 0 || World::get().now() >= deadline) return ready;
    // A waiter leaves its queue when it is woken: stand in line again.
    waiters.clear();
    for (const auto& file : files) {
      if (file != nullptr) waiters.emplace_back(file->watchers, *World::current());
    }
  }
}

/// `timeout` in simulated time; kForever: none.
int poll_files(std::span<pollfd> entries, Picoseconds timeout) {
  std::vector<std::shared_ptr<File>> files(entries.size());
  const File* first = nullptr;
  for (std::size_t index = 0; index < entries.size(); ++index) {
    if (is_simulated(entries[index].fd)) files[index] = file_at(entries[index].fd);
    if (first == nullptr) first = files[index].get();
  }
  World& world = World::get();
  int ready = look(entries, files);
  if (ready == 0 && timeout == 0) {
    const int kept_errno = errno;
    world.spin(first != nullptr ? first->polled() : Polled{"no file"}, {.what = "poll"});
    errno = kept_errno;
    ready = look(entries, files);
  } else if (ready == 0) {
    ready = wait_and_look(entries, files, deadline_after(timeout));
  }
  if (ready > 0) world.note_activity();
  return ready;
}

int poll_descriptors(pollfd* entries, nfds_t count, int timeout_ms) {
  if (outside()) return ::poll(entries, count, timeout_ms);
  return poll_files({entries, count}, timeout_ms < 0 ? kForever : timeout_ms * kPicosecondsPerMillisecond);
}

int poll_with_mask(pollfd* entries, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  if (outside()) return ::ppoll(entries, count, timeout, mask);
  // There are no signals, so that the mask has nothing to hold back.
  const auto limit = timeout != nullptr ? duration_of(*timeout) : kForever;
  return limit ? poll_files({entries, count}, *limit) : fail(EINVAL);
}

int poll_descriptors_checked(pollfd* entries, nfds_t count, int timeout_ms, std::size_t) {
  return poll_descriptors(entries, count, timeout_ms);
}

}  // namespace

std::span<const Redirection> poll_redirections() {
  static const std::array table{redirect("poll", &poll_descriptors), redirect("ppoll", &poll_with_mask),
                                redirect("__poll_chk", &poll_descriptors_checked)};
  return table;
}

}  // namespace meshbed::sim
