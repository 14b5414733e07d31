#pragma once
// Interval table: how far measured times were from predictions that did not know them, by how far the prediction was
// from what was measured. Made by `meshbed fidelity --intervals FILE` from models/data, kept as
// models/intervals/intervals.toml, read at run time only.
//
// Nomenclature: distance - what the fit knew of the predicted call; gate - what carries the bytes; e - ln(measured /
// predicted) of a point that was left out; source - a measured file.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/time/machine.h"
#include "plugin/base/result.h"

namespace meshbed::models {

/// What was known when a call was predicted, nearest first.
enum class Distance : std::uint8_t {
  kSameKind,        // its class was fitted to this collective, these ranks and this setting
  kOtherSizes,      // the same, in sizes less than half of the smallest or more than twice the largest
  kOtherOperation,  // its class was fitted to other collectives or settings on as many ranks
  kOtherRanks,      // its class was fitted to other numbers of ranks or nodes
  kNearClass,       // another class that passes the gates
  kUnseen,          // its class's data sheet, and values of other classes of the transport
  kNoClass,         // no class of this kind: rates from the header, and values of other classes of the transport
  kBare,            // data sheet and the library's constants
};
inline constexpr std::array<Distance, 8> kDistances{
    Distance::kSameKind,  Distance::kOtherSizes, Distance::kOtherOperation, Distance::kOtherRanks,
    Distance::kNearClass, Distance::kUnseen,     Distance::kNoClass,        Distance::kBare};
/// In words: "same class and kind", "same class, other operation or setting", ...
const char* name_of(Distance distance);

/// What carries the bytes, as the table divides it: verbs, staged, unified, offloaded, tcp, NVLink, PCIe, kernel,
/// message.
std::string gate_of(const Machine& machine);

/// "small" below 64 KiB, "middle", "large" from 8 MiB.
const char* size_class_of(std::uint64_t bytes);
inline constexpr std::array<const char*, 3> kSizeClasses{"small", "middle", "large"};

inline constexpr const char* kAnyGate = "any";

struct IntervalCell {
  Distance distance = Distance::kBare;
  std::string gate, sizes;
  double low = 0, high = 0;  // of e; low at most 0, high at least 0
  double half = 0;           // half of the points have |e| below it
  std::size_t points = 0, sources = 0;
};

class IntervalTable {
 public:
  /// Errors (kInvalidArgument) name `place`, line and what is wrong.
  static Result<IntervalTable> parse(std::string_view text, const std::string& place);
  explicit IntervalTable(std::vector<IntervalCell> cells) : cells_(std::move(cells)) {}

  const std::vector<IntervalCell>& cells() const { return cells_; }
  /// The cell, or that of any gate where no file of the gate was left out at the distance.
  const IntervalCell& at(Distance distance, const std::string& gate, const std::string& sizes) const;
  /// The text that parse() reads, with four digits; behind a comment that says how it is made.
  std::string text() const;

 private:
  std::vector<IntervalCell> cells_;
};

/// The table that travels in the program.
const IntervalTable& shipped_interval_table();

}  // namespace meshbed::models
