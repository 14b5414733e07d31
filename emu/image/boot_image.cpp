#include "emu/image/boot_image.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "emu/config.h"
#include "emu/image/cpio_archive.h"
#include "emu/image/guest_init.h"
#include "emu/image/guest_modules.h"
#include "emu/image/image_cache.h"
#include "emu/image/kernel_modules.h"
#include "emu/image/kernel_payload.h"
#include "emu/process.h"
#include "emu/scratch.h"
#include "plugin/base/descriptor.h"

namespace meshbed::emu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLayout = "1";  // of the initramfs: another number makes new images
constexpr std::uintmax_t kNeededDiskBytes = 500'000'000;

/// The programs that the guest's init calls, all of them busybox.
constexpr const char* kApplets[] = {"sh", "mount",  "mkdir",    "cat",   "cp",       "dmesg", "grep",    "insmod",
                                    "ip", "chroot", "hostname", "sleep", "poweroff", "sync",  "modprobe"};

bool is_static_elf(const std::string& path) {
  const std::string bytes = read_file(path);
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return false;
  for (unsigned index = 0; index < header.e_phnum; ++index) {
    const std::uint64_t at = header.e_phoff + std::uint64_t{index} * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    if (at > bytes.size() || bytes.size() - at < sizeof segment) return false;
    std::memcpy(&segment, bytes.data() + at, sizeof segment);
    if (segment.p_type == PT_INTERP) return false;  // it asks for a dynamic linker
  }
  return true;
}

std::string require_busybox() {
  std::string path = find_static_busybox();
  if (!path.empty()) return path;
  throw std::runtime_error("no static busybox for the guests: install busybox-static (the package busybox is another)");
}

/// Changes where an image of this program would not be the same.
std::string image_hash(const std::string& busybox) {
  std::string text = fmt::format("{}\n{}\n{}\n", kLayout, guest_init_script(), fs::file_size(busybox));
  for (const auto& list : {early_modules(), network_modules(), optional_modules()}) {
    for (const std::string& name : list) text += name + " ";
    text += "\n";
  }
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

BootImage image_in(const std::string& folder, const std::string& version) {
  return {.kernel = folder + "/vmlinux", .initramfs = folder + "/initramfs", .kernel_version = version};
}

std::string image_folder(const std::string& cache, const std::string& version, const std::string& hash) {
  return fmt::format("{}/{}{}-{}", cache, kImagePrefix, version, hash);
}

void require_space(const std::string& folder) {
  std::error_code problem;
  const fs::space_info space = fs::space(folder, problem);
  if (problem || space.available >= kNeededDiskBytes) return;
  throw std::runtime_error(fmt::format(
      "no space for the guests' kernel: {} has {} MB left, {} MB are needed for a moment; make room, or set "
      "MESHBED_EMU_CACHE to a folder with more",
      folder, space.available / 1'000'000, kNeededDiskBytes / 1'000'000));
}

void unpack_kernel(const std::string& image_path, const std::string& into) {
  const std::string image = read_file(image_path);
  KernelPayload payload;
  try {
    payload = find_kernel_payload(image);
  } catch (const std::runtime_error& problem) {
    throw std::runtime_error(fmt::format("cannot use the kernel {}: {}", image_path, problem.what()));
  }
  const std::string packed = into + ".packed";
  write_file(packed, std::string(payload.bytes));
  std::vector<std::string> command{"xz", "-dc", packed};
  if (payload.compression == Compression::kGzip) command = {"gzip", "-dc", packed};
  if (payload.compression == Compression::kZstd) command = {"zstd", "-dcq", packed};
  // gzip goes by the name of a file and asks for .gz; standard input has none.
  if (payload.compression == Compression::kGzip) {
    command = {"/bin/sh", "-c", R"(exec gzip -dc <"$1")", "sh", packed};
  }
  const Descriptor output(open(into.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  const ProgramResult result = run_program(command, "", output.number());
  fs::remove(packed);
  std::FILE* const elf = std::fopen(into.c_str(), "rb");
  char magic[SELFMAG] = {};
  const bool is_elf =
      elf != nullptr && std::fread(magic, 1, SELFMAG, elf) == SELFMAG && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
  if (elf != nullptr) std::fclose(elf);
  if (result.status != 0 || !is_elf) {
    throw std::runtime_error(fmt::format("cannot unpack the kernel {} with {}: {}", image_path, command.front(),
                                         result.errors.empty() ? "it gave no ELF file" : last_line(result.errors)));
  }
}

/// An unpacked kernel's modules, all of them, read from the files.
class ModuleTree {
 public:
  explicit ModuleTree(const std::string& folder) : folder_(folder) {
    decompress();
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string path = fs::relative(entry.path(), folder);
      if (entry.path().extension() == ".ko") modules_.add(path, read_module_info(read_file(entry.path())));
    }
    std::istringstream built_in(read_file(folder + "/modules.builtin"));
    for (std::string path; built_in >> path;) modules_.add_built_in(path);
  }

  const KernelModules& modules() const { return modules_; }
  std::string contents(const std::string& path) const { return read_file(folder_ + "/" + path); }

 private:
  /// Debian compresses modules since version 13; busybox's insmod does not read all that the kernel does.
  void decompress() const {
    const ProgramResult result = run_program({"find", folder_, "-name", "*.ko.xz", "-exec", "xz", "-d", "{}", "+"}, "");
    if (result.status != 0) {
      throw std::runtime_error(fmt::format("cannot unpack the modules in {}: {}", folder_, last_line(result.errors)));
    }
  }

  std::string folder_;
  KernelModules modules_;
};

std::string make_initramfs(const ModuleTree& tree, const std::string& version, const std::string& busybox) {
  const std::string root = "lib/modules/" + version;
  const KernelModules& modules = tree.modules();
  CpioArchive archive;
  for (const char* folder :
       {"bin", "sbin", "dev", "proc", "sys", "job", "lower", "writes", "host", "lib", "lib/modules"}) {
    archive.add_folder(folder);
  }
  archive.add_file("bin/busybox", read_file(busybox), 0755);
  for (const char* applet : kApplets) archive.add_link(std::string("bin/") + applet, "busybox");
  archive.add_link("sbin/modprobe", "/bin/busybox");  // what the kernel calls when it wants a module
  archive.add_file("init", guest_init_script(), 0755);
  archive.add_folder(root);

  const std::vector<std::string> early = modules.load_order(early_modules());
  std::vector<std::string> wanted = early_modules();
  wanted.insert(wanted.end(), network_modules().begin(), network_modules().end());
  const std::vector<std::string> loaded = modules.load_order(wanted);
  wanted.insert(wanted.end(), optional_modules().begin(), optional_modules().end());
  const std::vector<std::string> all = modules.load_order(wanted);
  const auto add_list = [&](const char* name, const std::vector<std::string>& paths, std::size_t from) {
    std::string text;
    for (std::size_t at = from; at < paths.size(); ++at) text += fmt::format("/{}/{}\n", root, paths[at]);
    archive.add_file(name, text, 0644);
  };
  add_list("lib/early.list", early, 0);
  add_list("lib/net.list", loaded, early.size());  // load_order() keeps what comes first first

  std::vector<std::string> folders;
  for (const std::string& path : all) {
    for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      const std::string folder = path.substr(0, slash);
      if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
    }
  }
  for (const std::string& folder : folders) archive.add_folder(root + "/" + folder);
  for (const std::string& path : all) archive.add_file(root + "/" + path, tree.contents(path), 0644);
  archive.add_file(root + "/modules.dep", modules.dependency_text(all), 0644);
  archive.add_file(root + "/modules.alias", modules.alias_text(all), 0644);
  return archive.finish();
}

}  // namespace

std::string find_static_busybox() {
  for (const std::string& path : {std::string("/bin/busybox"), find_program("busybox")}) {
    std::error_code problem;
    if (!path.empty() && fs::is_regular_file(path, problem) && is_static_elf(path)) return path;
  }
  return "";
}

std::optional<BootImage> find_boot_image(const std::string& cache) {
  const std::string suffix = "-" + image_hash(require_busybox());
  std::optional<BootImage> newest;
  fs::file_time_type newest_time;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(cache, problem)) {
    const std::string name = entry.path().filename();
    const std::size_t prefix = std::strlen(kImagePrefix);
    if (name.rfind(kImagePrefix, 0) != 0 || name.size() <= prefix + suffix.size() ||
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) {
      continue;
    }
    const fs::file_time_type time = fs::last_write_time(entry.path(), problem);
    if (newest && time <= newest_time) continue;
    newest = image_in(entry.path(), name.substr(prefix, name.size() - prefix - suffix.size()));
    newest_time = time;
  }
  return newest;
}

namespace {

/// The same, and marks the image as used now; removes images that are no longer used.
std::optional<BootImage> find_used_image(const std::string& cache) {
  const ImageCacheLock lock(cache);
  auto found = find_boot_image(cache);
  if (found && lock.is_held()) tidy_image_cache(cache, fs::path(found->kernel).parent_path());
  return found;
}

}  // namespace

BootImage make_boot_image(const std::string& cache, const Announce& announce) {
  if (auto found = find_used_image(cache)) return *found;
  const std::string busybox = require_busybox();
  const std::string version = kernel_version_of_apt();
  make_folder(cache);
  require_space(cache);
  const std::string package = kernel_package_file(cache + kPackagesFolder, version, announce);
  announce(fmt::format("making the boot image of kernel {} in {} (once)", version, cache));
  const Scratch scratch(cache, "building");
  const std::string tree = scratch.path() + "/package";
  const std::string aside = scratch.path() + "/image";
  make_folder(tree);
  make_folder(aside);
  unpack_kernel_package(package, tree);
  unpack_kernel(fmt::format("{}/boot/vmlinuz-{}", tree, version), aside + "/vmlinux");
  std::error_code problem;
  std::string modules = fmt::format("{}/lib/modules/{}", tree, version);
  if (!fs::exists(modules, problem)) modules = fmt::format("{}/usr/lib/modules/{}", tree, version);
  write_file(aside + "/initramfs", make_initramfs(ModuleTree(modules), version, busybox));
  const std::string place = image_folder(cache, version, image_hash(busybox));
  fs::rename(aside, place, problem);
  if (problem && !fs::exists(place)) {  // where it exists, another process was faster
    throw std::runtime_error(fmt::format("cannot write {}: {}", place, problem.message()));
  }
  static_cast<void>(find_used_image(cache));
  return image_in(place, version);
}

}  // namespace meshbed::emu
