// stdio streams and directory streams over simulated files.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "plugin/base/log.h"
#include "sim/host/file/shared_files.h"
#include "sim/host/file/sysfs_file.h"
#include "sim/host/load/calls.h"
#include "sim/host/load/program.h"
#include "sim/host/load/redirection.h"

namespace meshbed::sim {
namespace {

// --- FILE: glibc's own stream, with our descriptor behind its callbacks (fopencookie(3)) ---

struct StreamCookie {
  ProcessState& state;
  int descriptor;
  std::FILE* stream = nullptr;
};

ssize_t cookie_read(void* cookie, char* data, std::size_t size) {
  const auto& stream = *static_cast<const StreamCookie*>(cookie);
  const auto file = stream.state.descriptors.find(stream.descriptor);
  return file != nullptr ? answer(file->try_read(data, size, false)) : fail(EBADF);
}

int cookie_seek(void* cookie, off64_t* offset, int whence) {
  const auto& stream = *static_cast<const StreamCookie*>(cookie);
  const auto file = stream.state.descriptors.find(stream.descriptor);
  if (file == nullptr) return fail(EBADF);
  const off_t result = file->seek(*offset, whence);
  if (result < 0) return fail(static_cast<int>(-result));
  *offset = result;
  return 0;
}

int cookie_close(void* cookie) {
  const std::unique_ptr<StreamCookie> stream(static_cast<StreamCookie*>(cookie));
  stream->state.streams.erase(stream->stream);
  stream->state.descriptors.close(stream->descriptor);
  return 0;
}

std::FILE* open_shared_stream(const std::string& name, const char* mode) {
  const bool updates = std::strchr(mode, '+') != nullptr;
  int flags = updates ? O_RDWR : *mode == 'r' ? O_RDONLY : O_WRONLY;
  if (*mode != 'r') flags |= O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC);
  if (std::strchr(mode, 'x') != nullptr) flags |= O_EXCL;
  const int descriptor = open_shared(name, flags);
  return descriptor >= 0 ? ::fdopen(descriptor, mode) : nullptr;
}

std::FILE* open_stream(const char* path, const char* mode) {
  if (const auto shared = shared_name(path)) return open_shared_stream(*shared, mode);
  const auto simulated = simulated_path(AT_FDCWD, path);
  if (!simulated) return std::fopen(path, mode);
  const bool reads_only = *mode == 'r' && std::strchr(mode, '+') == nullptr;
  const int descriptor = open_simulated(*simulated, reads_only ? O_RDONLY : O_RDWR);
  if (descriptor < 0) return nullptr;
  auto cookie = std::make_unique<StreamCookie>(StreamCookie{current_state(), descriptor});
  std::FILE* stream = ::fopencookie(
      cookie.get(), "r", {.read = &cookie_read, .write = nullptr, .seek = &cookie_seek, .close = &cookie_close});
  if (stream == nullptr) return nullptr;
  current_state().streams[stream] = descriptor;
  cookie.release()->stream = stream;
  return stream;
}

/// libstdc++'s file streams read from the number that this gives.
int descriptor_of_stream(std::FILE* stream) {
  if (!outside()) {
    const auto& streams = current_state().streams;
    if (const auto found = streams.find(stream); found != streams.end()) return found->second;
  }
  const int output = output_descriptor_of(stream);
  return output >= 0 ? output : ::fileno(stream);
}

int close_stream(std::FILE* stream) { return output_descriptor_of(stream) >= 0 ? 0 : std::fclose(stream); }

int set_buffer(std::FILE* stream, char* buffer, int mode, std::size_t size) {
  return output_descriptor_of(stream) >= 0 ? 0 : std::setvbuf(stream, buffer, mode, size);
}
void set_own_buffer(std::FILE* stream, char* buffer) {
  set_buffer(stream, buffer, buffer != nullptr ? _IOFBF : _IONBF, BUFSIZ);
}
void set_sized_buffer(std::FILE* stream, char* buffer, std::size_t size) {
  set_buffer(stream, buffer, buffer != nullptr ? _IOFBF : _IONBF, size);
}
void set_line_buffer(std::FILE* stream) { set_buffer(stream, nullptr, _IOLBF, 0); }

// --- DIR: glibc's is opaque, ours stands in its place ---

struct DirectoryStream {
  int descriptor;
  std::shared_ptr<SysfsDirectory> directory;
  std::size_t next = 0;
  dirent entry{};
};

DirectoryStream* as_simulated(DIR* stream) {
  if (outside() || !current_state().directories.contains(stream)) return nullptr;
  return reinterpret_cast<DirectoryStream*>(stream);
}

DIR* open_directory_at(int descriptor) {
  if (is_real(descriptor)) return ::fdopendir(descriptor);
  auto directory = std::dynamic_pointer_cast<SysfsDirectory>(file_at(descriptor));
  if (directory == nullptr) {
    errno = ENOTDIR;
    return nullptr;
  }
  auto* stream = reinterpret_cast<DIR*>(new DirectoryStream{descriptor, std::move(directory)});
  current_state().directories.insert(stream);
  return stream;
}

DIR* open_directory(const char* path) {
  if (shared_name(path)) {
    if (first_time(current_state(), "opendir /dev/shm")) {
      MESHBED_WARN("%s: listing /dev/shm is not simulated and was refused", World::current_process()->name.c_str());
    }
    errno = EACCES;
    return nullptr;
  }
  const auto simulated = simulated_path(AT_FDCWD, path);
  if (!simulated) return ::opendir(path);
  const int descriptor = open_simulated(*simulated, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return descriptor >= 0 ? open_directory_at(descriptor) : nullptr;
}

dirent* read_directory(DIR* stream) {
  DirectoryStream* simulated = as_simulated(stream);
  if (simulated == nullptr) return ::readdir(stream);
  const auto& entries = simulated->directory->entries;
  if (simulated->next == entries.size()) return nullptr;
  const auto& from = entries[simulated->next++];
  dirent& entry = simulated->entry;
  entry = {};
  entry.d_ino = simulated->next;
  entry.d_off = static_cast<off_t>(simulated->next);
  entry.d_reclen = sizeof(entry);
  entry.d_type = from.type;
  std::memcpy(entry.d_name, from.name.c_str(), std::min(from.name.size(), sizeof(entry.d_name) - 1));
  return &entry;
}

void rewind_directory(DIR* stream) {
  if (DirectoryStream* simulated = as_simulated(stream)) {
    simulated->next = 0;
  } else {
    ::rewinddir(stream);
  }
}

int descriptor_of_directory(DIR* stream) {
  const DirectoryStream* simulated = as_simulated(stream);
  return simulated != nullptr ? simulated->descriptor : ::dirfd(stream);
}

int close_directory(DIR* stream) {
  const std::unique_ptr<DirectoryStream> simulated(as_simulated(stream));
  if (simulated == nullptr) return ::closedir(stream);
  current_state().directories.erase(stream);
  current_state().descriptors.close(simulated->descriptor);
  return 0;
}

}  // namespace

std::span<const Redirection> stream_redirections() {
  static const std::array table{
      redirect("fopen", &open_stream),           redirect("fopen64", &open_stream),
      redirect("fileno", &descriptor_of_stream), redirect("fclose", &close_stream),
      redirect("setvbuf", &set_buffer),          redirect("setbuf", &set_own_buffer),
      redirect("setbuffer", &set_sized_buffer),  redirect("setlinebuf", &set_line_buffer),
      redirect("opendir", &open_directory),      redirect("fdopendir", &open_directory_at),
      redirect("readdir", &read_directory),      redirect("readdir64", &read_directory),
      redirect("rewinddir", &rewind_directory),  redirect("dirfd", &descriptor_of_directory),
      redirect("closedir", &close_directory),
  };
  return table;
}

}  // namespace meshbed::sim
