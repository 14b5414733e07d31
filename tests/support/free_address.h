#pragma once

#include <string>

namespace meshbed::test {

/// "127.0.0.1:PORT" with a port that was free a moment ago.
std::string free_address();

}  // namespace meshbed::test
