#pragma once
// Streams of bytes within one machine: what socketpair() and Unix sockets are made of.

#include <memory>
#include <utility>
#include <vector>

#include "sim/host/file/file.h"

namespace meshbed::sim {

/// Two ends, each of which reads what is written to the other one.
std::pair<std::shared_ptr<File>, std::shared_ptr<File>> make_stream_pair(Process& first, Process& second);
/// Made by make_stream_pair().
bool is_stream_end(const File& file);

/// Files that go with a byte of a stream (SCM_RIGHTS of unix(7)).
using PassedFiles = std::vector<std::shared_ptr<File>>;
/// With the next byte that is written to that end.
void attach_files(File& end, PassedFiles files);
/// Nothing was written since: they stay.
void detach_files(File& end);
/// Those that have come with the bytes read since this was asked last.
PassedFiles take_files(File& end);

}  // namespace meshbed::sim
