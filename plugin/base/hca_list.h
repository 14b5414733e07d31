#pragma once
// How NCCL_IB_HCA chooses ports of RDMA devices: a list of names with, each optional, port, rail and plane. Pure; the
// net plugin and the models of what it does read the variable by this one parser.

#include <cstdint>
#include <string>
#include <string_view>

namespace meshbed {

/// What the list contains about a port.
struct HcaChoice {
  bool allowed = false;
  std::int16_t rail = -1, plane = -1;  // -1: not given
};

/// "^" at the list's start excludes, "=" asks for whole names instead of beginnings, ":port" narrows an entry; ":rail"
/// and ":plane" behind it are what the port belongs to (an empty port stands for all). The first entry that fits
/// counts.
HcaChoice hca_choice(std::string_view list, std::string_view device, int port);
inline bool hca_allowed(std::string_view list, std::string_view device, int port) {
  return hca_choice(list, device, port).allowed;
}

/// What is wrong with the list's text, and what is made of it; empty: nothing is.
std::string hca_list_problem(std::string_view list);

}  // namespace meshbed
