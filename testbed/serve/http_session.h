#pragma once
// One HTTP client.

#include <boost/asio/ip/tcp.hpp>

#include "testbed/serve/hub.h"

namespace meshbed::testbed::serve {

/// Reads its requests and replies to them, until it or the server closes the connection.
void serve_http(Hub& hub, boost::asio::ip::tcp::socket socket);

}  // namespace meshbed::testbed::serve
