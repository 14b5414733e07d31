// A plot as a file.

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>

#include "emu/process.h"
#include "testbed/base/environment.h"
#include "testbed/base/files.h"
#include "testbed/plot/plot.h"

namespace meshbed::testbed {
namespace {

constexpr const char* kConverter = "rsvg-convert";

bool is_png(const std::string& path) { return path.ends_with(".png"); }

std::string converter(const std::string& option, const std::string& path) {
  try {
    return program_in_path(option, kConverter);
  } catch (const std::runtime_error&) {
    throw std::runtime_error(fmt::format(
        "{} {}: PNG is drawn by {}, which is not installed; install librsvg2-bin, or name a file that ends in .svg",
        option, path, kConverter));
  }
}

}  // namespace

void require_plot_file(const std::string& option, const std::string& path) {
  if (path.empty()) throw std::runtime_error(option + ": the name of the file is empty");
  if (is_png(path)) {
    converter(option, path);
  } else if (!path.ends_with(".svg")) {
    throw std::runtime_error(fmt::format("{} {}: the name must end in .svg or .png", option, path));
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && std::filesystem::exists(folder) && !std::filesystem::is_directory(folder)) {
    throw std::runtime_error(fmt::format("{} {}: {} is not a folder", option, path, folder.string()));
  }
}

void write_plot(const std::string& option, const std::string& path, const Plot& plot) {
  const std::string svg = svg_of(plot);
  if (!is_png(path)) {
    write_text_file(path, svg);
    return;
  }
  const std::string drawn = path + ".svg";
  write_text_file(drawn, svg);
  const emu::ProgramResult result = emu::run_program({converter(option, path), "--zoom", "2", "--output", path, drawn});
  std::filesystem::remove(drawn);
  if (result.status != 0) {
    throw std::runtime_error(fmt::format("{} {}: {}: status {}; {}", option, path, kConverter, result.status,
                                         emu::last_line(result.errors)));
  }
}

}  // namespace meshbed::testbed
