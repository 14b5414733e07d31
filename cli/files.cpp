#include "cli/files.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace meshbed::cli {

BuiltFiles built_files() {
  const std::filesystem::path build = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
  return {.net_plugin = build / "lib/libnccl-net-mesh.so",
          .engine = build / "lib/libmeshcoll.so",
          .libibverbs = build / "sim-lib/libibverbs.so.1",
          .verbs_trace = build / "lib/libmeshbed-verbs-trace.so",
          .cost_program = build / "bin/meshbed-cost"};
}

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string sha256_of_file(const std::string& path) {
  const std::string bytes = read_text_file(path);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int hash_bytes = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash.data(), &hash_bytes, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("libcrypto gives no SHA-256");
  }
  std::string text;
  for (unsigned int index = 0; index < hash_bytes; ++index) text += fmt::format("{:02x}", hash.at(index));
  return text;
}

void write_text_file(const std::string& path, const std::string& text) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code problem;
  if (!folder.empty()) std::filesystem::create_directories(folder, problem);
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return;
  throw std::runtime_error(
      fmt::format("cannot write {}: {}", path, errno != 0 ? std::strerror(errno) : "not all of it was taken"));
}

}  // namespace meshbed::cli
