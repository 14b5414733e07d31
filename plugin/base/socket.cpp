#include "plugin/base/socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace meshbed {

bool Socket::wait_for(short events, int timeout_ms) const {
  pollfd entry{.fd = descriptor(), .events = events, .revents = 0};
  return ::poll(&entry, 1, timeout_ms) > 0;
}

int Socket::connect_error() const {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 ? errno : error;
}

}  // namespace meshbed
