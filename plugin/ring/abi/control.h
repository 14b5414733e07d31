#pragma once
// The control buffer: shutdown, counts, tenant masks, metrics, results (vyre, commit ca35047).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/ring/abi/words.h"

namespace meshbed::ring {

/// Bytes of a buffer with room for so many results.
std::uint64_t control_bytes(const Layout& layout, std::uint64_t observables);

/// As the host makes it: every tenant of the first `tenants` may run. Errors: more observables than are made room for,
/// or than the layout has; safe: more tenants than have masks.
struct ControlShape {
  std::uint64_t tenants = 1, observables = 0;
};
Result<std::vector<std::uint8_t>> encode_control(const Layout& layout, Mode mode, const ControlShape& shape);

struct ControlSnapshot {
  bool shutdown = false;
  Word shutdown_word = 0;  // as it is; hosts write 0 and 1
  Word done_count = 0;     // wraps at 2^32
  Word tenant_base = 0;
  Word epoch = 0;
  std::vector<std::pair<Word, Word>> metrics;  // opcode, count; those that are not 0
  // 0 where the layout has none of it:
  std::array<Word, kTenantFairnessSlots> tenant_fairness{};
  std::array<Word, priority::kLevels> priority_fairness{};
  std::array<Word, kPriorityOffsets> priority_offsets{};
  Word starvation_counter = 0;
};

/// The first slot of each level of a ring of so many, and its end (2.11): a fifth to each, what is left to NORMAL.
std::array<Word, kPriorityOffsets> levels_of(Word slots);

/// Errors: fewer bytes than the layout's least, or no whole words.
Result<ControlSnapshot> decode_control(Bytes control, const Layout& layout);
/// What decode_control() asks of a buffer.
Result<void> check_control(Bytes control, const Layout& layout);

/// The kernel's check before it claims: the mask of the slot's tenant. Strict: the word with the tenant's number after
/// the base, even if it is not a mask; a word beyond the buffer is 0. Safe: tenants without a mask may not run.
/// `word(index)` reads the control buffer, which has `words` of them.
template <typename ReadWord>
bool tenant_may_run(Word tenant, std::uint64_t words, Mode mode, const ReadWord& word) {
  if (mode == Mode::kSafe && tenant >= kTenantMasksMost) return false;  // quirk tenant-mask-unbounded
  const std::uint64_t at = std::uint64_t{word(control_word::kTenantBase)} + tenant;
  return at < words && word(at) != 0;
}

/// Observable `index`. Errors: there is none.
Result<Word> observable(Bytes control, const Layout& layout, std::uint64_t index);

/// Signs of another layout than the reader's: text for the user; nullopt: none. An estimate, because no buffer contains
/// its layout's number.
std::optional<std::string> doubt_of_layout(Bytes control, const Layout& layout);

}  // namespace meshbed::ring
