// Mipmapped arrays, of both interfaces: cudaMallocMipmappedArray, cuMipmappedArrayCreate and their like. The rules
// for handles in driver_array.cpp apply to them too.
#include <algorithm>
#include <bit>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"
#include "sim/cuda/texture/texture.h"

namespace meshbed::sim::cuda {
namespace {

void free_levels(const Caller& caller, const MipmappedArray& mipmap) {
  for (Array* level : mipmap.levels) {
    level->is_level = false;
    free_array(caller, level);
  }
}

CUresult make_mipmap(const Caller& caller, const cudaChannelFormatDesc& format, cudaExtent extent, unsigned levels,
                     unsigned flags, MipmappedArray** handle) {
  constexpr unsigned kLayers = 1 | 4;  // cudaArrayLayered, cudaArrayCubemap: the depth counts layers or faces
  const bool has_layers = (flags & kLayers) != 0;
  const std::size_t longest = std::max({extent.width, extent.height, has_layers ? 1 : extent.depth, std::size_t{1}});
  const auto most = static_cast<unsigned>(std::bit_width(longest));
  auto mipmap = std::make_unique<MipmappedArray>();
  const auto half = [](std::size_t size) { return size == 0 ? 0 : std::max<std::size_t>(size / 2, 1); };
  for (unsigned level = 0; level < std::clamp(levels, 1U, most); ++level) {
    Array* array = nullptr;
    if (const CUresult error = make_array(caller, format, extent, flags, &array)) {
      free_levels(caller, *mipmap);
      return error;
    }
    array->is_level = true;
    mipmap->levels.push_back(array);
    extent = {half(extent.width), half(extent.height), has_layers ? extent.depth : half(extent.depth)};
  }
  *handle = caller.driver->mipmaps.add(std::move(mipmap));
  return kSuccess;
}

CUresult give_level(const MipmappedArray& mipmap, unsigned level, Array** array) {
  if (array == nullptr || level >= mipmap.levels.size()) return kInvalidValue;
  *array = mipmap.levels[level];
  return kSuccess;
}

void free_mipmap(const Caller& caller, MipmappedArray* mipmap) {
  free_levels(caller, *mipmap);
  caller.driver->mipmaps.remove(mipmap);
}

/// Runs call(caller, mipmapped array); `none`: what no handle is answered, and `gone` one that was destroyed.
template <typename Call>
CUresult with_mipmap(const MipmappedArray* handle, CUresult none, CUresult gone, const Call& call) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (handle == nullptr) return none;
  MipmappedArray* mipmap = caller.driver->mipmaps.find(const_cast<MipmappedArray*>(handle));
  return mipmap != nullptr ? call(caller, mipmap) : gone;
}

}  // namespace

CUresult cudaMallocMipmappedArray(MipmappedArray** mipmap, const cudaChannelFormatDesc* format, cudaExtent extent,
                                  unsigned levels, unsigned flags) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    if (mipmap == nullptr || format == nullptr) return kInvalidValue;
    return make_mipmap(caller, *format, extent, levels, flags, mipmap);
  });
}
CUresult cudaGetMipmappedArrayLevel(Array** array, const MipmappedArray* handle, unsigned level) {
  return in_runtime([&] {
    return with_mipmap(handle, kInvalidValue, kInvalidValue,
                       [&](const Caller&, const MipmappedArray* mipmap) { return give_level(*mipmap, level, array); });
  });
}
CUresult cudaFreeMipmappedArray(MipmappedArray* handle) {
  return in_runtime([&] {
    return with_mipmap(handle, kSuccess, kInvalidValue, [&](const Caller& caller, MipmappedArray* mipmap) {
      free_mipmap(caller, mipmap);
      return CUresult{kSuccess};
    });
  });
}

CUresult cuMipmappedArrayCreate(MipmappedArray** mipmap, const CUDA_ARRAY3D_DESCRIPTOR* wanted, unsigned levels) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  cudaChannelFormatDesc format{};
  if (mipmap == nullptr || wanted == nullptr) return kInvalidValue;
  if (const CUresult error = channels_of(wanted->format, wanted->channels, format)) return error;
  return make_mipmap(caller, format, {wanted->width, wanted->height, wanted->depth}, levels, wanted->flags, mipmap);
}
CUresult cuMipmappedArrayGetLevel(Array** array, MipmappedArray* handle, unsigned level) {
  return with_mipmap(handle, kInvalidHandle, kContextIsDestroyed,
                     [&](const Caller&, const MipmappedArray* mipmap) { return give_level(*mipmap, level, array); });
}
CUresult cuMipmappedArrayDestroy(MipmappedArray* handle) {
  return with_mipmap(handle, kInvalidHandle, kContextIsDestroyed, [&](const Caller& caller, MipmappedArray* mipmap) {
    free_mipmap(caller, mipmap);
    return CUresult{kSuccess};
  });
}

}  // namespace meshbed::sim::cuda
