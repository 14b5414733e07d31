#pragma once
// Accesses of memory that a thread of the host, or another rank, uses at the same time: 1 to 16 bytes at a multiple of
// their size are one access of the processor, so that the other side never sees half of a value. PTX promises this of
// scalars (PTX ISA 9.0, 8.2), and NVIDIA's GPUs keep it for a thread's vector of 8 or 16 bytes, which NCCL's LL
// protocol depends on: data and flag are one vector.
//
// 16 bytes are one access on x86-64 processors with AVX (Intel SDM volume 3, 9.1.1; AMD64 APM volume 2, 7.3.2) and on
// arm64 ones with FEAT_LSE2. Elsewhere each half is one.

#include <cstddef>
#include <cstdint>

namespace meshbed::sim::ptx {

/// Four words; lanes of a vector register of the processor.
typedef std::uint32_t Quad __attribute__((vector_size(16)));

namespace single_access_detail {
// Memory has no type, and parameter space has no alignment beyond the parameter's own.
template <typename T>
struct Raw {
  typedef T type __attribute__((may_alias, aligned(1)));
};
}  // namespace single_access_detail

// Not for ThreadSanitizer: what they race with is a program's own synchronisation.
template <typename T>
__attribute__((no_sanitize("thread"))) inline T load_once(const void* from) {
  return *static_cast<const volatile typename single_access_detail::Raw<T>::type*>(from);
}

template <typename T>
__attribute__((no_sanitize("thread"))) inline void store_once(void* to, T value) {
  *static_cast<volatile typename single_access_detail::Raw<T>::type*>(to) = value;
}

/// Copies 1, 2, 4, 8 or 16 bytes by one load and one store, others piece by piece in ascending order, the largest
/// first.
inline void copy_once(void* to, const void* from, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const auto pieces = [&]<typename T>(T) {
    for (; bytes >= sizeof(T); bytes -= sizeof(T), target += sizeof(T), source += sizeof(T))
      store_once(target, load_once<T>(source));
  };
  pieces(Quad{});
  pieces(std::uint64_t{});
  pieces(std::uint32_t{});
  pieces(std::uint16_t{});
  pieces(std::uint8_t{});
}

}  // namespace meshbed::sim::ptx
