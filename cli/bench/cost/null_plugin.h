#pragma once
// Null plugin: the real plugin file in this process, loaded and initialised as NCCL does it (ncclNet v11), on the null
// wire. Also error reporting for its users, with the plugin's own last warning.

#include <string>

#include "plugin/nccl/net_abi.h"

namespace meshbed::cost {

class NullPlugin {
 public:
  /// Throws std::runtime_error if it cannot be loaded, or finds another device than the null wire's.
  explicit NullPlugin(const std::string& file);
  ~NullPlugin();
  NullPlugin(const NullPlugin&) = delete;
  NullPlugin& operator=(const NullPlugin&) = delete;

  const nccl::NetV11& net() const { return *net_; }
  void* context() const { return context_; }

 private:
  const nccl::NetV11* net_ = nullptr;
  void* context_ = nullptr;
};

/// Throws std::runtime_error with `what` and the plugin's last warning, unless `good`.
void require(bool good, const char* what);
/// The same for one of the table's results. kNcclInProgress: the call had nothing to show.
void require_success(int result, const char* what);

}  // namespace meshbed::cost
