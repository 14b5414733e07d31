#include "emu/image/kernel_package.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "emu/image/image_cache.h"
#include "emu/process.h"
#include "emu/scratch.h"

namespace meshbed::emu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMetaPackage = "linux-image-amd64";

/// Half of the package, of hardware that QEMU does not emulate for us.
constexpr const char* kLeftPacked[] = {
    "drivers/gpu",          "drivers/media",         "drivers/scsi",   "drivers/usb",
    "drivers/iio",          "drivers/hwmon",         "drivers/hid",    "drivers/net/ethernet",
    "drivers/net/wireless", "drivers/infiniband/hw", "drivers/md",     "drivers/platform",
    "drivers/input",        "drivers/staging",       "drivers/comedi", "drivers/mtd",
    "drivers/target",       "drivers/ata",           "sound",          "fs/xfs"};

std::string found_package(const fs::path& folder, const std::string& package) {
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) {
    const std::string name = entry.path().filename();
    if (name.rfind(package + "_", 0) == 0 && entry.path().extension() == ".deb") return entry.path();
  }
  return "";
}

}  // namespace

std::string kernel_version_of_apt() {
  const ProgramResult result = run_program({"apt-cache", "depends", "--important", kMetaPackage});
  std::istringstream lines(result.output);
  for (std::string word; lines >> word;) {
    if (word.rfind(kPackagePrefix, 0) == 0 && word != kMetaPackage) return word.substr(kPackagePrefix.size());
  }
  throw std::runtime_error(fmt::format("no kernel for the guests: apt knows no {}{}; run `apt-get update` as root once",
                                       kMetaPackage,
                                       result.errors.empty() ? "" : " (" + last_line(result.errors) + ")"));
}

std::string kernel_package_file(const std::string& folder, const std::string& version, const Announce& announce) {
  const std::string package = std::string(kPackagePrefix) + version;
  make_folder(folder);
  if (std::string found = found_package(folder, package); !found.empty()) {
    mark_used(found);
    return found;
  }
  announce(fmt::format("downloading {} (70 MB, once)", package));
  // Aside, and into place when apt has checked it: another process may look for it now, or do the same.
  const Scratch scratch(folder, "download");
  const ProgramResult result = run_program({"apt-get", "download", "-q", package}, scratch.path());
  const std::string file = found_package(scratch.path(), package);
  if (result.status != 0 || file.empty()) {
    throw std::runtime_error(fmt::format(
        "no kernel for the guests: `apt-get download {}` in {} failed: {}; is there a network, and are apt's lists "
        "recent (`apt-get update`)?",
        package, folder, last_line(result.errors)));
  }
  mark_used(file);  // apt gives it the date of its making
  const std::string place = folder + "/" + fs::path(file).filename().string();
  std::error_code problem;
  fs::rename(file, place, problem);
  if (problem) throw std::runtime_error(fmt::format("cannot write {}: {}", place, problem.message()));
  return place;
}

void unpack_kernel_package(const std::string& package, const std::string& into) {
  std::vector<std::string> tar{"tar", "-x", "--no-same-owner", "-C", into, "--wildcards"};
  for (const char* folder : kLeftPacked) tar.push_back(fmt::format("--exclude=*/kernel/{}", folder));
  tar.insert(tar.end(), {"./boot/vmlinuz-*", "./*lib/modules/*"});
  // The shell runs "$@" as the consumer, so that no file name is read as shell text.
  std::vector<std::string> command{"/bin/sh", "-c", R"(deb=$1; shift; dpkg-deb --fsys-tarfile "$deb" | "$@")", "sh",
                                   package};
  command.insert(command.end(), tar.begin(), tar.end());
  const ProgramResult result = run_program(command);
  if (result.status != 0) {
    throw std::runtime_error(
        fmt::format("cannot unpack {} into {}: {}; is the disk full? If the package is damaged, "
                    "remove it and it is downloaded again",
                    package, into, last_line(result.errors)));
  }
}

}  // namespace meshbed::emu
