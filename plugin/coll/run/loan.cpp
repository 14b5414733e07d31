#include "plugin/coll/run/loan.h"

#include <algorithm>
#include <numeric>

namespace meshbed::coll {
namespace {

/// Any element's alignment, and whole lines.
constexpr std::uint64_t kLentAlignment = 256;

bool lends_output(const Operation& operation) { return operation.direct == nullptr; }
bool lends_input(const Operation& operation) { return operation.direct == nullptr || operation.lends_input; }

}  // namespace

Result<Loan> Loan::plan(Gpu& gpu, std::span<const Operation> operations, bool in_streams) {
  Loan loan;
  loan.operations_.assign(operations.begin(), operations.end());
  loan.in_streams_ = in_streams;
  const auto add = [&](const void* data, std::uint64_t size_bytes) -> Result<void> {
    if (size_bytes == 0) return ok();
    const auto context = gpu.context_behind(data);
    if (!context) return context.error();
    char* const begin = static_cast<char*>(const_cast<void*>(data));
    if (*context != nullptr) loan.parts_.push_back({*context, begin, size_bytes, 0, loan.parts_.size()});
    return ok();
  };
  for (const Operation& operation : operations) {
    if (operation.in_stream != in_streams) continue;
    Result<void> added;
    if (lends_input(operation)) added = add(operation.input, operation.input_bytes);
    if (added && lends_output(operation)) added = add(operation.output, operation.output_bytes);
    if (!added) return added.error();
  }
  loan.join();
  loan.place();
  return loan;
}

/// Those that overlap become one.
void Loan::join() {
  std::sort(parts_.begin(), parts_.end(), [](const Part& one, const Part& other) {
    return one.begin != other.begin ? one.begin < other.begin : one.named < other.named;
  });
  std::vector<Part> joined;
  for (const Part& part : parts_) {
    if (joined.empty() || part.begin >= joined.back().begin + joined.back().size_bytes) {
      joined.push_back(part);
      continue;
    }
    Part& last = joined.back();
    last.size_bytes = std::max(last.size_bytes, static_cast<std::uint64_t>(part.begin - last.begin) + part.size_bytes);
    last.named = std::min(last.named, part.named);
  }
  parts_ = std::move(joined);
}

/// In the order in which they are named, which no address of a context changes; aligned as in the GPU's memory.
void Loan::place() {
  std::vector<Part*> order;
  for (Part& part : parts_) order.push_back(&part);
  std::sort(order.begin(), order.end(), [](const Part* one, const Part* other) { return one->named < other->named; });
  for (Part* part : order) {
    part->offset = size_bytes_ + cuda::address_of(part->begin) % kLentAlignment;
    size_bytes_ = (part->offset + part->size_bytes + kLentAlignment - 1) / kLentAlignment * kLentAlignment;
  }
}

const Loan::Part* Loan::behind(const void* data) const {
  const char* const at = static_cast<const char*>(data);
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), at,
                                      [](const char* byte, const Part& part) { return byte < part.begin; });
  if (after == parts_.begin()) return nullptr;
  const Part& part = *(after - 1);
  return at < part.begin + part.size_bytes ? &part : nullptr;
}

void Loan::take(const PinnedBlock& staging) {
  const bool seen_alike = staging.device_address() == cuda::address_of(staging.data());
  for (Operation& operation : operations_) {
    if (operation.in_stream != in_streams_) continue;
    const auto stream = static_cast<cuda::CUstream>(operation.stream);
    const bool gives = operation.input_bytes > 0 && lends_input(operation);
    const bool takes = operation.output_bytes > 0 && lends_output(operation);
    const Part* const source = gives ? behind(operation.input) : nullptr;
    const Part* const target = takes ? behind(operation.output) : nullptr;
    const bool all_is_lent = source != nullptr && (operation.output_bytes == 0 || target != nullptr);
    if (all_is_lent && seen_alike && (target == nullptr || target->context == source->context)) {
      operation.lender = source->context;
      operation.lent_input = static_cast<const char*>(operation.input);
    }
    if (source != nullptr) {
      const auto* const input = static_cast<const char*>(operation.input);
      char* const place = staging.data() + source->offset + (input - source->begin);
      in_.push_back({source->context, stream, place, input, operation.input_bytes});
      operation.input = place;
    }
    if (target != nullptr) {
      auto* const output = static_cast<char*>(operation.output);
      char* const place = staging.data() + target->offset + (output - target->begin);
      out_.push_back({target->context, stream, output, place, operation.output_bytes});
      operation.output = place;
    }
  }
}

std::uint64_t Loan::copied_bytes() const {
  const auto add = [](std::uint64_t sum, const GpuCopy& copy) { return sum + copy.size_bytes; };
  return std::accumulate(out_.begin(), out_.end(), std::accumulate(in_.begin(), in_.end(), std::uint64_t{0}, add), add);
}

}  // namespace meshbed::coll
