#pragma once
// CUDA arrays, and the objects through which kernels read and write texels.
//
// An array's texels lie in device memory row by row, without gaps: what a GPU does to keep neighbours together nobody
// can see but by its speed, which is not modelled.

#include <cstdint>
#include <memory>

#include "sim/cuda/abi.h"
#include "sim/cuda/ptx/machine.h"

namespace meshbed::sim::cuda {

struct Driver;

struct Array {
  cudaChannelFormatDesc format{};
  std::uint64_t width = 1, height = 1, depth = 1;  // texels; depth: or layers, or faces
  cudaExtent asked{};                              // as the program gave it: 0 for an axis that it has not
  unsigned flags = 0;
  CUdeviceptr address = 0;
  std::uint64_t element_bytes = 0;

  std::uint64_t row_bytes() const { return width * element_bytes; }
  std::uint64_t bytes() const { return row_bytes() * height * depth; }
};

/// A texture or a surface. Its texels are a program's memory, which may have gone since.
struct TexelObject {
  ptx::Texture texture{};
  std::uint64_t address = 0, size_bytes = 0;
  bool is_surface = false;
  bool destroyed = false;  // kernels that were launched before still read it
};

/// Bytes of a texel; 0: channels that no texture has.
std::uint64_t element_bytes_of(const cudaChannelFormatDesc& format);
/// Where texel (x in bytes, y, z) of the array is.
CUdeviceptr address_in(const Array& array, std::uint64_t x_bytes, std::uint64_t y, std::uint64_t z);

}  // namespace meshbed::sim::cuda
