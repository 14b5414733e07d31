#include "testbed/world/metal_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "plugin/net/process/config.h"

namespace meshbed::testbed {

std::vector<std::string> machine_devices() {
  std::error_code none;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kDevicesFolder, none)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

MetalDevices MetalDevices::parse(const std::string& text) {
  Names names;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const auto equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == entry.size()) {
      throw std::runtime_error(
          fmt::format("{}: \"{}\" is not SCENARIO'S-NAME=DEVICE, as in rocep1s0f0=mb0p0", kDevicesVariable, entry));
    }
    names.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return MetalDevices(std::move(names));
}

std::string MetalDevices::text() const {
  std::string text;
  for (const auto& [scenario, machine] : names_) text += (text.empty() ? "" : ",") + scenario + "=" + machine;
  return text;
}

std::string MetalDevices::device_list(const std::string& asked) const {
  constexpr int kPort = 1;  // a soft-RoCE device has one
  std::string list;
  for (const auto& [scenario, machine] : names_) {
    if (hca_allowed(asked, scenario, kPort)) list += (list.empty() ? "=" : ",") + machine;
  }
  return list.empty() ? "=none" : list;  // an empty list would let in all
}

std::string MetalDevices::scenario_name(const std::string& device) const {
  for (const auto& [scenario, machine] : names_) {
    if (machine == device) return scenario;
  }
  return device;
}

}  // namespace meshbed::testbed
