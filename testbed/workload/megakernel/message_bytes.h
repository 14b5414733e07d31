#pragma once
// MessageBytes: checks that the bytes of each message, where it landed and when a WAIT has seen it, are those of its
// PUT. This is the check for slot graphs, whose expected results are not known. Shared by all ranks of a simulation.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "testbed/workload/megakernel/trace.h"

namespace meshbed::testbed {

class MessageBytes {
 public:
  /// `event`: of a PUT.
  void put(const RingEvent& event, const void* data, std::size_t bytes);
  /// `event`: of a WAIT, which is for its message and all before it on the connection.
  void waited(const RingEvent& event, const void* data, std::size_t bytes);

  std::uint64_t checked() const { return checked_; }  // bytes
  std::uint64_t wrong() const { return wrong_; }      // of messages that differ, all bytes
  const std::string& first_wrong() const { return first_wrong_; }

 private:
  using Key = std::tuple<int, int, int, std::uint32_t, std::uint32_t>;  // from, to, channel, epoch, message
  std::map<Key, std::uint64_t> hashes_;
  std::uint64_t checked_ = 0, wrong_ = 0;
  std::string first_wrong_;
};

}  // namespace meshbed::testbed
