#include "sim/host/file/shared_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "sim/host/host_state.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

constexpr std::string_view kFolder = "/dev/shm";
constexpr unsigned kFirstDevice = 0x1000;  // st_dev of node 0's: by it programs see whether they share memory

std::pair<int, std::string> key_of(const std::string& name) { return {World::current_process()->node, name}; }

dev_t device_of_node() { return makedev(0, kFirstDevice + static_cast<unsigned>(World::current_process()->node)); }

/// -1: there is no such file.
int find(const std::string& name) {
  const auto found = host().shared_files.find(key_of(name));
  return found != host().shared_files.end() ? found->second : -1;
}

int make(const std::string& name) {
  const int made = ::memfd_create("meshbed-shared", MFD_CLOEXEC);
  if (made >= 0) host().shared_files[key_of(name)] = made;
  return made;
}

/// shm_open(3) and shm_unlink(3) take one slash, or more, before the name.
std::optional<std::string> object_name(const char* name) {
  const std::string_view text = name != nullptr ? name : "";
  const std::size_t begin = text.find_first_not_of('/');
  if (begin == text.npos || text.find('/', begin) != text.npos) return std::nullopt;
  return std::string(text.substr(begin));
}

int open_object(const char* name, int flags, mode_t mode) {
  if (outside()) return ::shm_open(name, flags, mode);
  const auto object = object_name(name);
  return object ? open_shared(*object, flags | O_CLOEXEC) : fail(EINVAL);
}

int unlink_object(const char* name) {
  if (outside()) return ::shm_unlink(name);
  const auto object = object_name(name);
  return object ? unlink_shared(*object) : fail(EINVAL);
}

/// mkostemps(3); names of the process's own random numbers, so that each run has the same.
int make_temporary(char* path, int suffix_length, int flags) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  const std::string places(6, 'X');
  if (!shared_name(path)) return ::mkostemps(path, suffix_length, flags);
  const std::size_t length = std::strlen(path);
  const std::size_t tail = places.size() + static_cast<std::size_t>(suffix_length);
  if (suffix_length < 0 || length < tail || std::string_view(path + length - tail, places.size()) != places) {
    return fail(EINVAL);
  }
  for (;;) {
    for (std::size_t index = 0; index < places.size(); ++index) {
      path[length - tail + index] = kLetters[current_state().random.next() % kLetters.size()];
    }
    const int opened = open_shared(*shared_name(path), flags | O_CREAT | O_EXCL | O_RDWR);
    if (opened >= 0 || errno != EEXIST) return opened;
  }
}
int make_temporary_plain(char* path) { return make_temporary(path, 0, 0); }
int make_temporary_flags(char* path, int flags) { return make_temporary(path, 0, flags); }
int make_temporary_suffix(char* path, int suffix_length) { return make_temporary(path, suffix_length, 0); }

}  // namespace

std::optional<std::string> shared_name(const char* path) {
  if (outside() || path == nullptr) return std::nullopt;
  std::string_view rest = path;
  if (!rest.starts_with(kFolder)) return std::nullopt;
  rest.remove_prefix(kFolder.size());
  if (!rest.empty() && rest.front() != '/') return std::nullopt;
  while (!rest.empty() && rest.front() == '/') rest.remove_prefix(1);
  return std::string(rest);
}

int open_shared(const std::string& name, int flags) {
  if (name.empty()) return fail((flags & O_ACCMODE) == O_RDONLY ? EACCES : EISDIR);
  if (name.find('/') != name.npos) return fail(ENOENT);  // there are no folders below it
  int file = find(name);
  if (file < 0 && (flags & O_CREAT) == 0) return fail(ENOENT);
  if (file >= 0 && (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return fail(EEXIST);
  if (file < 0) file = make(name);
  if (file < 0) return -1;
  // A description of its own, with its own position and access mode.
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  return ::open(path.c_str(), flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW));
}

int stat_shared(const std::string& name, struct stat& status) {
  status = {};
  const int file = name.empty() ? -1 : find(name);
  if (!name.empty() && (file < 0 || ::fstat(file, &status) != 0)) return fail(ENOENT);
  if (name.empty()) {
    status.st_mode = S_IFDIR | S_ISVTX | 0777;
    status.st_nlink = 2;
  }
  status.st_dev = device_of_node();
  return 0;
}

int unlink_shared(const std::string& name) {
  const auto found = host().shared_files.find(key_of(name));
  if (found == host().shared_files.end()) return fail(ENOENT);
  ::close(found->second);  // what is open or mapped stays
  host().shared_files.erase(found);
  return 0;
}

std::span<const Redirection> shared_file_redirections() {
  static const std::array table{
      redirect("shm_open", &open_object),           redirect("shm_unlink", &unlink_object),
      redirect("mkstemp", &make_temporary_plain),   redirect("mkstemp64", &make_temporary_plain),
      redirect("mkostemp", &make_temporary_flags),  redirect("mkostemp64", &make_temporary_flags),
      redirect("mkstemps", &make_temporary_suffix), redirect("mkstemps64", &make_temporary_suffix),
      redirect("mkostemps", &make_temporary),       redirect("mkostemps64", &make_temporary),
  };
  return table;
}

}  // namespace meshbed::sim
