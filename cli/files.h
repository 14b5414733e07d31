#pragma once
// Files: where the libraries that were built with this program lie, and what is in them.

#include <string>

namespace meshbed::cli {

inline constexpr const char* kVersion = "0.1.0";

struct BuiltFiles {
  std::string net_plugin;    // libnccl-net-mesh.so
  std::string engine;        // libmeshcoll.so
  std::string libibverbs;    // the drop-in libibverbs.so.1
  std::string verbs_trace;   // libmeshbed-verbs-trace.so
  std::string cost_program;  // meshbed-cost: messages on the null wire
};

/// Seen from the running program (bin/NAME): ../lib and ../sim-lib beside it.
BuiltFiles built_files();

/// SHA-256 as 64 hex digits; throws std::runtime_error where the file cannot be read.
std::string sha256_of_file(const std::string& path);

/// The whole file; throws std::runtime_error where it cannot be read.
std::string read_text_file(const std::string& path);

/// Creates the folders that are missing on the way; throws std::runtime_error.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace meshbed::cli
