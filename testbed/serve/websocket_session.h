#pragma once
// One WebSocket client.

#include <boost/asio/ip/tcp.hpp>

#include "testbed/serve/hub.h"

namespace meshbed::testbed::serve {

/// Sends it Hub::snapshot at once and then at each interval, until it leaves. What it sends is read and ignored.
void serve_websocket(Hub& hub, boost::asio::ip::tcp::socket socket);

}  // namespace meshbed::testbed::serve
