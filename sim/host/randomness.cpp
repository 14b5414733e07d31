#include "sim/host/randomness.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

constexpr std::size_t kEntropyBytesMax = 256;  // getentropy(3)

ssize_t get_random(void* data, std::size_t size, unsigned flags) {
  if (outside()) return ::getrandom(data, size, flags);
  fill_random(current_state(), data, size);
  return static_cast<ssize_t>(size);
}

int get_entropy(void* data, std::size_t size) {
  if (outside()) return ::getentropy(data, size);
  if (size > kEntropyBytesMax) return fail(EIO);
  fill_random(current_state(), data, size);
  return 0;
}

std::uint32_t random_word() {
  if (outside()) return ::arc4random();
  return static_cast<std::uint32_t>(current_state().random.next());
}

void random_buffer(void* data, std::size_t size) {
  if (outside()) {
    ::arc4random_buf(data, size);
  } else {
    fill_random(current_state(), data, size);
  }
}

std::uint32_t random_below(std::uint32_t bound) {
  if (outside()) return ::arc4random_uniform(bound);
  return bound < 2 ? 0 : static_cast<std::uint32_t>(current_state().random.below(bound));
}

}  // namespace

void fill_random(ProcessState& state, void* data, std::size_t size) {
  auto* to = static_cast<unsigned char*>(data);
  while (size > 0) {
    const std::uint64_t word = state.random.next();
    const std::size_t count = std::min(size, sizeof(word));
    std::memcpy(to, &word, count);
    to += count;
    size -= count;
  }
}

std::span<const Redirection> random_redirections() {
  static const std::array table{
      redirect("getrandom", &get_random),
      redirect("getentropy", &get_entropy),
      redirect("arc4random", &random_word),
      redirect("arc4random_buf", &random_buffer),
      redirect("arc4random_uniform", &random_below),
  };
  return table;
}

}  // namespace meshbed::sim
