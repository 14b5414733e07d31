#pragma once
// Owned: one handle of CUDA's that belongs to a context, given back once, with that context current, from whichever
// thread. Moved, never copied; empty where it was moved from.

#include <utility>

#include "plugin/base/result.h"
#include "plugin/cuda/driver.h"

namespace meshbed::cuda {

/// `Entry`: the driver's call that gives such a handle back, as &Calls::cuStreamDestroy.
template <typename Handle, auto Entry>
class Owned {
 public:
  /// What `make` made in the calling thread's context: a call of the driver's name and code.
  template <typename Make>
  static Result<Owned> made(const Driver& driver, const char* call, const Make& make) {
    const auto context = driver.current();
    if (!context) return context.error();
    Owned owned;
    if (auto done = driver.outcome(make(driver.calls(), &owned.handle_), call); !done) return done.error();
    owned.driver_ = &driver;
    owned.context_ = *context;
    return owned;
  }

  Owned() = default;
  ~Owned() {
    if (driver_ == nullptr) return;
    const Current current(*driver_, context_);
    (driver_->calls().*Entry)(handle_);
  }
  Owned(Owned&& other) noexcept { swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    swap(other);
    return *this;
  }

  bool is_empty() const { return driver_ == nullptr; }
  Handle get() const { return handle_; }
  /// Of one that is not empty.
  const Driver& driver() const { return *driver_; }

 private:
  void swap(Owned& other) {
    std::swap(driver_, other.driver_);
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
  }
  const Driver* driver_ = nullptr;
  CUcontext context_ = nullptr;
  Handle handle_{};
};

}  // namespace meshbed::cuda
