#pragma once
// Streams of bytes within one machine: what socketpair() and Unix sockets are made of.

#include <memory>
#include <utility>

#include "sim/host/file/file.h"

namespace meshbed::sim {

/// Two ends, each of which reads what is written to the other one.
std::pair<std::shared_ptr<File>, std::shared_ptr<File>> make_stream_pair(Process& first, Process& second);
/// Made by make_stream_pair().
bool is_stream_end(const File& file);

}  // namespace meshbed::sim
