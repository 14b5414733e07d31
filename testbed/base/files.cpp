#include "testbed/base/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "sim/host/sha256.h"

namespace meshbed::testbed {
namespace {

/// Four times the largest ring that the encoders make; a recording has several.
constexpr std::uintmax_t kBytesMost = std::uintmax_t{256} << 20U;
/// messages.csv of ten million messages.
constexpr std::uintmax_t kTextMostBytes = std::uintmax_t{2} << 30U;

std::runtime_error unreadable(const std::string& path, const std::string& why) {
  return std::runtime_error(fmt::format("cannot read {}: {}", path, why));
}

/// A pipe that another process writes into: /dev/stdin, /dev/fd/63.
bool is_open_pipe(const std::string& path, const std::filesystem::file_status& status) {
  return std::filesystem::is_fifo(status) && (path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0);
}

std::string read_at_most(const std::string& path, std::uintmax_t most_bytes) {
  require_readable_file(path, most_bytes);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw unreadable(path, std::strerror(errno));
  std::string text;
  std::array<char, 65536> part{};
  while (file.read(part.data(), part.size()), file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > most_bytes) throw unreadable(path, fmt::format("more than {} bytes", most_bytes));
  }
  if (file.bad()) throw unreadable(path, std::strerror(errno));
  return text;
}

}  // namespace

void require_readable_file(const std::string& path, std::uintmax_t most_bytes) {
  namespace fs = std::filesystem;
  if (path.find('\0') != std::string::npos) throw unreadable(path.substr(0, path.find('\0')), "a NUL in its name");
  std::error_code problem;
  const fs::file_status status = fs::status(path, problem);
  if (!fs::exists(status)) throw unreadable(path, problem ? problem.message() : "No such file or directory");
  if (fs::is_directory(status)) throw unreadable(path, "it is a folder");
  if (!fs::is_regular_file(status) && !is_open_pipe(path, status)) {
    throw unreadable(path, "not a file: a device or pipe may have no end");
  }
  const std::uintmax_t size_bytes = fs::is_regular_file(status) ? fs::file_size(path, problem) : 0;
  if (!problem && size_bytes > most_bytes) {
    throw unreadable(path, fmt::format("{} bytes; at most {} are read", size_bytes, most_bytes));
  }
}

BuiltFiles built_files() {
  const std::filesystem::path build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  return {.command = build / "bin/meshbed",
          .net_plugin = build / "lib/libnccl-net-mesh.so",
          .local_plugin = build / "lib/libnccl-net-local.so",
          .profiler = build / "lib/libnccl-profiler-meshbed.so",
          .engine = build / "lib/libmeshcoll.so",
          .nccl = build / "nccl-lib/libnccl.so.2",
          .mpi = build / "mpi-lib/libmpi.so.40",
          .libibverbs = build / "sim-lib/libibverbs.so.1",
          .verbs_trace = build / "lib/libmeshbed-verbs-trace.so",
          .cost_program = build / "bin/meshbed-cost",
          .cuda_folder = build / "cuda-lib",
          .nccl_sweep = build / "lib/meshbed-nccl-sweep.so",
          .engine_cost_program = build / "bin/meshbed-engine-cost"};
}

std::string read_text_file(const std::string& path) { return read_at_most(path, kTextMostBytes); }

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  const std::string text = read_at_most(path, kBytesMost);
  return {text.begin(), text.end()};
}

std::string sha256_of_file(const std::string& path) {
  const std::string bytes = read_text_file(path);
  return sim::sha256_hex(bytes.data(), bytes.size());
}

ReplacingFile::ReplacingFile(const std::string& path) : path_(path) {
  namespace fs = std::filesystem;
  std::error_code problem;
  fs::path place = path;
  if (place.has_parent_path()) fs::create_directories(place.parent_path(), problem);
  const bool there = fs::exists(place, problem), other = there && !fs::is_regular_file(place, problem);
  // What /dev/stdout and its like lead to is open elsewhere, under no name.
  const bool open_elsewhere = path.rfind("/dev/", 0) == 0 || path.rfind("/proc/", 0) == 0;
  if (!other && !open_elsewhere) {
    // Behind a link lies the file that others know.
    const fs::path target = fs::weakly_canonical(place, problem);
    if (!problem) place = target;
    written_ =
        fs::path(place).replace_filename(fmt::format(".{}.{}", getpid(), place.filename().string().substr(0, 200)));
    unfinished_.emplace(written_);
    stream_.open(written_, std::ios::binary);
    const auto mode = fs::status(place, problem).permissions();
    if (stream_ && there && !problem) fs::permissions(written_, mode, problem);
    if (!stream_ && there) {
      stream_.clear();
      written_.clear();
      unfinished_.reset();
    }
  }
  if (written_.empty()) {
    written_ = path_;
    errno = 0;
    stream_.open(written_, std::ios::binary);
  }
  require_open();
}

void ReplacingFile::require_open() const {
  if (!stream_) throw std::runtime_error(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

ReplacingFile::~ReplacingFile() {
  std::error_code problem;
  if (!written_.empty() && written_ != path_) std::filesystem::remove(written_, problem);
}

void ReplacingFile::publish() {
  namespace fs = std::filesystem;
  errno = 0;
  stream_.close();
  std::error_code problem;
  if (!stream_) {
    problem.assign(errno, std::generic_category());
  } else if (written_ != path_) {
    fs::rename(written_, fs::weakly_canonical(path_, problem), problem);
    if (!problem) {
      written_.clear();
      unfinished_.reset();
    }
  }
  if (stream_ && !problem) return;
  throw std::runtime_error(
      fmt::format("cannot write {}: {}", path_, problem ? problem.message() : "not all of it was taken"));
}

void write_text_file(const std::string& path, const std::string& text) {
  ReplacingFile file(path);
  file.stream() << text;
  file.publish();
}

}  // namespace meshbed::testbed
