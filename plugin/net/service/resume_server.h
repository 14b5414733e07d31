#pragma once
// The receiving side of resumptions (resumption.h), for all receiving connections of the process, whether or not their
// owners poll them. It also serves senders that add a rail to a connection (rail_layer.h), and receivers that check
// their sender (liveness_check.h) or report their new address (address_notifier.h). Belongs to the service's thread.

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

#include "plugin/base/deadline.h"
#include "plugin/base/rare_warnings.h"
#include "plugin/base/result.h"
#include "plugin/net/connect/first_messages.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/wire/socket.h"

namespace meshbed::net {

class ReceiveConnection;
class ProcessLinks;

class ResumeServer {
 public:
  explicit ResumeServer(ProcessLinks& process) : process_(process) {}
  ~ResumeServer();

  /// Whether take() accepts messages of this type.
  static bool is_for(WireType type);
  void take(Arrival arrival);
  void advance();
  bool busy() const { return !clients_.empty(); }
  /// Adds what poll(2) should wait for while it is busy.
  void watch(std::vector<pollfd>& watched) const;

 private:
  enum class State { kTakeUp, kReply, kReady, kGoOn, kAnswering };
  struct Client {
    Arrival arrival;
    std::uint64_t session = 0;
    LocalEnd local;
    std::uint8_t mtu = 0;
    Deadline deadline;
    State state = State::kTakeUp;
    bool has_memory = false;  // the awaited memory is registered on the device of `local`, as far as possible
    MessageReader reader;
    MessageWriter writer;
    bool lays_rail() const { return arrival.message.type == WireType::kRail; }
  };

  /// Returns false if the client is finished.
  bool advance(Client& client);
  bool take_up(Client& client);
  bool register_memory(Client& client);
  void answer_for_sender(Client& client);
  bool read_ready(Client& client);
  bool go_on(Client& client);
  void try_to_take_up(Client& client, ReceiveConnection& connection);
  void try_to_lay_rail(Client& client, ReceiveConnection& connection);
  void refuse(Client& client, WireType type, const std::string& why, std::uint64_t served = 0);
  bool drop(const Client& client, const std::string& why);
  void tell(const Client& client, const char* of_it, const std::string& why);
  /// Releases the claim, so that the connection's owner may use it.
  void release(const Client& client);

  ProcessLinks& process_;
  std::vector<std::unique_ptr<Client>> clients_;
  RareWarnings lines_;
};

}  // namespace meshbed::net
