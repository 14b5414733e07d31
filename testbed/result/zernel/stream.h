#pragma once
// ZernelStream: files of zernel's records (zernel_record.h). A folder holds one file a stream, named after it; a file
// or pipe of its own holds the collectives alone. What nothing happened of is an empty file.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "testbed/result/zernel/record.h"

namespace meshbed::testbed::zernel {

struct Streams {
  std::vector<NcclEvent> nccl;
  std::vector<GpuMemoryEvent> gpu_memory;
  std::vector<CudaEvent> cuda;
  std::vector<DataloadEvent> dataload;
  std::vector<DistSyncEvent> dist_sync;
};

inline constexpr const char* kExtension = ".zev";

/// "nccl", "gpu_mem", "cuda", "dataload", "dist_sync".
const char* name_of(Stream stream);
std::vector<std::string> stream_names();
/// nullopt for any other name.
std::optional<Stream> parse_stream(std::string_view name);

/// Adds the records in `bytes`. Throws std::runtime_error, with `file`, where they end in the middle of one.
void add_records(Streams& streams, Stream stream, std::string_view bytes, const std::string& file);
/// The records of one stream as they stand in its file.
std::string bytes_of(const Streams& streams, Stream stream);

/// Whether streams that go to `path` go into a folder: it is one, or there is nothing yet and the name does not end in
/// ".zev".
bool is_stream_folder(const std::string& path);
/// Throws std::runtime_error, naming the file, where it cannot be written.
void write_streams(const Streams& streams, const std::string& path);

/// Adds a folder's five streams (those that are there; one at least), or one file's. `stream`: what the file holds;
/// nullopt: what its name says. Throws std::runtime_error with the place, the cause and what to do.
void read_streams(Streams& streams, const std::string& path, std::optional<Stream> stream);

}  // namespace meshbed::testbed::zernel
