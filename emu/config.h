#pragma once
// The environment variables of this room, read nowhere else.

#include <string>

namespace meshbed::emu {

/// Where kernels and boot images are kept between runs: MESHBED_EMU_CACHE, else
/// ${XDG_CACHE_HOME:-$HOME/.cache}/meshbed/emu. Throws std::runtime_error where none of them is set.
std::string cache_folder();

/// The first folder of PATH that holds `name` as a program, with the name; empty: none.
std::string find_program(const std::string& name);

}  // namespace meshbed::emu
