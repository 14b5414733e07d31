#pragma once
// Reads and writes on a File as the calls make them: whole, in parts, waiting or not. `flags` are recv(2)'s. All answer
// as system calls: a count, or -1 with errno.

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "sim/host/file/file.h"

namespace meshbed::sim {

ssize_t read_some(File& file, char* data, std::size_t size, int flags, const char* what);
ssize_t write_some(File& file, std::span<const char> data, int flags, const char* what);
ssize_t read_vector(File& file, const iovec* vectors, std::size_t count, int flags, const char* what);
ssize_t write_vector(File& file, const iovec* vectors, std::size_t count, int flags, const char* what);

}  // namespace meshbed::sim
