#include "plugin/net/link/endpoint.h"

#include <poll.h>

namespace meshbed::net {

void Endpoint::Turn::pass() { ::poll(nullptr, 0, 0); }

void Endpoint::begin_wanted_event(Request& request, void* parent, const RequestPart& part) {
  MeshbedTransferEvent data{};
  data.record_bytes = sizeof data;
  data.sends = sends() ? 1 : 0;
  data.part = static_cast<std::uint8_t>(part.index);
  data.parts = request.parts;
  data.tag = part.tag;
  data.size_bytes = part.size_bytes;
  describe(data);
  events_->begin(request, parent, data);
}

}  // namespace meshbed::net
