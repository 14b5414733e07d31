#pragma once
// DeviceView: what a running kernel reaches at an address outside of its shared and local memory.

#include <array>
#include <cstdint>
#include <string>

#include "sim/cuda/abi.h"
#include "sim/cuda/ptx/machine.h"

namespace meshbed::sim::cuda {

struct Driver;

/// The result of later calls in the context.
CUresult fault_code_of(ptx::Fault::Kind kind);

/// Why an address is not the program's to use, or whose it is not: "byte 0 of an allocation of 64 bytes that was
/// freed".
std::string describe_address(const Driver& driver, std::uint64_t address);

class DeviceView : public ptx::Memory {
 public:
  explicit DeviceView(Driver& driver) : driver_(driver) {}
  void* at(std::uint64_t address, std::uint64_t bytes, bool write) override;
  bool is_far(std::uint64_t address) override;
  const ptx::Texture* texture(std::uint64_t handle) override;
  std::string describe(std::uint64_t address) const override;

 private:
  /// A few allocations that were looked at last: a kernel's lanes go back and forth between them.
  struct Known {
    std::uint64_t address = 0, size_bytes = 0;
    char* bytes = nullptr;
    bool is_far = false;  // pinned or registered
  };
  Driver& driver_;
  std::array<Known, 4> known_{};
  std::size_t next_ = 0;
  std::uint64_t changes_ = 0;  // Driver::allocation_changes when they were looked at
};

}  // namespace meshbed::sim::cuda
