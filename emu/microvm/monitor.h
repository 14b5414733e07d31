#pragma once
// Monitor: a QEMU's QMP connection (docs/interop/qmp-spec.txt of QEMU): one command at a time, its answer awaited.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plugin/base/deadline.h"
#include "plugin/base/descriptor.h"

namespace meshbed::emu {

class Monitor {
 public:
  /// `name`: whose it is, for errors.
  Monitor(std::string name, Descriptor socket) : name_(std::move(name)), socket_(std::move(socket)) {}

  /// Waits for QEMU's greeting and replies to it. Throws std::runtime_error.
  void greet();
  /// Throws std::runtime_error where QEMU refuses, is gone, or does not answer within 60 s.
  void execute(const std::string& command);
  void execute(const std::string& command, const nlohmann::json& arguments);

 private:
  nlohmann::json next_object(const Deadline& deadline, const std::string& awaited);

  std::string name_;
  Descriptor socket_;
  std::string received_;  // not yet a whole line
};

}  // namespace meshbed::emu
