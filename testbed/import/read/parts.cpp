#include "testbed/import/read/parts.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "testbed/base/files.h"

namespace meshbed::testbed::hosts {
namespace {

namespace fs = std::filesystem;

struct CloseArchive {
  void operator()(archive* opened) const { archive_read_free(opened); }
};
using OpenArchive = std::unique_ptr<archive, CloseArchive>;

[[noreturn]] void refuse_number(const std::string& path) {
  throw std::runtime_error(
      fmt::format("{}: has more than {} files; name the folder of one node, as collect writes it", path, kPartsMost));
}

/// Text alone: programs and databases are no state that a reader knows.
bool is_text(const std::string& bytes) { return bytes.find('\0') == std::string::npos; }

std::string without_dots(std::string name) {
  while (name.rfind("./", 0) == 0) name.erase(0, 2);
  return name;
}

/// The archive's files; nullopt where libarchive does not know the format.
bool read_archive(const std::string& path, std::vector<Part>& parts) {
  const OpenArchive opened(archive_read_new());
  archive_read_support_filter_all(opened.get());
  archive_read_support_format_tar(opened.get());
  archive_read_support_format_zip(opened.get());
  if (archive_read_open_filename(opened.get(), path.c_str(), 1U << 16U) != ARCHIVE_OK) return false;
  archive_entry* entry = nullptr;
  for (bool is_first = true;; is_first = false) {
    const int status = archive_read_next_header(opened.get(), &entry);
    if (status == ARCHIVE_EOF) return !is_first;
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) {
      if (is_first) return false;
      throw std::runtime_error(fmt::format("{}: the archive is damaged ({}); make it again with `meshbed collect`",
                                           path, archive_error_string(opened.get())));
    }
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* const said = archive_entry_pathname(entry);
    if (said == nullptr) continue;
    if (parts.size() >= kPartsMost) refuse_number(path);
    Part part;
    part.name = without_dots(said);
    part.path = path + "/" + part.name;
    std::string buffer(1U << 16U, '\0');
    for (;;) {
      const auto got = archive_read_data(opened.get(), buffer.data(), buffer.size());
      if (got < 0) {
        throw std::runtime_error(
            fmt::format("{}: the archive is damaged at {} ({}); make it again with `meshbed "
                        "collect`",
                        path, part.name, archive_error_string(opened.get())));
      }
      if (got == 0) break;
      part.text.append(buffer, 0, static_cast<std::size_t>(got));
      if (part.text.size() > kPartBytesMost) {
        throw std::runtime_error(fmt::format("{}: {} is larger than {} MiB", path, part.name, kPartBytesMost >> 20U));
      }
    }
    if (is_text(part.text)) parts.push_back(std::move(part));
  }
}

std::vector<Part> read_folder(const std::string& path) {
  std::vector<Part> parts;
  std::error_code problem;
  fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, problem);
  for (; !problem && at != fs::recursive_directory_iterator(); at.increment(problem)) {
    if (!at->is_regular_file(problem) || at->file_size(problem) > kPartBytesMost) continue;
    if (parts.size() >= kPartsMost) refuse_number(path);
    Part part;
    part.path = at->path().string();
    part.name = fs::path(part.path).lexically_relative(path).string();
    try {
      part.text = read_text_file(part.path);
    } catch (const std::runtime_error&) {
      continue;  // netplan's files are root's alone; what else there is counts
    }
    if (is_text(part.text)) parts.push_back(std::move(part));
  }
  if (problem) throw std::runtime_error(fmt::format("{}: {}", path, problem.message()));
  return parts;
}

std::string stem_of(const std::string& path) {
  std::string name = fs::path(path).lexically_normal().filename().string();
  if (name.empty() || name == ".") name = fs::absolute(path).lexically_normal().parent_path().filename().string();
  for (const char* ending :
       {".gz", ".xz", ".zst", ".bz2", ".tgz", ".tar", ".zip", ".txt", ".yaml", ".yml", ".json", ".xml", ".clab"}) {
    const std::string_view tail(ending);
    if (name.size() > tail.size() && name.compare(name.size() - tail.size(), tail.size(), tail) == 0) {
      name.resize(name.size() - tail.size());
    }
  }
  return name;
}

}  // namespace

void refuse(const std::string& path, std::size_t line, std::size_t column, const std::string& cause) {
  if (line == 0) throw std::runtime_error(fmt::format("{}: {}", path, cause));
  throw std::runtime_error(fmt::format("{}:{}:{}: {}", path, line, column, cause));
}

std::size_t line_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
}

std::size_t column_at(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t start = before.rfind('\n');
  return start == std::string_view::npos ? before.size() + 1 : before.size() - start;
}

std::string source_at(const std::string& path, std::string_view text, std::size_t offset) {
  return fmt::format("{}:{}", path, line_at(text, offset));
}

std::vector<Part> parts_of_list(const std::string& path, const std::string& text) {
  std::vector<Part> parts;
  if (text.rfind("==> ", 0) != 0) return parts;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line(text.data() + at, end - at);
    at = std::min(end + 1, text.size());
    if (line.rfind("==> ", 0) == 0 && line.size() > 8 && line.substr(line.size() - 4) == " <==") {
      if (parts.size() >= kPartsMost) refuse_number(path);
      const std::string name(line.substr(4, line.size() - 8));
      parts.push_back({path + "/" + name, name, ""});
    } else if (!parts.empty()) {
      parts.back().text.append(line).push_back('\n');
    }
  }
  return parts;
}

std::vector<NodeParts> split_by_node(const std::string& name, const std::string& path, std::vector<Part> parts) {
  const auto first_folder = [](const Part& part) {
    const std::size_t slash = part.name.find('/');
    return slash == std::string::npos ? std::string() : part.name.substr(0, slash);
  };
  const bool is_one = parts.empty() || std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
                        const std::string folder = first_folder(part);
                        return folder.empty() || folder == "etc" || folder == "sys" || folder == "proc";
                      });
  if (is_one) {
    std::sort(parts.begin(), parts.end(), [](const Part& left, const Part& right) { return left.name < right.name; });
    return {{name, path, std::move(parts)}};
  }
  std::map<std::string, std::vector<Part>> folders;
  for (Part& part : parts) {
    const std::string folder = first_folder(part);
    part.name.erase(0, folder.size() + 1);
    folders[folder].push_back(std::move(part));
  }
  std::vector<NodeParts> nodes;
  for (auto& [folder, inside] : folders) {
    const bool is_wrapper = folders.size() == 1 && folder.rfind("meshbed-collect", 0) == 0;
    // collect's own folder adds nothing to what sources say.
    if (is_wrapper) {
      for (Part& part : inside) part.path = path + "/" + part.name;
    }
    const std::string below = is_wrapper ? path : path + "/" + folder;
    for (NodeParts& node : split_by_node(is_wrapper ? name : folder, below, std::move(inside))) {
      nodes.push_back(std::move(node));
    }
  }
  return nodes;
}

std::vector<NodeParts> nodes_at(const std::string& path) {
  std::error_code problem;
  if (fs::is_directory(path, problem)) return split_by_node(stem_of(path), path, read_folder(path));
  if (!fs::exists(path, problem)) {
    throw std::runtime_error(path +
                             ": there is no such file or folder; name what `meshbed collect` wrote, a folder "
                             "with etc/netplan/*.yaml, or a file");
  }
  require_readable_file(path, kPartBytesMost);
  std::vector<Part> parts;
  if (read_archive(path, parts)) return split_by_node(stem_of(path), path, std::move(parts));
  const std::string text = read_text_file(path);
  parts = parts_of_list(path, text);
  if (!parts.empty()) return split_by_node(stem_of(path), path, std::move(parts));
  return {{stem_of(path), path, {{path, fs::path(path).filename().string(), text}}}};
}

}  // namespace meshbed::testbed::hosts
