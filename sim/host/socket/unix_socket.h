#pragma once
// UnixSocket: a Unix stream socket of a simulated process that is not connected yet: fresh, bound, or listening. A
// connected one is an end of a stream pair (pipe.h). Only abstract names (unix(7)): each node has its own, and the file
// system, which is the real machine's, is nothing that ranks may write to.

#include <sys/socket.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "sim/host/file/file.h"

namespace meshbed::sim {

class UnixSocket : public File {
 public:
  explicit UnixSocket(Process& owner);
  ~UnixSocket() override;

  short events() const override;
  std::string describe() const override;

  // Calls; 0 or an errno value.
  int bind(const sockaddr* address, socklen_t length);
  int listen(int backlog);
  /// `connected`: what this socket's descriptor stands for from now on.
  int connect(const sockaddr* address, socklen_t length, std::shared_ptr<File>& connected);
  Attempted try_accept(std::shared_ptr<File>& accepted);

 private:
  std::string name_;
  std::size_t backlog_ = 0;  // 0: does not listen
  std::deque<std::shared_ptr<File>> pending_;
};

/// nullptr where the descriptor is something else.
std::shared_ptr<UnixSocket> unix_socket_at(int descriptor);

}  // namespace meshbed::sim
