// The pieces of a boot image, and what is said where one is missing.
#include "emu/image/boot_image.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "emu/image/cpio_archive.h"
#include "emu/image/kernel_payload.h"
#include "emu/scratch.h"
#include "tests/support/command.h"

namespace boot_image_test {

using namespace meshbed::emu;
using namespace meshbed::test;

namespace {

namespace fs = std::filesystem;

/// A bzImage with `payload` behind one setup sector.
std::string boot_file(const std::string& payload) {
  std::string image(1024, '\0');
  const auto put = [&](std::size_t at, unsigned value, int bytes) {
    for (int byte = 0; byte < bytes; ++byte)
      image[at + static_cast<std::size_t>(byte)] = static_cast<char>(value >> (8 * byte));
  };
  put(0x1f1, 1, 1);
  image.replace(0x202, 4, "HdrS");
  put(0x206, 0x020f, 2);
  put(0x248, 100, 4);
  put(0x24c, static_cast<unsigned>(payload.size()), 4);
  return image + std::string(100, 'x') + payload + "what follows";
}

/// Another PATH for a while.
class OtherPath {
 public:
  explicit OtherPath(const std::string& path) : before_(std::getenv("PATH")) { setenv("PATH", path.c_str(), 1); }
  ~OtherPath() { setenv("PATH", before_.c_str(), 1); }
  OtherPath(const OtherPath&) = delete;
  OtherPath& operator=(const OtherPath&) = delete;

 private:
  std::string before_;
};

std::string stand_in(const std::string& name, const std::string& script) {
  const std::string folder = scratch_folder("stand_in_" + name);
  std::ofstream(folder + "/" + name) << "#!/bin/sh\n" << script << "\n";
  fs::permissions(folder + "/" + name, fs::perms::owner_all);
  return folder;
}

std::string what_make_says(const std::string& cache) {
  try {
    (void)make_boot_image(cache, [](const std::string&) {});
  } catch (const std::runtime_error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the kernel in a bzImage is found by its header, without the size behind it") {
  const std::string xz = std::string(
                             "\xfd"
                             "7zXZ\0",
                             6) +
                         "packed kernel";
  const std::string with_xz = boot_file(xz + "SIZE");
  CHECK(find_kernel_payload(with_xz).compression == Compression::kXz);
  CHECK(find_kernel_payload(with_xz).bytes == xz);
  const std::string zstd = std::string("\x28\xb5\x2f\xfd") + "packed";
  const std::string with_zstd = boot_file(zstd + "SIZE");
  CHECK(find_kernel_payload(with_zstd).compression == Compression::kZstd);
  CHECK(find_kernel_payload(with_zstd).bytes == zstd);
  const std::string gzip = std::string("\x1f\x8b") + "packedSIZE";
  const std::string with_gzip = boot_file(gzip);
  CHECK(find_kernel_payload(with_gzip).compression == Compression::kGzip);
  CHECK(find_kernel_payload(with_gzip).bytes == gzip);
}

TEST_CASE("what is no bzImage, is cut off, or is packed in another way is refused") {
  CHECK_THROWS_AS(find_kernel_payload(""), std::runtime_error);
  CHECK_THROWS_AS(find_kernel_payload(std::string(4096, 'x')), std::runtime_error);
  const std::string lz4 = boot_file("\x02\x21\x4c\x18 packed");
  CHECK_THROWS_AS(find_kernel_payload(lz4), std::runtime_error);
  const std::string whole = boot_file(std::string("\x1f\x8b") + "packedSIZE");
  CHECK_THROWS_AS(find_kernel_payload(whole.substr(0, whole.size() - 20)), std::runtime_error);
  std::string far = whole;
  far.replace(0x248, 4, "\xff\xff\xff\xff");
  CHECK_THROWS_AS(find_kernel_payload(far), std::runtime_error);
}

TEST_CASE("an archive is what cpio reads: names, contents, links, the same bytes each time") {
  const auto make = [] {
    CpioArchive archive;
    archive.add_folder("bin");
    archive.add_file("bin/one", "text", 0755);
    archive.add_link("bin/two", "one");
    return archive.finish();
  };
  const std::string bytes = make();
  CHECK(bytes == make());
  CHECK(bytes.size() % 4 == 0);
  CHECK(bytes.substr(0, 6) == "070701");
  const std::string folder = scratch_folder("cpio");
  write_file(folder + "/archive", bytes);
  if (run_command_line("command -v busybox >/dev/null").status != 0) {
    MESSAGE("skipped: no busybox to read the archive with");
    return;
  }
  const CommandResult listed = run_command_line("cd '" + folder +
                                                "' && busybox cpio -i <archive 2>/dev/null; cat bin/two; "
                                                "readlink bin/two; test -x bin/one && echo program");
  CHECK(listed.output == "textone\nprogram\n");
}

TEST_CASE("a machine whose apt knows no kernel gets an error of one line, and nothing stays behind") {
  if (find_static_busybox().empty()) {
    MESSAGE("skipped: no static busybox");
    return;
  }
  const std::string cache = scratch_folder("no_kernel");
  const OtherPath path(stand_in("apt-cache", "echo 'E: No packages found' >&2; exit 100"));
  CHECK(what_make_says(cache) ==
        "no kernel for the guests: apt knows no linux-image-amd64 (E: No packages found); run `apt-get update` as root "
        "once");
  CHECK(fs::is_empty(cache));
}

TEST_CASE("a download that fails says what failed, and leaves nothing half made") {
  if (find_static_busybox().empty()) {
    MESSAGE("skipped: no static busybox");
    return;
  }
  const std::string cache = scratch_folder("no_network");
  const OtherPath path(stand_in("apt-cache", "echo 'linux-image-amd64\n  Depends: linux-image-6.1.0-99-amd64'") + ":" +
                       stand_in("apt-get", ": >\"$4_part.deb\"; echo 'E: Failed to fetch' >&2; exit 100"));
  const std::string said = what_make_says(cache);
  CHECK(said.find("`apt-get download linux-image-6.1.0-99-amd64` in " + cache +
                  "/packages failed: E: Failed to fetch") != std::string::npos);
  CHECK(fs::is_empty(cache + "/packages"));
}

TEST_CASE("a package that is none is named with what to do, and leaves nothing half made") {
  if (find_static_busybox().empty()) {
    MESSAGE("skipped: no static busybox");
    return;
  }
  const std::string cache = scratch_folder("bad_package");
  fs::create_directories(cache + "/packages");
  write_file(cache + "/packages/linux-image-6.1.0-99-amd64_1_amd64.deb", "no package");
  const OtherPath path(stand_in("apt-cache", "echo 'linux-image-amd64\n  Depends: linux-image-6.1.0-99-amd64'") +
                       ":/usr/bin:/bin");
  CHECK(what_make_says(cache).rfind("cannot unpack " + cache + "/packages/linux-image-6.1.0-99-amd64_1_amd64.deb", 0) ==
        0);
  CHECK(std::distance(fs::directory_iterator(cache), fs::directory_iterator()) == 1);
}

TEST_CASE("what a killed builder left goes with the next one, what a living one has stays") {
  const std::string folder = scratch_folder("left_over");
  fs::create_directories(folder + "/building.999999999.abcdef/half");
  fs::create_directories(folder + "/building.1.abcdef");  // process 1 lives
  fs::create_directories(folder + "/image-1");
  std::string path;
  {
    const Scratch scratch(folder, "building");
    path = scratch.path();
    CHECK(fs::is_directory(path));
    CHECK_FALSE(fs::exists(folder + "/building.999999999.abcdef"));
    CHECK(fs::exists(folder + "/building.1.abcdef"));
    CHECK(fs::exists(folder + "/image-1"));
  }
  CHECK_FALSE(fs::exists(path));
}

}  // namespace boot_image_test
