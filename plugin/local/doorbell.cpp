#include "plugin/local/doorbell.h"

#include <semaphore.h>
#include <time.h>

#include <atomic>
#include <utility>

namespace meshbed::local {

struct Doorbell::Page {
  std::atomic<std::uint32_t> rung;
  std::atomic<std::uint32_t> sleeps;
  sem_t alarm;  // posted at most once for each sleep
};

Result<Doorbell> Doorbell::create() {
  auto memory = create_shared(sizeof(Page));
  if (!memory) return memory.error();
  Doorbell doorbell(std::move(*memory));
  constexpr int kBetweenProcesses = 1;
  sem_init(&doorbell.page().alarm, kBetweenProcesses, 0);
  return doorbell;
}

Result<Doorbell> Doorbell::map(Descriptor descriptor) {
  auto memory = map_shared(std::move(descriptor), sizeof(Page));
  if (!memory) return memory.error();
  return Doorbell(std::move(*memory));
}

Doorbell::Page& Doorbell::page() const { return *static_cast<Page*>(memory_.begin.get()); }

// Rings and waits are ordered by sequential consistency: either the sleeper sees the count, or the ringer the sleeper.
void Doorbell::ring() const {
  page().rung.fetch_add(1);
  if (page().sleeps.load() != 0 && page().sleeps.exchange(0) != 0) sem_post(&page().alarm);
}

std::uint32_t Doorbell::times_rung() const { return page().rung.load(); }

void Doorbell::wait(std::uint32_t seen) const {
  page().sleeps.store(1);
  if (page().rung.load() == seen) {
    constexpr long kNapNs = 1'000'000, kSecondNs = 1'000'000'000;
    timespec until{};
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += kNapNs;
    if (until.tv_nsec >= kSecondNs) {
      ++until.tv_sec;
      until.tv_nsec -= kSecondNs;
    }
    sem_clockwait(&page().alarm, CLOCK_MONOTONIC, &until);
  }
  page().sleeps.store(0);
}

}  // namespace meshbed::local
