// Compares the results of two sides: bit by bit, and for approximate instructions against the bounds of the ISA.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/cuda/ptx/half.h"
#include "testbed/verify/ptx/twin.h"

namespace meshbed::testbed::ptx_twin {
namespace {

bool is_pair(Kind kind) { return kind == Kind::kFloat16Pair || kind == Kind::kBrain16Pair; }
Kind single(Kind kind) {
  return kind == Kind::kFloat16Pair ? Kind::kFloat16 : kind == Kind::kBrain16Pair ? Kind::kBrain16 : kind;
}
std::uint64_t half_at(std::uint64_t bits, unsigned at) { return bits >> (16 * at) & 0xffffU; }

double number(Kind kind, std::uint64_t bits) {
  switch (kind) {
    case Kind::kFloat16:
      return sim::ptx::float_of_half(static_cast<std::uint16_t>(bits));
    case Kind::kBrain16:
      return sim::ptx::float_of_brain(static_cast<std::uint16_t>(bits));
    case Kind::kFloat64:
      return std::bit_cast<double>(bits);
    default:
      return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  }
}

struct Precision {
  int fraction, least;  // stored bits; the exponent of the smallest normal number
  double most;          // the largest number
};
Precision precision_of(Kind kind) {
  constexpr double kMostHalf = 65504, kMostBrain = 0x1.fep127, kMostFloat = 0x1.fffffep127;
  switch (kind) {
    case Kind::kFloat16:
      return {10, -14, kMostHalf};
    case Kind::kBrain16:
      return {7, -126, kMostBrain};
    case Kind::kFloat64:
      return {52, -1022, std::numeric_limits<double>::max()};
    default:
      return {23, -126, kMostFloat};
  }
}

/// The distance between two neighbours there.
double step_at(Precision format, double value) {
  const int exponent = value == 0 ? format.least : std::max(std::ilogb(value), format.least);
  return std::ldexp(1.0, exponent - format.fraction);
}

struct Bound {
  double absolute = 0, relative = 0, steps = 0;  // the largest of the given bounds applies
  bool is_given = true;
};

/// PTX ISA 9.0, 9.7.3 and 9.7.4, under each instruction.
Bound bound_of(const Form& form, Kind kind, double x) {
  const bool half = kind == Kind::kFloat16, brain = kind == Kind::kBrain16;
  constexpr double kPi = 3.14159265358979323846;
  switch (form.approximates) {
    case Approximates::kReciprocal:
      return {.steps = 1};
    case Approximates::kRoot:
      return {.relative = 0x1p-23};
    case Approximates::kReciprocalRoot:
      if (kind == Kind::kFloat64) return {.is_given = false};
      return {.relative = std::exp2(-22.9)};
    case Approximates::kSine:
    case Approximates::kCosine:
      if (std::fabs(x) <= 2 * kPi) return {.absolute = std::exp2(-20.5)};
      if (std::fabs(x) <= 100 * kPi) return {.absolute = std::exp2(-14.7)};
      return {.is_given = false};
    case Approximates::kLogarithm:
      if (x > 0.5 && x < 2) return {.absolute = 0x1p-22};
      return {.relative = 0x1p-22};
    case Approximates::kPower:
      // No relative bound holds among subnormal results: a step there, as an H200 takes it.
      if (half) return {.relative = std::exp2(-9.9), .steps = x < -14 ? 1.0 : 0.0};
      if (brain) return {.relative = 0x1p-7};
      return {.steps = 2.5};  // 2 from the correctly rounded result
    case Approximates::kTangent:
      if (half) return {.absolute = std::exp2(-10.987)};
      if (brain) return {.absolute = 0x1.001p-8};  // the ISA's 2^-8 is rounded: an H200 takes 1.00007 of it
      return {.relative = 0x1p-11};
    case Approximates::kQuotient:
      return {.steps = 2};
    case Approximates::kFullQuotient:
      return {.steps = 2};
    default:
      return {.is_given = false};
  }
}

double exact(Approximates what, double x, double y) {
  switch (what) {
    case Approximates::kReciprocal:
    case Approximates::kReciprocalCut:
      return 1 / x;
    case Approximates::kRoot:
      return std::sqrt(x);
    case Approximates::kReciprocalRoot:
    case Approximates::kReciprocalRootCut:
      return 1 / std::sqrt(x);
    case Approximates::kSine:
      return std::sin(x);
    case Approximates::kCosine:
      return std::cos(x);
    case Approximates::kLogarithm:
      return std::log2(x);
    case Approximates::kPower:
      return std::exp2(x);
    case Approximates::kTangent:
      return std::tanh(x);
    case Approximates::kQuotient:
      // The divisor's reciprocal is flushed.
      if (std::fabs(y) > 0x1p126 && !std::isinf(y)) return x * std::copysign(0.0, y);
      return x / y;
    default:
      return x / y;
  }
}

std::optional<double> share_of_one(const Form& form, Kind kind, std::uint64_t a, std::uint64_t b,
                                   std::uint64_t result) {
  const Precision format = precision_of(kind);
  const double smallest = std::ldexp(1.0, format.least);
  const bool flushes = form.name.find(".ftz") != std::string::npos;
  const auto flushed = [&](double value) {
    return flushes && std::fabs(value) < smallest ? std::copysign(0.0, value) : value;
  };
  const bool cut =
      form.approximates == Approximates::kReciprocalCut || form.approximates == Approximates::kReciprocalRootCut;
  const double x = flushed(number(kind, cut ? a & 0xffffffff00000000U : a)), y = flushed(number(kind, b));
  const Bound bound = bound_of(form, kind, x);
  constexpr double kBeyond = std::numeric_limits<double>::infinity();
  const double wanted = exact(form.approximates, x, y), got = number(kind, result);
  if (wanted != wanted || got != got) return (wanted != wanted) == (got != got) ? 0 : kBeyond;
  if (!bound.is_given) return std::isinf(wanted) == std::isinf(got) ? std::nullopt : std::optional(kBeyond);
  const double most_error =
      std::max({bound.absolute, bound.relative * std::fabs(wanted), bound.steps * step_at(format, wanted)});
  // An infinity is as far from a number as the next number beyond the largest one would be.
  const double beyond_most = format.most + step_at(format, format.most);
  const auto finite = [&](double value) { return std::clamp(value, -beyond_most, beyond_most); };
  const double error = std::fabs(finite(got) - finite(wanted));
  if (error == 0) return 0;
  if (flushes && got == 0 && std::fabs(wanted) < smallest + most_error) return 0;
  // The result is rounded to its format: half a step is always allowed.
  const double open = std::max(most_error, std::min(step_at(format, wanted) / 2, smallest));
  if (!(open > 0)) return kBeyond;
  return error / open;
}

/// In the order of the numbers.
std::int64_t rank_of(std::uint64_t bits, std::size_t bytes) {
  const std::uint64_t top = std::uint64_t{1} << (bytes * 8 - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (top - 1));
  return (bits & top) != 0 ? -magnitude : magnitude;
}

std::uint64_t steps_apart(Kind kind, std::uint64_t left, std::uint64_t right) {
  std::uint64_t most = 0;
  const Kind one = single(kind);
  for (unsigned at = 0; at < (is_pair(kind) ? 2U : 1U); ++at) {
    const std::uint64_t a = is_pair(kind) ? half_at(left, at) : left, b = is_pair(kind) ? half_at(right, at) : right;
    if (is_nan(one, a) || is_nan(one, b)) continue;
    const std::int64_t x = rank_of(a, bytes_of(one)), y = rank_of(b, bytes_of(one));
    most = std::max(most, x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
                                : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x));
  }
  return most;
}

void keep_example(std::vector<Difference>& examples, Difference one) {
  constexpr std::size_t kMost = 8;
  const auto alike = [&](const Difference& kept) {
    return (kept.gpu ^ kept.interpreter) == (one.gpu ^ one.interpreter);
  };
  if (examples.size() < kMost && std::none_of(examples.begin(), examples.end(), alike)) {
    examples.push_back(std::move(one));
  }
}

/// Whether only the payloads of NaNs differ.
bool differs_in_payload(Kind kind, std::uint64_t left, std::uint64_t right) {
  if (!is_number(kind)) return false;
  if (!is_pair(kind)) return is_nan(kind, left) && is_nan(kind, right);
  for (unsigned at = 0; at < 2; ++at) {
    const std::uint64_t a = half_at(left, at), b = half_at(right, at);
    if (a != b && !(is_nan(single(kind), a) && is_nan(single(kind), b))) return false;
  }
  return true;
}

}  // namespace

bool is_nan(Kind kind, std::uint64_t bits) {
  if (!is_number(kind)) return false;
  const double value = number(single(kind), bits);
  return value != value;
}

std::optional<double> share_of_bound(const Form& form, const std::vector<std::uint64_t>& operands,
                                     std::uint64_t result) {
  const Kind kind = form.result;
  const std::uint64_t a = operands.at(0), b = operands.size() > 1 ? operands[1] : 0;
  if (!is_pair(kind)) return share_of_one(form, kind, a, b, result);
  std::optional<double> worst;
  for (unsigned at = 0; at < 2; ++at) {
    const auto share = share_of_one(form, single(kind), half_at(a, at), half_at(b, at), half_at(result, at));
    if (share && (!worst || *share > *worst)) worst = share;
  }
  return worst;
}

bool Judgement::differs() const {
  if (is_refused() || others > 0) return true;
  // The ISA does not define the payload of a NaN for doubles; for other types it is canonical.
  return payloads > 0 && what != "f64";
}

Judgement judge(const Form& form, Operands& operands, const Results& gpu, const Results& interpreter) {
  Judgement made;
  made.name = form.name;
  made.family = form.family;
  made.what = form.result == Kind::kFloat64 ? "f64" : is_number(form.result) ? "number" : "bits";
  made.is_approximate = form.approximates != Approximates::kNothing;
  made.gpu_refusal = gpu.refusal;
  made.interpreter_refusal = interpreter.refusal;
  if (made.is_refused()) return made;
  made.count = operands.count();
  const std::size_t size = bytes_of(form.result);
  const auto difference = [&](std::size_t index) {
    Difference one;
    one.index = index;
    for (std::size_t place = 0; place < form.sources.size(); ++place) {
      one.operands.push_back(operands.value(form.sources[place], place, index));
    }
    one.gpu = element(gpu.bytes, size, index);
    one.interpreter = element(interpreter.bytes, size, index);
    return one;
  };
  for (std::size_t index = 0; index < made.count; ++index) {
    const std::uint64_t left = element(gpu.bytes, size, index), right = element(interpreter.bytes, size, index);
    if (left == right) {
      ++made.same;
      if (!made.is_approximate) continue;
    }
    bool is_difference = left != right;
    if (is_difference && differs_in_payload(form.result, left, right)) {
      ++made.payloads;
      keep_example(made.examples, difference(index));
      if (!made.first_payload) made.first_payload = difference(index);
      continue;
    }
    if (made.is_approximate) {
      is_difference = false;
      const Difference one = difference(index);
      made.most_apart = std::max(made.most_apart, steps_apart(form.result, left, right));
      for (const bool of_gpu : {true, false}) {
        Nearness& nearness = of_gpu ? made.gpu_nearness : made.interpreter_nearness;
        const auto share = share_of_bound(form, one.operands, of_gpu ? left : right);
        if (!share) continue;
        nearness.worst = std::max(nearness.worst, *share);
        if (*share <= 1) continue;
        ++nearness.beyond;
        if (!nearness.first) nearness.first = one;
        is_difference = true;
      }
    }
    if (!is_difference) continue;
    ++made.others;
    keep_example(made.examples, difference(index));
    if (!made.first) made.first = difference(index);
  }
  return made;
}

std::vector<Judgement> compare(const std::vector<const Form*>& forms, Side& gpu, Side& interpreter, Operands& operands,
                               const std::function<void(const Judgement&)>& report) {
  constexpr std::size_t kGroup = 32;  // forms of one module: few calls of the GPU's compiler, and few to bisect
  std::vector<Judgement> all;
  for (std::size_t begin = 0; begin < forms.size(); begin += kGroup) {
    const auto first = forms.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<const Form*> group(first,
                                         first + static_cast<std::ptrdiff_t>(std::min(kGroup, forms.size() - begin)));
    const std::vector<Results> of_gpu = gpu.run(group, operands), of_interpreter = interpreter.run(group, operands);
    for (std::size_t index = 0; index < group.size(); ++index) {
      all.push_back(judge(*group[index], operands, of_gpu[index], of_interpreter[index]));
      report(all.back());
    }
  }
  return all;
}

}  // namespace meshbed::testbed::ptx_twin
