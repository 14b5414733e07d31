#pragma once
// The text of emu/guest_init.sh, put into the library by the build.

#include <string_view>

namespace meshbed::emu {

std::string_view guest_init_script();

}  // namespace meshbed::emu
