#pragma once
// Scratch: a folder of this process below another, gone with the object. What a killed process left goes with the next
// one that is made there.

#include <string>

#include "plugin/base/descriptor.h"

namespace meshbed::emu {

class Scratch {
 public:
  /// FOLDER/PURPOSE.PID.<six random characters>. Throws std::runtime_error where it cannot be made.
  Scratch(const std::string& folder, const std::string& purpose);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  /// Leaves it where it is.
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

/// Makes a folder and those above it. Throws std::runtime_error, naming it.
void make_folder(const std::string& path);
/// Whole files. Throw std::runtime_error, naming the file.
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);

/// An empty file for a child's output, open for appending. Throws likewise.
Descriptor create_file(const std::string& path);

}  // namespace meshbed::emu
