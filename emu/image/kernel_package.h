#pragma once
// Debian's kernel package: which one, where to get it, and what of it is needed. Nothing is installed; no root needed.

#include <functional>
#include <string>
#include <string_view>

namespace meshbed::emu {

inline constexpr std::string_view kPackagePrefix = "linux-image-";

/// Called with one line for each step that takes a while.
using Announce = std::function<void(const std::string&)>;

/// The version that linux-image-amd64 stands for on this machine ("6.1.0-56-amd64"). Throws std::runtime_error where
/// apt does not know.
std::string kernel_version_of_apt();

/// The package file of this version in FOLDER, downloaded with apt-get where it is not there yet. The -cloud kernels
/// are of no use: they have no RDMA_RXE. Throws std::runtime_error.
std::string kernel_package_file(const std::string& folder, const std::string& version, const Announce& announce);

/// Unpacks kernel and modules of `package` into the empty folder `into` (drivers of hardware that no guest has stay
/// packed): boot/vmlinuz-VERSION, lib/modules/VERSION or usr/lib/modules/VERSION. Throws std::runtime_error.
void unpack_kernel_package(const std::string& package, const std::string& into);

}  // namespace meshbed::emu
