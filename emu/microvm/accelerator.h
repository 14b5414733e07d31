#pragma once
// Accelerator: what runs the guests' instructions.

#include <string>

namespace meshbed::emu {

struct Accelerator {
  bool kvm = false;    // else TCG, QEMU's own translator
  std::string reason;  // one sentence: which, and why
};

}  // namespace meshbed::emu
