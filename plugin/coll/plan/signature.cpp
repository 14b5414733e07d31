#include "plugin/coll/plan/signature.h"

#include "plugin/base/collective.h"
#include "plugin/base/counted.h"

namespace meshbed::coll {
namespace {

constexpr std::size_t kCallBytes = 24;

void put(std::string* out, std::uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) out->push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
}

std::uint64_t get(std::string_view in, std::size_t offset, unsigned bytes) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(in[offset + i])) << (8 * i);
  }
  return value;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::uint64_t kMebi = 1U << 20U, kKibi = 1U << 10U;
  if (bytes > 0 && bytes % kMebi == 0) return std::to_string(bytes / kMebi) + " MiB";
  if (bytes > 0 && bytes % kKibi == 0) return std::to_string(bytes / kKibi) + " KiB";
  return counted(bytes, "byte");
}

}  // namespace

CallSignature signature_of(std::uint64_t number, Collective collective, DataType type, ReduceOp op, int root,
                           std::uint64_t count) {
  return {.number = number,
          .count = count,
          .root = has_root(collective) ? root : -1,
          .kind = CallSignature::Kind::kCollective,
          .collective = collective,
          .type = type,
          .op = reduces(collective) ? op : ReduceOp::kSum};
}

CallSignature barrier_signature(std::uint64_t number) {
  return {.number = number, .kind = CallSignature::Kind::kBarrier};
}

CallSignature pairs_signature() { return {.kind = CallSignature::Kind::kPairs}; }

std::string short_text(const CallSignature& signature) {
  if (signature.kind == CallSignature::Kind::kPairs) return call_name_of(Collective::kSendRecv);
  const bool is_barrier = signature.kind == CallSignature::Kind::kBarrier;
  return (is_barrier ? "barrier" : call_name_of(signature.collective)) + (" " + std::to_string(signature.number));
}

std::string to_text(const CallSignature& signature) {
  std::string text = short_text(signature);
  if (signature.kind != CallSignature::Kind::kCollective) return text;
  text += ", " + size_text(signature.count * size_of(signature.type)) + " " + name_of(signature.type);
  if (reduces(signature.collective)) text += " " + std::string(name_of(signature.op));
  if (signature.root >= 0) text += ", root " + std::to_string(signature.root);
  return text;
}

int tag_of(const CallSignature& signature) {
  // 1 bit that is set | 4 bits collective | 4 bits type | 3 bits reduction | 19 bits of a sum in which each field has
  // an odd factor: a change of one of them alone by less than 2^17 changes it.
  constexpr std::uint64_t kSumBits = 19, kNumberFactor = 1, kRootFactor = 0x2f0b5, kCountFactor = 0x4c1a3;
  const std::uint64_t folded = signature.count ^ signature.count >> kSumBits ^ signature.count >> (2 * kSumBits);
  const std::uint64_t sum = signature.number * kNumberFactor +
                            static_cast<std::uint64_t>(signature.root) * kRootFactor + folded * kCountFactor;
  std::uint64_t tag = 1;
  tag = tag << 4U | (static_cast<std::uint64_t>(signature.collective) & 0xfU);
  tag = tag << 4U | (static_cast<std::uint64_t>(signature.type) & 0xfU);
  tag = tag << 3U | (static_cast<std::uint64_t>(signature.op) & 0x7U);
  tag = tag << kSumBits | (sum & ((1U << kSumBits) - 1));
  return static_cast<int>(tag);
}

std::string encode_calls(const std::vector<CallSignature>& calls) {
  std::string text;
  for (std::size_t at = 0; at < calls.size() && at < kCallsReported; ++at) {
    const CallSignature& call = calls[at];
    put(&text, call.number, 8);
    put(&text, call.count, 8);
    put(&text, static_cast<std::uint32_t>(call.root), 4);
    put(&text, static_cast<std::uint8_t>(call.kind), 1);
    put(&text, static_cast<std::uint8_t>(call.collective), 1);
    put(&text, static_cast<std::uint8_t>(call.type), 1);
    put(&text, static_cast<std::uint8_t>(call.op), 1);
  }
  return text;
}

std::optional<std::vector<CallSignature>> decode_calls(std::string_view text) {
  if (text.size() % kCallBytes != 0 || text.size() > kCallsReported * kCallBytes) return std::nullopt;
  std::vector<CallSignature> calls;
  for (std::size_t at = 0; at < text.size(); at += kCallBytes) {
    const auto kind = get(text, at + 20, 1), collective = get(text, at + 21, 1), type = get(text, at + 22, 1),
               op = get(text, at + 23, 1);
    if (kind > static_cast<std::uint64_t>(CallSignature::Kind::kPairs) || collective >= kCollectives.size() ||
        type >= kDataTypes || op >= kReduceOps) {
      return std::nullopt;
    }
    calls.push_back({.number = get(text, at, 8),
                     .count = get(text, at + 8, 8),
                     .root = static_cast<std::int32_t>(static_cast<std::uint32_t>(get(text, at + 16, 4))),
                     .kind = static_cast<CallSignature::Kind>(kind),
                     .collective = static_cast<Collective>(collective),
                     .type = static_cast<DataType>(type),
                     .op = static_cast<ReduceOp>(op)});
  }
  return calls;
}

}  // namespace meshbed::coll
