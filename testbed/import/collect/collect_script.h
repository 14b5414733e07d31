#pragma once
// The POSIX shell script of `meshbed collect`, embedded from collect.sh.

#include <string_view>

namespace meshbed::testbed::hosts {

std::string_view collect_script();

}  // namespace meshbed::testbed::hosts
