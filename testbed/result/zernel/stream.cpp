#include "testbed/result/zernel/stream.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "testbed/base/closest_name.h"
#include "testbed/base/files.h"

namespace meshbed::testbed::zernel {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, kStreams> kStreamNames{"nccl", "gpu_mem", "cuda", "dataload", "dist_sync"};

/// Calls `use` with the stream's own vector.
template <typename Container, typename Use>
auto with_records(Container& streams, Stream stream, Use use) {
  switch (stream) {
    case Stream::kNccl:
      return use(streams.nccl);
    case Stream::kGpuMemory:
      return use(streams.gpu_memory);
    case Stream::kCuda:
      return use(streams.cuda);
    case Stream::kDataload:
      return use(streams.dataload);
    case Stream::kDistSync:
      break;
  }
  return use(streams.dist_sync);
}

std::string file_in(const std::string& folder, Stream stream) {
  return (fs::path(folder) / (std::string(name_of(stream)) + kExtension)).string();
}

std::vector<Stream> all_streams() {
  std::vector<Stream> all;
  for (int number = 0; number < kStreams; ++number) all.push_back(static_cast<Stream>(number));
  return all;
}

void read_folder(Streams& streams, const std::string& folder) {
  bool any = false;
  for (const Stream stream : all_streams()) {
    const std::string file = file_in(folder, stream);
    if (!fs::exists(file)) continue;
    any = true;
    add_records(streams, stream, read_text_file(file), file);
  }
  if (any) return;
  throw std::runtime_error(
      fmt::format("{}: none of {}{} is in this folder; meshbed run SCENARIO --zernel-out {} "
                  "writes them",
                  folder, fmt::join(kStreamNames, ".zev, "), kExtension, folder));
}

}  // namespace

const char* name_of(Stream stream) { return kStreamNames.at(static_cast<std::size_t>(stream)); }

std::vector<std::string> stream_names() { return {kStreamNames.begin(), kStreamNames.end()}; }

std::optional<Stream> parse_stream(std::string_view name) {
  for (const Stream stream : all_streams()) {
    if (name == name_of(stream)) return stream;
  }
  return std::nullopt;
}

void add_records(Streams& streams, Stream stream, std::string_view bytes, const std::string& file) {
  with_records(streams, stream, [&](auto& records) {
    using Record = typename std::decay_t<decltype(records)>::value_type;
    const std::size_t count = bytes.size() / sizeof(Record);
    if (const std::size_t rest = bytes.size() % sizeof(Record); rest != 0) {
      throw std::runtime_error(fmt::format(
          "{}: {} bytes are not a whole number of {} records of {} bytes: record {}, from byte {} on, has only "
          "{}; it was cut short, or holds another stream (--stream says which)",
          file, bytes.size(), name_of(stream), sizeof(Record), count, count * sizeof(Record), rest));
    }
    const std::size_t before = records.size();
    records.resize(before + count);
    if (count > 0) std::memcpy(records.data() + before, bytes.data(), bytes.size());
  });
}

std::string bytes_of(const Streams& streams, Stream stream) {
  return with_records(streams, stream, [](const auto& records) {
    using Record = typename std::decay_t<decltype(records)>::value_type;
    return std::string(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record));
  });
}

bool is_stream_folder(const std::string& path) {
  std::error_code problem;
  const fs::file_status status = fs::status(path, problem);
  if (fs::exists(status)) return fs::is_directory(status);
  return fs::path(path).extension() != kExtension;
}

void write_streams(const Streams& streams, const std::string& path) {
  if (!is_stream_folder(path)) return write_text_file(path, bytes_of(streams, Stream::kNccl));
  for (const Stream stream : all_streams()) write_text_file(file_in(path, stream), bytes_of(streams, stream));
}

void read_streams(Streams& streams, const std::string& path, std::optional<Stream> stream) {
  std::error_code problem;
  if (fs::is_directory(path, problem)) {
    if (stream) throw std::runtime_error(path + ": --stream says what one file holds, and this is a folder of files");
    return read_folder(streams, path);
  }
  if (!fs::exists(path, problem)) {
    throw std::runtime_error(
        fmt::format("{}: no such file or folder; meshbed run SCENARIO --zernel-out {} writes one", path, path));
  }
  if (!stream) {
    const std::string stem = fs::path(path).stem().string();
    stream = parse_stream(stem);
    if (!stream) {
      throw std::runtime_error(fmt::format("{}: the name does not say which stream it holds; add --stream, one of: {}",
                                           path, list_names(stream_names())));
    }
  }
  add_records(streams, *stream, read_text_file(path), path);
}

}  // namespace meshbed::testbed::zernel
