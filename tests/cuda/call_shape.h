#pragma once
// Whether two declarations of a call are the same to a processor.

#include <array>
#include <cstddef>
#include <type_traits>

namespace meshbed::test {

struct Parameter {
  std::size_t bytes;
  bool points;
  constexpr bool operator==(const Parameter& other) const { return bytes == other.bytes && points == other.points; }
};

/// Of the answer, then of each parameter.
template <typename Answer, typename... Parameters>
constexpr auto shape_of(Answer (*)(Parameters...)) {
  return std::array<Parameter, sizeof...(Parameters) + 1>{
      Parameter{sizeof(Answer), false}, Parameter{sizeof(Parameters), std::is_pointer_v<Parameters>}...};
}

}  // namespace meshbed::test
