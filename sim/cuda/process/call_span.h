#pragma once
// CallSpan: a call of a program's, from its entry to its return, for the picture. Does nothing where no picture is
// asked for (Record::keeps_spans).

#include <exception>
#include <utility>

#include "sim/cuda/host.h"
#include "sim/cuda/record.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

class CallSpan {
 public:
  explicit CallSpan(const char* name) {
    if (!keeps_spans() || host().process() == nullptr) return;
    name_ = name;
    begin_ps_ = host().now();
  }
  ~CallSpan() {
    // A simulated thread that is ended leaves its calls by an exception.
    if (name_ == nullptr || std::uncaught_exceptions() > 0 || !keeps_spans()) return;
    keep_call(system().record, name_, host().process(), {begin_ps_, host().now()});
  }
  CallSpan(const CallSpan&) = delete;
  CallSpan& operator=(const CallSpan&) = delete;

 private:
  static bool keeps_spans() { return has_host() && has_system() && system().record.keeps_spans; }

  const char* name_ = nullptr;
  Picoseconds begin_ps_ = 0;
};

}  // namespace meshbed::sim::cuda
