#pragma once
// The open connections of a process, for the state socket. Any thread.
//
// A look costs the data path at most one call that returns "not yet": it takes the turn of one connection after the
// other, and leaves out connections whose callers keep theirs.

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/net/process/state.h"

namespace meshbed::net {

class Endpoint;

class Roster {
 public:
  /// `comm`: of the communicator that it belongs to; 0: none.
  void add(Endpoint& endpoint, std::uint64_t comm);
  /// Afterwards no look uses it.
  void remove(const Endpoint& endpoint);

  /// With turns: takes 50 ms at most, and some system calls.
  std::vector<ConnectionState> look(std::int64_t now_ns);
  /// While no other thread of this process runs: takes no lock and no turn.
  std::vector<ConnectionState> look_while_frozen(std::int64_t now_ns);

 private:
  struct Entry {
    std::uint64_t number = 0;
    Endpoint* endpoint = nullptr;
    std::uint64_t comm = 0;
    std::string name;
    bool sends = false;
  };
  /// Returns false if its caller has the turn.
  bool look_at(std::uint64_t number, std::int64_t now_ns, std::vector<ConnectionState>& states);
  void release(std::uint64_t number);
  Entry* find(std::uint64_t number);

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint64_t next_number_ = 0;
};

}  // namespace meshbed::net
