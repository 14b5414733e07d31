// The twins of ring_twins.h on whatever GPU the process finds: exit status 0: no difference; 1: some, a line each; 77:
// there is no GPU, and why.
#include <cstdio>

#include "tests/cuda/program/ring_twins.h"

using namespace meshbed;

int main() {
  const auto driver = cuda::Driver::open();
  if (!driver) {
    std::printf("no GPU: %s\n", driver.error().text.c_str());
    return 77;
  }
  const auto name = driver->device_name(0);
  const auto version = driver->version();
  const auto context = driver->retain_primary(0);
  if (!name || !version || !context) {
    std::printf("the GPU cannot be used: %s\n", (!name      ? name.error()
                                                 : !version ? version.error()
                                                            : context.error())
                                                    .text.c_str());
    return 1;
  }
  const cuda::Current current(*driver, *context);
  const test::TwinReport report = test::run_ring_twins(*driver);
  for (const std::string& line : report.differences) std::printf("%s\n", line.c_str());
  std::printf("%s, CUDA %d.%d: %d buffers compared, %zu differences\n", name->c_str(), *version / 1000,
              *version % 1000 / 10, report.compared, report.differences.size());
  return report.differences.empty() ? 0 : 1;
}
