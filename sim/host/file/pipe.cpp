// What threads of one rank wake each other with: pipes, socket pairs, event counters. No time passes in them.
#include "sim/host/file/pipe.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <limits>
#include <utility>

#include "sim/host/load/calls.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

constexpr std::size_t kPipeBytes = 65'536;  // pipe(7): capacity on Linux

/// Bytes one way between two ends.
struct ByteQueue {
  std::string bytes;
  File* reader = nullptr;  // nullptr: closed
  File* writer = nullptr;
  std::uint64_t written = 0, read = 0;                         // bytes so far
  std::deque<std::pair<std::uint64_t, PassedFiles>> passed{};  // by how many bytes were written before
};

/// One end of a pipe (one queue) or of a socket pair (both).
class PipeEnd : public File {
 public:
  PipeEnd(Process& owner, std::shared_ptr<ByteQueue> in, std::shared_ptr<ByteQueue> out)
      : File(owner), in_(std::move(in)), out_(std::move(out)) {
    if (in_ != nullptr) in_->reader = this;
    if (out_ != nullptr) out_->writer = this;
    status_flags = in_ == nullptr ? O_WRONLY : out_ == nullptr ? O_RDONLY : O_RDWR;
  }

  ~PipeEnd() override {
    if (!World::exists()) return;
    if (in_ != nullptr) {
      in_->reader = nullptr;
      if (in_->writer != nullptr) in_->writer->notify();
    }
    if (out_ != nullptr) {
      out_->writer = nullptr;
      if (out_->reader != nullptr) out_->reader->notify();
    }
  }

  short events() const override {
    short result = 0;
    if (in_ != nullptr && !in_->bytes.empty()) result |= POLLIN;
    if (in_ != nullptr && in_->writer == nullptr) result |= POLLHUP;
    if (out_ != nullptr && out_->bytes.size() < kPipeBytes) result |= POLLOUT;
    if (out_ != nullptr && out_->reader == nullptr) result |= POLLERR;
    return result;
  }

  Attempted try_read(void* data, std::size_t size, bool peek) override {
    if (in_ == nullptr) return -EBADF;
    const std::size_t count = std::min({size, in_->bytes.size(), bytes_to_next_files()});
    if (count == 0) return size == 0 || in_->writer == nullptr ? 0 : -EAGAIN;
    std::memcpy(data, in_->bytes.data(), count);
    if (peek) return static_cast<Attempted>(count);
    in_->bytes.erase(0, count);
    in_->read += count;
    while (!in_->passed.empty() && in_->passed.front().first < in_->read) {
      PassedFiles& files = in_->passed.front().second;
      arrived_.insert(arrived_.end(), files.begin(), files.end());
      in_->passed.pop_front();
    }
    if (in_->writer != nullptr) in_->writer->notify();
    return static_cast<Attempted>(count);
  }

  Attempted try_write(const void* data, std::size_t size) override {
    if (out_ == nullptr) return -EBADF;
    if (out_->reader == nullptr) return -EPIPE;
    const std::size_t count = std::min(size, kPipeBytes - out_->bytes.size());
    if (count == 0) return size == 0 ? 0 : -EAGAIN;
    out_->bytes.append(static_cast<const char*>(data), count);
    out_->written += count;
    out_->reader->notify();
    return static_cast<Attempted>(count);
  }

  std::size_t available_bytes() const override { return in_ != nullptr ? in_->bytes.size() : 0; }
  std::string describe() const override { return "a pipe"; }

  void attach(PassedFiles files) { out_->passed.emplace_back(out_->written, std::move(files)); }
  void detach() {
    if (!out_->passed.empty() && out_->passed.back().first == out_->written) out_->passed.pop_back();
  }
  PassedFiles take() { return std::exchange(arrived_, {}); }

 private:
  /// One read never takes what came with two messages' files (unix(7)).
  std::size_t bytes_to_next_files() const {
    for (const auto& [at, files] : in_->passed) {
      if (at > in_->read) return static_cast<std::size_t>(at - in_->read);
    }
    return kPipeBytes;
  }

  std::shared_ptr<ByteQueue> in_, out_;
  PassedFiles arrived_;
};

/// eventfd(2).
class EventCounter : public File {
 public:
  EventCounter(Process& owner, std::uint64_t value, bool semaphore)
      : File(owner), value_(value), semaphore_(semaphore) {
    status_flags = O_RDWR;
  }

  short events() const override {
    return static_cast<short>((value_ > 0 ? POLLIN : 0) | (value_ < kMax ? POLLOUT : 0));
  }

  Attempted try_read(void* data, std::size_t size, bool) override {
    if (size < sizeof(value_)) return -EINVAL;
    if (value_ == 0) return -EAGAIN;
    const std::uint64_t taken = semaphore_ ? 1 : value_;
    std::memcpy(data, &taken, sizeof(taken));
    value_ -= taken;
    notify();
    return sizeof(taken);
  }

  Attempted try_write(const void* data, std::size_t size) override {
    std::uint64_t added = 0;
    if (size < sizeof(added)) return -EINVAL;
    std::memcpy(&added, data, sizeof(added));
    if (added > kMax) return -EINVAL;
    if (added > kMax - value_) return -EAGAIN;
    value_ += added;
    notify();
    return sizeof(added);
  }

  std::string describe() const override { return "an event counter"; }

 private:
  static constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max() - 1;
  std::uint64_t value_;
  bool semaphore_;
};

/// Adds both ends; `flags` are open(2)'s.
void add_pair(std::shared_ptr<File> first, std::shared_ptr<File> second, bool nonblocking, bool close_on_exec,
              int* descriptors) {
  first->nonblocking = second->nonblocking = nonblocking;
  auto& table = current_state().descriptors;
  descriptors[0] = table.add(std::move(first), close_on_exec);
  descriptors[1] = table.add(std::move(second), close_on_exec);
}

int make_pipe_with_flags(int* descriptors, int flags) {
  if (outside()) return ::pipe2(descriptors, flags);
  if ((flags & ~(O_NONBLOCK | O_CLOEXEC)) != 0) return fail(EINVAL);
  Process& process = *World::current_process();
  const auto queue = std::make_shared<ByteQueue>();
  add_pair(std::make_shared<PipeEnd>(process, queue, nullptr), std::make_shared<PipeEnd>(process, nullptr, queue),
           (flags & O_NONBLOCK) != 0, (flags & O_CLOEXEC) != 0, descriptors);
  return 0;
}

int make_pipe(int* descriptors) { return outside() ? ::pipe(descriptors) : make_pipe_with_flags(descriptors, 0); }

int make_socket_pair(int family, int type, int protocol, int* descriptors) {
  if (outside()) return ::socketpair(family, type, protocol, descriptors);
  if (family != AF_UNIX) return fail(EOPNOTSUPP);
  if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM) return fail(ESOCKTNOSUPPORT);
  Process& process = *World::current_process();
  auto [first, second] = make_stream_pair(process, process);
  add_pair(std::move(first), std::move(second), (type & SOCK_NONBLOCK) != 0, (type & SOCK_CLOEXEC) != 0, descriptors);
  return 0;
}

int make_event_counter(unsigned value, int flags) {
  if (outside()) return ::eventfd(value, flags);
  if ((flags & ~(EFD_NONBLOCK | EFD_CLOEXEC | EFD_SEMAPHORE)) != 0) return fail(EINVAL);
  auto file = std::make_shared<EventCounter>(*World::current_process(), value, (flags & EFD_SEMAPHORE) != 0);
  file->nonblocking = (flags & EFD_NONBLOCK) != 0;
  return current_state().descriptors.add(std::move(file), (flags & EFD_CLOEXEC) != 0);
}

}  // namespace

std::pair<std::shared_ptr<File>, std::shared_ptr<File>> make_stream_pair(Process& first, Process& second) {
  const auto left = std::make_shared<ByteQueue>();
  const auto right = std::make_shared<ByteQueue>();
  return {std::make_shared<PipeEnd>(first, left, right), std::make_shared<PipeEnd>(second, right, left)};
}

bool is_stream_end(const File& file) {
  return dynamic_cast<const PipeEnd*>(&file) != nullptr && file.status_flags == O_RDWR;
}

void attach_files(File& end, PassedFiles files) { dynamic_cast<PipeEnd&>(end).attach(std::move(files)); }
void detach_files(File& end) { dynamic_cast<PipeEnd&>(end).detach(); }
PassedFiles take_files(File& end) { return dynamic_cast<PipeEnd&>(end).take(); }

std::span<const Redirection> pipe_redirections() {
  static const std::array table{redirect("pipe", &make_pipe), redirect("pipe2", &make_pipe_with_flags),
                                redirect("socketpair", &make_socket_pair), redirect("eventfd", &make_event_counter)};
  return table;
}

}  // namespace meshbed::sim
