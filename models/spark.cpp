#include "models/spark.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "models/pcie.h"

namespace meshbed::models {
namespace {

struct Row {
  const char *device, *netdev, *pci_path;
  SparkFunction function;
};

// clang-format off
constexpr std::array<Row, 4> kRows{{
    {"rocep1s0f0",   "enp1s0f0np0",   "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.0", {0, 0}},
    {"rocep1s0f1",   "enp1s0f1np1",   "/sys/devices/pci0000:00/0000:00:00.0/0000:01:00.1", {1, 0}},
    {"roceP2p1s0f0", "enP2p1s0f0np0", "/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0", {0, 1}},
    {"roceP2p1s0f1", "enP2p1s0f1np1", "/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.1", {1, 1}},
}};
// clang-format on

Error refuse(int nics, int ports, const char* remedy) {
  return Error{.code = ErrorCode::kInvalidArgument,
               .scope = Scope::kJob,
               .text = "a Spark has two QSFP ports, and two functions of each; " + std::to_string(nics) +
                       (nics == 1 ? " NIC" : " NICs") + " for " + std::to_string(ports) +
                       (ports == 1 ? " neighbour" : " neighbours") + " do not fit it: " + remedy};
}

}  // namespace

std::optional<SparkFunction> spark_function(const std::string& device) {
  for (const Row& row : kRows) {
    if (device == row.device) return row.function;
  }
  return std::nullopt;
}

std::vector<std::string> spark_devices() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.device);
  return names;
}

void name_spark_nic(Nic& nic, SparkFunction function) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& each) { return each.function == function; });
  nic.device = row->device;
  nic.netdev = row->netdev;
  nic.pci_path = row->pci_path;
}

Result<std::vector<SparkFunction>> spark_functions(NicLayout layout, int slots, int rails, int nics) {
  const bool is_merged = layout == NicLayout::kSparkMerged;
  const int used = slots * rails, most = is_merged ? kSparkPorts : kSparkPorts * kSparkLinks;
  if (slots > kSparkPorts || used > most || nics > most) {
    return refuse(std::max(used, nics), slots,
                  is_merged ? "fewer rails, or functions = \"spark\"" : "fewer rails, or functions = \"separate\"");
  }
  std::vector<SparkFunction> functions;
  for (int nic = 0; nic < used; ++nic) {
    const int rail = nic / slots, slot = nic % slots;
    if (is_merged) {
      functions.push_back({nic, 0});
    } else if (slots == 1) {
      functions.push_back({rail / kSparkLinks, rail % kSparkLinks});
    } else {
      functions.push_back({slot, rails == 1 ? slot : rail});
    }
  }
  for (int link = 0; link < (is_merged ? 1 : kSparkLinks); ++link) {
    for (int port = 0; port < kSparkPorts && static_cast<int>(functions.size()) < nics; ++port) {
      const SparkFunction left{port, link};
      if (std::find(functions.begin(), functions.begin() + used, left) == functions.begin() + used) {
        functions.push_back(left);
      }
    }
  }
  return functions;
}

int join_spark_functions(Node& node, NicLayout layout) {
  const bool is_merged = layout == NicLayout::kSparkMerged;
  const int first = static_cast<int>(node.pcie.size());
  int found = 0;
  for (Nic& nic : node.nics) {
    const auto function = spark_function(nic.device);
    if (!function) continue;
    ++found;
    nic.pcie = first + (is_merged ? 0 : function->link);
    nic.qsfp = is_merged ? "" : "qsfp" + std::to_string(function->port);
  }
  if (found == 0) return 0;
  const std::uint64_t rate_bps = pcie_rate_bps(kSparkLanes, kSparkGeneration);
  const std::uint64_t coded_bps = pcie_coded_bps(kSparkLanes, kSparkGeneration);
  if (is_merged) {
    node.pcie.push_back({"pcie", kSparkLinks * rate_bps, kSparkLinks * coded_bps});
  } else {
    for (int link = 0; link < kSparkLinks; ++link) {
      node.pcie.push_back({"pcie" + std::to_string(link), rate_bps, coded_bps});
    }
  }
  return found;
}

}  // namespace meshbed::models
