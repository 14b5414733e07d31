// The reductions of the processor and of whatever GPU the process finds, side by side: every form, type and operation,
// on random bits, special numbers and numbers that round; aligned to vectors and not, in place and not, from the GPU's
// memory and from pinned memory. What is not a NaN is to be the same bit for bit. Prints what it compared; status 0
// where all is right, 1 where not, 77 where there is no GPU.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "plugin/base/prng.h"
#include "plugin/coll/plan/half.h"
#include "plugin/coll/reduce/reduce.h"
#include "plugin/coll/run/gpu_reduce.h"
#include "plugin/cuda/memory.h"
#include "plugin/cuda/stream.h"

namespace {

using namespace meshbed;
using namespace meshbed::coll;

constexpr int kNoGpu = 77;
constexpr std::uint32_t kRanks = 3;
constexpr std::size_t kPartBytes = 16384, kGuardBytes = 64;  // of each of the three arrays; behind and before them

/// Prints why, and ends the program.
void require(const Result<void>& result) {
  if (result) return;
  std::printf("%s\n", result.error().text.c_str());
  std::exit(1);
}
template <typename T>
T taken(Result<T> result) {
  if (!result) require(result.error());
  return std::move(result).value();
}

template <typename T>
T loaded(const char* at) {
  T value{};
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void store(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

bool is_nan(DataType type, const char* at) {
  switch (type) {
    case DataType::kFloat16:
      return std::isnan(widen(loaded<Float16>(at)));
    case DataType::kBfloat16:
      return std::isnan(widen(loaded<Bfloat16>(at)));
    case DataType::kFloat32:
      return std::isnan(loaded<float>(at));
    case DataType::kFloat64:
      return std::isnan(loaded<double>(at));
    default:
      return false;
  }
}

/// Zeros, ones, infinities, NaNs, the smallest and largest normal and subnormal numbers, of both signs; of integers
/// the ends.
std::uint64_t special(DataType type, Prng& prng) {
  const auto bits = static_cast<unsigned>(8 * size_of(type));
  const bool is_float = type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
                        type == DataType::kBfloat16;
  const unsigned mantissa = type == DataType::kFloat16    ? 10
                            : type == DataType::kBfloat16 ? 7
                            : type == DataType::kFloat32  ? 23
                                                          : 52;
  const std::uint64_t sign = prng.below(2) << (bits - 1);
  if (!is_float) return sign | (prng.below(2) == 0 ? prng.below(4) : (1ULL << (bits - 1)) - 1 - prng.below(3));
  const std::uint64_t infinity = ((1ULL << (bits - 1 - mantissa)) - 1) << mantissa;
  const std::uint64_t one = (infinity >> 1U) & infinity;
  const std::uint64_t values[] = {0,
                                  1,
                                  (1ULL << mantissa) - 1,
                                  1ULL << mantissa,
                                  infinity - 1,
                                  infinity,
                                  infinity | 1U << (mantissa - 1),
                                  one,
                                  one + 1,
                                  one | ((1ULL << mantissa) - 1)};
  return sign | values[prng.below(std::size(values))];
}

/// Numbers about 1, whose sums and products round, and about what the half types' smallest and largest are.
std::uint64_t moderate(DataType type, Prng& prng) {
  const auto value = [&](int lowest, int highest) {
    const auto exponent = lowest + static_cast<int>(prng.below(static_cast<std::uint64_t>(highest - lowest + 1)));
    const double number = std::ldexp(1 + static_cast<double>(prng.next() >> 11U) * 0x1p-53, exponent);
    return prng.below(2) == 0 ? number : -number;
  };
  switch (type) {
    case DataType::kFloat16:
      return to_float16(static_cast<float>(value(-3, 3))).bits;
    case DataType::kBfloat16:
      return to_bfloat16(static_cast<float>(value(-3, 3))).bits;
    case DataType::kFloat32: {
      const auto number = static_cast<float>(prng.below(2) == 0 ? value(-3, 3) : value(-27, 17));
      std::uint32_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      return prng.below(2) == 0 ? bits : bits & ~0xfffU;  // with few places: middles between two half numbers
    }
    case DataType::kFloat64: {
      const double number = value(-3, 3);
      std::uint64_t bits = 0;
      std::memcpy(&bits, &number, sizeof bits);
      return bits;
    }
    default:
      return prng.next() >> 40U;
  }
}

void fill(char* at, DataType type, std::size_t count, Prng& prng) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t kind = prng.below(3);
    const std::uint64_t bits = kind == 0 ? prng.next() : kind == 1 ? special(type, prng) : moderate(type, prng);
    std::memcpy(at + i * size_of(type), &bits, size_of(type));  // little-endian
  }
}

/// How far the arrays begin behind a border of 64 bytes, in elements.
struct Shape {
  std::size_t result, arrived, own, count;
};
constexpr Shape kShapes[] = {{0, 0, 0, 700}, {3, 3, 3, 517}, {1, 2, 0, 100}, {5, 5, 5, 3}, {7, 7, 7, 1}, {0, 0, 0, 0}};

struct Form {
  ReduceForm form;
  DataType result, arrived, own;
  ReduceFunction processor;
};

class Twin {
 public:
  explicit Twin(const cuda::Driver& driver)
      : driver_(driver),
        reduce_(taken(GpuReduce::load(driver))),
        stream_(taken(cuda::Stream::create(driver))),
        device_(taken(cuda::DeviceMemory::allocate(driver, 3 * kPartBytes))),
        pinned_(taken(cuda::PinnedMemory::allocate(driver, 3 * kPartBytes))),
        expected_(kPartBytes) {}

  void compare(DataType type, ReduceOp op) {
    gpu_kernels_ = taken(reduce_.kernels(type, op));
    const DataType partial = accumulator_of(type);
    const ReduceKernels kernels = reduce_kernels(type, op);
    const PartialKernels partials = partial_kernels(type, op);
    std::vector<Form> forms{{ReduceForm::kFirst, partial, type, type, kernels.first},
                            {ReduceForm::kBetween, partial, partial, type, kernels.between},
                            {ReduceForm::kLast, type, partial, type, kernels.last},
                            {ReduceForm::kOnly, type, type, type, kernels.only},
                            {ReduceForm::kJoin, partial, partial, partial, partials.join}};
    if (partials.narrow != nullptr) forms.push_back({ReduceForm::kNarrow, type, partial, partial, partials.narrow});
    for (const Form& form : forms) {
      for (const Shape& shape : kShapes) {
        for (const bool pinned : {false, true}) {
          compare(form, type, op, shape, pinned, nullptr);
          if (form.result == form.arrived) compare(form, type, op, shape, pinned, &Shape::arrived);
          if (form.result == form.own && form.form != ReduceForm::kNarrow) {
            compare(form, type, op, shape, pinned, &Shape::own);
          }
        }
      }
    }
  }
  std::uint64_t elements() const { return elements_; }
  std::uint64_t launches() const { return launches_; }
  std::uint64_t wrong() const { return wrong_; }

 private:
  /// `in_place`: the operand that the result takes the place of.
  void compare(const Form& form, DataType type, ReduceOp op, const Shape& shape, bool pinned,
               std::size_t Shape::*in_place) {
    const std::size_t arrived_at = kPartBytes + kGuardBytes + shape.arrived * size_of(form.arrived);
    const std::size_t own_at = 2 * kPartBytes + kGuardBytes + shape.own * size_of(form.own);
    const std::size_t result_at = in_place == nullptr           ? kGuardBytes + shape.result * size_of(form.result)
                                  : in_place == &Shape::arrived ? arrived_at
                                                                : own_at;
    std::memset(pinned_.data(), 0x5a, 3 * kPartBytes);
    fill(pinned_.data() + arrived_at, form.arrived, shape.count, prng_);
    fill(pinned_.data() + own_at, form.own, shape.count, prng_);
    require(stream_.copy(device_.data(), pinned_.data(), 3 * kPartBytes));
    require(stream_.synchronize());
    // The whole part of the result, with what stands before and behind it.
    const std::size_t part = result_at / kPartBytes * kPartBytes;
    std::memcpy(expected_.data(), pinned_.data() + part, kPartBytes);
    char* const expected = expected_.data() + (result_at - part);
    form.processor(expected, in_place == &Shape::arrived ? expected : pinned_.data() + arrived_at,
                   in_place == &Shape::own ? expected : pinned_.data() + own_at, shape.count, kRanks);
    // Of pinned memory what arrived is read where the network put it; in place, it is written there, too.
    char* const arrived = (pinned ? reinterpret_cast<char*>(pinned_.device_address()) : device_.data()) + arrived_at;
    char* const result = in_place == &Shape::arrived ? arrived : device_.data() + result_at;
    require(start(driver_, gpu_kernels_,
                  {.form = form.form,
                   .result = result,
                   .arrived = arrived,
                   .own = form.form == ReduceForm::kNarrow ? nullptr : device_.data() + own_at,
                   .count = shape.count,
                   .ranks = kRanks},
                  stream_.handle()));
    if (!(pinned && in_place == &Shape::arrived)) {
      require(stream_.copy(pinned_.data() + part, device_.data() + part, kPartBytes));
    }
    require(stream_.synchronize());
    check(form, kernel_name(form.form, type, op), pinned_.data() + part, result_at - part, shape.count);
    elements_ += shape.count;
    launches_ += shape.count > 0 ? 1 : 0;
  }

  void check(const Form& form, const std::string& name, const char* got, std::size_t begin, std::size_t count) {
    const std::size_t bytes = size_of(form.result), end = begin + count * bytes;
    for (std::size_t at = 0; at < kPartBytes; ++at) {
      if (got[at] == expected_[at]) continue;
      const bool inside = at >= begin && at < end;
      const std::size_t element = inside ? begin + (at - begin) / bytes * bytes : at;
      if (inside && is_nan(form.result, got + element) && is_nan(form.result, expected_.data() + element)) continue;
      if (++wrong_ <= 10) {
        std::printf("%s: byte %zu of %zu..%zu is %02x, the processor's %02x\n", name.c_str(), at, begin, end,
                    static_cast<unsigned char>(got[at]), static_cast<unsigned char>(expected_[at]));
      }
      return;
    }
  }

  const cuda::Driver& driver_;
  GpuReduce reduce_;
  GpuReduceKernels gpu_kernels_;
  cuda::Stream stream_;
  cuda::DeviceMemory device_;
  cuda::PinnedMemory pinned_;
  std::vector<char> expected_;
  Prng prng_{17};
  std::uint64_t elements_ = 0, launches_ = 0, wrong_ = 0;
};

}  // namespace

int main() {
  const auto driver = cuda::Driver::open();
  if (!driver) {
    std::printf("%s\n", driver.error().text.c_str());
    return kNoGpu;
  }
  const cuda::Current current(*driver, taken(driver->retain_primary(0)));
  require(current.outcome());
  Twin twin(*driver);
  for (int type = 0; type < kDataTypes; ++type) {
    if (!is_reducible(static_cast<DataType>(type))) continue;
    for (int op = 0; op < kReduceOps; ++op) twin.compare(static_cast<DataType>(type), static_cast<ReduceOp>(op));
  }
  std::printf("%s, vectors %s: %llu launches, %llu elements, %llu wrong\n", taken(driver->device_name(0)).c_str(),
              name_of(best_level()), static_cast<unsigned long long>(twin.launches()),
              static_cast<unsigned long long>(twin.elements()), static_cast<unsigned long long>(twin.wrong()));
  return twin.wrong() == 0 ? 0 : 1;
}
