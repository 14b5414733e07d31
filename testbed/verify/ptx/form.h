#pragma once
// Form: one instruction of PTX with its modifiers and types, and its test: the source of its operands, the kind of its
// result, and the required accuracy. The functions below list all forms that the interpreter (sim/cuda/ptx) implements
// and that compute a value, a family each.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::testbed::ptx_twin {

/// What an operand is drawn as, and what a result is read as.
enum class Kind : std::uint8_t {
  kInteger16,
  kInteger32,
  kInteger64,
  kAmount,     // 32 bits: how far to shift, where a field begins
  kFew,        // 32 bits: a few values a warp, so that some lanes agree
  kFewWide,    // 64 bits, likewise
  kWarpTruth,  // 32 bits: 0 or 1; in some warps all alike
  kFloat16,
  kBrain16,
  kFloat32,
  kFloat64,
  kFloat16Pair,
  kBrain16Pair,
  kEightBitPair,  // 16 bits: two numbers of 8 bits
};
std::size_t bytes_of(Kind kind);
/// Floating point, and a pair of such.
inline bool is_number(Kind kind) { return kind >= Kind::kFloat16 && kind <= Kind::kBrain16Pair; }

/// What an approximate instruction computes, and so which bound of the ISA holds. PTX ISA 9.0, 9.7.3 and 9.7.4.
enum class Approximates : std::uint8_t {
  kNothing,  // exact: the same bits
  kReciprocal,
  kReciprocalCut,  // rcp.approx.ftz.f64: the upper half of a double alone
  kRoot,
  kReciprocalRoot,
  kReciprocalRootCut,
  kSine,
  kCosine,
  kLogarithm,
  kPower,
  kTangent,
  kQuotient,      // div.approx
  kFullQuotient,  // div.full
};

struct Form {
  std::string name;    // as PTX spells it; where more than one instruction is needed, what is tried
  std::string family;  // "integer", "convert"
  std::string body;    // statements that make %d of %a, %b, %c and %e
  Kind result = Kind::kInteger32;
  std::vector<Kind> sources;
  int least_target = 80;  // the sm_NN from which the form is
  Approximates approximates = Approximates::kNothing;
};

/// `name %d, %a, %b ...;` of so many sources.
Form plain_form(std::string family, std::string name, Kind result, std::vector<Kind> sources, int least_target = 80);

void add_integer_forms(std::vector<Form>& forms);
void add_bit_forms(std::vector<Form>& forms);
void add_float_forms(std::vector<Form>& forms);
void add_half_forms(std::vector<Form>& forms);
void add_approximate_forms(std::vector<Form>& forms);
void add_comparison_forms(std::vector<Form>& forms);
void add_conversion_forms(std::vector<Form>& forms);
void add_atomic_forms(std::vector<Form>& forms);
void add_vector_atomic_forms(std::vector<Form>& forms);
void add_warp_forms(std::vector<Form>& forms);

/// Each name once.
std::vector<Form> all_forms();

inline constexpr unsigned kBlockThreads = 256;
/// A module whose kernel f<N> tries the N-th of these: its parameters are the addresses of the results and of up to
/// four arrays of operands; one thread a result, in blocks of kBlockThreads. `target`: 90 for sm_90.
std::string module_text(const std::vector<const Form*>& forms, int target);

}  // namespace meshbed::testbed::ptx_twin
