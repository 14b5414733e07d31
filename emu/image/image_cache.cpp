#include "emu/image/image_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "emu/image/kernel_package.h"

namespace meshbed::emu {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsed = "/used";  // in an image: a file whose date is that of the last use

bool starts_with(const std::string& text, std::string_view start) { return text.rfind(start, 0) == 0; }

/// An image of an earlier version of Meshbed has no such file: its own date counts.
fs::file_time_type last_used(const fs::path& path) {
  std::error_code problem;
  const fs::file_time_type used = fs::last_write_time(path.string() + kUsed, problem);
  return problem ? fs::last_write_time(path, problem) : used;
}

std::vector<fs::path> entries(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(folder, problem)) found.push_back(entry.path());
  return found;
}

}  // namespace

void mark_used(const std::string& file) {
  const Descriptor opened(open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (opened.is_open()) futimens(opened.number(), nullptr);
}

ImageCacheLock::ImageCacheLock(const std::string& cache)
    : folder_(open(cache.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (folder_.is_open() && flock(folder_.number(), LOCK_EX) != 0) {
    if (errno != EINTR) folder_.close();
  }
}

void tidy_image_cache(const std::string& cache, const std::string& image, std::chrono::hours kept_for) {
  mark_used(image + kUsed);
  const fs::file_time_type oldest = last_used(image) - kept_for;
  std::error_code problem;
  for (const fs::path& path : entries(cache)) {
    if (!starts_with(path.filename(), kImagePrefix) || path == fs::path(image) || last_used(path) >= oldest) continue;
    fs::remove_all(path, problem);
  }
  const auto images = entries(cache);
  for (const fs::path& path : entries(cache + kPackagesFolder)) {
    // "linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb" is what "image-6.1.0-56-amd64-HASH" is made of.
    const std::string name = path.filename();
    if (!starts_with(name, kPackagePrefix) || fs::last_write_time(path, problem) >= oldest) continue;
    const std::string version = name.substr(kPackagePrefix.size(), name.find('_') - kPackagePrefix.size());
    const bool wanted = std::any_of(images.begin(), images.end(), [&](const fs::path& each) {
      return starts_with(each.filename(), kImagePrefix + version + "-");
    });
    if (!wanted) fs::remove(path, problem);
  }
}

}  // namespace meshbed::emu
