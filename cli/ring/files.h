#pragma once
// The common part of ring dump, check and replay: a ring's files, with the layout and the mode to read them.

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/common/command_line.h"
#include "plugin/base/result.h"
#include "plugin/ring/abi/words.h"

namespace meshbed::testbed {

struct RingOptions {
  std::string abi;  // empty: not given; then 2026-05, unless the file states it
  std::string mode = "safe";
  std::string control, ring, debug, io;  // paths; empty: not given
  bool json = false;

  ring::Mode ring_mode() const { return mode == "strict" ? ring::Mode::kStrict : ring::Mode::kSafe; }
  const ring::Layout& layout() const;
};
/// --abi --mode --json
void add_ring_options(boost::program_options::options_description& options, RingOptions& values);
/// --control --debug --io; the slots are an operand of dump, an option of check.
void add_ring_files(boost::program_options::options_description& options, RingOptions& values);
/// Throws std::runtime_error for an unknown ABI or mode.
void require_ring_options(const RingOptions& values);

/// Writes one line to `err` if the control buffer indicates another ABI than the given one.
void warn_of_layout(const std::vector<std::uint8_t>& control, const RingOptions& options, std::ostream& err);

/// The value. Throws std::runtime_error with "PLACE: CAUSE" if there is none.
template <typename T>
T value_or_throw(Result<T> result, const std::string& place) {
  if (!result) throw std::runtime_error(place + ": " + result.error().text);
  return *std::move(result);
}

/// control.bin, ring.bin, debug.bin, io.bin, and life.ring, a recording of a short run of that ring.
void write_ring_example(const std::string& folder);

}  // namespace meshbed::testbed
