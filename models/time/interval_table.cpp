#include "models/time/interval_table.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include "models/shipped_profiles.h"

namespace meshbed::models {
namespace {

constexpr std::array<const char*, kDistances.size()> kNames{
    "same class and kind",
    "same class and kind, other sizes",
    "same class, other operation or setting",
    "same class, other ranks",
    "another class that passes the gates",
    "class without measurements: data sheet, other classes' values",
    "no class of this kind is known",
    "data sheet and constants alone"};
/// In the file.
constexpr std::array<const char*, kDistances.size()> kKeys{
    "same kind", "other sizes", "other operation", "other ranks", "near class", "unseen", "no class", "bare"};

Error wrong(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text), .os_errno = 0};
}

std::optional<Distance> parse_distance(std::string_view name) {
  const auto* const found = std::find(kKeys.begin(), kKeys.end(), name);
  if (found == kKeys.end()) return std::nullopt;
  return kDistances.at(static_cast<std::size_t>(found - kKeys.begin()));
}

}  // namespace

const char* name_of(Distance distance) { return kNames.at(static_cast<std::size_t>(distance)); }

std::string gate_of(const Machine& machine) {
  constexpr double kMostOfPcieGBps = 64;
  switch (machine.transport) {
    case MachineTransport::kEfa:
    case MachineTransport::kTcpx:
    case MachineTransport::kSlingshot:
      return "offloaded";
    case MachineTransport::kWithin:
      return machine[MachineParameter::kIntraGBps] > kMostOfPcieGBps ? "NVLink/xGMI" : "PCIe";
    case MachineTransport::kNone:
      return "verbs";
    default:
      return name_of(machine.transport);
  }
}

const char* size_class_of(std::uint64_t bytes) {
  constexpr std::uint64_t kMiddleBytes = 65536, kLargeBytes = 8388608;
  return kSizeClasses.at(bytes < kMiddleBytes ? 0 : bytes < kLargeBytes ? 1 : 2);
}

Result<IntervalTable> IntervalTable::parse(std::string_view text, const std::string& place) {
  toml::table root;
  try {
    root = toml::parse(text, place);
  } catch (const toml::parse_error& error) {
    return wrong(place + ":" + std::to_string(error.source().begin.line) + ": " + std::string(error.description()));
  }
  std::vector<IntervalCell> cells;
  const toml::array* const all = root["interval"].as_array();
  if (all == nullptr || all->empty()) return wrong(place + ": there is no list \"interval\"");
  for (const toml::node& node : *all) {
    const std::string where = place + ":" + std::to_string(node.source().begin.line) + ": ";
    const toml::table* const table = node.as_table();
    if (table == nullptr) return wrong(where + "an interval is a table");
    const auto distance = parse_distance((*table)["distance"].value<std::string>().value_or(""));
    if (!distance) return wrong(where + "distance is not one of those that there are");
    IntervalCell cell{.distance = *distance,
                      .gate = (*table)["gate"].value<std::string>().value_or(""),
                      .sizes = (*table)["sizes"].value<std::string>().value_or(""),
                      .low = (*table)["low"].value<double>().value_or(1),
                      .high = (*table)["high"].value<double>().value_or(-1),
                      .half = (*table)["half"].value<double>().value_or(0),
                      .points = static_cast<std::size_t>((*table)["points"].value<std::int64_t>().value_or(0)),
                      .sources = static_cast<std::size_t>((*table)["sources"].value<std::int64_t>().value_or(0))};
    if (!(cell.low <= 0) || !(cell.high >= 0)) return wrong(where + "low has to be at most 0, and high at least 0");
    cells.push_back(std::move(cell));
  }
  for (const Distance distance : kDistances) {
    for (const char* sizes : kSizeClasses) {
      const bool has = std::any_of(cells.begin(), cells.end(), [&](const IntervalCell& cell) {
        return cell.distance == distance && cell.gate == kAnyGate && cell.sizes == sizes;
      });
      if (!has) {
        return wrong(place + ": no interval of any gate for \"" + kKeys.at(static_cast<std::size_t>(distance)) +
                     "\", " + sizes + " sizes");
      }
    }
  }
  return IntervalTable(std::move(cells));
}

const IntervalCell& IntervalTable::at(Distance distance, const std::string& gate, const std::string& sizes) const {
  const IntervalCell* any = nullptr;
  for (const IntervalCell& cell : cells_) {
    if (cell.distance != distance || cell.sizes != sizes) continue;
    if (cell.gate == gate) return cell;
    if (cell.gate == kAnyGate) any = &cell;
  }
  if (any == nullptr) throw std::logic_error("the table of intervals has no cell of any gate");
  return *any;
}

std::string IntervalTable::text() const {
  std::string text =
      "# Made by `meshbed fidelity --intervals FILE` from models/data: by how far a prediction was from what was\n"
      "# measured (distance), by what carries the bytes (gate) and by size, the interval of ln(measured / predicted)\n"
      "# that held 9 of 10 points which were left out (docs/models.md, Intervals).\n"
      "interval = [\n";
  for (const IntervalCell& cell : cells_) {
    std::array<char, 200> line{};
    std::snprintf(line.data(), line.size(),
                  "  { distance = \"%s\", gate = \"%s\", sizes = \"%s\", low = %.4f, high = %.4f, half = %.4f, "
                  "points = %zu, sources = %zu },\n",
                  kKeys.at(static_cast<std::size_t>(cell.distance)), cell.gate.c_str(), cell.sizes.c_str(), cell.low,
                  cell.high, cell.half, cell.points, cell.sources);
    text += line.data();
  }
  return text + "]\n";
}

const IntervalTable& shipped_interval_table() {
  static const IntervalTable table = [] {
    Result<IntervalTable> parsed = IntervalTable::parse(*shipped_interval("intervals"), "intervals.toml");
    if (!parsed) throw std::logic_error(parsed.error().text);
    return std::move(*parsed);
  }();
  return table;
}

}  // namespace meshbed::models
