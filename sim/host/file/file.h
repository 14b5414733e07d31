#pragma once
// File: an open file description of a simulated process (socket, pipe end, sysfs file, event descriptor), and the table
// of descriptors that refer to them.

#include <poll.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "sim/engine/world.h"
#include "sim/host/file/descriptors.h"
#include "sim/host/thread/wait_queue.h"

namespace meshbed::sim {

/// The result of an attempt on a File: a count >= 0, or -errno; -EAGAIN if it would have to wait.
using Attempted = ssize_t;

class File {
 public:
  explicit File(Process& owner) : process(owner), number(World::get().new_number()) {}
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// The poll(2) bits that hold now.
  virtual short events() const = 0;
  // Attempts never block.
  virtual Attempted try_read(void* data, std::size_t size, bool peek);
  virtual Attempted try_write(const void* data, std::size_t size);
  virtual off_t seek(off_t offset, int whence);
  virtual void stat(struct stat& result) const;
  /// Another process's descriptor may refer to it too: it never notifies its own process (notify()).
  virtual bool can_be_passed() const { return false; }
  /// Bytes that a read would give at once (FIONREAD).
  virtual std::size_t available_bytes() const { return 0; }
  /// For deadlock reports: "listening on 0.0.0.0:4000". No addresses of memory: reports are compared between runs.
  virtual std::string describe() const = 0;

  Polled polled() const { return {"file", number}; }

  /// events() may have changed: wakes pollers and blocked callers, and polling loops of the process.
  void notify();

  Process& process;
  const std::uint64_t number;  // no other one has it
  bool nonblocking = false;
  int status_flags = 0;  // what F_GETFL adds to O_NONBLOCK: the access mode
  WaitQueue watchers{};
};

/// Readable as set by its owner: see descriptors.h.
class EventFile : public File {
 public:
  using File::File;
  short events() const override { return readable ? POLLIN : 0; }
  std::string describe() const override { return "an event descriptor"; }

  bool readable = false;
};

/// The lowest free number from kFirstDescriptor on, as POSIX has it.
class DescriptorTable {
 public:
  int add(std::shared_ptr<File> file, bool close_on_exec);
  /// nullptr where the number is not open. The caller's reference keeps the file over a wait.
  std::shared_ptr<File> find(int descriptor) const;
  bool close(int descriptor);
  /// The open ones from `first` to `last`.
  std::vector<int> open_between(unsigned first, unsigned last) const;
  /// The open `descriptor` stands for `file` from now on.
  void replace(int descriptor, std::shared_ptr<File> file);
  bool close_on_exec(int descriptor) const;
  void set_close_on_exec(int descriptor, bool value);

 private:
  struct Entry {
    std::shared_ptr<File> file;
    bool close_on_exec = false;
  };
  std::map<int, Entry> entries_;
};

inline bool is_simulated(int descriptor) { return descriptor >= kFirstDescriptor; }

/// Sets errno and returns -1.
int fail(int code);
/// An Attempted as a system call gives it.
ssize_t answer(Attempted result);
/// The note for a thread that waits in `what` for `file`.
WaitNote note_of(const char* what, const File& file);

/// Repeats attempt() until it is done. If it would have to wait, a call that may not block tries again after the
/// polling loop's pause and then fails with EAGAIN; one that may block waits, at most `timeout` (kForever: no limit).
template <typename Attempt>
ssize_t complete(File& file, bool may_block, Picoseconds timeout, const char* what, const Attempt& attempt) {
  World& world = World::get();
  const int kept_errno = errno;
  Attempted result = attempt();
  if (result == -EAGAIN && !may_block) {
    world.spin(file.polled(), note_of(what, file));
    result = attempt();
  }
  if (result == -EAGAIN && may_block) {
    const Picoseconds deadline = deadline_after(timeout);
    while (result == -EAGAIN && wait_in(file.watchers, note_of(what, file), deadline)) result = attempt();
  }
  errno = kept_errno;
  if (result >= 0) world.note_activity();
  return answer(result);
}

}  // namespace meshbed::sim
