#include "plugin/net/rdma/send_path.h"

#include <algorithm>

#include "plugin/net/rdma/send.h"

namespace meshbed::net {

QpLink& SendPath::qp_link() { return connection_.qp_link(); }

Request* SendPath::find(std::uint64_t work_id) { return connection_.pool_.find(work_id); }

void SendPath::finish(Request& request) { connection_.finish(request, request.sizes[0]); }

bool SendPath::post_send(ibv_send_wr& work) { return connection_.post_send(work); }

bool SendPath::post_send(ibv_send_wr& work, QpLink& way) { return connection_.post_send(work, way.pair()); }

bool SendPath::post_probe(std::uint64_t work_id) { return connection_.post_probe(work_id); }

void SendPath::fail(Error error) { connection_.fail(std::move(error)); }

bool SendPath::impaired() const { return connection_.impaired(); }

const TrafficHint* SendPath::hint() const { return connection_.hint_.get(); }

void SendPath::confirm(std::uint64_t entry) { connection_.confirmed_ = std::max(connection_.confirmed_, entry); }

void SendPath::lose(Error error) {
  if (connection_.can_resume()) {
    connection_.suspend(std::move(error));
  } else {
    connection_.fail(std::move(error));
  }
}

}  // namespace meshbed::net
