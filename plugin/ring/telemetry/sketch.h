#pragma once
// A count-min sketch: how often each key was seen, in a fixed number of counters, never too little (Cormode and
// Muthukrishnan, J. Algorithms 55, 2005; hash and layout as vyre, commit ca35047 has them).
//
// depth x width counters, row by row. A key adds to one counter in each row; its estimate is the least of them, which
// other keys can only have raised.

#include <cstdint>
#include <vector>

#include "plugin/base/result.h"

namespace meshbed::ring {

class CountMinSketch {
 public:
  struct Shape {
    std::uint32_t depth = 0, width = 0;  // rows, counters in each
    bool operator==(const Shape&) const = default;
  };

  /// Errors: a shape without a counter, or of more than 2^28 of them (2 GiB).
  static Result<CountMinSketch> create(const Shape& shape);

  /// Where `key` is counted in `row`: an index into counters(). row < depth.
  std::uint64_t bucket(std::uint32_t row, std::uint32_t key) const;
  /// Errors: a counter that would pass 2^64 - 1; nothing is counted then.
  Result<void> add(std::uint32_t key, std::uint64_t amount = 1);
  std::uint64_t estimate(std::uint32_t key) const;
  /// Adds what `other` has counted. Errors: another shape, or as add().
  Result<void> merge(const CountMinSketch& other);

  const Shape& shape() const { return shape_; }
  const std::vector<std::uint64_t>& counters() const { return counters_; }

 private:
  explicit CountMinSketch(const Shape& shape);

  Shape shape_;
  std::vector<std::uint64_t> counters_;
};

}  // namespace meshbed::ring
