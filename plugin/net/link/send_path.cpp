#include "plugin/net/link/send_path.h"

#include <algorithm>

#include "plugin/net/rdma/send.h"

namespace meshbed::net {

Leg& Carrier::leg() { return connection_.leg(); }

Request* Carrier::find(std::uint64_t work_id) { return connection_.pool_.find(work_id); }

void Carrier::finish(Request& request) { connection_.finish(request, request.sizes[0]); }

bool Carrier::post_send(ibv_send_wr& work) { return connection_.post_send(work); }

bool Carrier::post_send(ibv_send_wr& work, Leg& way) { return connection_.post_send(work, way.pair()); }

bool Carrier::post_probe(std::uint64_t work_id) { return connection_.post_probe(work_id); }

void Carrier::fail(Error error) { connection_.fail(std::move(error)); }

bool Carrier::impaired() const { return connection_.impaired(); }

const TrafficHint* Carrier::hint() const { return connection_.hint_.get(); }

void Carrier::confirm(std::uint64_t entry) { connection_.confirmed_ = std::max(connection_.confirmed_, entry); }

void Carrier::lose(Error error) {
  if (connection_.can_resume()) {
    connection_.suspend(std::move(error));
  } else {
    connection_.fail(std::move(error));
  }
}

}  // namespace meshbed::net
