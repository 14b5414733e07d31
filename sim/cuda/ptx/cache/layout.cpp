#define XXH_INLINE_ALL  // the simulated CUDA links nothing but libc
#include "sim/cuda/ptx/cache/layout.h"

#include <elf.h>
#include <link.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>

namespace meshbed::sim::ptx {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostFiles = 64;
constexpr std::size_t kMostBytes = std::size_t{64} << 20U;
constexpr const char* kEnding = ".layout";

/// A file: this, then `words` numbers of 32 bits (those of encoded()).
struct Header {
  char magic[8] = {'M', 'B', 'L', 'A', 'Y', 'O', 'U', 'T'};
  std::uint64_t key[2] = {};
  std::uint64_t words = 0;
  std::uint64_t checksum = 0;  // XXH3 of the words
};

/// The build ID of the file that this code is in.
std::span<const std::byte> build_id() {
  struct Search {
    std::uintptr_t here = 0;
    std::span<const std::byte> found{};
  };
  static const std::span<const std::byte> id = [] {
    Search search{.here = reinterpret_cast<std::uintptr_t>(&build_id)};
    const auto look = [](dl_phdr_info* file, std::size_t, void* argument) {
      auto& wanted = *static_cast<Search*>(argument);
      const std::span<const ElfW(Phdr)> segments(file->dlpi_phdr, file->dlpi_phnum);
      const bool is_this = std::any_of(segments.begin(), segments.end(), [&](const auto& one) {
        return one.p_type == PT_LOAD && wanted.here - (file->dlpi_addr + one.p_vaddr) < one.p_memsz;
      });
      if (!is_this) return 0;
      for (const auto& one : segments) {
        if (one.p_type != PT_NOTE) continue;
        const auto* const notes = reinterpret_cast<const std::byte*>(file->dlpi_addr + one.p_vaddr);
        for (std::size_t at = 0; at + sizeof(ElfW(Nhdr)) <= one.p_memsz;) {
          ElfW(Nhdr) note;
          std::memcpy(&note, notes + at, sizeof note);
          const std::size_t begin = at + sizeof note + (note.n_namesz + 3U) / 4U * 4U;
          if (note.n_type == NT_GNU_BUILD_ID && begin + note.n_descsz <= one.p_memsz) {
            wanted.found = {notes + begin, note.n_descsz};
            return 1;
          }
          at = begin + (note.n_descsz + 3U) / 4U * 4U;
        }
      }
      return 1;
    };
    ::dl_iterate_phdr(look, &search);
    return search.found;
  }();
  return id;
}

XXH128_hash_t key_of(const TextsKey& texts) {
  const std::span<const std::byte> build = build_id();
  const std::uint64_t seed = XXH3_64bits(build.data(), build.size());
  return XXH3_128bits_withSeed(texts.data(), texts.size() * sizeof(texts[0]), seed);
}

std::string file_of(const std::string& folder, const XXH128_hash_t& key) {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(key.high64),
                static_cast<unsigned long long>(key.low64));
  return folder + "/" + name + kEnding;
}

std::vector<std::uint32_t> encoded(const ProgramLayout& layout) {
  std::vector<std::uint32_t> words{layout.functions, layout.symbols};
  const auto count = [&words](std::size_t items) { words.push_back(static_cast<std::uint32_t>(items)); };
  count(layout.with_variables.size());
  words.insert(words.end(), layout.with_variables.begin(), layout.with_variables.end());
  count(layout.kernels.size());
  for (const KernelLayout& kernel : layout.kernels) {
    words.insert(words.end(), {kernel.shared_bytes, kernel.local_bytes, kernel.registers});
    count(kernel.shared.size());
    for (const SharedPlace& one : kernel.shared) words.insert(words.end(), {one.symbol, one.offset});
  }
  return words;
}

/// nullopt: there are too few words, or too many.
std::optional<ProgramLayout> decoded(std::span<const std::uint32_t> words) {
  bool is_whole = true;
  const auto next = [&]() -> std::uint32_t {
    if (words.empty()) {
      is_whole = false;
      return 0;
    }
    const std::uint32_t word = words.front();
    words = words.subspan(1);
    return word;
  };
  const auto count = [&]() -> std::size_t {
    const std::size_t items = next();
    is_whole = is_whole && items <= words.size();
    return is_whole ? items : 0;
  };
  ProgramLayout layout;
  layout.functions = next();
  layout.symbols = next();
  layout.with_variables.resize(count());
  for (std::uint32_t& one : layout.with_variables) one = next();
  layout.kernels.resize(count());
  for (KernelLayout& kernel : layout.kernels) {
    kernel.shared_bytes = next();
    kernel.local_bytes = next();
    kernel.registers = next();
    kernel.shared.resize(count());
    for (SharedPlace& one : kernel.shared) {
      one.symbol = next();
      one.offset = next();
    }
  }
  if (!is_whole || !words.empty()) return std::nullopt;
  return layout;
}

/// Removes the oldest files of ours above the limit.
void prune(const std::string& folder) {
  std::error_code problem;
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem)) {
    if (at->path().filename().string().find(kEnding) != std::string::npos)
      files.emplace_back(at->last_write_time(problem), at->path());
  }
  if (files.size() <= kMostFiles) return;
  std::sort(files.begin(), files.end());
  files.resize(files.size() - kMostFiles);
  for (const auto& [time, path] : files) fs::remove(path, problem);
}

}  // namespace

std::optional<ProgramLayout> find_layout(const std::string& folder, const TextsKey& texts) {
  if (folder.empty() || build_id().empty()) return std::nullopt;
  const XXH128_hash_t key = key_of(texts);
  std::ifstream file(file_of(folder, key), std::ios::binary);
  Header header;
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const bool is_ours = file && std::equal(std::begin(header.magic), std::end(header.magic), Header().magic) &&
                       header.key[0] == key.low64 && header.key[1] == key.high64 &&
                       header.words <= kMostBytes / sizeof(std::uint32_t);
  if (!is_ours) return std::nullopt;
  std::vector<std::uint32_t> words(header.words);
  const auto bytes = static_cast<std::streamsize>(words.size() * sizeof(words[0]));
  file.read(reinterpret_cast<char*>(words.data()), bytes);
  if (!file || XXH3_64bits(words.data(), static_cast<std::size_t>(bytes)) != header.checksum) return std::nullopt;
  return decoded(words);
}

void keep_layout(const std::string& folder, const TextsKey& texts, const ProgramLayout& layout) {
  if (folder.empty() || build_id().empty()) return;
  std::error_code problem;
  fs::create_directories(folder, problem);
  const XXH128_hash_t key = key_of(texts);
  const std::vector<std::uint32_t> words = encoded(layout);
  Header header;
  header.key[0] = key.low64;
  header.key[1] = key.high64;
  header.words = words.size();
  header.checksum = XXH3_64bits(words.data(), words.size() * sizeof(words[0]));
  const std::string path = file_of(folder, key);
  // Another process or thread may write the same file.
  static std::atomic<unsigned> files = 0;
  const std::string written = path + "." + std::to_string(::getpid()) + "." + std::to_string(++files);
  {
    std::ofstream file(written, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(reinterpret_cast<const char*>(words.data()),
               static_cast<std::streamsize>(words.size() * sizeof(words[0])));
    if (!file.flush()) problem = std::make_error_code(std::errc::io_error);
  }
  if (!problem) fs::rename(written, path, problem);
  if (problem) fs::remove(written, problem);
  prune(folder);
}

}  // namespace meshbed::sim::ptx
