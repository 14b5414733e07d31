#pragma once
// UnixDatagram: a Unix datagram socket of a simulated process (unix(7)). Each node has its own names, abstract ones and
// paths; a path is no file of the real machine's. Messages keep their order, take no time, and carry descriptors.

#include <sys/socket.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "sim/host/file/file.h"
#include "sim/host/file/pipe.h"

namespace meshbed::sim {

/// A name as sockaddr_un has it: a path, or an abstract one, which begins with a zero byte.
using UnixName = std::string;

class UnixDatagram final : public File, public std::enable_shared_from_this<UnixDatagram> {
 public:
  struct Message {
    std::string bytes;
    PassedFiles files{};
    UnixName from{};  // empty: of no name
  };

  explicit UnixDatagram(Process& owner);
  ~UnixDatagram() override;

  short events() const override;
  Attempted try_read(void* data, std::size_t size, bool peek) override;
  Attempted try_write(const void* data, std::size_t size) override;
  std::size_t available_bytes() const override { return queue_.empty() ? 0 : queue_.front().bytes.size(); }
  std::string describe() const override;

  // Calls; 0 or an errno value.
  int bind(const sockaddr* address, socklen_t length);
  int connect(const sockaddr* address, socklen_t length);

  /// Where a message to that address goes, or to the peer of connect(); nullptr with `error`.
  std::shared_ptr<UnixDatagram> target(const sockaddr* address, socklen_t length, int& error) const;
  /// Takes a message, if there is room.
  Attempted try_take(Message& message);
  /// The first message, which `peek` leaves there.
  Attempted try_receive(Message& message, bool peek);

  const UnixName& name() const { return name_; }

 private:
  UnixName name_, peer_;
  std::deque<Message> queue_;
};

/// nullptr where the descriptor is something else.
std::shared_ptr<UnixDatagram> unix_datagram_at(int descriptor);
/// As accept(2) and recvfrom(2) give a name back.
void write_unix_name(const UnixName& name, sockaddr* address, socklen_t* length);
/// unlink() of a socket's path; false: no socket of this node was bound to it.
bool remove_unix_name(const std::string& path);

}  // namespace meshbed::sim
