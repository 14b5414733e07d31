// Modules and libraries: images with code for the GPU. PTX is parsed, verified and run (sim/cuda/ptx); of a cubin the
// names of its kernels are read, so that those with a registered host function can be launched.

#define XXH_INLINE_ALL  // the simulated CUDA links nothing but libc
#include <elf.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <span>

#include "plugin/base/log.h"
#include "sim/cuda/image/cubin.h"
#include "sim/cuda/image/fat_binary.h"
#include "sim/cuda/image/image_memory.h"
#include "sim/cuda/image/relocatable.h"
#include "sim/cuda/system.h"

namespace meshbed::sim::cuda {
namespace {

std::uint32_t architecture_of(const Device& device) {
  return static_cast<std::uint32_t>(device.model->compute_major * 10 + device.model->compute_minor);
}

/// Places the module's variables in the device's memory and gives them their first values.
CUresult place_variables(Driver& driver, Device& device, Module& module) {
  const auto& variables = module.code->variables();
  for (const ptx::VariableInfo& variable : variables) {
    CUdeviceptr address = 0;
    const Caller caller{.driver = &driver, .context = &primary_of(driver, ordinal_of(driver, device))};
    const std::uint64_t bytes = std::max<std::uint64_t>(variable.bytes, 1);
    CUresult error = kSuccess;
    if (variable.managed) {
      void* memory = nullptr;
      error = allocate_host_memory(caller, MemoryKind::kManaged, bytes, 0, memory);
      address = reinterpret_cast<CUdeviceptr>(memory);
    } else {
      error = allocate_device(caller, bytes, nullptr, address);
    }
    if (error != kSuccess) return error;
    module.variables.push_back(address);
    module.by_name[variable.name] = {.address = address, .bytes = variable.bytes};
  }
  // Their first values may be addresses of one another.
  for (std::size_t index = 0; index < variables.size(); ++index) {
    if (variables[index].bytes == 0) continue;
    char* place = bytes_at(driver, module.variables[index], variables[index].bytes);
    module.code->write_initial(index, module.variables, place);
  }
  return kSuccess;
}

/// What choose_entry() and choose_parts() chose: 128 bits and the length of each.
using ImageKey = std::vector<std::uint64_t>;

ImageKey key_of(std::span<const FatEntry> entries) {
  ImageKey key;
  for (const FatEntry& entry : entries) {
    const XXH128_hash_t hash = XXH3_128bits(entry.payload.data(), entry.payload.size());
    key.insert(key.end(), {hash.low64, hash.high64, entry.uncompressed_bytes, entry.flags});
  }
  return key;
}

/// Modules in use by what they were unpacked from: the ranks of a simulation load the same libraries.
std::map<ImageKey, std::weak_ptr<const ptx::Module>>& images_in_use() {
  static auto* const all = new std::map<ImageKey, std::weak_ptr<const ptx::Module>>;
  return *all;
}

/// nullptr: none is in use.
std::shared_ptr<const ptx::Module> find_image(const ImageKey& key) {
  const auto found = images_in_use().find(key);
  return found != images_in_use().end() ? found->second.lock() : nullptr;
}

void remember_image(const ImageKey& key, const std::shared_ptr<const ptx::Module>& module) {
  std::erase_if(images_in_use(), [](const auto& one) { return one.second.expired(); });
  images_in_use()[key] = module;
}

/// What parse() or link() made of the module's text.
CUresult take_code(Driver& driver, Device& device, Result<std::shared_ptr<const ptx::Module>> parsed, Module& module) {
  if (!parsed) {
    MESHBED_WARN("%s", parsed.error().text.c_str());
    return parsed.error().code == ErrorCode::kUnsupported ? kUnsupportedPtx : kInvalidPtx;
  }
  module.code = std::move(*parsed);
  return place_variables(driver, device, module);
}

CUresult load_ptx(Driver& driver, Device& device, std::string_view text, const std::string& place, Module& module) {
  return take_code(driver, device, ptx::Module::parse(text, place, host().cache_folder()), module);
}

bool has_ptx(const void* container) {
  const auto bytes = container_at(container);
  if (!bytes) return false;
  const auto entries = read_fat_binary(*bytes);
  return entries && std::any_of(entries->begin(), entries->end(), [](const FatEntry& one) { return one.is_ptx; });
}

/// What nvcc linked in advance is machine code: the parts' PTX is linked here.
CUresult load_parts(Driver& driver, Device& device, const Wrapper& wrapper, const std::string& place, Module& module) {
  const auto entries = choose_parts(wrapper.parts, architecture_of(device));
  const ImageKey key = entries ? key_of(*entries) : ImageKey{};
  std::shared_ptr<const ptx::Module> known = find_image(key);
  if (known != nullptr) return take_code(driver, device, std::move(known), module);
  auto texts = entries ? unpack_parts(*entries) : Result<std::vector<std::string>>(entries.error());
  if (!texts) {
    MESHBED_WARN("%s: %s", place.c_str(), texts.error().text.c_str());
    return kInvalidImage;
  }
  if (texts->empty()) {
    module.no_ptx = place + ": " + say_incomplete({}, architecture_of(device));
    return kNoKernelImage;
  }
  auto linked = ptx::Module::link(std::move(*texts), place, host().cache_folder());
  const std::vector<std::string> missing = linked ? (*linked)->undefined() : std::vector<std::string>{};
  if (!missing.empty()) {
    MESHBED_WARN("%s: %s", place.c_str(), say_incomplete(missing, architecture_of(device)).c_str());
    return kInvalidPtx;
  }
  if (linked) remember_image(key, *linked);
  return take_code(driver, device, std::move(linked), module);
}

CUresult load_fat(Driver& driver, Device& device, std::span<const std::byte> image, const std::string& place,
                  Module& module) {
  const auto entries = read_fat_binary(image);
  if (!entries) {
    MESHBED_WARN("%s: %s", place.c_str(), entries.error().text.c_str());
    return kInvalidImage;
  }
  if (entries->empty()) {  // a file without kernels: an empty container
    return kSuccess;
  }
  const auto entry = choose_entry(*entries, architecture_of(device));
  if (!entry) {
    module.no_ptx = place + ": " + entry.error().text;
    return kNoKernelImage;
  }
  const ImageKey key = key_of({&*entry, 1});
  std::shared_ptr<const ptx::Module> known = find_image(key);
  if (known != nullptr) return take_code(driver, device, std::move(known), module);
  const auto text = unpack_ptx(*entry);
  if (!text) {
    MESHBED_WARN("%s: %s", place.c_str(), text.error().text.c_str());
    return kInvalidImage;
  }
  const CUresult code = load_ptx(driver, device, *text, place, module);
  if (module.code != nullptr) remember_image(key, module.code);
  return code;
}

/// `of_context`: a module, whose kernels belong to the current context; else a library, whose kernels belong to none.
CUresult load(Module** module, const void* image, std::size_t image_bytes, const std::string& place, bool of_context) {
  Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (module == nullptr) return kInvalidValue;
  Context* const context = caller.thread->contexts.empty() ? nullptr : caller.thread->contexts.back();
  Device& device = context != nullptr ? *context->device : *caller.driver->devices.front();
  // As an H200 does (tests/cuda/program/driver_facts.cpp): beside a kernel that does not end it does not come back.
  if (of_context) wait_for_devices(*caller.driver, &device, "cuModuleLoadData, which waits for the device");
  std::unique_ptr<Module> made;
  if (const CUresult error = load_image(*caller.driver, device, image, image_bytes, place, made)) {
    if (made != nullptr && !made->no_ptx.empty()) MESHBED_WARN("%s", made->no_ptx.c_str());
    return error;
  }
  if (of_context) made->context = context;
  *module = caller.driver->modules.add(std::move(made));
  return kSuccess;
}

CUresult load_file(Module** module, const char* path, bool of_context) {
  if (path == nullptr) return kInvalidValue;
  auto image = read_image_file(path);
  if (!image) {
    MESHBED_WARN("a module: %s", image.error().text.c_str());
    return image.error().code == ErrorCode::kInvalidArgument ? kInvalidImage : kFileNotFound;
  }
  const std::size_t bytes = image->size();
  image->push_back('\0');
  return load(module, image->data(), bytes, path, of_context);
}

CUresult unload(Module* module) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  Module* found = caller.driver->modules.find(module);
  if (found == nullptr) return kInvalidHandle;
  if (const CUresult error = refuse_beside_recordings(caller)) return error;
  wait_for_devices(*caller.driver, nullptr, "cuModuleUnload, which waits for the device");
  unload_variables(*caller.driver, *found);
  caller.driver->modules.remove(module);
  return kSuccess;
}

CUresult get_kernel(Kernel** kernel, Module* module, const char* name) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (kernel == nullptr || name == nullptr) return kInvalidValue;
  if (caller.driver->modules.find(module) == nullptr) return kInvalidHandle;
  return find_kernel(*caller.driver, *module, name, *kernel);
}

CUresult name_of(const char** name, Kernel* kernel) {
  if (name == nullptr || kernel == nullptr) return kInvalidValue;
  *name = kernel->name.c_str();
  return kSuccess;
}

}  // namespace

CUdevice ordinal_of(const Driver& driver, const Device& device) {
  const auto& devices = driver.devices;
  return static_cast<CUdevice>(std::find(devices.begin(), devices.end(), &device) - devices.begin());
}

// Without a size the image's own headers contain its length, as far as it can be read.
CUresult load_image(Driver& driver, Device& device, const void* image, std::size_t image_bytes,
                    const std::string& place, std::unique_ptr<Module>& module) {
  if (image == nullptr) return kInvalidValue;
  const auto* bytes = static_cast<const char*>(image);
  const auto refuse_image = [&place](const Error& error) {
    MESHBED_WARN("%s: %s", place.c_str(), error.text.c_str());
    return kInvalidImage;
  };
  module = std::make_unique<Module>();
  std::uint32_t magic = 0;
  const std::uint64_t there = readable_bytes(image, sizeof(magic));
  for (std::size_t index = 0; index < there; ++index) {
    if (bytes[index] == '\0' && index == 0) return kInvalidImage;
    std::memcpy(reinterpret_cast<char*>(&magic) + index, bytes + index, 1);
    if (bytes[index] == '\0') break;  // a text may be shorter than a number
  }
  if (magic == kWrapperMagic) {
    Wrapper wrapper;
    if (readable_bytes(image, sizeof wrapper) < sizeof wrapper) return kInvalidImage;
    std::memcpy(&wrapper, bytes, sizeof wrapper);
    if (wrapper.container == nullptr) return kInvalidImage;
    if (wrapper.version == Wrapper::kOfParts && readable_bytes(wrapper.parts, sizeof(void*)) == sizeof(void*)) {
      if (wrapper.has_parts() && !has_ptx(wrapper.container)) {
        return load_parts(driver, device, wrapper, place, *module);
      }
    }
    const auto container = container_at(wrapper.container);
    return container ? load_fat(driver, device, *container, place, *module) : refuse_image(container.error());
  }
  if (magic == kContainerMagic) {
    const auto container =
        image_bytes != 0 ? Result(std::span(static_cast<const std::byte*>(image), image_bytes)) : container_at(image);
    return container ? load_fat(driver, device, *container, place, *module) : refuse_image(container.error());
  }
  if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) {
    auto kernels = kernels_of_cubin(image_bytes != 0 ? std::span(static_cast<const std::byte*>(image), image_bytes)
                                                     : bytes_from(image));
    if (!kernels) return refuse_image(kernels.error());
    module->names = std::move(*kernels);
    return kSuccess;
  }
  const auto text = text_at(image);
  if (!text) return refuse_image(text.error());
  if (text->find(".version") == text->npos) return kInvalidImage;
  return load_ptx(driver, device, *text, place, *module);
}

void unload_variables(Driver& driver, Module& module) {
  for (const std::uint64_t address : module.variables) free_allocation(driver, address);
  module.variables.clear();
  module.by_name.clear();
}

CUresult find_kernel(Driver& driver, Module& module, const std::string& name, Kernel*& kernel) {
  const ptx::KernelInfo* info = module.code != nullptr ? module.code->find_kernel(name) : nullptr;
  const bool there = info != nullptr || module.names.count(name) > 0 || find_interpreter(driver, name) != nullptr;
  if (!there) return kNotFound;
  auto& place = module.kernels[name];
  if (place == nullptr) {
    place = std::make_unique<Kernel>(Kernel{.name = name, .module = &module, .info = info});
    if (info != nullptr) std::copy_n(info->required_cluster.begin(), 3, place->required_cluster);
  }
  kernel = place.get();
  return kSuccess;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, Module* module, const char* name) {
  const Caller caller = enter();
  if (caller.error != kSuccess) return caller.error;
  if (name == nullptr) return kInvalidValue;
  if (caller.driver->modules.find(module) == nullptr) return kInvalidHandle;
  const auto found = module->by_name.find(name);
  if (found == module->by_name.end()) return kNotFound;
  if (address != nullptr) *address = found->second.address;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return kSuccess;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, Module* library, const char* name) {
  return cuModuleGetGlobal_v2(address, bytes, library, name);
}
CUresult cuLibraryGetManaged(CUdeviceptr* address, std::size_t* bytes, Module* library, const char* name) {
  return cuModuleGetGlobal_v2(address, bytes, library, name);
}

CUresult cuModuleLoad(Module** module, const char* path) { return load_file(module, path, true); }
CUresult cuModuleLoadData(Module** module, const void* image) { return load(module, image, 0, "a module", true); }
CUresult cuModuleLoadFatBinary(Module** module, const void* image) { return load(module, image, 0, "a module", true); }
// Options are the just-in-time compiler's, and there is none.
CUresult cuModuleLoadDataEx(Module** module, const void* image, unsigned count, int* options, void** values) {
  leave_logs_empty(count, options, values);
  return load(module, image, 0, "a module", true);
}
CUresult cuModuleUnload(Module* module) { return unload(module); }
CUresult cuModuleGetFunction(Kernel** function, Module* module, const char* name) {
  return get_kernel(function, module, name);
}
CUresult cuLibraryLoadData(Module** library, const void* image, int* options, void** values, unsigned count, int*,
                           void**, unsigned) {
  leave_logs_empty(count, options, values);
  return load(library, image, 0, "a library", false);
}
CUresult cuLibraryLoadFromFile(Module** library, const char* path, int* options, void** values, unsigned count, int*,
                               void**, unsigned) {
  leave_logs_empty(count, options, values);
  return load_file(library, path, false);
}
CUresult cuLibraryUnload(Module* library) { return unload(library); }
CUresult cuLibraryGetKernel(Kernel** kernel, Module* library, const char* name) {
  return get_kernel(kernel, library, name);
}
CUresult cuLibraryGetModule(Module** module, Module* library) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (module == nullptr) return kInvalidValue;
  if (caller.driver->modules.find(library) == nullptr) return kInvalidHandle;
  *module = library;
  return kSuccess;
}
CUresult cuKernelGetFunction(Kernel** function, Kernel* kernel) {
  const Caller caller = enter_context();
  if (caller.error != kSuccess) return caller.error;
  if (function == nullptr || kernel == nullptr) return kInvalidValue;
  *function = kernel;
  return kSuccess;
}
CUresult cuKernelGetName(const char** name, Kernel* kernel) { return name_of(name, kernel); }
CUresult cuFuncGetName(const char** name, Kernel* function) { return name_of(name, function); }
CUresult cuFuncGetModule(Module** module, Kernel* function) {
  if (module == nullptr || function == nullptr) return kInvalidValue;
  *module = function->module;
  return kSuccess;
}

}  // namespace meshbed::sim::cuda
