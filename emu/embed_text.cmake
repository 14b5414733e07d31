# cmake -DFROM=FILE -DTO=FILE.cpp -P embed_text.cmake: the guest's init script as a function of C++.
file(READ ${FROM} text)
# Compilers take string literals of 64 KiB at least; the script is far from that.
file(CONFIGURE OUTPUT ${TO} @ONLY CONTENT [==[
#include "emu/image/guest_init.h"

namespace meshbed::emu {

std::string_view guest_init_script() {
  return R"guest_init(@text@)guest_init";
}

}  // namespace meshbed::emu
]==])
