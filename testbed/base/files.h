#pragma once
// Files: the paths of the libraries that were built with this program, and the reading of files.

#include <cstdint>
#include <fstream>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "testbed/base/interruption.h"

namespace meshbed::testbed {

inline constexpr const char* kVersion = "0.1.0";

struct BuiltFiles {
  std::string command;              // meshbed itself
  std::string net_plugin;           // libnccl-net-mesh.so
  std::string local_plugin;         // libnccl-net-local.so
  std::string profiler;             // libnccl-profiler-meshbed.so
  std::string engine;               // libmeshcoll.so
  std::string nccl;                 // the drop-in libnccl.so.2
  std::string mpi;                  // the drop-in libmpi.so.40
  std::string libibverbs;           // the drop-in libibverbs.so.1
  std::string verbs_trace;          // libmeshbed-verbs-trace.so
  std::string cost_program;         // meshbed-cost: messages on the null wire
  std::string cuda_folder;          // of the simulated libcuda.so.1 and libcudart.so.13
  std::string nccl_sweep;           // what the ranks of `nccl compare` run
  std::string engine_cost_program;  // meshbed-engine-cost: the engine's, over the null net
};

/// Seen from the running program (bin/NAME): ../lib and ../sim-lib beside it.
BuiltFiles built_files();

/// SHA-256 as 64 hex digits; throws std::runtime_error where the file cannot be read.
std::string sha256_of_file(const std::string& path);

/// Throws std::runtime_error for what cannot be read in bounded time and memory: a path that does not exist, a folder,
/// a device, a named pipe, a file of more than `most_bytes`. A pipe of this process (/dev/stdin, /dev/fd/63) is one.
void require_readable_file(const std::string& path, std::uintmax_t most_bytes);

/// The whole file, of 2 GiB at most; throws std::runtime_error as require_readable_file() does.
std::string read_text_file(const std::string& path);

/// The same of 256 MiB at most.
std::vector<std::uint8_t> read_bytes(const std::string& path);

/// A file that takes the place of what is at its path as a whole, when it is published: a reader sees the old one or
/// the new one, and one that has the old one open goes on with it. What is no file, as a pipe, is written as it comes.
class ReplacingFile {
 public:
  /// Creates the folders that are missing on the way; throws std::runtime_error where nothing can be written there, as
  /// publish() does. Where nothing can be created beside a file that is there, it is written in its place.
  explicit ReplacingFile(const std::string& path);
  /// What was not published was never there.
  ~ReplacingFile();
  ReplacingFile(const ReplacingFile&) = delete;
  ReplacingFile& operator=(const ReplacingFile&) = delete;

  std::ostream& stream() { return stream_; }
  void publish();

 private:
  void require_open() const;

  const std::string path_;
  std::string written_;  // beside it, or the path itself
  std::optional<UnfinishedFile> unfinished_;
  std::ofstream stream_;
};

/// One of those, with this text.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace meshbed::testbed
