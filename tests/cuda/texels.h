#pragma once
// Kernels that read and write texels, of both interfaces' textures and surfaces; and the driver interface's arrays and
// textures of them.

#include <array>
#include <string>
#include <vector>

#include "tests/cuda/entry.h"

namespace meshbed::test {

inline constexpr int kFormatFloat = 0x20, kFormatHalf = 0x10, kFormatByte = 1, kFormatSignedByte = 8,
                     kFormatWord = 3;                                              // CUarray_format
inline constexpr unsigned kFromHost = 1, kFromDevice = 2, kFromArray = 3;          // CUmemorytype
inline constexpr unsigned kLayered = 1, kSurface = 2, kCubemap = 4, kGather = 8;   // CUDA_ARRAY3D_*
inline constexpr int kArrayResource = 0, kLinearResource = 2, kPitchResource = 3;  // CUresourcetype
inline constexpr unsigned kAsInteger = 1, kNormalized = 2;                         // CU_TRSF_*
inline constexpr int kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kContextIsDestroyed = 709;

/// Thread i reads at coordinates in[3 i ...] and writes four words at out[4 i ...].
inline std::string texel_kernel(const std::string& name, const std::string& fetch) {
  return ".visible .entry " + name + R"((.param .u64 t, .param .u64 in, .param .u64 out)
{
  .reg .b32 %r<9>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [t];
  ld.param.u64 %rd2, [in];
  ld.param.u64 %rd3, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd4, %r1, 12;
  add.s64 %rd2, %rd2, %rd4;
  mul.wide.u32 %rd4, %r1, 16;
  add.s64 %rd3, %rd3, %rd4;
  ld.global.b32 %r2, [%rd2];
  ld.global.b32 %r3, [%rd2+4];
  ld.global.b32 %r4, [%rd2+8];
  mov.b32 %r5, 0;
  mov.b32 %r6, 0;
  mov.b32 %r7, 0;
  mov.b32 %r8, 0;
  )" + fetch +
         R"(
  st.global.v4.b32 [%rd3], {%r5, %r6, %r7, %r8};
  ret;
}
)";
}

inline const std::string kTexelKernels =
    ".version 8.0\n.target sm_80\n.address_size 64\n" +
    texel_kernel("flat", "tex.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}];") +
    texel_kernel("whole", "tex.1d.v4.u32.s32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2}];") +
    texel_kernel("whole_flat", "tex.2d.v4.u32.s32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}];") +
    texel_kernel("volume", "tex.3d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3, %r4, %r4}];") +
    texel_kernel("level", "tex.level.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}], %r4;") +
    texel_kernel("gradients",
                 "tex.grad.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}], {%r4, %r5}, {%r5, %r4};") +
    texel_kernel("gather", "tld4.r.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}];") +
    texel_kernel("gather_green", "tld4.g.2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3}];") +
    texel_kernel("layers", "tex.a2d.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3, %r4, %r4}];") +
    texel_kernel("cube", "tex.cube.v4.f32.f32 {%r5, %r6, %r7, %r8}, [%rd1, {%r2, %r3, %r4, %r4}];") +
    texel_kernel("wide", "sust.b.2d.v4.b32.clamp [%rd1, {%r2, %r3}], {%r4, %r4, %r4, %r4};") +
    texel_kernel("load", "suld.b.2d.b32.trap {%r5}, [%rd1, {%r2, %r3}];") +
    texel_kernel("paint", "sust.b.2d.b32.trap [%rd1, {%r2, %r3}], {%r4};");

template <typename T>
using Coordinates = std::vector<std::array<T, 3>>;

/// What `name` leaves for each of the coordinates.
template <typename R, typename T>
std::vector<std::array<R, 4>> fetched_texels(const std::string& name, unsigned long long handle,
                                             const Coordinates<T>& at) {
  CUdeviceptr in = allocate(at.size() * 12), out = allocate(at.size() * 16);
  CHECK(cuMemcpyHtoD_v2(in, at.data(), at.size() * 12) == 0);
  void* arguments[] = {&handle, &in, &out};
  const CUfunction function = find_function(kTexelKernels.c_str(), name.c_str());
  CHECK(cuLaunchKernel(function, 1, 1, 1, static_cast<unsigned>(at.size()), 1, 1, 0, nullptr, arguments, nullptr) == 0);
  std::vector<std::array<R, 4>> values(at.size());
  CHECK(cuMemcpyDtoH_v2(values.data(), out, at.size() * 16) == 0);
  return values;
}

inline std::vector<float> counted(std::size_t count, float first = 0) {
  std::vector<float> values(count);
  for (std::size_t index = 0; index < count; ++index) values[index] = first + static_cast<float>(index);
  return values;
}

inline CUresult make_array(sim::cuda::Array** array, const sim::cuda::CUDA_ARRAY_DESCRIPTOR& wanted) {
  return DRIVER_CALL(cuArrayCreate_v2, "cuArrayCreate")(array, &wanted);
}
inline CUresult make_array(sim::cuda::Array** array, const sim::cuda::CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  return DRIVER_CALL(cuArray3DCreate_v2, "cuArray3DCreate")(array, &wanted);
}
inline CUresult destroy_array(sim::cuda::Array* array) { return DRIVER_CALL(cuArrayDestroy, "cuArrayDestroy")(array); }

inline CUresult copy_with(const sim::cuda::CUDA_MEMCPY2D& wanted) {
  return DRIVER_CALL(cuMemcpy2D_v2, "cuMemcpy2D")(&wanted);
}
inline CUresult copy_with(const sim::cuda::CUDA_MEMCPY3D& wanted) {
  return DRIVER_CALL(cuMemcpy3D_v2, "cuMemcpy3D")(&wanted);
}

/// From rows of 16 bytes in the host's memory into an array of 4 x 3 floats.
inline sim::cuda::CUDA_MEMCPY2D into_array(sim::cuda::Array* array, const std::vector<float>& values) {
  sim::cuda::CUDA_MEMCPY2D wanted{};
  wanted.source_kind = kFromHost;
  wanted.source_host = values.data();
  wanted.source_pitch = 16;
  wanted.target_kind = kFromArray;
  wanted.target_array = array;
  wanted.width_bytes = 16;
  wanted.height = 3;
  return wanted;
}

inline std::vector<float> found_in_array(sim::cuda::Array* array, std::size_t width = 4, std::size_t height = 3) {
  std::vector<float> values(width * height, -1);
  sim::cuda::CUDA_MEMCPY2D wanted{};
  wanted.source_kind = kFromArray;
  wanted.source_array = array;
  wanted.target_kind = kFromHost;
  wanted.target_host = values.data();
  wanted.target_pitch = width * 4;
  wanted.width_bytes = width * 4;
  wanted.height = height;
  CHECK(copy_with(wanted) == 0);
  return values;
}

/// 4 x 3 floats 0, 1 ... 11.
inline sim::cuda::Array* small_float_array() {
  sim::cuda::Array* array = nullptr;
  CHECK(make_array(&array, sim::cuda::CUDA_ARRAY_DESCRIPTOR{4, 3, kFormatFloat, 1}) == 0);
  const std::vector<float> values = counted(12);
  CHECK(copy_with(into_array(array, values)) == 0);
  return array;
}

inline sim::cuda::CUDA_RESOURCE_DESC resource_of_array(sim::cuda::Array* array) {
  sim::cuda::CUDA_RESOURCE_DESC resource{};
  resource.of.array = array;
  return resource;
}
inline const sim::cuda::CUDA_TEXTURE_DESC kClamped{.address_mode = {1, 1, 1},
                                                   .filter = 0,
                                                   .flags = 0,
                                                   .anisotropy_max = 0,
                                                   .mipmap_filter = 0,
                                                   .mipmap_bias = 0,
                                                   .mipmap_least = 0,
                                                   .mipmap_most = 0,
                                                   .border = {},
                                                   .reserved = {}};

inline CUresult make_texture_of(const sim::cuda::CUDA_RESOURCE_DESC& resource, const sim::cuda::CUDA_TEXTURE_DESC& how,
                                unsigned long long* texture) {
  return DRIVER_CALL(cuTexObjectCreate, "cuTexObjectCreate")(texture, &resource, &how, nullptr);
}
inline unsigned long long texture_of(const sim::cuda::CUDA_RESOURCE_DESC& resource,
                                     const sim::cuda::CUDA_TEXTURE_DESC& how) {
  unsigned long long texture = 0;
  CHECK(make_texture_of(resource, how, &texture) == 0);
  return texture;
}

}  // namespace meshbed::test
