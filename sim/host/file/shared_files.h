#pragma once
// Shared files: /dev/shm of each simulated node, shm_overview(7). A file there is anonymous memory of the simulator's
// process, and what a rank opens is a real descriptor of it, for mmap(2), ftruncate(2) and the others as they are. No
// name reaches the machine's own /dev/shm.

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

namespace meshbed::sim {

/// The name below /dev/shm, "" for the folder itself; nullopt: another path, or no rank asks.
std::optional<std::string> shared_name(const char* path);

// As the calls of that name, with the current process's node.
int open_shared(const std::string& name, int flags);
int stat_shared(const std::string& name, struct stat& status);
int unlink_shared(const std::string& name);

}  // namespace meshbed::sim
