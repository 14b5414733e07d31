// Linking at run time: cuLink*. What a program links is one text of PTX, which is its own image; several would have to
// find one another's names.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plugin/base/log.h"
#include "sim/cuda/image/image_memory.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

void leave_logs_empty(unsigned count, const int* options, void** values) {
  enum : int { kWallTime = 2, kInfoLog, kInfoLogBytes, kErrorLog, kErrorLogBytes };  // cuda.h's CUjit_option
  if (options == nullptr || values == nullptr) return;
  const auto has_room = [&](int bytes_option) {
    const auto* found = std::find(options, options + count, bytes_option);
    return found != options + count && values[found - options] != nullptr;
  };
  for (unsigned index = 0; index < count; ++index) {
    const bool is_log = options[index] == kInfoLog || options[index] == kErrorLog;
    if (!is_log || values[index] == nullptr || !has_room(options[index] + 1)) continue;
    *static_cast<char*>(values[index]) = '\0';
  }
  for (unsigned index = 0; index < count; ++index) {
    const int option = options[index];
    if (option == kWallTime || option == kInfoLogBytes || option == kErrorLogBytes) values[index] = nullptr;
  }
}

// Options speak of registers, of optimisation and of where a log goes: an interpreter has none of the first two.
CUresult cuLinkCreate_v2(unsigned count, int* options, void** values, Link** link) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (link == nullptr) return kInvalidValue;
  leave_logs_empty(count, options, values);
  *link = caller.driver->links.add(std::make_unique<Link>());
  return kSuccess;
}

CUresult cuLinkAddData_v2(Link* handle, int type, void* data, std::size_t size, const char* name, unsigned count,
                          int* options, void** values) {
  constexpr int kPtx = 1;  // cuda.h's CUjitInputType
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Link* link = caller.driver->links.find(handle);
  if (link == nullptr) return kInvalidHandle;
  if (data == nullptr || size == 0 || link->complete) return kInvalidValue;
  if (const std::uint64_t readable = readable_bytes(data, size); readable < size) {
    return complain(kInvalidValue, fmt::format("cuLinkAddData of {} bytes, of which {} can be read (at most {} are): "
                                               "error 1",
                                               size, readable, kImageBytesMost));
  }
  leave_logs_empty(count, options, values);
  if (type != kPtx) return refuse("cuLinkAddData of input type " + std::to_string(type) + ", which is not PTX,");
  if (!link->image.empty()) return refuse("cuLinkAddData of a second text of PTX");
  std::string text(static_cast<const char*>(data), size);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  auto parsed = ptx::Module::parse(text, name != nullptr ? name : "cuLinkAddData");
  if (!parsed) {
    MESHBED_WARN("%s", parsed.error().text.c_str());
    return parsed.error().code == ErrorCode::kUnsupported ? kUnsupportedPtx : kInvalidPtx;
  }
  link->image = std::move(text);
  return kSuccess;
}

CUresult cuLinkComplete(Link* handle, void** image, std::size_t* size) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Link* link = caller.driver->links.find(handle);
  if (link == nullptr) return kInvalidHandle;
  if (link->complete) return kInvalidHandle;
  if (image == nullptr) return kInvalidValue;
  link->complete = true;
  // Of nothing, as of a text that was refused, an H200 makes an image, too: one without kernels.
  if (link->image.empty()) link->image = ".version 7.0\n.target sm_70\n.address_size 64\n";
  *image = link->image.data();  // until cuLinkDestroy
  if (size != nullptr) *size = link->image.size() + 1;
  return kSuccess;
}

CUresult cuLinkDestroy(Link* handle) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  return caller.driver->links.remove(handle) ? kSuccess : kInvalidHandle;
}

}  // namespace meshbed::sim::cuda
