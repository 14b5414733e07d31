#pragma once
// A free address on which processes of this machine can meet.

#include <string>

namespace meshbed::testbed {

/// "127.0.0.1:PORT", where nothing listens just now. std::runtime_error where no port is left.
std::string free_address();

}  // namespace meshbed::testbed
