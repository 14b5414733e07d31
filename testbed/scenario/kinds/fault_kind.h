#pragma once
// FaultKind: the kinds of [[fault]] entries, from one list (faults.def). A new one is a line there, and a case in
// testbed/scenario/fault_board.cpp for its effect.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace meshbed::testbed {

enum class FaultKind : std::uint8_t {
#define MESHBED_FAULT(constant, name, target, amount, own_keys, ends, lasts, cuts, simulated_only, meaning) constant,
#include "testbed/scenario/kinds/faults.def"
#undef MESHBED_FAULT
};

/// What `target` must name.
enum class FaultTarget : std::uint8_t { kLinks, kCable, kPort, kNode };

/// What `amount` is, or must be, said in.
enum class AmountUnit : std::uint8_t { kNone, kFraction, kTime, kRate };

struct FaultInfo {
  FaultKind kind;
  const char* name;               // of scenario files and of results: "cable_down"
  FaultTarget target;             // kLinks: what its ports send is shaped
  AmountUnit amount;              // kNone: the key is refused
  std::string_view own_keys;      // that no other kind has, with spaces between them
  std::optional<FaultKind> ends;  // on the same target, in the place of a fault of its own
  bool lasts;                     // may have a duration
  bool cuts;                      // takes its ports' link or address away, and with it the connections over them
  const char* simulated_only;     // why the other worlds refuse it; empty: they do not
  const char* meaning;
};

/// In the order in which they are listed to users.
inline constexpr std::array kFaultKinds{
#define MESHBED_FAULT(constant, name, target, amount, own_keys, ends, lasts, cuts, simulated_only, meaning)    \
  FaultInfo{FaultKind::constant, name,   FaultTarget::target, AmountUnit::amount, own_keys, ends, lasts, cuts, \
            simulated_only,      meaning},
#include "testbed/scenario/kinds/faults.def"
#undef MESHBED_FAULT
};

constexpr const FaultInfo& info_of(FaultKind kind) { return kFaultKinds[static_cast<std::uint8_t>(kind)]; }
constexpr const char* name_of(FaultKind kind) { return info_of(kind).name; }
constexpr bool cuts(FaultKind kind) { return info_of(kind).cuts; }
/// Ports may have a link from then on that they had not before.
constexpr bool gives_link(FaultKind kind) { return info_of(kind).ends && cuts(*info_of(kind).ends); }

/// Of those that only some kinds have, a kind's.
inline std::vector<std::string_view> keys_of(FaultKind kind) {
  std::vector<std::string_view> keys;
  if (info_of(kind).amount != AmountUnit::kNone) keys.emplace_back("amount");
  std::string_view left = info_of(kind).own_keys;
  while (!left.empty()) {
    keys.push_back(left.substr(0, left.find(' ')));
    left.remove_prefix(std::min(left.size(), keys.back().size() + 1));
  }
  return keys;
}

constexpr const char* text_of(FaultTarget target) {
  switch (target) {
    case FaultTarget::kCable:
      return "a cable, or NODE-SWITCH";
    case FaultTarget::kPort:
      return "NODE/DEVICE";
    case FaultTarget::kNode:
      return "a node";
    case FaultTarget::kLinks:
      break;
  }
  return "a cable, a switch or NODE/DEVICE";
}

}  // namespace meshbed::testbed
