// Texture and surface objects: cudaCreateTextureObject, cudaCreateSurfaceObject.
#include <algorithm>

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

/// What the resource is; `object` has its place and its shape then.
CUresult take_resource(const Caller& caller, const cudaResourceDesc& resource, TexelObject& object) {
  ptx::Texture& texture = object.texture;
  if (resource.type == kArrayResource) {
    const Array* array = caller.driver->arrays.find(resource.of.array);
    if (array == nullptr) return kInvalidValue;
    if (const CUresult error = take_format(array->format, texture)) return error;
    texture.width = array->width;
    texture.height = array->height;
    texture.depth = array->depth;
    // A layered texture of one dimension has its layers where others have their depth.
    texture.row_bytes = array->row_bytes();
    texture.slice_bytes = texture.row_bytes * array->height;
    object.address = array->address;
    object.size_bytes = array->bytes();
  } else if (resource.type == kLinearResource) {
    const auto& linear = resource.of.linear;
    if (const CUresult error = take_format(linear.format, texture)) return error;
    texture.width = linear.bytes / element_bytes_of(linear.format);
    if (texture.width == 0) return kInvalidValue;
    object.address = reinterpret_cast<std::uint64_t>(linear.address);
    object.size_bytes = linear.bytes;
  } else if (resource.type == kPitchResource) {
    const auto& rows = resource.of.pitch;
    if (const CUresult error = take_format(rows.format, texture)) return error;
    const std::uint64_t row = rows.width * element_bytes_of(rows.format);
    if (row == 0 || rows.height == 0 || rows.pitch < row) return kInvalidValue;
    texture.width = rows.width;
    texture.height = rows.height;
    texture.row_bytes = rows.pitch;
    object.address = reinterpret_cast<std::uint64_t>(rows.address);
    object.size_bytes = rows.pitch * (rows.height - 1) + row;
  } else {
    return refuse("a texture of a mipmapped array");
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

CUresult destroy(unsigned long long handle, bool is_surface) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    if (handle == 0) return kSuccess;
    const auto found = caller.driver->texels.find(handle);
    if (found == caller.driver->texels.end()) return kInvalidValue;
    if (found->second.is_surface != is_surface || found->second.destroyed) return kInvalidValue;
    found->second.destroyed = true;
    return kSuccess;
  });
}

}  // namespace

CUresult cudaCreateTextureObject(unsigned long long* handle, const cudaResourceDesc* resource,
                                 const cudaTextureDesc* how, const void* view) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    if (handle == nullptr || resource == nullptr || how == nullptr) return kInvalidValue;
    if (view != nullptr) return refuse("a texture with a view of its resource");
    TexelObject object;
    if (const CUresult error = take_resource(caller, *resource, object)) return error;
    ptx::Texture& texture = object.texture;
    if (how->srgb != 0) return refuse("a texture of sRGB");
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (how->address_mode[axis] < 0 || how->address_mode[axis] > 3) return kInvalidValue;
      texture.address[axis] = static_cast<ptx::Texture::Address>(how->address_mode[axis]);
    }
    texture.linear = how->filter != 0;
    texture.reads_normalized = how->read_mode == kReadNormalized;
    texture.normalized_coordinates = how->normalized_coordinates != 0;
    std::copy_n(how->border, 4, texture.border.begin());
    const bool reads_floats = texture.format == ptx::Texture::Format::kFloat || texture.reads_normalized;
    if (texture.linear && !reads_floats) return kInvalidValue;  // the mean of integers is none
    if (texture.reads_normalized && texture.format != ptx::Texture::Format::kFloat && texture.channel_bytes == 4)
      return kInvalidValue;
    return add_object(caller, object, handle);
  });
}

CUresult cudaDestroyTextureObject(unsigned long long handle) { return destroy(handle, false); }

CUresult cudaCreateSurfaceObject(unsigned long long* handle, const cudaResourceDesc* resource) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    if (handle == nullptr || resource == nullptr || resource->type != kArrayResource) return kInvalidValue;
    TexelObject object{.is_surface = true};
    if (const CUresult error = take_resource(caller, *resource, object)) return error;
    return add_object(caller, object, handle);
  });
}

CUresult cudaDestroySurfaceObject(unsigned long long handle) { return destroy(handle, true); }

}  // namespace meshbed::sim::cuda
