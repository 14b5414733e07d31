#include "plugin/local/meeting.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "plugin/base/random.h"
#include "plugin/local/refusal.h"

namespace meshbed::local {
namespace {

constexpr std::uint64_t kMagic = 0x31306c61636f6c6dU;  // "mlocal01"
// Bound on clients that have not introduced themselves; the oldest makes room for others.
constexpr std::size_t kGuestsMax = 64;

struct Hello {
  std::uint64_t magic = 0, secret = 0, address = 0;
};

struct Answer {
  std::uint64_t magic = 0;
  std::int64_t refused = 0;  // errno of the receiver's process_vm_readv(2); 0: success
};

template <typename T>
std::span<const char> bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The running kernel's own name: processes with the same one are on one host.
Result<std::string> boot_id() {
  const Descriptor file(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, sizeof(Handle::boot_id) - 1> text{};
  const ssize_t size = file.is_open() ? read(file.number(), text.data(), text.size()) : -1;
  if (size <= 0) return refused_by_kernel("/proc/sys/kernel/random/boot_id", errno);
  return std::string(text.data(), std::find(text.data(), text.data() + size, '\n'));
}

/// As every message will be read; 0, or the kernel's reason.
int try_to_read(int process, std::uint64_t address, std::uint64_t expected) {
  if (process <= 0) return ESRCH;
  std::uint64_t found = 0;
  const iovec to{&found, sizeof found}, from{reinterpret_cast<void*>(address), sizeof found};
  if (process_vm_readv(process, &to, 1, &from, 1, 0) < 0) return errno;
  return found == expected ? 0 : ESRCH;  // another process has that number here
}

Error unreadable(const std::string& who, int number) {
  std::string why = "the kernel does not let " + who + " (process_vm_readv: " + text_of_errno(number) + ")";
  if (number == EPERM) why += "; same user? kernel.yama.ptrace_scope? a container's seccomp filter?";
  if (number == ESRCH) why += "; are the two in different PID namespaces?";
  return refuse(ErrorCode::kUnreachable, why);
}

}  // namespace

Result<std::unique_ptr<Listener>> Listener::open(std::shared_ptr<PollBackoff> poll_backoff, Handle* handle) {
  auto socket = UnixSocket::listen();
  if (!socket) return socket.error();
  auto address = socket->address();
  if (!address) return address.error();
  auto host = boot_id();
  if (!host) return host.error();
  Handle made{.magic = kMagic};
  std::array<std::uint8_t, sizeof made.secret> secret{};
  if (auto drawn = fill_unpredictable(secret); !drawn) return refused_by_kernel("getrandom", drawn.error().os_errno);
  made.secret = std::bit_cast<std::uint64_t>(secret);
  if (address->size() > sizeof made.address) return refuse(ErrorCode::kInternal, "the kernel chose a long address");
  std::memcpy(made.boot_id, host->data(), host->size());
  std::memcpy(made.address, address->data(), address->size());
  made.address_bytes = address->size();
  *handle = made;
  return std::unique_ptr<Listener>(new Listener(std::move(*socket), made.secret, std::move(poll_backoff)));
}

Result<std::unique_ptr<LocalLink>> Listener::accept() {
  while (auto guest = socket_.accept()) {
    if (guests_.size() == kGuestsMax) guests_.erase(guests_.begin());
    guests_.push_back(std::move(*guest));
  }
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    Hello hello;
    std::span<char> text(reinterpret_cast<char*>(&hello), sizeof hello);
    auto letter = guest->receive(text);
    if (letter && !*letter) {
      ++guest;
      continue;
    }
    UnixSocket socket = std::move(*guest);
    guest = guests_.erase(guest);
    const bool ours =
        letter && (*letter)->size_bytes == sizeof hello && hello.magic == kMagic && hello.secret == secret_;
    if (ours) return answer(std::move(socket), std::move(**letter), text);
  }
  return std::unique_ptr<LocalLink>();
}

Result<std::unique_ptr<LocalLink>> Listener::answer(UnixSocket guest, Letter letter, std::span<const char> text) {
  Hello hello;
  std::memcpy(&hello, text.data(), sizeof hello);
  auto [ring_descriptor, doorbell_descriptor] = std::move(letter.descriptors);
  auto ring = map_ring(std::move(ring_descriptor));
  if (!ring) return ring.error();
  auto doorbell = Doorbell::map(std::move(doorbell_descriptor));
  if (!doorbell) return doorbell.error();
  const int process = guest.process();
  const int refused = try_to_read(process, hello.address, secret_);
  const int own_doorbell = poll_backoff_->doorbell().descriptor();
  auto told = guest.send(bytes_of(Answer{.magic = kMagic, .refused = refused}), {&own_doorbell, 1});
  if (refused != 0) return unreadable("us read the memory of the sender, process " + std::to_string(process), refused);
  if (!told) {
    return refuse(ErrorCode::kRemote,
                  "the sender, process " + std::to_string(process) + ", is gone: it ended or gave up");
  }
  return std::make_unique<LocalLink>(LocalLink::Side::kReceives, std::move(*ring),
                                     Peer{std::move(guest), process, std::move(*doorbell)}, poll_backoff_);
}

Result<void> Connecting::begin(Handle& handle) {
  if (handle.magic != kMagic || handle.address_bytes > sizeof handle.address) {
    return refuse(ErrorCode::kRemote, "the receiver's handle is not this plugin's: all ranks need the same one");
  }
  auto host = boot_id();
  if (!host) return host.error();
  handle.boot_id[sizeof handle.boot_id - 1] = '\0';
  if (*host != handle.boot_id) {
    return refuse(ErrorCode::kUnreachable, "the receiver is on another host (boot id " + std::string(handle.boot_id) +
                                               ", ours is " + *host + "): this plugin is for one host");
  }
  auto socket = UnixSocket::connect({handle.address, handle.address_bytes});
  if (!socket) return socket.error();
  if (!*socket) return ok();
  auto ring = create_ring();
  if (!ring) return ring.error();
  const std::array<int, 2> descriptors{ring->descriptor.number(), poll_backoff_->doorbell().descriptor()};
  auto attempt = std::make_unique<Attempt>(Attempt{std::move(**socket), std::move(*ring), handle.secret});
  const Hello hello{
      .magic = kMagic, .secret = handle.secret, .address = reinterpret_cast<std::uint64_t>(&attempt->secret)};
  if (auto sent = attempt->socket.send(bytes_of(hello), descriptors); !sent) {
    return refuse(ErrorCode::kRemote, "the receiver is gone: it ended or gave up");
  }
  handle.attempt = ++last_attempt_;
  attempts_.emplace(handle.attempt, std::move(attempt));
  return ok();
}

Result<std::unique_ptr<LocalLink>> Connecting::go_on(Handle& handle) {
  const std::lock_guard lock(mutex_);
  if (handle.attempt == 0) {
    if (auto begun = begin(handle); !begun) return begun.error();
    return std::unique_ptr<LocalLink>();
  }
  const auto found = attempts_.find(handle.attempt);
  if (found == attempts_.end()) return refuse(ErrorCode::kInvalidArgument, "a handle whose attempt has ended");
  Answer answer;
  const std::span<char> text(reinterpret_cast<char*>(&answer), sizeof answer);
  auto letter = found->second->socket.receive(text);
  if (letter && !*letter) return std::unique_ptr<LocalLink>();
  const auto attempt = std::move(found->second);
  attempts_.erase(found);
  const int process = attempt->socket.process();
  const std::string who = "the receiver, process " + std::to_string(process);
  if (!letter || (*letter)->size_bytes != sizeof answer || answer.magic != kMagic) {
    return refuse(ErrorCode::kRemote, who + ", is gone: it ended or gave up before it answered");
  }
  if (answer.refused != 0) return unreadable(who + ", read our memory", static_cast<int>(answer.refused));
  auto doorbell = Doorbell::map(std::move((*letter)->descriptors[0]));
  if (!doorbell) return doorbell.error();
  return std::make_unique<LocalLink>(LocalLink::Side::kSends, std::move(attempt->ring),
                                     Peer{std::move(attempt->socket), process, std::move(*doorbell)}, poll_backoff_);
}

}  // namespace meshbed::local
