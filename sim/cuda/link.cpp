// Linking at run time: cuLink*. What a program links is one text of PTX, which is its own image; several would have to
// find one another's names.
#include <cstring>

#include "plugin/base/log.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {

// Options speak of registers, of optimisation and of where a log goes: an interpreter has none of the first two, and
// its log is empty.
CUresult cuLinkCreate_v2(unsigned, int*, void**, Link** link) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (link == nullptr) return kInvalidValue;
  *link = caller.driver->links.add(std::make_unique<Link>());
  return kSuccess;
}

CUresult cuLinkAddData_v2(Link* handle, int type, void* data, std::size_t size, const char* name, unsigned, int*,
                          void**) {
  constexpr int kPtx = 1;  // cuda.h's CUjitInputType
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  Link* link = caller.driver->links.find(handle);
  if (link == nullptr) return kInvalidHandle;
  if (data == nullptr || size == 0 || link->complete) return kInvalidValue;
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
