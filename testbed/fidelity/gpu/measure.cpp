#include "testbed/fidelity/gpu/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "plugin/cuda/constants.h"
#include "testbed/fidelity/gpu/session.h"

namespace meshbed::testbed {
namespace {

using SharedWord = GpuSession::SharedWord;
constexpr double kPsOfUs = 1e6;

GpuAttributes attributes_of(const cuda::Driver& driver, cuda::CUdevice device, bool is_simulated) {
  const auto ask = [&](cuda::CUdevice_attribute which) { return taken(driver.attribute(device, which)); };
  GpuAttributes gpu;
  gpu.name = taken(driver.device_name(device));
  gpu.is_simulated = is_simulated;
  gpu.devices = driver.devices();
  const int version = taken(driver.version());
  gpu.driver_version = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
  // The driver interface reports only the version of CUDA.
  std::ifstream file("/sys/module/nvidia/version");
  if (std::string text; !is_simulated && std::getline(file, text)) gpu.driver_version += ", driver " + text;
  gpu.major = ask(cuda::kDeviceMajor);
  gpu.minor = ask(cuda::kDeviceMinor);
  gpu.sms = ask(cuda::kDeviceSms);
  gpu.threads_of_sm = ask(cuda::kDeviceThreadsOfSm);
  gpu.blocks_of_sm = ask(cuda::kDeviceBlocksOfSm);
  gpu.registers_of_sm = ask(cuda::kDeviceRegistersOfSm);
  gpu.shared_bytes_of_sm = ask(cuda::kDeviceSharedBytesOfSm);
  gpu.shared_bytes_of_block = ask(cuda::kDeviceSharedBytesOfBlock);
  gpu.l2_bytes = ask(cuda::kDeviceL2Bytes);
  gpu.clock_khz = ask(cuda::kDeviceClockKhz);
  gpu.is_integrated = ask(cuda::kDeviceIntegrated) != 0;
  gpu.memory_bytes = taken(driver.memory_bytes(device));
  return gpu;
}

}  // namespace

void measure_launches(const GpuSession& session, MeasuredValues& values) {
  const cuda::CUfunction nothing = session.kernel("nothing");
  const auto launch_many = [&](int count) {
    for (int each = 0; each < count; ++each) session.launch(nothing, {});
  };
  // Few enough that no queue of the driver fills.
  constexpr int kBurst = 32;
  values["launch_call"] = with_spread("launch: the call", "us", kPsOfUs * kBurst,
                                      session.host_ps_of(session.repeats(), [&] { launch_many(kBurst); }));
  values["launch_to_end"] = with_spread("launch of an empty kernel, until the wait for it ends", "us", kPsOfUs,
                                        session.host_ps_of(session.repeats(), [&] {
                                          launch_many(1);
                                          session.synchronize();
                                        }));
  constexpr int kFew = 64, kMany = 320;
  const auto timed = [&](int count) {
    return session.host_ps_of(session.few_repeats(), [&] {
      launch_many(count);
      session.synchronize();
    });
  };
  const std::vector<double> few = timed(kFew);
  std::vector<double> many = timed(kMany);
  for (std::size_t repeat = 0; repeat < many.size(); ++repeat) many[repeat] -= few[repeat];
  values["launch_period"] =
      with_spread("launches back to back, one every", "us", kPsOfUs * (kMany - kFew), std::move(many));
  constexpr int kFewKernels = 4, kManyKernels = 36;
  values["kernel_gap"] =
      with_spread("empty kernels that are all there, one every", "us", kPsOfUs,
                  session.device_ps_each(kFewKernels, kManyKernels, session.repeats(), [&] { launch_many(1); }));
  values["idle_sync"] = with_spread("wait for a stream that has nothing to do", "us", kPsOfUs,
                                    session.host_ps_of(session.repeats(), [&] { session.synchronize(); }));
}

void measure_words(const GpuSession& session, MeasuredValues& values) {
  const cuda::CUfunction tell = session.kernel("tell"), answer = session.kernel("answer");
  cuda::CUdeviceptr stored = session.address(SharedWord::kStored);
  std::uint32_t number = 0;
  const auto launch_and_look = [&] {
    ++number;
    session.launch(tell, {&stored, &number});
    session.wait_for(session.word(SharedWord::kStored), number, "a kernel's store");
  };
  launch_and_look();
  values["launch_to_store"] = with_spread("launch, until the host sees the kernel's first store", "us", kPsOfUs,
                                          session.host_ps_of(session.repeats(), launch_and_look));
  session.synchronize();

  cuda::CUdeviceptr question = session.address(SharedWord::kQuestion), reply = session.address(SharedWord::kReply);
  std::uint32_t rounds = 21;
  std::vector<double> trips;
  // The kernel must end even if no answer comes.
  struct Quit {
    volatile std::uint32_t& word;
    ~Quit() { word = std::numeric_limits<std::uint32_t>::max(); }
  } const quit{session.word(SharedWord::kQuestion)};
  while (trips.size() < session.repeats()) {
    session.word(SharedWord::kQuestion) = 0;
    session.word(SharedWord::kReply) = 0;
    session.launch(answer, {&question, &reply, &rounds});
    const auto ask = [&](std::uint32_t round) {
      session.word(SharedWord::kQuestion) = round;
      session.wait_for(session.word(SharedWord::kReply), round, "a kernel's answer");
    };
    ask(1);  // until it runs
    const Picoseconds begun_ps = session.clock().now_ps();
    for (std::uint32_t round = 2; round <= rounds; ++round) ask(round);
    trips.push_back(static_cast<double>(session.clock().now_ps() - begun_ps) / (rounds - 1));
    session.synchronize();
  }
  values["word_round_trip"] =
      with_spread("a word of the host's to a kernel that polls it, and back", "us", kPsOfUs, std::move(trips));
}

void measure_atomics(const GpuSession& session, const GpuAttributes& gpu, MeasuredValues& values) {
  constexpr std::uint32_t kStride = 256, kCount = 256;
  const auto blocks = static_cast<unsigned>(gpu.sms);
  const auto memory = taken(cuda::DeviceMemory::allocate(session.driver(), std::size_t{kStride} * blocks));
  require_done(session.stream().fill(memory.data(), 0, memory.size_bytes()));
  cuda::CUdeviceptr words = cuda::address_of(memory.data());
  std::uint32_t mask = 0;
  // The difference between a long chain and a short one that are otherwise equal.
  const auto each_ps = [&](const char* name, std::uint32_t stride) {
    const cuda::CUfunction chain = session.kernel(name);
    const auto run = [&](std::uint32_t count) { session.launch(chain, {&words, &stride, &count, &mask}, blocks); };
    run(1);
    session.synchronize();
    constexpr std::uint32_t kShort = kCount / 8;
    const std::vector<double> shorter = session.device_ps_each(1, 2, session.few_repeats(), [&] { run(kShort); });
    std::vector<double> longer = session.device_ps_each(1, 2, session.few_repeats(), [&] { run(kCount); });
    for (std::size_t repeat = 0; repeat < longer.size(); ++repeat) {
      longer[repeat] = (longer[repeat] - shorter[repeat]) / (kCount - kShort);
    }
    return longer;
  };
  const double sum_ps = spread_of(each_ps("chain_sums", 0)).value;
  const auto note = [&](const char* name, std::string what, std::uint32_t stride) {
    std::vector<double> atomics = each_ps("chain_atomics", stride);
    const double atomic_ps = spread_of(atomics).value;
    // An atomic goes to the L2 and back, which takes hundreds of times as long as a sum.
    constexpr double kClearly = 4;
    if (atomic_ps > kClearly * std::max(sum_ps, 0.0) && atomic_ps > 0) {
      values[name] = with_spread(std::move(what), "us", kPsOfUs, std::move(atomics));
    } else {
      values[name] =
          without_value(std::move(what), "us",
                        fmt::format("a step of the chain took {:.2f} ns with an atomic and {:.2f} ns with a sum "
                                    "in its place: this GPU's atomics have no time of their own",
                                    atomic_ps / 1000, sum_ps / 1000));
    }
  };
  note("contended_atomic", "an atomic on a word that every SM updates", 0);
  note("own_atomic", "an atomic on a word of the SM's own", kStride);
}

void measure_residency(const GpuSession& session, const GpuAttributes& gpu, MeasuredValues& values) {
  const cuda::CUfunction kernel = session.kernel("wait_together");
  for (const unsigned threads : {32U, 256U}) {
    // One block more than an SM can hold, by its threads and, if the driver reports that limit, by its blocks.
    constexpr int kDefaultBlocks = 64;
    const int most_blocks = gpu.blocks_of_sm > 0 ? gpu.blocks_of_sm : kDefaultBlocks;
    const int of_sm = std::min(most_blocks, gpu.threads_of_sm / static_cast<int>(threads)) + 1;
    const auto blocks = static_cast<unsigned>(of_sm * gpu.sms);
    const auto memory = taken(cuda::PinnedMemory::allocate(session.driver(), blocks * sizeof(std::uint32_t)));
    auto* present = reinterpret_cast<volatile std::uint32_t*>(memory.data());
    std::fill(present, present + blocks, 0U);
    cuda::CUdeviceptr marks = memory.device_address(), word = session.address(SharedWord::kHold);
    session.word(SharedWord::kHold) = 1;
    session.launch(kernel, {&marks, &word}, 1, threads);  // loads it
    session.synchronize();
    present[0] = 0;
    // The count is final when no further block has started for `quiet_ps`. On an H200, 50 us of the machine's clock
    // were once too short: 4096 of 4224.
    constexpr Picoseconds kLook = 5 * kPicosecondsPerMicrosecond;
    const Picoseconds quiet_ps = (session.clock().is_simulated() ? 50 : 5000) * kPicosecondsPerMicrosecond;
    constexpr Picoseconds kPatiencePs = kPicosecondsPerSecond;
    unsigned most = 0;
    {
      session.word(SharedWord::kHold) = 0;
      struct Release {
        volatile std::uint32_t& word;
        ~Release() { word = 1; }
      } const release{session.word(SharedWord::kHold)};
      session.launch(kernel, {&marks, &word}, blocks, threads);
      const Picoseconds begun_ps = session.clock().now_ps();
      Picoseconds last_ps = begun_ps;
      for (;;) {
        session.clock().pause(kLook);
        const auto here = static_cast<unsigned>(std::count(present, present + blocks, 1U));
        const Picoseconds now_ps = session.clock().now_ps();
        if (here > most) last_ps = now_ps;
        most = std::max(most, here);
        if (most > 0 && now_ps - last_ps > quiet_ps) break;
        if (now_ps - begun_ps > kPatiencePs) break;
      }
    }
    session.synchronize();
    const std::string what = fmt::format("blocks of {} threads that wait at once", threads);
    Measured& into = values[fmt::format("resident_{}", threads)];
    into = most > 0 ? with_spread(what, "blocks", 1, {static_cast<double>(most)})
                    : without_value(what, "blocks", "none began within a second");
  }
}

GpuMeasurement measure_gpu(const GpuMeasureOptions& options) {
  const auto driver = taken(cuda::Driver::open());
  if (options.device >= driver.devices()) {
    throw std::runtime_error(fmt::format("calibrate gpu: --device {}: the driver has {} device{}, counted from 0",
                                         options.device, driver.devices(), driver.devices() == 1 ? "" : "s"));
  }
  const cuda::Current current(driver, taken(driver.retain_primary(options.device)));
  require_done(current.outcome());
  GpuMeasurement all;
  const GpuSession session(driver, options.repeats);
  all.gpu = attributes_of(driver, options.device, session.clock().is_simulated());
  constexpr std::uint64_t kLeastBytes = 64 * kMiB;
  all.copy_bytes = options.copy_bytes != 0
                       ? options.copy_bytes
                       : std::max<std::uint64_t>(kLeastBytes, 2 * static_cast<std::uint64_t>(all.gpu.l2_bytes));
  measure_launches(session, all.values);
  measure_words(session, all.values);
  measure_copies(session, all.gpu, all.copy_bytes, all.values);
  measure_atomics(session, all.gpu, all.values);
  measure_residency(session, all.gpu, all.values);
  return all;
}

}  // namespace meshbed::testbed
