#pragma once
// Device memory made of allocations, at addresses that no host address is: for tests of the PTX interpreter, and for
// its fuzzer, which has no doctest.

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "sim/cuda/ptx/machine.h"

namespace meshbed::test {

class DeviceMemory : public sim::ptx::Memory {
 public:
  std::uint64_t allocate(std::size_t bytes) {
    const std::uint64_t address = next_;
    all_[address].resize(bytes);
    next_ += (bytes + 511) / 256 * 256;
    return address;
  }
  template <typename T>
  std::uint64_t put(const std::vector<T>& values) {
    const std::uint64_t address = allocate(values.size() * sizeof(T));
    std::memcpy(all_[address].data(), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  std::vector<T> get(std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), all_.at(address).data(), count * sizeof(T));
    return values;
  }
  void release(std::uint64_t address) { all_.erase(address); }
  void* at(std::uint64_t address, std::uint64_t bytes, bool) override {
    auto found = all_.upper_bound(address);
    if (found == all_.begin()) return nullptr;
    --found;
    const std::uint64_t offset = address - found->first;
    if (offset > found->second.size() || bytes > found->second.size() - offset) return nullptr;
    return found->second.data() + offset;
  }
  std::string describe(std::uint64_t) const override { return "no allocation holds it"; }

 private:
  std::map<std::uint64_t, std::vector<std::byte>> all_;
  std::uint64_t next_ = 0x7f0000000000;
};

}  // namespace meshbed::test
