#include "plugin/ring/abi/control.h"

#include <algorithm>

namespace meshbed::ring {
namespace {

/// Results that the layout has room for: behind everything else, or up to the metrics.
std::uint64_t observables_most(const Layout& layout) {
  return layout.observables > layout.metrics ? kObservablesMostEncoded : layout.metrics - layout.observables;
}

template <std::size_t count>
void copy_words(Bytes control, Word from, std::array<Word, count>& to) {
  if (from == Layout::kNone) return;
  for (std::size_t index = 0; index < count; ++index) to[index] = load_word(control.data(), from + index);
}

}  // namespace

std::uint64_t control_bytes(const Layout& layout, std::uint64_t observables) {
  return kWordBytes * std::max<std::uint64_t>(layout.control_min_words, layout.observables + observables);
}

Result<std::vector<std::uint8_t>> encode_control(const Layout& layout, Mode mode, const ControlShape& shape) {
  if (shape.observables > observables_most(layout)) {
    return refused(std::to_string(shape.observables) + " observables: a control buffer of ABI " + layout.name +
                   " is made with " + std::to_string(observables_most(layout)) + " at most");
  }
  // Quirk tenants-truncated.
  if (mode == Mode::kSafe && shape.tenants > kTenantMasksMost) {
    return refused(std::to_string(shape.tenants) + " tenants: a control buffer has masks for " +
                   std::to_string(kTenantMasksMost) + "; the others would never run");
  }
  std::vector<std::uint8_t> control(control_bytes(layout, shape.observables));
  store_word(control.data(), control_word::kTenantBase, control_word::kTenantMasks);
  for (Word tenant = 0; tenant < std::min<std::uint64_t>(shape.tenants, kTenantMasksMost); ++tenant) {
    store_word(control.data(), control_word::kTenantMasks + tenant, kTenantMaskAll);
  }
  if (layout.tenant_quotas == Layout::kNone) return control;
  for (Word tenant = 0; tenant < std::min<std::uint64_t>(shape.tenants, kTenantQuotasMost); ++tenant) {
    store_word(control.data(), layout.tenant_quotas + tenant, kTenantQuota);
  }
  return control;
}

std::array<Word, kPriorityOffsets> levels_of(Word slots) {
  const Word each = slots / priority::kLevels, rest = slots % priority::kLevels;
  std::array<Word, kPriorityOffsets> first{};
  for (Word level = 0; level < priority::kLevels; ++level) {
    first[level + 1] = first[level] + each + (level == priority::kNormal ? rest : 0);
  }
  return first;
}

Result<void> check_control(Bytes control, const Layout& layout) {
  const std::uint64_t least = std::uint64_t{layout.control_min_words} * kWordBytes;
  if (control.size() < least) {
    return refused("a control buffer of " + std::to_string(control.size()) + " bytes: ABI " + layout.name + " has " +
                   std::to_string(least) + " at least" +
                   (layout.abi == Abi::k2026_05 ? "; one of ABI 2026-04 can be shorter" : ""));
  }
  if (control.size() % kWordBytes != 0) {
    return refused("a control buffer of " + std::to_string(control.size()) + " bytes: not whole words of " +
                   std::to_string(kWordBytes) + " bytes");
  }
  return ok();
}

Result<ControlSnapshot> decode_control(Bytes control, const Layout& layout) {
  if (const Result<void> fits = check_control(control, layout); !fits) return fits.error();
  ControlSnapshot snapshot;
  snapshot.shutdown_word = load_word(control.data(), control_word::kShutdown);
  snapshot.shutdown = snapshot.shutdown_word != 0;
  snapshot.done_count = load_word(control.data(), control_word::kDoneCount);
  snapshot.tenant_base = load_word(control.data(), control_word::kTenantBase);
  snapshot.epoch = load_word(control.data(), layout.epoch);
  for (Word op = 0; op < kMetricsSlots; ++op) {
    const Word count = load_word(control.data(), layout.metrics + op);
    if (count != 0) snapshot.metrics.emplace_back(op, count);
  }
  copy_words(control, layout.tenant_fairness, snapshot.tenant_fairness);
  copy_words(control, layout.priority_fairness, snapshot.priority_fairness);
  copy_words(control, layout.priority_offsets, snapshot.priority_offsets);
  if (layout.starvation_counter != Layout::kNone) {
    snapshot.starvation_counter = load_word(control.data(), layout.starvation_counter);
  }
  return snapshot;
}

Result<Word> observable(Bytes control, const Layout& layout, std::uint64_t index) {
  if (const Result<void> fits = check_control(control, layout); !fits) return fits.error();
  const std::uint64_t at = layout.observables + index;
  if (index >= observables_most(layout) || at >= control.size() / kWordBytes) {
    return refused("observable " + std::to_string(index) + ": the control buffer ends before it");
  }
  return load_word(control.data(), at);
}

std::optional<std::string> doubt_of_layout(Bytes control, const Layout& layout) {
  const std::uint64_t newer_least = std::uint64_t{kLayout2026_05.control_min_words} * kWordBytes;
  const std::uint64_t older_least = std::uint64_t{kLayout2026_04.control_min_words} * kWordBytes;
  const std::string size = "a control buffer of " + std::to_string(control.size()) + " bytes";
  if (layout.abi == Abi::k2026_05) {
    if (control.size() >= older_least && control.size() < newer_least && control.size() % kWordBytes == 0) {
      return size + " speaks for --abi 2026-04: 2026-05 has " + std::to_string(newer_least) + " at least";
    }
    return std::nullopt;
  }
  // The host writes a million into the quota of each tenant, where the older layout has results; and the words behind
  // its epoch are no longer its own.
  if (control.size() >= newer_least && load_word(control.data(), kLayout2026_05.tenant_quotas) == kTenantQuota) {
    return size + " with a quota of a million in word 32 speaks for --abi 2026-05";
  }
  return std::nullopt;
}

}  // namespace meshbed::ring
