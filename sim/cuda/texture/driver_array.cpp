// The driver's CUDA arrays: cuArrayCreate and its like, and the copies of single rows into and out of them.
//
// A null handle is CUDA_ERROR_INVALID_HANDLE. For a destroyed handle driver 580 returns CUDA_ERROR_CONTEXT_IS_DESTROYED
// (seen on an H200), the other code that cuda.h documents.
#include <string>

#include "sim/cuda/system.h"
#include "sim/cuda/texture/texture.h"

namespace meshbed::sim::cuda {
namespace {

/// Runs call(caller, array).
template <typename Call>
CUresult with_driver_array(Array* handle, const Call& call) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (handle == nullptr) return kInvalidHandle;
  Array* array = caller.driver->arrays.find(handle);
  return array != nullptr ? call(caller, *array) : kContextIsDestroyed;
}

CUresult make_driver_array(Array** handle, const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  cudaChannelFormatDesc format{};
  if (handle == nullptr) return kInvalidValue;
  if (const CUresult error = channels_of(wanted.format, wanted.channels, format)) return error;
  return make_array(caller, format, {wanted.width, wanted.height, wanted.depth}, wanted.flags, handle);
}

/// The address of `size` bytes from `offset` on: these copies access only an array's first row.
CUresult row_at(const Array* handle, std::size_t offset, std::size_t size, CUdeviceptr& address) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  const Array* array = caller.driver->arrays.find(const_cast<Array*>(handle));
  if (array == nullptr) return kInvalidValue;
  if (size != 0 && !holds(*array, {.x_bytes = offset, .width_bytes = size})) return kInvalidValue;
  address = array->address + offset;
  return kSuccess;
}

}  // namespace

CUresult channels_of(int format, unsigned channels, cudaChannelFormatDesc& found) {
  // cuda.h's CUarray_format, of which the first ones are a channel each; all others are layouts of whole texels.
  constexpr struct {
    int format, bits, kind;
  } kFormats[] = {{0x01, 8, 1},  {0x02, 16, 1}, {0x03, 32, 1}, {0x08, 8, 0},
                  {0x09, 16, 0}, {0x0a, 32, 0}, {0x10, 16, 2}, {0x20, 32, 2}};
  for (const auto& one : kFormats) {
    if (one.format != format) continue;
    if (channels != 1 && channels != 2 && channels != 4) return kInvalidValue;
    found = {one.bits, channels >= 2 ? one.bits : 0, channels == 4 ? one.bits : 0, channels == 4 ? one.bits : 0,
             one.kind};
    return kSuccess;
  }
  const bool is_known = format == 0x50 || (format >= 0x91 && format <= 0xcb);
  return is_known ? refuse("a CUDA array of format " + std::to_string(format)) : kInvalidValue;
}

int driver_format_of(const cudaChannelFormatDesc& format) {
  constexpr int kSigned = 8, kHalf = 0x10, kFloat = 0x20;
  if (format.kind == 2) return format.x == 32 ? kFloat : kHalf;
  return (format.kind == 0 ? kSigned : 1) + (format.x == 32 ? 2 : format.x == 16 ? 1 : 0);
}
unsigned channels_in(const cudaChannelFormatDesc& format) {
  return static_cast<unsigned>(element_bytes_of(format) * 8 / static_cast<unsigned>(format.x));
}

CUresult cuArrayCreate_v2(Array** array, const CUDA_ARRAY_DESCRIPTOR* wanted) {
  if (wanted == nullptr) return kInvalidValue;
  return make_driver_array(array, {wanted->width, wanted->height, 0, wanted->format, wanted->channels, 0});
}
CUresult cuArray3DCreate_v2(Array** array, const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  return wanted != nullptr ? make_driver_array(array, *wanted) : kInvalidValue;
}
CUresult cuArrayDestroy(Array* handle) {
  return with_driver_array(handle, [&](const Caller& caller, const Array&) {
    free_array(caller, handle);
    return kSuccess;
  });
}
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* found, Array* handle) {
  return with_driver_array(handle, [&](const Caller&, const Array& array) -> CUresult {
    if (found == nullptr) return kInvalidValue;
    *found = {array.asked.width, array.asked.height, driver_format_of(array.format), channels_in(array.format)};
    return kSuccess;
  });
}
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* found, Array* handle) {
  return with_driver_array(handle, [&](const Caller&, const Array& array) -> CUresult {
    if (found == nullptr) return kInvalidValue;
    const cudaExtent& size = array.asked;
    *found = {size.width, size.height, size.depth, driver_format_of(array.format), channels_in(array.format),
              array.flags};
    return kSuccess;
  });
}

CUresult cuMemcpyHtoA_v2(Array* array, std::size_t offset, const void* source, std::size_t size) {
  CUdeviceptr target = 0;
  const CUresult error = row_at(array, offset, size, target);
  return error != kSuccess ? error : cuMemcpyHtoD_v2(target, source, size);
}
CUresult cuMemcpyHtoAAsync_v2(Array* array, std::size_t offset, const void* source, std::size_t size, Stream* stream) {
  CUdeviceptr target = 0;
  const CUresult error = row_at(array, offset, size, target);
  return error != kSuccess ? error : cuMemcpyHtoDAsync_v2(target, source, size, stream);
}
CUresult cuMemcpyAtoH_v2(void* target, Array* array, std::size_t offset, std::size_t size) {
  CUdeviceptr source = 0;
  const CUresult error = row_at(array, offset, size, source);
  return error != kSuccess ? error : cuMemcpyDtoH_v2(target, source, size);
}
CUresult cuMemcpyAtoHAsync_v2(void* target, Array* array, std::size_t offset, std::size_t size, Stream* stream) {
  CUdeviceptr source = 0;
  const CUresult error = row_at(array, offset, size, source);
  return error != kSuccess ? error : cuMemcpyDtoHAsync_v2(target, source, size, stream);
}
CUresult cuMemcpyDtoA_v2(Array* array, std::size_t offset, CUdeviceptr source, std::size_t size) {
  CUdeviceptr target = 0;
  const CUresult error = row_at(array, offset, size, target);
  return error != kSuccess ? error : cuMemcpyDtoD_v2(target, source, size);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr target, Array* array, std::size_t offset, std::size_t size) {
  CUdeviceptr source = 0;
  const CUresult error = row_at(array, offset, size, source);
  return error != kSuccess ? error : cuMemcpyDtoD_v2(target, source, size);
}
CUresult cuMemcpyAtoA_v2(Array* to, std::size_t to_offset, Array* from, std::size_t from_offset, std::size_t size) {
  CUdeviceptr target = 0, source = 0;
  if (const CUresult error = row_at(to, to_offset, size, target)) return error;
  if (const CUresult error = row_at(from, from_offset, size, source)) return error;
  return cuMemcpyDtoD_v2(target, source, size);
}

}  // namespace meshbed::sim::cuda
