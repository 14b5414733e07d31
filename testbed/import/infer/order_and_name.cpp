// Order and names of cables and switches: equal machines give equal files.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "testbed/import/infer/mesh.h"

namespace meshbed::testbed::hosts {

void order_and_name(Mesh& mesh) {
  const auto key = [&](Port port) {
    for (const AddressFact& address : mesh.nic_of(mesh.addressed(port)).addresses) {
      if (!is_link_local(address.prefix.address)) return std::pair(address.prefix.address, port);
    }
    IpAddress last;
    last.family = Family::kIpv6;
    last.bytes.fill(0xff);
    return std::pair(last, port);
  };
  for (FoundCable& cable : mesh.cables) {
    if (key(cable.ends[1]) < key(cable.ends[0])) std::swap(cable.ends[0], cable.ends[1]);
  }
  std::sort(mesh.cables.begin(), mesh.cables.end(),
            [&](const FoundCable& left, const FoundCable& right) { return key(left.ends[0]) < key(right.ends[0]); });
  std::set<std::string> taken;
  for (FoundCable& cable : mesh.cables) {
    const std::string wanted =
        fmt::format("{}-{}", mesh.host_of(cable.ends[0]).name.value, mesh.host_of(cable.ends[1]).name.value);
    cable.name = wanted;
    for (int more = 2; !taken.insert(cable.name).second; ++more) cable.name = fmt::format("{}-{}", wanted, more);
  }
  int number = 0;
  for (FoundSwitch& box : mesh.switches) {
    std::string name;
    for (const char letter : box.name) {
      const bool fits = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '.' || letter == '-';
      name += fits ? letter : '-';
    }
    if (name.empty() || name.front() == '-' || name.front() == '.') name = fmt::format("switch{}", number);
    while (!taken.insert(name).second) name += "-2";
    box.name = name;
    ++number;
  }
}

}  // namespace meshbed::testbed::hosts
