#include "plugin/ring/abi/quirks.h"

namespace meshbed::ring {

std::span<const Quirk> quirks() {
  static constexpr Quirk kAll[] = {
      {"publish-without-release",
       "a publish ends in a plain store: a kernel that runs already may see STATUS before the "
       "words that it covers",
       "STATUS is stored with release, and claimed with acquire", "2.2"},
      {"tenant-mask-unbounded", "tenant 29 + k is looked up in quota word k and in what follows it",
       "a tenant without a mask may not run, and nothing is published for it", "2.2"},
      {"masked-after-claim", "a slot whose tenant is masked between check and claim stays CLAIMED for ever",
       "it is put back as REQUEUE, which is claimed once the tenant may run", "2.2"},
      {"tenants-truncated", "masks of tenants beyond 29 and quotas beyond 32 are left out without a word",
       "more than 29 tenants are refused", "2.3"},
      {"packed-beyond-kernel", "the encoder packs more than four operations, and operations that the kernel skips",
       "what the kernel would not run as it stands is refused", "2.4"},
      {"debug-cursor", "a cursor beyond the log's end makes the log unreadable",
       "the records that are there are read, and those that were dropped are counted", "2.5"},
      {"io-only-ok",
       "the requester waits 2^32 turns after ERROR or a DONE of the kernel's server, and the entry is lost",
       "OK, ERROR and DONE end a request, and its entry is free again", "2.6"},
      {"io-full-is-silence", "a request that finds no EMPTY entry completes as if it had been served",
       "it is an error that names the queue", "2.6"},
      {"io-offset-high", "the kernel's server leaves out the upper half of an offset", "it reads both halves", "2.6"},
      {"window-empty-slot", "a zeroed slot counts in a window of opcode 0", "EMPTY slots are in no window", "2.7"},
      {"watchdog-wrap", "a done count that passes 2^32 is an error", "it wraps", "2.8"},
      {"watchdog-fault", "one faulted slot, and no stall is ever suspected",
       "slots that wait and do not move are a stall, also if others have faulted", "2.8"},
      {"watchdog-masked", "a slot of a masked tenant is suspected of a stall for ever",
       "its verdict is tenant-masked where nothing else waits", "2.8"},
      {"hot-overwritten", "counts of hot opcodes and windows in a launch request are overwritten by the telemetry's",
       "they are kept where the caller gave some", "2.8"},
      {"accounting-overflow", "a counter of requeues or promotions that is full is an error", "it stays full", "2.8"},
  };
  return kAll;
}

}  // namespace meshbed::ring
