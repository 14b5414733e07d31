// The driver's texture and surface objects: cuTexObjectCreate, cuSurfObjectCreate. They are the runtime's, under other
// descriptions.
#include <algorithm>
#include <iterator>

#include "sim/cuda/system.h"
#include "sim/cuda/texture/texture.h"

namespace meshbed::sim::cuda {
namespace {

// cuda.h's CU_TRSF_*.
constexpr unsigned kReadAsInteger = 1, kNormalizedCoordinates = 2, kSrgb = 0x10, kNoTrilinear = 0x20, kSeamless = 0x40;
constexpr unsigned kTextureFlags = kReadAsInteger | kNormalizedCoordinates | kSrgb | kNoTrilinear | kSeamless;
constexpr int kOfArray = 0, kOfMipmap = 1, kOfLinear = 2, kOfPitch = 3;  // CUresourcetype

CUresult as_runtime(const CUDA_RESOURCE_DESC& wanted, cudaResourceDesc& resource) {
  if (wanted.flags != 0) return kInvalidValue;
  resource = {.type = wanted.type, .of = {}, .flags = 0};
  switch (wanted.type) {
    case kOfArray:
      resource.of.array = wanted.of.array;
      return kSuccess;
    case kOfMipmap:
      resource.of.mipmap = wanted.of.mipmap;
      return kSuccess;
    case kOfLinear: {
      const auto& from = wanted.of.linear;
      resource.of.linear = {reinterpret_cast<void*>(from.address), {}, from.bytes};
      return channels_of(from.format, from.channels, resource.of.linear.format);
    }
    case kOfPitch: {
      const auto& from = wanted.of.pitch;
      resource.of.pitch = {reinterpret_cast<void*>(from.address), {}, from.width, from.height, from.pitch};
      return channels_of(from.format, from.channels, resource.of.pitch.format);
    }
    default:
      return kInvalidValue;
  }
}

CUDA_RESOURCE_DESC as_driver(const cudaResourceDesc& resource) {
  CUDA_RESOURCE_DESC found{.type = resource.type, .of = {}, .flags = 0};
  if (resource.type == kOfLinear) {
    const auto& from = resource.of.linear;
    found.of.linear = {reinterpret_cast<CUdeviceptr>(from.address), driver_format_of(from.format),
                       channels_in(from.format), from.bytes};
  } else if (resource.type == kOfPitch) {
    const auto& from = resource.of.pitch;
    found.of.pitch = {reinterpret_cast<CUdeviceptr>(from.address),
                      driver_format_of(from.format),
                      channels_in(from.format),
                      from.width,
                      from.height,
                      from.pitch};
  } else if (resource.type == kOfMipmap) {
    found.of.mipmap = resource.of.mipmap;
  } else {
    found.of.array = resource.of.array;
  }
  return found;
}

CUresult as_runtime(const CUDA_TEXTURE_DESC& wanted, cudaTextureDesc& how) {
  const auto is_filter = [](int filter) { return filter == 0 || filter == 1; };
  const bool is_rest_zero =
      std::all_of(std::begin(wanted.reserved), std::end(wanted.reserved), [](int word) { return word == 0; });
  if ((wanted.flags & ~kTextureFlags) != 0 || !is_rest_zero) return kInvalidValue;
  if (!is_filter(wanted.filter) || !is_filter(wanted.mipmap_filter)) return kInvalidValue;
  const auto has = [&](unsigned flag) { return (wanted.flags & flag) != 0 ? 1 : 0; };
  how = {.filter = wanted.filter,
         .read_mode = 1 - has(kReadAsInteger),
         .srgb = has(kSrgb),
         .normalized_coordinates = has(kNormalizedCoordinates),
         .anisotropy_max = wanted.anisotropy_max,
         .mipmap_filter = wanted.mipmap_filter,
         .mipmap_bias = wanted.mipmap_bias,
         .mipmap_least = wanted.mipmap_least,
         .mipmap_most = wanted.mipmap_most,
         .no_trilinear = has(kNoTrilinear),
         .seamless_cubemap = has(kSeamless)};
  std::copy_n(wanted.address_mode, 3, how.address_mode);
  std::copy_n(wanted.border, 4, how.border);
  return kSuccess;
}

CUDA_TEXTURE_DESC as_driver(const cudaTextureDesc& how) {
  CUDA_TEXTURE_DESC found{};
  std::copy_n(how.address_mode, 3, found.address_mode);
  std::copy_n(how.border, 4, found.border);
  found.filter = how.filter;
  found.flags = (how.read_mode == 0 ? kReadAsInteger : 0) | (how.srgb != 0 ? kSrgb : 0) |
                (how.normalized_coordinates != 0 ? kNormalizedCoordinates : 0) |
                (how.no_trilinear != 0 ? kNoTrilinear : 0) | (how.seamless_cubemap != 0 ? kSeamless : 0);
  found.anisotropy_max = how.anisotropy_max;
  found.mipmap_filter = how.mipmap_filter;
  found.mipmap_bias = how.mipmap_bias;
  found.mipmap_least = how.mipmap_least;
  found.mipmap_most = how.mipmap_most;
  return found;
}

/// Runs call(caller, object).
template <typename Call>
CUresult with_object(unsigned long long handle, bool is_surface, const Call& call) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  const TexelObject* found = find_texels(caller, handle, is_surface);
  return found != nullptr ? call(*found) : kInvalidValue;
}

CUresult give_resource(CUDA_RESOURCE_DESC* resource, unsigned long long handle, bool is_surface) {
  return with_object(handle, is_surface, [&](const TexelObject& object) -> CUresult {
    if (resource == nullptr) return kInvalidValue;
    *resource = as_driver(object.resource);
    return kSuccess;
  });
}

CUresult destroy_object(unsigned long long handle, bool is_surface) {
  const Caller caller = enter_context();
  return caller.error != kSuccess ? caller.error : destroy_texels(caller, handle, is_surface);
}

}  // namespace

CUresult cuTexObjectCreate(unsigned long long* handle, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* how,
                           const void* view) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (handle == nullptr || resource == nullptr || how == nullptr) return kInvalidValue;
  if (view != nullptr) return refuse("a texture with a view of its resource");
  cudaResourceDesc of{};
  cudaTextureDesc read{};
  if (const CUresult error = as_runtime(*resource, of)) return error;
  if (const CUresult error = as_runtime(*how, read)) return error;
  return add_texture(caller, of, read, Integers::kAsTheyAre, handle);
}
CUresult cuTexObjectDestroy(unsigned long long handle) { return destroy_object(handle, false); }
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, unsigned long long handle) {
  return give_resource(resource, handle, false);
}
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* how, unsigned long long handle) {
  return with_object(handle, false, [&](const TexelObject& object) -> CUresult {
    if (how == nullptr) return kInvalidValue;
    *how = as_driver(object.how);
    return kSuccess;
  });
}
/// No texture here has a view: cuda.h has this code for those.
CUresult cuTexObjectGetResourceViewDesc(void*, unsigned long long handle) {
  return with_object(handle, false, [](const TexelObject&) -> CUresult { return kInvalidValue; });
}

CUresult cuSurfObjectCreate(unsigned long long* handle, const CUDA_RESOURCE_DESC* resource) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  cudaResourceDesc of{};
  if (handle == nullptr || resource == nullptr) return kInvalidValue;
  if (const CUresult error = as_runtime(*resource, of)) return error;
  return add_surface(caller, of, handle);
}
CUresult cuSurfObjectDestroy(unsigned long long handle) { return destroy_object(handle, true); }
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* resource, unsigned long long handle) {
  return give_resource(resource, handle, true);
}

}  // namespace meshbed::sim::cuda
