#pragma once
// What ring dump, check and replay have in common: the files of a ring, and which layout and mode they are read by.

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
  std::string abi;  // empty: not told; 2026-05 where a file does not say it
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
/// Throws std::runtime_error for an ABI or a mode that there is not.
void require_ring_options(const RingOptions& values);

/// One line on `err` where the control buffer speaks for another ABI than the one that was told.
void warn_of_layout(const std::vector<std::uint8_t>& control, const RingOptions& options, std::ostream& err);

/// The value; throws std::runtime_error with "PLACE: why" where there is none.
template <typename T>
T value_or_throw(Result<T> result, const std::string& place) {
  if (!result) throw std::runtime_error(place + ": " + result.error().text);
  return *std::move(result);
}

/// control.bin, ring.bin, debug.bin, io.bin, and life.ring, a recording of a short life of that ring.
void write_ring_example(const std::string& folder);

}  // namespace meshbed::testbed
