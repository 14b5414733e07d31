// CUDA arrays: cudaMallocArray and its like, and the copies into and out of them.
#include <algorithm>

#include "sim/cuda/runtime.h"
#include "sim/cuda/system.h"
#include "sim/cuda/texture/texture.h"

namespace meshbed::sim::cuda {
namespace {

// driver_types.h's cudaArray* flags.
constexpr unsigned kLayered = 1, kSurface = 2, kCubemap = 4, kGather = 8;
constexpr unsigned kKnownArrayFlags = kLayered | kSurface | kCubemap | kGather;

/// Whether an array may have that shape, and how large it may be: the table of cuda.h's cuArray3DCreate, with what
/// compute capabilities from 8.0 on have (CUDA C++ Programming Guide 13.0, "Technical Specifications").
bool is_shape(const cudaExtent& extent, unsigned flags) {
  const std::size_t width = extent.width, height = extent.height, depth = extent.depth;
  const auto within = [&](std::size_t w, std::size_t h, std::size_t d) {
    return width <= w && height <= h && depth <= d;
  };
  constexpr std::size_t kLayers = 2048, kLayerSide = 1U << 15U, kVolume = 1U << 14U;
  if (width == 0) return false;
  if ((flags & kGather) != 0 && (height == 0 || depth != 0)) return false;
  if ((flags & kCubemap) != 0) return width == height && depth == 6 && within(kLayerSide, kLayerSide, depth);
  if ((flags & kLayered) != 0) return depth != 0 && within(kLayerSide, kLayerSide, kLayers);
  if (depth == 0) return within(std::size_t{1} << 17U, std::size_t{1} << 16U, 0);
  return height != 0 && (within(kVolume, kVolume, kVolume) || within(kVolume / 2, kVolume / 2, kVolume * 2));
}

/// Runs call(caller, array).
template <typename Call>
CUresult with_array(const Array* handle, const Call& call) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    Array* array = caller.driver->arrays.find(const_cast<Array*>(handle));
    return array != nullptr ? call(caller, *array) : kInvalidValue;
  });
}

struct Rectangle {
  std::size_t x_bytes, y, width_bytes, rows, pitch;
};

CUresult copy_rectangle(const Array* handle, const Rectangle& at, const void* other, bool into, Stream* stream,
                        bool waits) {
  return with_array(handle, [&](const Caller&, const Array& array) -> CUresult {
    if (!holds(array, {at.x_bytes, at.y, 0, at.width_bytes, at.rows}) || at.pitch < at.width_bytes)
      return kInvalidValue;
    const CUdeviceptr inside = address_in(array, at.x_bytes, at.y, 0);
    const auto outside = reinterpret_cast<CUdeviceptr>(other);
    return copy_box({.target = into ? inside : outside,
                     .source = into ? outside : inside,
                     .width = at.width_bytes,
                     .height = at.rows,
                     .target_pitch = into ? array.row_bytes() : at.pitch,
                     .source_pitch = into ? at.pitch : array.row_bytes()},
                    stream, waits);
  });
}

/// As many bytes as one likes, over the ends of rows.
CUresult copy_run(const Array* handle, std::size_t x_bytes, std::size_t y, const void* other, std::size_t size,
                  bool into, Stream* stream, bool waits) {
  return with_array(handle, [&](const Caller&, const Array& array) -> CUresult {
    if (x_bytes > array.row_bytes() || y >= array.height) return kInvalidValue;
    if (size > array.row_bytes() * (array.height - y) - x_bytes) return kInvalidValue;
    const CUdeviceptr inside = address_in(array, x_bytes, y, 0);
    const auto outside = reinterpret_cast<CUdeviceptr>(other);
    return copy_box({.target = into ? inside : outside, .source = into ? outside : inside, .width = size}, stream,
                    waits);
  });
}

}  // namespace

CUresult make_array(const Caller& caller, const cudaChannelFormatDesc& format, cudaExtent extent, unsigned flags,
                    Array** handle) {
  if ((flags & ~kKnownArrayFlags) != 0) return refuse("a CUDA array with flags " + std::to_string(flags));
  if ((flags & kCubemap) != 0 && (flags & kLayered) != 0) return refuse("a layered cubemap");
  auto array = std::make_unique<Array>();
  array->format = format;
  array->element_bytes = element_bytes_of(format);
  if (array->element_bytes == 0 || !is_shape(extent, flags)) return kInvalidValue;
  array->asked = extent;
  array->width = extent.width;
  array->height = std::max<std::size_t>(extent.height, 1);
  array->depth = std::max<std::size_t>(extent.depth, 1);
  array->flags = flags;
  if (const CUresult error = allocate_device(caller, array->bytes(), nullptr, array->address)) return error;
  *handle = caller.driver->arrays.add(std::move(array));
  return kSuccess;
}

void free_array(const Caller& caller, Array* array) {
  if (array->is_level) return;
  wait_for_all(*caller.context, "freeing a CUDA array, which waits for the whole context");
  ++caller.driver->counters.implicit_device_syncs;
  free_allocation(*caller.driver, array->address);
  caller.driver->arrays.remove(array);
}

bool holds(const Array& array, const Region& region) {
  const auto within = [](std::uint64_t at, std::uint64_t count, std::uint64_t size) {
    return at <= size && count <= size - at;
  };
  return within(region.x_bytes, region.width_bytes, array.row_bytes()) &&
         within(region.y, region.height, array.height) && within(region.z, region.depth, array.depth);
}

std::uint64_t element_bytes_of(const cudaChannelFormatDesc& format) {
  if (format.x != 8 && format.x != 16 && format.x != 32) return 0;
  const int all[] = {format.x, format.y, format.z, format.w};
  std::uint64_t channels = 0;
  for (const int bits : all) {
    if (bits != 0 && bits != format.x) return 0;
    channels += bits != 0 ? 1 : 0;
  }
  return channels == 3 ? 0 : channels * static_cast<std::uint64_t>(format.x) / 8;
}

CUdeviceptr address_in(const Array& array, std::uint64_t x_bytes, std::uint64_t y, std::uint64_t z) {
  return array.address + (z * array.height + y) * array.row_bytes() + x_bytes;
}

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }

CUresult cudaMalloc3DArray(Array** array, const cudaChannelFormatDesc* format, cudaExtent extent, unsigned flags) {
  return in_runtime([&]() -> CUresult {
    const Caller caller = enter_context();
    if (caller.error != kSuccess) return caller.error;
    if (array == nullptr || format == nullptr) return kInvalidValue;
    return make_array(caller, *format, extent, flags, array);
  });
}
CUresult cudaMallocArray(Array** array, const cudaChannelFormatDesc* format, std::size_t width, std::size_t height,
                         unsigned flags) {
  return cudaMalloc3DArray(array, format, {width, height, 0}, flags);
}

CUresult cudaFreeArray(Array* handle) {
  if (handle == nullptr) return kSuccess;
  return with_array(handle, [&](const Caller& caller, const Array&) {
    free_array(caller, handle);
    return kSuccess;
  });
}

CUresult cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned* flags, Array* handle) {
  return with_array(handle, [&](const Caller&, const Array& array) {
    if (format != nullptr) *format = array.format;
    if (extent != nullptr) *extent = array.asked;
    if (flags != nullptr) *flags = array.flags;
    return kSuccess;
  });
}
CUresult cudaGetChannelDesc(cudaChannelFormatDesc* format, const Array* handle) {
  return with_array(handle, [&](const Caller&, const Array& array) -> CUresult {
    if (format == nullptr) return kInvalidValue;
    *format = array.format;
    return kSuccess;
  });
}

CUresult cudaMemcpyToArray(Array* array, std::size_t x_bytes, std::size_t y, const void* source, std::size_t size,
                           int) {
  return copy_run(array, x_bytes, y, source, size, true, nullptr, true);
}
CUresult cudaMemcpyToArrayAsync(Array* array, std::size_t x_bytes, std::size_t y, const void* source, std::size_t size,
                                int, Stream* stream) {
  return copy_run(array, x_bytes, y, source, size, true, stream, false);
}
CUresult cudaMemcpyFromArray(void* target, const Array* array, std::size_t x_bytes, std::size_t y, std::size_t size,
                             int) {
  return copy_run(array, x_bytes, y, target, size, false, nullptr, true);
}
CUresult cudaMemcpyFromArrayAsync(void* target, const Array* array, std::size_t x_bytes, std::size_t y,
                                  std::size_t size, int, Stream* stream) {
  return copy_run(array, x_bytes, y, target, size, false, stream, false);
}
CUresult cudaMemcpy2DToArray(Array* array, std::size_t x_bytes, std::size_t y, const void* source, std::size_t pitch,
                             std::size_t width, std::size_t height, int) {
  return copy_rectangle(array, {x_bytes, y, width, height, pitch}, source, true, nullptr, true);
}
CUresult cudaMemcpy2DToArrayAsync(Array* array, std::size_t x_bytes, std::size_t y, const void* source,
                                  std::size_t pitch, std::size_t width, std::size_t height, int, Stream* stream) {
  return copy_rectangle(array, {x_bytes, y, width, height, pitch}, source, true, stream, false);
}
CUresult cudaMemcpy2DFromArray(void* target, std::size_t pitch, const Array* array, std::size_t x_bytes, std::size_t y,
                               std::size_t width, std::size_t height, int) {
  return copy_rectangle(array, {x_bytes, y, width, height, pitch}, target, false, nullptr, true);
}
CUresult cudaMemcpy2DFromArrayAsync(void* target, std::size_t pitch, const Array* array, std::size_t x_bytes,
                                    std::size_t y, std::size_t width, std::size_t height, int, Stream* stream) {
  return copy_rectangle(array, {x_bytes, y, width, height, pitch}, target, false, stream, false);
}

CUresult box_of(const cudaMemcpy3DParms& copy, Box& box) {
  Driver* driver = current_driver();
  if (driver == nullptr) return kNoDevice;
  const auto find = [driver](void* handle) { return driver->arrays.find(static_cast<Array*>(handle)); };
  const Array* const from = find(copy.source_array);
  const Array* const to = find(copy.target_array);
  if ((copy.source_array != nullptr) != (from != nullptr) || (copy.target_array != nullptr) != (to != nullptr))
    return kInvalidValue;
  // With an array the extent counts its elements, as a position in an array does; else both are in bytes.
  const Array* const counts = from != nullptr ? from : to;
  if (counts != nullptr && copy.extent.width > counts->width) return kInvalidValue;
  const std::size_t width = copy.extent.width * (counts != nullptr ? counts->element_bytes : 1);
  box = {.width = width, .height = copy.extent.height, .depth = copy.extent.depth};
  const auto place = [&](const Array* array, const cudaPitchedPtr& side, const cudaPos& at, CUdeviceptr& address,
                         std::size_t& pitch, std::size_t& rows) -> CUresult {
    if (array == nullptr) {
      address = reinterpret_cast<CUdeviceptr>(side.pointer) + (at.z * side.height + at.y) * side.pitch + at.x;
      pitch = side.pitch;
      rows = side.height;
      return kSuccess;
    }
    if (at.x > array->width) return kInvalidValue;
    const std::size_t x_bytes = at.x * array->element_bytes;
    if (!holds(*array, {x_bytes, at.y, at.z, width, copy.extent.height, copy.extent.depth})) return kInvalidValue;
    address = address_in(*array, x_bytes, at.y, at.z);
    pitch = array->row_bytes();
    rows = array->height;
    return kSuccess;
  };
  const CUresult error =
      place(from, copy.source, copy.source_position, box.source, box.source_pitch, box.source_height);
  if (error != kSuccess) return error;
  return place(to, copy.target, copy.target_position, box.target, box.target_pitch, box.target_height);
}

}  // namespace meshbed::sim::cuda
