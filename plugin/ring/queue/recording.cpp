#include "plugin/ring/queue/recording.h"

#include <algorithm>
#include <string_view>

namespace meshbed::ring {
namespace {

constexpr std::string_view kMagic = "MBRINGS1";
constexpr std::uint64_t kHeadBytes = 24, kTimeBytes = 8;
constexpr std::uint64_t kAbiWord = 2, kSlotsWord = 3, kControlWord = 4;
constexpr Word kAbi2026_04 = 202604, kAbi2026_05 = 202605;
constexpr Word kControlWordsMost = kObservablesMostEncoded + 160;

std::uint64_t snapshot_bytes(const RecordingShape& shape) {
  return kTimeBytes + std::uint64_t{shape.control_words} * kWordBytes + std::uint64_t{shape.slots} * kSlotBytes;
}

Result<void> check_shape(const RecordingShape& shape) {
  const Layout& layout = layout_of(shape.abi);
  if (shape.slots > kSlotsMostEncoded) {
    return refused("a recording of " + std::to_string(shape.slots) + " slots: " + std::to_string(kSlotsMostEncoded) +
                   " at most");
  }
  if (shape.control_words < layout.control_min_words || shape.control_words > kControlWordsMost) {
    return refused("a recording with a control buffer of " + std::to_string(shape.control_words) + " words: ABI " +
                   layout.name + " has " + std::to_string(layout.control_min_words) + " to " +
                   std::to_string(kControlWordsMost));
  }
  return ok();
}

}  // namespace

Result<std::vector<std::uint8_t>> begin_recording(const RecordingShape& shape) {
  if (const Result<void> fits = check_shape(shape); !fits) return fits.error();
  std::vector<std::uint8_t> file(kHeadBytes);
  std::copy(kMagic.begin(), kMagic.end(), file.begin());
  store_word(file.data(), kAbiWord, shape.abi == Abi::k2026_04 ? kAbi2026_04 : kAbi2026_05);
  store_word(file.data(), kSlotsWord, shape.slots);
  store_word(file.data(), kControlWord, shape.control_words);
  return file;
}

Result<void> add_snapshot(std::vector<std::uint8_t>& file, const RecordingShape& shape, std::uint64_t time_ns,
                          Bytes control, Bytes ring) {
  if (control.size() != std::uint64_t{shape.control_words} * kWordBytes ||
      ring.size() != std::uint64_t{shape.slots} * kSlotBytes) {
    return refused("a snapshot of " + std::to_string(control.size()) + " and " + std::to_string(ring.size()) +
                   " bytes does not fit a recording of " + std::to_string(shape.control_words) + " control words and " +
                   std::to_string(shape.slots) + " slots");
  }
  const std::size_t at = file.size();
  file.resize(at + kTimeBytes);
  std::memcpy(file.data() + at, &time_ns, kTimeBytes);
  file.insert(file.end(), control.begin(), control.end());
  file.insert(file.end(), ring.begin(), ring.end());
  return ok();
}

Result<Recording> read_recording(Bytes file) {
  if (file.size() < kHeadBytes || !std::equal(kMagic.begin(), kMagic.end(), file.begin())) {
    return refused("this is no recording of a ring: it does not begin with " + std::string(kMagic));
  }
  Recording recording;
  const Word abi = load_word(file.data(), kAbiWord);
  if (abi != kAbi2026_04 && abi != kAbi2026_05) {
    return refused("a recording of ABI " + std::to_string(abi) + ": there are 202604 and 202605");
  }
  recording.shape = {.abi = abi == kAbi2026_04 ? Abi::k2026_04 : Abi::k2026_05,
                     .slots = load_word(file.data(), kSlotsWord),
                     .control_words = load_word(file.data(), kControlWord)};
  if (const Result<void> fits = check_shape(recording.shape); !fits) return fits.error();
  const std::uint64_t each = snapshot_bytes(recording.shape);
  const std::uint64_t body = file.size() - kHeadBytes;
  if (body % each != 0) {
    return refused("the recording ends within snapshot " + std::to_string(body / each) + ": " +
                   std::to_string(body % each) + " of its " + std::to_string(each) + " bytes are there");
  }
  const std::uint64_t control_size = std::uint64_t{recording.shape.control_words} * kWordBytes;
  for (std::uint64_t at = kHeadBytes; at < file.size(); at += each) {
    Recording::Snapshot snapshot;
    std::memcpy(&snapshot.time_ns, file.data() + at, kTimeBytes);
    snapshot.control = file.subspan(at + kTimeBytes, control_size);
    snapshot.ring = file.subspan(at + kTimeBytes + control_size, each - kTimeBytes - control_size);
    if (!recording.snapshots.empty() && snapshot.time_ns < recording.snapshots.back().time_ns) {
      return refused("snapshot " + std::to_string(recording.snapshots.size()) + " is of " +
                     std::to_string(snapshot.time_ns) + " ns, before the one in front of it");
    }
    recording.snapshots.push_back(snapshot);
  }
  return recording;
}

}  // namespace meshbed::ring
