#pragma once
// CUDA arrays, and the objects through which kernels read and write texels.
//
// An array's texels are in device memory row by row, without gaps: a GPU's layout, which keeps neighbours together, is
// visible only by its speed, which is not modelled.

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/cuda/abi.h"
#include "sim/cuda/handle_memory.h"
#include "sim/cuda/ptx/machine.h"

namespace meshbed::sim::cuda {

struct Driver;
struct Caller;

/// CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT and ..._TEXTURE_PITCH_ALIGNMENT: of texels in memory that is no array's.
inline constexpr int kTextureAlignment = 512, kTexturePitchAlignment = 32;
/// CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, ..._TEXTURE2D_LINEAR_WIDTH, _HEIGHT and _PITCH of it, the last
/// in bytes: CUDA C++ Programming Guide 13.0, "Technical Specifications"; the pitch is that of devices from 6.0 on.
inline constexpr int kMostLinearTexels = 1 << 28, kMostPitchedWidth = 131072, kMostPitchedRows = 65000,
                     kMostTexturePitch = 2097120;

struct Array : HandleMemory<Array> {
  cudaChannelFormatDesc format{};
  std::uint64_t width = 1, height = 1, depth = 1;  // texels; depth: or layers, or faces
  cudaExtent asked{};                              // as the program gave it: 0 for an axis that it has not
  unsigned flags = 0;
  CUdeviceptr address = 0;
  std::uint64_t element_bytes = 0;
  bool is_level = false;  // of a mipmapped array, whose memory it is

  std::uint64_t row_bytes() const { return width * element_bytes; }
  std::uint64_t bytes() const { return row_bytes() * height * depth; }
};

/// Level 0 as it was asked for, each further one half as large along every axis that is no layer's.
struct MipmappedArray : HandleMemory<MipmappedArray> {
  std::vector<Array*> levels{};
};

/// A texture or a surface. Its texels are a program's memory, which may have gone since.
struct TexelObject {
  ptx::Texture texture{};
  std::uint64_t address = 0, size_bytes = 0;
  bool is_surface = false;
  bool destroyed = false;       // kernels that were launched before still read it
  cudaResourceDesc resource{};  // as the program gave them
  cudaTextureDesc how{};
};

/// Bytes of a texel; 0: channels that no texture has.
std::uint64_t element_bytes_of(const cudaChannelFormatDesc& format);
/// Converts the driver's description, a channel's format and the number of channels, into the runtime's, and back.
CUresult channels_of(int format, unsigned channels, cudaChannelFormatDesc& found);
int driver_format_of(const cudaChannelFormatDesc& format);
unsigned channels_in(const cudaChannelFormatDesc& format);
/// Where texel (x in bytes, y, z) of the array is.
CUdeviceptr address_in(const Array& array, std::uint64_t x_bytes, std::uint64_t y, std::uint64_t z);

struct Region {
  std::uint64_t x_bytes = 0, y = 0, z = 0, width_bytes = 0, height = 1, depth = 1;
};
/// Whether the array has all of it.
bool holds(const Array& array, const Region& region);

CUresult make_array(const Caller& caller, const cudaChannelFormatDesc& format, cudaExtent extent, unsigned flags,
                    Array** handle);
/// Waits for all that the context was given, as freeing memory does. Of a mipmapped array's level nothing is freed.
void free_array(const Caller& caller, Array* array);

/// The runtime is stricter than the driver with textures of integers: it returns an error for linear filtering, and for
/// normalised values of 32 bits; the driver's textures then read the integers unchanged.
enum class Integers { kChecked, kAsTheyAre };
CUresult add_texture(const Caller& caller, const cudaResourceDesc& resource, const cudaTextureDesc& how,
                     Integers integers, unsigned long long* handle);
CUresult add_surface(const Caller& caller, const cudaResourceDesc& resource, unsigned long long* handle);
/// nullptr: there is none of that kind.
TexelObject* find_texels(const Caller& caller, unsigned long long handle, bool is_surface);
CUresult destroy_texels(const Caller& caller, unsigned long long handle, bool is_surface);

}  // namespace meshbed::sim::cuda
