#include "sim/host/thread/clocks.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
constexpr std::int64_t kSecondsMax = kForever / kPicosecondsPerSecond - 1;

// A thread that reads the clock this often at one instant does nothing else: it waits for time to pass.
constexpr int kClockReadsPerInstant = 1'000;
constexpr Picoseconds kClockStep = 1 * kPicosecondsPerMicrosecond;

std::optional<std::int64_t> start_seconds(clockid_t clock) {
  switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_TAI:
      return kRealtimeStartSeconds;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
      return kMonotonicStartSeconds;
    case CLOCK_PROCESS_CPUTIME_ID:
    case CLOCK_THREAD_CPUTIME_ID:
      return 0;
    default:
      return std::nullopt;
  }
}

/// Counts a reading of the clock; lets a microsecond pass where the thread does nothing but read it.
void count_clock_read() {
  World& world = World::get();
  ThreadRecord& record = current_record();
  if (record.last_clock_read_ps != world.now()) {
    record.last_clock_read_ps = world.now();
    record.clock_reads = 0;
  }
  if (++record.clock_reads < kClockReadsPerInstant) return;
  const int kept_errno = errno;
  world.sleep(kClockStep);
  errno = kept_errno;
}

int read_clock(clockid_t clock, timespec* time) {
  if (outside()) return ::clock_gettime(clock, time);
  count_clock_read();
  const auto now = clock_time(clock, World::get().now());
  if (!now) return fail(EINVAL);
  *time = *now;
  return 0;
}

int read_resolution(clockid_t clock, timespec* resolution) {
  if (outside()) return ::clock_getres(clock, resolution);
  if (!start_seconds(clock)) return fail(EINVAL);
  if (resolution != nullptr) *resolution = {.tv_sec = 0, .tv_nsec = 1};
  return 0;
}

int read_time_of_day(timeval* time, void* zone) {
  if (outside()) return ::gettimeofday(time, static_cast<struct timezone*>(zone));
  timespec now{};
  read_clock(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1'000};
  return 0;
}

time_t read_time(time_t* result) {
  if (outside()) return ::time(result);
  timespec now{};
  read_clock(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}

clock_t read_cpu_clock() {
  if (outside()) return ::clock();
  count_clock_read();
  return World::get().now() / kPicosecondsPerMicrosecond;  // CLOCKS_PER_SEC is a million
}

void sleep_for(Picoseconds duration) {
  const int kept_errno = errno;
  World::get().sleep(std::min(duration, kForever - World::get().now()));
  errno = kept_errno;
}

/// As clock_nanosleep(2): the error is the result.
int sleep_on_clock(clockid_t clock, int flags, const timespec* request, timespec* remaining) {
  if (outside()) return ::clock_nanosleep(clock, flags, request, remaining);
  if (!start_seconds(clock)) return EINVAL;
  if ((flags & TIMER_ABSTIME) != 0) {
    const auto deadline = deadline_of(clock, *request);
    if (!deadline) return EINVAL;
    if (*deadline > World::get().now()) sleep_for(*deadline - World::get().now());
    return 0;
  }
  const auto duration = duration_of(*request);
  if (!duration) return EINVAL;
  sleep_for(*duration);
  return 0;
}

int sleep_nanoseconds(const timespec* request, timespec* remaining) {
  if (outside()) return ::nanosleep(request, remaining);
  const int error = sleep_on_clock(CLOCK_MONOTONIC, 0, request, remaining);
  return error == 0 ? 0 : fail(error);
}

int sleep_microseconds(useconds_t duration_us) {
  if (outside()) return ::usleep(duration_us);
  sleep_for(static_cast<Picoseconds>(duration_us) * kPicosecondsPerMicrosecond);
  return 0;
}

unsigned sleep_seconds(unsigned duration_s) {
  if (outside()) return ::sleep(duration_s);
  sleep_for(*duration_of({.tv_sec = duration_s, .tv_nsec = 0}));
  return 0;
}

}  // namespace

std::optional<timespec> clock_time(clockid_t clock, Picoseconds now) {
  const auto start = start_seconds(clock);
  if (!start) return std::nullopt;
  const std::int64_t now_ns = now / kPicosecondsPerNanosecond;
  return timespec{.tv_sec = *start + now_ns / kNanosecondsPerSecond, .tv_nsec = now_ns % kNanosecondsPerSecond};
}

std::optional<Picoseconds> duration_of(const timespec& duration) {
  if (duration.tv_sec < 0 || duration.tv_nsec < 0 || duration.tv_nsec >= kNanosecondsPerSecond) return std::nullopt;
  if (duration.tv_sec >= kSecondsMax) return kForever;
  return duration.tv_sec * kPicosecondsPerSecond + duration.tv_nsec * kPicosecondsPerNanosecond;
}

std::optional<Picoseconds> deadline_of(clockid_t clock, const timespec& until) {
  const auto start = start_seconds(clock);
  if (!start || until.tv_nsec < 0 || until.tv_nsec >= kNanosecondsPerSecond) return std::nullopt;
  if (until.tv_sec < *start) return 0;
  return duration_of({.tv_sec = until.tv_sec - *start, .tv_nsec = until.tv_nsec});
}

std::span<const Redirection> clock_redirections() {
  static const std::array table{
      redirect("clock_gettime", &read_clock),      redirect("clock_getres", &read_resolution),
      redirect("gettimeofday", &read_time_of_day), redirect("time", &read_time),
      redirect("clock", &read_cpu_clock),          redirect("clock_nanosleep", &sleep_on_clock),
      redirect("nanosleep", &sleep_nanoseconds),   redirect("usleep", &sleep_microseconds),
      redirect("sleep", &sleep_seconds),
  };
  return table;
}

}  // namespace meshbed::sim
