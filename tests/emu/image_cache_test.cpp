// What stays in the cache of boot images, and what goes.
#include "emu/image/image_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>

#include <filesystem>
#include <fstream>
#include <ratio>

#include "tests/support/command.h"

namespace image_cache_test {

using namespace meshbed::emu;
using namespace meshbed::test;

namespace {

namespace fs = std::filesystem;

using Days = std::chrono::duration<int, std::ratio<86400>>;

void set_age(const fs::path& path, Days age) { fs::last_write_time(path, fs::last_write_time(path) - age); }

std::string image(const std::string& cache, const std::string& name, Days age, bool with_mark = true) {
  const std::string folder = cache + "/image-" + name;
  fs::create_directory(folder);
  std::ofstream(folder + "/vmlinux") << "x";
  if (with_mark) {
    std::ofstream(folder + "/used") << "";
    set_age(folder + "/used", age);
  } else {
    set_age(folder, age);
  }
  return folder;
}

std::string package(const std::string& cache, const std::string& version, Days age) {
  fs::create_directories(cache + "/packages");
  const std::string file = cache + "/packages/linux-image-" + version + "_1_amd64.deb";
  std::ofstream(file) << "x";
  set_age(file, age);
  return file;
}

}  // namespace

TEST_CASE("images without use for 30 days go, with the packages of kernels that no image is of") {
  const std::string cache = scratch_folder("image_cache");
  const std::string ours = image(cache, "6.1.0-9-amd64-aaaa", Days(400));  // used now, for the first time in a year
  const std::string recent = image(cache, "6.1.0-8-amd64-aaaa", Days(29));
  const std::string old = image(cache, "6.1.0-7-amd64-aaaa", Days(31));
  const std::string old_recipe = image(cache, "6.1.0-9-amd64-bbbb", Days(31));
  const std::string first_version = image(cache, "6.1.0-6-amd64-aaaa", Days(31), false);
  const std::string our_package = package(cache, "6.1.0-9-amd64", Days(400));
  const std::string recent_package = package(cache, "6.1.0-5-amd64", Days(29));
  const std::string old_package = package(cache, "6.1.0-7-amd64", Days(31));
  fs::create_directory(cache + "/another");
  set_age(cache + "/another", Days(400));

  REQUIRE(ImageCacheLock(cache).is_held());
  tidy_image_cache(cache, ours);

  for (const std::string& kept : {ours, recent, our_package, recent_package, cache + "/another"})
    CHECK_MESSAGE(fs::exists(kept), kept);
  for (const std::string& gone : {old, old_recipe, first_version, old_package}) CHECK_MESSAGE(!fs::exists(gone), gone);
  CHECK(fs::last_write_time(ours + "/used") > fs::last_write_time(recent + "/used"));
}

TEST_CASE("while one process looks for an image no other removes any") {
  const std::string cache = scratch_folder("image_cache_lock");
  const meshbed::Descriptor other(open(cache.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  {
    const ImageCacheLock lock(cache);
    CHECK(flock(other.number(), LOCK_EX | LOCK_NB) != 0);
  }
  CHECK(flock(other.number(), LOCK_EX | LOCK_NB) == 0);
  CHECK_FALSE(ImageCacheLock("/proc/none").is_held());
}

}  // namespace image_cache_test
