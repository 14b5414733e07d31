// Calls on any descriptor of a rank: read, write, close, duplicate, flags.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "plugin/base/log.h"
#include "sim/host/load/calls.h"
#include "sim/host/load/program.h"
#include "sim/host/load/redirection.h"
#include "sim/host/socket/transfer.h"

namespace meshbed::sim {
namespace {

ssize_t read_bytes(int descriptor, void* data, std::size_t size) {
  if (is_real(descriptor)) return ::read(descriptor, data, size);
  const auto file = file_at(descriptor);
  return file != nullptr ? read_some(*file, static_cast<char*>(data), size, 0, "read") : fail(EBADF);
}

ssize_t read_bytes_checked(int descriptor, void* data, std::size_t size, std::size_t) {
  return read_bytes(descriptor, data, size);
}

ssize_t write_bytes(int descriptor, const void* data, std::size_t size) {
  if (data == nullptr && size > 0) return fail(EFAULT);
  if (is_real(descriptor)) {
    const bool is_output = !outside() && write_program_output(descriptor, {static_cast<const char*>(data), size});
    return is_output ? static_cast<ssize_t>(size) : ::write(descriptor, data, size);
  }
  const auto file = file_at(descriptor);
  return file != nullptr ? write_some(*file, {static_cast<const char*>(data), size}, 0, "write") : fail(EBADF);
}

ssize_t read_parts(int descriptor, const iovec* vectors, int count) {
  if (is_real(descriptor)) return ::readv(descriptor, vectors, count);
  const auto file = file_at(descriptor);
  if (file == nullptr || count < 0) return fail(file == nullptr ? EBADF : EINVAL);
  return read_vector(*file, vectors, static_cast<std::size_t>(count), 0, "readv");
}

ssize_t write_parts(int descriptor, const iovec* vectors, int count) {
  if (is_real(descriptor)) {
    if (outside() || count < 0) return ::writev(descriptor, vectors, count);
    std::string text;
    for (const iovec& part : std::span(vectors, static_cast<std::size_t>(count))) {
      text.append(static_cast<const char*>(part.iov_base), part.iov_len);
    }
    return write_bytes(descriptor, text.data(), text.size());
  }
  const auto file = file_at(descriptor);
  if (file == nullptr || count < 0) return fail(file == nullptr ? EBADF : EINVAL);
  return write_vector(*file, vectors, static_cast<std::size_t>(count), 0, "writev");
}

/// pread(2): a read at `offset` that leaves the position where it is.
ssize_t read_at(int descriptor, void* data, std::size_t size, off_t offset) {
  if (is_real(descriptor)) return ::pread(descriptor, data, size, offset);
  const auto file = file_at(descriptor);
  if (file == nullptr) return fail(EBADF);
  const off_t position = file->seek(0, SEEK_CUR);
  if (position < 0) return fail(ESPIPE);
  if (file->seek(offset, SEEK_SET) < 0) return fail(EINVAL);
  const Attempted result = file->try_read(data, size, false);
  file->seek(position, SEEK_SET);
  return answer(result);
}

off_t seek_to(int descriptor, off_t offset, int whence) {
  if (is_real(descriptor)) return ::lseek(descriptor, offset, whence);
  const auto file = file_at(descriptor);
  return file != nullptr ? answer(file->seek(offset, whence)) : fail(EBADF);
}

/// Those that all ranks share with the command.
bool is_standard(int descriptor) { return !outside() && descriptor >= 0 && descriptor <= STDERR_FILENO; }

using FileIdentity = std::pair<dev_t, ino_t>;

std::optional<FileIdentity> identity_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino};
}

/// What was open before the first rank's program began: the command's own, which no rank has. A number that was closed
/// since then may be another file's, and a rank's.
std::map<int, FileIdentity> descriptors_of_command;

/// Whether a real descriptor is not the rank's: the command's, or memory that the simulation keeps in a file.
bool is_of_simulator(int descriptor) {
  if (outside()) return false;
  const auto own = descriptors_of_command.find(descriptor);
  if (own != descriptors_of_command.end() && own->second == identity_of(descriptor)) return true;
  // What ranks share by a name is held open by the simulation; each rank has descriptors of its own for it.
  const auto& shared = host().shared_files;
  if (std::any_of(shared.begin(), shared.end(), [&](const auto& one) { return one.second == descriptor; })) return true;
  std::error_code error;
  const std::string target = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error).string();
  return target.starts_with("/memfd:meshbed-master") || target.starts_with("/memfd:meshbed-copy") ||
         target.starts_with("/memfd:device memory");
}

int close_one(int descriptor) {
  if (is_standard(descriptor)) return 0;
  if (is_real(descriptor)) return is_of_simulator(descriptor) ? fail(EBADF) : ::close(descriptor);
  return current_state().descriptors.close(descriptor) ? 0 : fail(EBADF);
}

/// The simulated ones. Files of this host that ranks have opened have numbers in common, and stay open.
int close_between(unsigned first, unsigned last, int flags) {
  if (outside()) return ::close_range(first, last, flags);
  if (first > last) return fail(EINVAL);
  DescriptorTable& descriptors = current_state().descriptors;
  for (const int descriptor : descriptors.open_between(first, last)) {
    if ((static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) != 0) {
      descriptors.set_close_on_exec(descriptor, true);
    } else {
      descriptors.close(descriptor);
    }
  }
  return 0;
}
void close_from(int first) { close_between(static_cast<unsigned>(std::max(first, 0)), ~0U, 0); }

int duplicate(int descriptor) {
  if (is_real(descriptor)) return ::dup(descriptor);
  auto file = file_at(descriptor);
  return file != nullptr ? current_state().descriptors.add(std::move(file), false) : fail(EBADF);
}

int not_simulated(const char* what, int code) {
  if (first_time(current_state(), what)) {
    MESHBED_WARN("%s: %s on a simulated or a standard descriptor is not simulated",
                 World::current_process()->name.c_str(), what);
  }
  return fail(code);
}

int duplicate_to(int from, int to) {
  if (is_real(from) && is_real(to) && !is_standard(to) && !is_of_simulator(to)) return ::dup2(from, to);
  return not_simulated("dup2()", EOPNOTSUPP);
}

int duplicate_to_with_flags(int from, int to, int flags) {
  if (is_real(from) && is_real(to) && !is_standard(to) && !is_of_simulator(to)) return ::dup3(from, to, flags);
  return not_simulated("dup3()", EOPNOTSUPP);
}

int control(int descriptor, int command, ...) {
  std::va_list list;
  va_start(list, command);
  void* argument = va_arg(list, void*);  // an int comes in the same register
  va_end(list);
  if (is_real(descriptor)) return ::fcntl(descriptor, command, argument);
  auto file = file_at(descriptor);
  if (file == nullptr) return fail(EBADF);
  DescriptorTable& descriptors = current_state().descriptors;
  const int value = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
  switch (command) {
    case F_GETFL:
      return file->status_flags | (file->nonblocking ? O_NONBLOCK : 0);
    case F_SETFL:
      file->nonblocking = (value & O_NONBLOCK) != 0;
      return 0;
    case F_GETFD:
      return descriptors.close_on_exec(descriptor) ? FD_CLOEXEC : 0;
    case F_SETFD:
      descriptors.set_close_on_exec(descriptor, (value & FD_CLOEXEC) != 0);
      return 0;
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return descriptors.add(std::move(file), command == F_DUPFD_CLOEXEC);
    default:
      return not_simulated("this fcntl() command", EINVAL);
  }
}

int device_control(int descriptor, unsigned long request, ...) {
  std::va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  if (is_real(descriptor)) return ::ioctl(descriptor, request, argument);
  const auto file = file_at(descriptor);
  if (file == nullptr) return fail(EBADF);
  switch (request) {
    case FIONBIO:
      file->nonblocking = *static_cast<const int*>(argument) != 0;
      return 0;
    case FIONREAD:
      *static_cast<int*>(argument) = static_cast<int>(file->available_bytes());
      return 0;
    case FIOCLEX:
    case FIONCLEX:
      current_state().descriptors.set_close_on_exec(descriptor, request == FIOCLEX);
      return 0;
    default:
      return not_simulated("this ioctl() request", ENOTTY);
  }
}

int status_of(int descriptor, struct stat* status) {
  if (is_real(descriptor)) return ::fstat(descriptor, status);
  const auto file = file_at(descriptor);
  if (file == nullptr) return fail(EBADF);
  file->stat(*status);
  return 0;
}

int is_terminal(int descriptor) { return is_real(descriptor) ? ::isatty(descriptor) : (errno = ENOTTY, 0); }

}  // namespace

void note_descriptors_of_command() {
  static std::once_flag noted;
  std::call_once(noted, [] {
    std::vector<int> numbers;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
      numbers.push_back(std::atoi(entry.path().filename().c_str()));
    }
    // The listing's own descriptor is closed by now.
    for (const int number : numbers) {
      if (const auto identity = identity_of(number)) descriptors_of_command.emplace(number, *identity);
    }
  });
}

std::span<const Redirection> descriptor_redirections() {
  static const std::array table{
      redirect("read", &read_bytes),      redirect("__read_chk", &read_bytes_checked),
      redirect("write", &write_bytes),    redirect("readv", &read_parts),
      redirect("writev", &write_parts),   redirect("pread", &read_at),
      redirect("pread64", &read_at),      redirect("lseek", &seek_to),
      redirect("lseek64", &seek_to),      redirect("close", &close_one),
      redirect("closefrom", &close_from), redirect("close_range", &close_between),
      redirect("dup", &duplicate),        redirect("dup2", &duplicate_to),
      redirect("fcntl", &control),        redirect("dup3", &duplicate_to_with_flags),
      redirect("fcntl64", &control),      redirect("ioctl", &device_control),
      redirect("fstat", &status_of),      redirect("fstat64", &status_of),
      redirect("isatty", &is_terminal),
  };
  return table;
}

}  // namespace meshbed::sim
