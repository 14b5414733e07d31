// Texture and surface objects: cudaCreateTextureObject, cudaCreateSurfaceObject.
#include <algorithm>
#include <utility>
#include <vector>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"
#include "sim/cuda/texture/texture.h"

namespace meshbed::sim::cuda {
namespace {

// driver_types.h's cudaResourceType, cudaChannelFormatKind, cudaTextureReadMode.
enum ResourceType : int { kArrayResource, kMipmapResource, kLinearResource, kPitchResource };
enum ChannelKind : int { kSignedChannel, kUnsignedChannel, kFloatChannel };
constexpr int kReadNormalized = 1;

CUresult take_format(const cudaChannelFormatDesc& format, ptx::Texture& texture) {
  const std::uint64_t element = element_bytes_of(format);
  if (element == 0) return kInvalidValue;
  if (format.kind < kSignedChannel || format.kind > kFloatChannel)
    return refuse("a texture of channel kind " + std::to_string(format.kind));
  texture.format = format.kind == kFloatChannel      ? ptx::Texture::Format::kFloat
                   : format.kind == kUnsignedChannel ? ptx::Texture::Format::kUnsigned
                                                     : ptx::Texture::Format::kSigned;
  texture.channel_bytes = static_cast<std::uint32_t>(format.x / 8);
  if (texture.format == ptx::Texture::Format::kFloat && texture.channel_bytes == 1) return kInvalidValue;
  texture.channels = static_cast<std::uint32_t>(element / texture.channel_bytes);
  return kSuccess;
}

std::uint64_t address_of_texels(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

CUresult take_array(const Driver& driver, const Array& array, ptx::Texture& texture) {
  if (const CUresult error = take_format(array.format, texture)) return error;
  texture.width = array.width;
  texture.height = array.height;
  texture.depth = array.depth;
  // A layered texture of one dimension has its layers where others have their depth.
  texture.row_bytes = array.row_bytes();
  texture.slice_bytes = texture.row_bytes * array.height;
  texture.bytes = reinterpret_cast<std::byte*>(bytes_at(driver, array.address, array.bytes()));
  return texture.bytes != nullptr ? kSuccess : kInvalidValue;
}

/// What the resource is; `object` has its place and its shape then.
CUresult take_resource(const Caller& caller, const cudaResourceDesc& resource, TexelObject& object) {
  ptx::Texture& texture = object.texture;
  if (resource.type == kArrayResource) {
    const Array* array = caller.driver->arrays.find(resource.of.array);
    if (array == nullptr) return kInvalidValue;
    object.address = array->address;
    object.size_bytes = array->bytes();
    return take_array(*caller.driver, *array, texture);
  } else if (resource.type == kMipmapResource) {
    const MipmappedArray* mipmap = caller.driver->mipmaps.find(resource.of.mipmap);
    if (mipmap == nullptr) return kInvalidValue;
    object.address = mipmap->levels[0]->address;
    object.size_bytes = mipmap->levels[0]->bytes();
    texture.smaller.resize(mipmap->levels.size() - 1);
    for (std::size_t level = 0; level < mipmap->levels.size(); ++level) {
      ptx::Texture& of = level == 0 ? texture : texture.smaller[level - 1];
      if (const CUresult error = take_array(*caller.driver, *mipmap->levels[level], of)) return error;
    }
    return kSuccess;
  } else if (resource.type == kLinearResource) {
    const auto& linear = resource.of.linear;
    if (const CUresult error = take_format(linear.format, texture)) return error;
    texture.width = linear.bytes / element_bytes_of(linear.format);
    if (texture.width == 0 || texture.width > kMostLinearTexels) return kInvalidValue;
    if (address_of_texels(linear.address) % kTextureAlignment != 0) return kInvalidValue;
    object.address = address_of_texels(linear.address);
    object.size_bytes = linear.bytes;
  } else if (resource.type == kPitchResource) {
    const auto& rows = resource.of.pitch;
    if (const CUresult error = take_format(rows.format, texture)) return error;
    if (rows.width > kMostPitchedWidth || rows.height > kMostPitchedRows || rows.pitch > kMostTexturePitch)
      return kInvalidValue;
    const std::uint64_t row = rows.width * element_bytes_of(rows.format);
    if (row == 0 || rows.height == 0 || rows.pitch < row) return kInvalidValue;
    if (address_of_texels(rows.address) % kTextureAlignment != 0 || rows.pitch % kTexturePitchAlignment != 0)
      return kInvalidValue;
    texture.width = rows.width;
    texture.height = rows.height;
    texture.row_bytes = rows.pitch;
    object.address = address_of_texels(rows.address);
    object.size_bytes = rows.pitch * (rows.height - 1) + row;
  } else {
    return kInvalidValue;
  }
  texture.bytes = reinterpret_cast<std::byte*>(bytes_at(*caller.driver, object.address, object.size_bytes));
  return texture.bytes != nullptr ? kSuccess : kInvalidValue;
}

CUresult add_object(const Caller& caller, TexelObject object, unsigned long long* handle) {
  // Those that were destroyed go when nothing is under way that may read them.
  if (system().works.empty())
    std::erase_if(caller.driver->texels, [](const auto& one) { return one.second.destroyed; });
  *handle = system().next_id++;
  caller.driver->texels[*handle] = object;
  return kSuccess;
}

/// All levels are read as the first one is.
void spread_settings(ptx::Texture& texture) {
  std::vector<ptx::Texture> levels = std::move(texture.smaller);
  texture.smaller.clear();
  for (ptx::Texture& level : levels) {
    ptx::Texture whole = texture;
    whole.bytes = level.bytes;
    whole.width = level.width;
    whole.height = level.height;
    whole.depth = level.depth;
    whole.row_bytes = level.row_bytes;
    whole.slice_bytes = level.slice_bytes;
    level = std::move(whole);
  }
  texture.smaller = std::move(levels);
}

/// cuda.h's CU_TRSF_SEAMLESS_CUBEMAP: where no mean is asked for it is clamping.
CUresult take_seamless(const Driver& driver, const cudaResourceDesc& resource, ptx::Texture& texture) {
  constexpr unsigned kCubemap = 4;
  const bool is_mipmap = resource.type == kMipmapResource;
  if (resource.type != kArrayResource && !is_mipmap) return kInvalidValue;
  const Array* array =
      is_mipmap ? driver.mipmaps.find(resource.of.mipmap)->levels[0] : driver.arrays.find(resource.of.array);
  if ((array->flags & kCubemap) == 0) return kInvalidValue;
  if (texture.linear) return refuse("a seamless mean over the edges of a cubemap");
  texture.address.fill(ptx::Texture::Address::kClamp);
  return kSuccess;
}

/// Runs call(caller) for the runtime.
template <typename Call>
CUresult with_texels(const Call& call) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    return caller.error != kSuccess ? caller.error : call(caller);
  });
}

/// What an object was made with.
template <typename Value>
CUresult give(Value* target, unsigned long long handle, bool is_surface, Value TexelObject::*part) {
  return with_texels([&](const Caller& caller) -> CUresult {
    const TexelObject* found = find_texels(caller, handle, is_surface);
    if (target == nullptr || found == nullptr) return kInvalidValue;
    *target = found->*part;
    return kSuccess;
  });
}

}  // namespace

CUresult add_texture(const Caller& caller, const cudaResourceDesc& resource, const cudaTextureDesc& how,
                     Integers integers, unsigned long long* handle) {
  TexelObject object{.resource = resource, .how = how};
  if (const CUresult error = take_resource(caller, resource, object)) return error;
  ptx::Texture& texture = object.texture;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (how.address_mode[axis] < 0 || how.address_mode[axis] > 3) return kInvalidValue;
    texture.address[axis] = static_cast<ptx::Texture::Address>(how.address_mode[axis]);
  }
  const bool is_float = texture.format == ptx::Texture::Format::kFloat;
  const bool wants_normalized = how.read_mode == kReadNormalized, wants_mean = how.filter != 0;
  texture.reads_normalized = wants_normalized && !is_float && texture.channel_bytes <= 2;
  texture.linear = wants_mean && (is_float || texture.reads_normalized);
  const bool as_asked = texture.linear == wants_mean && (is_float || texture.reads_normalized == wants_normalized);
  if (integers == Integers::kChecked && !as_asked) return kInvalidValue;
  texture.normalized_coordinates = how.normalized_coordinates != 0;
  // cuda.h: a mipmapped array is read with those.
  if (resource.type == kMipmapResource && !texture.normalized_coordinates) return kInvalidValue;
  texture.srgb = how.srgb != 0;
  const bool is_of_bytes = texture.channel_bytes == 1 && texture.format == ptx::Texture::Format::kUnsigned;
  if (texture.srgb && !(is_of_bytes && texture.channels == 4 && texture.reads_normalized))
    return refuse("sRGB of other texels than four bytes from 0 to 1");
  texture.mixes_levels = how.mipmap_filter != 0;
  texture.level_bias = how.mipmap_bias;
  texture.level_least = how.mipmap_least;
  texture.level_most = how.mipmap_most;
  std::copy_n(how.border, texture.channels, texture.border.begin());
  if (how.seamless_cubemap != 0) {
    if (const CUresult error = take_seamless(*caller.driver, resource, texture)) return error;
  }
  spread_settings(texture);
  return add_object(caller, object, handle);
}

CUresult add_surface(const Caller& caller, const cudaResourceDesc& resource, unsigned long long* handle) {
  if (resource.type != kArrayResource) return kInvalidValue;
  TexelObject object{.is_surface = true, .resource = resource};
  if (const CUresult error = take_resource(caller, resource, object)) return error;
  return add_object(caller, object, handle);
}

TexelObject* find_texels(const Caller& caller, unsigned long long handle, bool is_surface) {
  const auto found = caller.driver->texels.find(handle);
  if (found == caller.driver->texels.end()) return nullptr;
  TexelObject& object = found->second;
  return object.is_surface == is_surface && !object.destroyed ? &object : nullptr;
}

CUresult destroy_texels(const Caller& caller, unsigned long long handle, bool is_surface) {
  if (handle == 0) return kSuccess;
  TexelObject* found = find_texels(caller, handle, is_surface);
  if (found == nullptr) return kInvalidValue;
  found->destroyed = true;
  return kSuccess;
}

CUresult cudaCreateTextureObject(unsigned long long* handle, const cudaResourceDesc* resource,
                                 const cudaTextureDesc* how, const void* view) {
  return with_texels([&](const Caller& caller) -> CUresult {
    if (handle == nullptr || resource == nullptr || how == nullptr) return kInvalidValue;
    if (view != nullptr) return refuse("a texture with a view of its resource");
    return add_texture(caller, *resource, *how, Integers::kChecked, handle);
  });
}
CUresult cudaDestroyTextureObject(unsigned long long handle) {
  return with_texels([&](const Caller& caller) { return destroy_texels(caller, handle, false); });
}
CUresult cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, unsigned long long handle) {
  return give(resource, handle, false, &TexelObject::resource);
}
CUresult cudaGetTextureObjectTextureDesc(cudaTextureDesc* how, unsigned long long handle) {
  return give(how, handle, false, &TexelObject::how);
}

CUresult cudaCreateSurfaceObject(unsigned long long* handle, const cudaResourceDesc* resource) {
  return with_texels([&](const Caller& caller) -> CUresult {
    return handle != nullptr && resource != nullptr ? add_surface(caller, *resource, handle) : kInvalidValue;
  });
}
CUresult cudaDestroySurfaceObject(unsigned long long handle) {
  return with_texels([&](const Caller& caller) { return destroy_texels(caller, handle, true); });
}
CUresult cudaGetSurfaceObjectResourceDesc(cudaResourceDesc* resource, unsigned long long handle) {
  return give(resource, handle, true, &TexelObject::resource);
}

}  // namespace meshbed::sim::cuda
