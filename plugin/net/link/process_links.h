#pragma once
// What all connections of a process share: the settings of new ones, the load of each port, the sessions by which a
// connection is found again, the links that wait to be destroyed, and the service.

#include <cstdint>
#include <memory>
#include <vector>

#include "plugin/net/link/connection.h"
#include "plugin/net/link/qp_link.h"
#include "plugin/net/link/retired_links.h"
#include "plugin/net/link/sessions.h"
#include "plugin/net/process/process.h"

namespace meshbed::net {

class Service;
class SilentCables;

class ProcessLinks : public Process {
 public:
  ProcessLinks(const Config& config, SilentCables& silent_cables) : Process(config), silent_cables_(silent_cables) {}

  /// Our end of a new connection by `nic`.
  LocalEnd local_end(const Nic& nic, const IpPrefix& address, const verbs::GidEntry& gid);
  ConnectionSettings settings_for(int traffic_class) const;
  /// For a receiving end, which sends only clear-to-sends.
  ConnectionSettings receiving_settings_for(int traffic_class) const;
  /// The bytes that this process has in flight from each of nics().
  std::vector<std::uint64_t> in_flight_bytes() const;
  /// Whether a rank of this process is in communicator `comm` (NCCL's number), that is, has a context here. Holds from
  /// NCCL 2.28 on, before it connects, except for communicators that share their parent's resources and so its context.
  /// Any thread.
  virtual bool has_context_of(std::uint64_t comm) = 0;
  Sessions& sessions() { return sessions_; }
  SilentCables& silent_cables() { return silent_cables_; }
  /// Relays for others, finds chains for us, resumes connections that lost their QP link. nullptr: it could not start.
  Service* service() { return service_; }

 protected:
  /// After the NICs are known.
  void count_loads() { loads_ = std::make_unique<PortLoad[]>(nics().size() + link_local_nics().size()); }
  void begin_service(Service& service, std::uint16_t port) {
    service_ = &service;
    service_port_ = port;
  }
  RetiredLinks& retired_links() { return retired_links_; }

 private:
  std::unique_ptr<PortLoad[]> loads_;  // one for each NIC, then one for each link-local NIC
  RetiredLinks retired_links_;
  Sessions sessions_;
  SilentCables& silent_cables_;
  Service* service_ = nullptr;
  std::uint16_t service_port_ = 0;
};

}  // namespace meshbed::net
