#pragma once
// Small reads of sysfs with plain POSIX calls (open, read, opendir, readlink), so that a simulator can intercept them.
// Every file may be missing: containers hide parts of sysfs.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace meshbed::verbs {

/// First line of a file without its newline; nullopt where it cannot be read (ENOENT, or EINVAL as for an empty GID).
std::optional<std::string> read_line(const std::string& path);
/// Names in a directory without "." and "..", sorted; empty where it cannot be read.
std::vector<std::string> list_directory(const std::string& path);
/// What a symbolic link points to, made absolute by its text alone: "/a/b/link" -> "../c" gives "/a/c".
std::optional<std::string> resolve_link(const std::string& path);

/// An interface's speed in Mb/s by /sys/class/net; 0 if its driver does not know it (-1, or no value).
std::uint32_t interface_speed_mbps(const std::string& netdev);

}  // namespace meshbed::verbs
