#pragma once
// Digest: XXH3-64 over everything that a run lets be seen, in order: each message, then each result. Two runs of one
// scenario and seed have one digest, on every machine and compiler; so only integers and texts go in, little-endian.

#include <xxhash.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sim/verbs/verbs_host.h"

namespace meshbed::sim {

class Digest {
 public:
  Digest();

  void add(const MessageRecord& record);
  void add(std::uint64_t value);
  void add(std::string_view text);  // with its length, so that "ab","c" and "a","bc" differ

  std::uint64_t value() const;
  std::string hex() const;  // 16 digits

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace meshbed::sim
