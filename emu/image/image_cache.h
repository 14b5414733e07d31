#pragma once
// The cache of boot images is bounded: the next run removes images that were not used for long.

#include <chrono>
#include <string>

#include "plugin/base/descriptor.h"

namespace meshbed::emu {

/// An image or package that was not used for this time is removed.
inline constexpr std::chrono::hours kImageKeptFor{30 * 24};

inline constexpr const char* kImagePrefix = "image-";
inline constexpr const char* kPackagesFolder = "/packages";

/// Gives a file the present date, and makes it where it is not there; what cannot be written keeps its own.
void mark_used(const std::string& file);

/// While it lives, no other process looks for images in this cache in order to use or to remove them. It is on the
/// folder itself; where there is none it is not held.
class ImageCacheLock {
 public:
  explicit ImageCacheLock(const std::string& cache);
  bool is_held() const { return folder_.is_open(); }

 private:
  Descriptor folder_;
};

/// Notes that `image`, a folder in the cache, is used now; then removes other images, and packages of kernels that no
/// image is of, that were last used longer than `kept_for` before. To be called under the lock, which was held since
/// the image was found. What cannot be removed stays: the next call tries again.
void tidy_image_cache(const std::string& cache, const std::string& image, std::chrono::hours kept_for = kImageKeptFor);

}  // namespace meshbed::emu
