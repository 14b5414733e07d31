#pragma once
// IdListeners: the places where ranks that have no address to agree on will be met: this process listens there from the
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
  /// The socket of an id that open() gave, once; an invalid one where it did not.
  Socket take(const std::string& id);

 private:
  std::mutex mutex_;
  std::map<std::string, Socket> listeners_;
};

}  // namespace meshbed::coll
