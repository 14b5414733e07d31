#include "testbed/fidelity/gpu/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "testbed/fidelity/gpu/kernels.h"

namespace meshbed::testbed {
namespace {

constexpr std::size_t kLineBytes = 256;  // words of different lines are never transferred together
constexpr double kPsOfMillisecond = 1e9;
constexpr int kWarmUps = 20;

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  constexpr double kLow = 0.1, kMiddle = 0.5, kHigh = 0.9;
  return {.value = at(kMiddle), .low = at(kLow), .high = at(kHigh)};
}

Measured with_spread(std::string what, std::string unit, double per_unit, std::vector<double> values) {
  for (double& value : values) value /= per_unit;
  const std::size_t repeats = values.size();
  return {.what = std::move(what),
          .unit = std::move(unit),
          .spread = spread_of(std::move(values)),
          .repeats = repeats,
          .reason = ""};
}

Measured without_value(std::string what, std::string unit, std::string reason) {
  return {.what = std::move(what),
          .unit = std::move(unit),
          .spread = std::nullopt,
          .repeats = 0,
          .reason = std::move(reason)};
}

GpuSession::GpuSession(const cuda::Driver& driver, int repeats)
    : driver_(driver),
      repeats_(static_cast<std::size_t>(repeats)),
      module_(taken(cuda::Module::load(driver, kGpuKernels))),
      stream_(taken(cuda::Stream::create(driver))),
      words_(taken(cuda::PinnedMemory::allocate(driver, kLineBytes * static_cast<std::size_t>(SharedWord::kWords)))),
      first_(taken(cuda::Event::create(driver, true))),
      second_(taken(cuda::Event::create(driver, true))),
      third_(taken(cuda::Event::create(driver, true))),
      hold_(kernel("hold")) {
  for (std::size_t which = 0; which < static_cast<std::size_t>(SharedWord::kWords); ++which) {
    word(static_cast<SharedWord>(which)) = 0;
  }
  // Each kernel is launched once now: a driver may load a kernel at its first launch and waits for all running kernels
  // to do so, which must not happen while one holds the stream.
  word(SharedWord::kHold) = 1;
  const cuda::CUfunction nothing = kernel("nothing");
  for (int count = 0; count < kWarmUps; ++count) launch(nothing, {});
  cuda::CUdeviceptr where = address(SharedWord::kHold);
  launch(hold_, {&where});
  for (const cuda::Event* event : {&first_, &second_, &third_}) require_done(event->record(stream_.handle()));
  synchronize();
}

std::size_t GpuSession::few_repeats() const {
  constexpr std::size_t kLeast = 3, kMost = 25, kShare = 4;
  return std::clamp(repeats_ / kShare, kLeast, kMost);
}

void GpuSession::launch(cuda::CUfunction kernel, std::vector<void*> arguments, unsigned blocks,
                        unsigned threads) const {
  require_done(cuda::launch(driver_, kernel,
                            {.grid = {blocks}, .block = {threads}, .shared_bytes = 0, .stream = stream_.handle()},
                            arguments.data()));
}

volatile std::uint32_t& GpuSession::word(SharedWord which) const {
  return *reinterpret_cast<volatile std::uint32_t*>(words_.data() + kLineBytes * static_cast<std::size_t>(which));
}

cuda::CUdeviceptr GpuSession::address(SharedWord which) const {
  return words_.device_address() + kLineBytes * static_cast<std::size_t>(which);
}

void GpuSession::wait_for(volatile std::uint32_t& word, std::uint32_t value, const char* what) const {
  constexpr int kLooksBetweenClocks = 4096;
  const Picoseconds begun_ps = clock_.now_ps();
  for (int look = 1; word != value; ++look) {
    clock_.pause(kLookPs);
    if (look % kLooksBetweenClocks == 0 && clock_.now_ps() - begun_ps > kPicosecondsPerSecond) {
      throw std::runtime_error(fmt::format("calibrate gpu: {} did not come within a second", what));
    }
  }
}

GpuSession::Held::Held(const GpuSession& session) : session_(session) {
  session_.word(SharedWord::kHold) = 0;
  cuda::CUdeviceptr where = session_.address(SharedWord::kHold);
  session_.launch(session_.hold_, {&where});
}

// Runs on an exception, too: a kernel that waits for ever would block the call that frees memory.
GpuSession::Held::~Held() { session_.word(SharedWord::kHold) = 1; }

std::vector<double> GpuSession::device_ps_each(int few, int many, std::size_t repeats,
                                               const std::function<void()>& submit) const {
  std::vector<double> values;
  while (values.size() < repeats) {
    {
      const Held held(*this);
      require_done(first_.record(stream_.handle()));
      for (int count = 0; count < few; ++count) submit();
      require_done(second_.record(stream_.handle()));
      for (int count = 0; count < many; ++count) submit();
      require_done(third_.record(stream_.handle()));
      // A simulated GPU may lag behind a host whose code takes no time: wait until the GPU has seen the hold.
      clock_.pause(kLookPs);
    }
    synchronize();
    const double of_few = taken(second_.milliseconds_since(first_));
    const double of_many = taken(third_.milliseconds_since(second_));
    values.push_back((of_many - of_few) * kPsOfMillisecond / (many - few));
  }
  return values;
}

std::vector<double> GpuSession::host_ps_of(std::size_t repeats, const std::function<void()>& call) const {
  std::vector<double> values;
  while (values.size() < repeats) {
    synchronize();
    const Picoseconds begun_ps = clock_.now_ps();
    call();
    values.push_back(static_cast<double>(clock_.now_ps() - begun_ps));
  }
  return values;
}

}  // namespace meshbed::testbed
