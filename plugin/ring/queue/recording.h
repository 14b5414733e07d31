#pragma once
// A recording: snapshots of one ring and its control buffer, one after the other, in one file.
//
// clang-format off
// Layout of a recording: little-endian, sizes in bytes.
//   offset  size  name           meaning
//        0     8  magic          "MBRINGS1"
//        8     4  abi            202604 or 202605
//       12     4  slots          slots of the ring
//       16     4  control_words  words of the control buffer
//       20     4  zero           0
//       24     *  snapshots      for each: its time in nanoseconds since any start (8), the control buffer, the ring
// clang-format on
// There is no count: a file that is being written can be read up to its present end, and an unfinished snapshot at its
// end is an error. A recorder reads the ring first and the control buffer second, so that the done count covers every
// DONE in the ring.

#include <cstdint>
#include <vector>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {

struct RecordingShape {
  Abi abi = Abi::k2026_05;
  Word slots = 0;
  Word control_words = 0;
};

/// The head of the file. Errors: a shape that read_recording() would refuse.
Result<std::vector<std::uint8_t>> begin_recording(const RecordingShape& shape);
/// Adds a snapshot. Errors: buffers of other sizes than the shape's.
Result<void> add_snapshot(std::vector<std::uint8_t>& file, const RecordingShape& shape, std::uint64_t time_ns,
                          Bytes control, Bytes ring);

struct Recording {
  struct Snapshot {
    std::uint64_t time_ns = 0;
    Bytes control, ring;  // of the file, which outlives them
  };
  RecordingShape shape;
  std::vector<Snapshot> snapshots;
};
/// Errors: another file, an ABI that there is not, a control buffer that is too short, more slots than an encoder makes
/// room for, an unfinished snapshot, time that runs back.
Result<Recording> read_recording(Bytes file);

}  // namespace meshbed::ring
