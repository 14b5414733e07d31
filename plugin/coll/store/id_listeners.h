#pragma once
// IdListeners: the listening sockets for unique ids, for ranks without a common address. This process listens from the
// moment that the unique id is made until its communicator takes the socket. Any thread.

#include <map>
#include <mutex>
#include <string>

#include "plugin/base/result.h"
#include "plugin/coll/store/socket.h"

namespace meshbed::coll {

class IdListeners {
 public:
  /// Listens at any port of the management network. The id: a MeetingPlace with a new key.
  Result<std::string> open();
  /// The socket of an id of open(), once; an invalid one for other ids.
  Socket take(const std::string& id);

 private:
  std::mutex mutex_;
  std::map<std::string, Socket> listeners_;
};

}  // namespace meshbed::coll
