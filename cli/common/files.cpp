#include "cli/common/files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "sim/host/sha256.h"

namespace meshbed::cli {
namespace {

/// Four times the largest ring that the encoders make; a recording has several.
constexpr std::uintmax_t kFileMostBytes = std::uintmax_t{256} << 20U;

}  // namespace

BuiltFiles built_files() {
  const std::filesystem::path build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  return {.net_plugin = build / "lib/libnccl-net-mesh.so",
          .local_plugin = build / "lib/libnccl-net-local.so",
          .engine = build / "lib/libmeshcoll.so",
          .nccl = build / "nccl-lib/libnccl.so.2",
          .libibverbs = build / "sim-lib/libibverbs.so.1",
          .verbs_trace = build / "lib/libmeshbed-verbs-trace.so",
          .cost_program = build / "bin/meshbed-cost",
          .cuda_folder = build / "cuda-lib",
          .engine_cost_program = build / "bin/meshbed-engine-cost"};
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  if (std::filesystem::is_directory(path))
    throw std::runtime_error(fmt::format("cannot read {}: it is a folder", path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code problem;
  const fs::file_status status = fs::status(path, problem);
  // read_text_file() says what is wrong with folders, and with what is not there.
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) {
    throw std::runtime_error(path + ": not a file: a device or pipe may have no end");
  }
  const std::uintmax_t size_bytes = fs::is_regular_file(status) ? fs::file_size(path, problem) : 0;
  if (size_bytes > kFileMostBytes) {
    throw std::runtime_error(path + ": " + std::to_string(size_bytes) + " bytes; at most " +
                             std::to_string(kFileMostBytes) + " are read");
  }
  const std::string text = read_text_file(path);
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

}  // namespace meshbed::cli
