#pragma once
// Parts: the files of one node, from a folder, an archive or alone; and the errors of reading them.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace meshbed::testbed::hosts {

struct Part {
  std::string path;  // as sources and errors name it: "s1/etc/netplan/40-mesh.yaml"
  std::string name;  // within the node's folder: "etc/netplan/40-mesh.yaml"
  std::string text;
};

/// What belongs to one node.
struct NodeParts {
  std::string name;  // of the folder, archive or file
  std::string path;
  std::vector<Part> parts;  // by name
};

/// Most bytes that are read of one file, and most files of one path: more is no node's state but a mistaken path.
inline constexpr std::size_t kPartBytesMost = 64UL << 20U, kPartsMost = 4096;

/// The nodes of a path: a folder or archive that holds the files of one node, one of several such folders, or a file.
/// Throws std::runtime_error where it cannot be read.
std::vector<NodeParts> nodes_at(const std::string& path);

/// Those of a list of files with names such as "node0/etc/netplan/60.yaml".
std::vector<NodeParts> split_by_node(const std::string& name, const std::string& path, std::vector<Part> parts);

/// "==> NAME <==" before each part, as head and tail print several files: what collect writes where there is no tar.
/// Empty: the text is no such list.
std::vector<Part> parts_of_list(const std::string& path, const std::string& text);

/// Throws std::runtime_error "PATH:LINE:COLUMN: CAUSE"; a line of 0 stands for an unknown place.
[[noreturn]] void refuse(const std::string& path, std::size_t line, std::size_t column, const std::string& cause);

/// "PATH:LINE" of the byte at this offset.
std::string source_at(const std::string& path, std::string_view text, std::size_t offset);
/// 1-based.
std::size_t line_at(std::string_view text, std::size_t offset);
std::size_t column_at(std::string_view text, std::size_t offset);

}  // namespace meshbed::testbed::hosts
