#pragma once
// Callgrind's counts: instructions by function, read from its own file (Valgrind's manual, "Callgrind Format
// Specification"), which was written with --compress-strings=no --compress-pos=no.

#include <cstdint>
#include <string>
#include <vector>

namespace meshbed::testbed {

struct CountedFunction {
  std::string name;
  std::string object;        // the file that it is in
  std::uint64_t self = 0;    // instructions of its own
  std::uint64_t called = 0;  // of all that it called, and what these called
};

/// Collection begins and ends with each call of a function whose name begins so.
std::string toggle_collect(const std::string& prefix);

/// Runs the command under callgrind with these options, and returns its output. Leaves callgrind's file, or one a
/// thread; FILE-01 is the main thread's. Throws std::runtime_error, with the prefix `who`, if the command fails.
std::string run_under_callgrind(const std::string& who, const std::string& file,
                                const std::vector<std::string>& options, const std::vector<std::string>& command);

/// By name and object. Throws std::runtime_error where the text is none of callgrind's, or where the functions do not
/// add up to the total that it names.
std::vector<CountedFunction> read_callgrind(const std::string& text);

}  // namespace meshbed::testbed
