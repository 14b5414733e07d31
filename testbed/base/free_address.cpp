#include "testbed/base/free_address.h"

#include <stdexcept>

#include "plugin/coll/store/socket.h"

namespace meshbed::testbed {

std::string free_address() {
  auto socket = coll::listen_at(coll::at_any_port(*coll::parse_address("127.0.0.1:1")));
  if (!socket) throw std::runtime_error(socket.error().text);
  const auto address = coll::own_address(*socket);
  if (!address) throw std::runtime_error(address.error().text);
  return coll::to_text(*address);
}

}  // namespace meshbed::testbed
