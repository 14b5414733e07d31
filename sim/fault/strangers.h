#pragma once
// Strangers: clients on the management network that hold connections open to all listening ports of a node, and send
// nothing, or a byte now and then, for ever ("slowloris"). They find the ports as a port scan would: those that listen
// now. They leave out the ranks' meeting point, at its fixed port, and take every port that the system chose.
//
// They live in events and sockets of the node that they come from: no thread of theirs keeps a run alive.

#include <map>
#include <memory>
#include <vector>

#include "sim/engine/world.h"

namespace meshbed::sim {

class TcpSocket;

struct StrangerOptions {
  int from = 0;                // the node that they come from
  int target = 0;              // the node whose ports they look for; both are on the management network
  int connections = 1;         // to each port, at one time; dropped ones are made again
  Picoseconds byte_every = 0;  // each sends a byte after this time; 0: nothing
};

class Strangers {
 public:
  Strangers(World& world, const StrangerOptions& options);
  ~Strangers();

  /// From events only.
  void begin();
  /// They hang up.
  void end();

 private:
  struct Caller {
    std::shared_ptr<TcpSocket> socket;
    Picoseconds speaks_at = 0;
  };
  struct Crowd {
    std::vector<Caller> callers;
    Picoseconds calls_at = 0;
  };
  static void look_due(void* self, std::uint64_t);
  void look();
  void call(std::uint16_t port, Crowd& crowd);
  void speak(Caller& caller);

  World& world_;
  StrangerOptions options_;
  Process* process_ = nullptr;  // made when they first come
  bool active_ = false;
  std::map<std::uint16_t, Crowd> crowds_;  // by port
};

}  // namespace meshbed::sim
