// Calls of ranks that take a path: the simulated sysfs and /dev/shm have their own, the real file system all others.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "sim/host/file/shared_files.h"
#include "sim/host/file/sysfs_file.h"
#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"
#include "sim/host/socket/unix_datagram.h"

namespace meshbed::sim {
namespace {

int open_at(int directory, const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (const auto shared = shared_name(path)) return open_shared(*shared, flags);
  const auto simulated = simulated_path(directory, path);
  return simulated ? open_simulated(*simulated, flags) : ::openat(directory, path, flags, mode);
}

int open_path(const char* path, int flags, ...) {
  std::va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_at(AT_FDCWD, path, flags, mode);
}

int open_checked(const char* path, int flags) { return open_path(path, flags); }
int open_at_checked(int directory, const char* path, int flags) { return open_at(directory, path, flags); }

int status_at(int directory, const char* path, struct stat* status, int flags) {
  if (const auto shared = shared_name(path)) return stat_shared(*shared, *status);
  const auto simulated = simulated_path(directory, path);
  if (!simulated) return ::fstatat(directory, path, status, flags);
  const auto found = current_sysfs().find(*simulated, (flags & AT_SYMLINK_NOFOLLOW) == 0);
  if (found.node == nullptr) return fail(found.error);
  fill_stat(found.node->kind, *status);
  return 0;
}

int status_of_path(const char* path, struct stat* status) { return status_at(AT_FDCWD, path, status, 0); }
int status_of_link(const char* path, struct stat* status) {
  return status_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW);
}

int access_at(int directory, const char* path, int mode, int flags) {
  struct stat status {};
  if (const auto shared = shared_name(path)) return stat_shared(*shared, status);
  const auto simulated = simulated_path(directory, path);
  if (!simulated) return ::faccessat(directory, path, mode, flags);
  const auto found = current_sysfs().find(*simulated, (flags & AT_SYMLINK_NOFOLLOW) == 0);
  if (found.node == nullptr) return fail(found.error);
  return (mode & W_OK) != 0 ? fail(EACCES) : 0;
}

int access_path(const char* path, int mode) { return access_at(AT_FDCWD, path, mode, 0); }

ssize_t read_link_at(int directory, const char* path, char* target, std::size_t size) {
  const auto simulated = simulated_path(directory, path);
  if (!simulated) return ::readlinkat(directory, path, target, size);
  const auto found = current_sysfs().find(*simulated, false);
  if (found.node == nullptr) return fail(found.error);
  if (found.node->kind != SysfsNode::Kind::kLink) return fail(EINVAL);
  const std::string text = found.node->link_target();
  const std::size_t length = std::min(size, text.size());
  std::memcpy(target, text.data(), length);
  return static_cast<ssize_t>(length);
}

ssize_t read_link(const char* path, char* target, std::size_t size) {
  return read_link_at(AT_FDCWD, path, target, size);
}
ssize_t read_link_checked(const char* path, char* target, std::size_t size, std::size_t) {
  return read_link(path, target, size);
}

char* real_path(const char* path, char* result) {
  const auto simulated = simulated_path(AT_FDCWD, path);
  if (!simulated) return ::realpath(path, result);
  const auto found = current_sysfs().find(*simulated, true);
  if (found.node == nullptr) {
    errno = found.error;
    return nullptr;
  }
  if (result == nullptr) return ::strdup(found.path.c_str());
  std::memcpy(result, found.path.c_str(), std::min<std::size_t>(found.path.size() + 1, PATH_MAX));
  return result;
}

// The file system is the real machine's: ranks may read it, and leave it as it is.
int make_folder(const char* path, mode_t mode) { return outside() ? ::mkdir(path, mode) : fail(EROFS); }
int remove_file(const char* path) {
  if (outside()) return ::unlink(path);
  if (const auto shared = shared_name(path)) return unlink_shared(*shared);
  return path != nullptr && remove_unix_name(path) ? 0 : fail(EROFS);
}

char* real_path_checked(const char* path, char* result, std::size_t) { return real_path(path, result); }
char* canonical_name(const char* path) { return real_path(path, nullptr); }

}  // namespace

std::span<const Redirection> path_redirections() {
  static const std::array table{
      redirect("mkdir", &make_folder),
      redirect("unlink", &remove_file),
      redirect("open", &open_path),
      redirect("open64", &open_path),
      redirect("__open_2", &open_checked),
      redirect("__open64_2", &open_checked),
      redirect("openat", &open_at),
      redirect("openat64", &open_at),
      redirect("__openat_2", &open_at_checked),
      redirect("__openat64_2", &open_at_checked),
      redirect("stat", &status_of_path),
      redirect("stat64", &status_of_path),
      redirect("lstat", &status_of_link),
      redirect("lstat64", &status_of_link),
      redirect("fstatat", &status_at),
      redirect("fstatat64", &status_at),
      redirect("access", &access_path),
      redirect("faccessat", &access_at),
      redirect("readlink", &read_link),
      redirect("__readlink_chk", &read_link_checked),
      redirect("readlinkat", &read_link_at),
      redirect("realpath", &real_path),
      redirect("__realpath_chk", &real_path_checked),
      redirect("canonicalize_file_name", &canonical_name),
  };
  return table;
}

}  // namespace meshbed::sim
