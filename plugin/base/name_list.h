#pragma once
// A list of names, as NCCL_IB_HCA and NCCL_SOCKET_IFNAME have it: "[^][=]name,...". Pure.

#include <string>
#include <string_view>
#include <vector>

namespace meshbed {

/// The text but for the blanks around it.
std::string_view without_blanks(std::string_view text);

struct NameList {
  bool excludes = false;                  // "^": those to leave out
  bool whole_names = false;               // "=": else beginnings
  std::vector<std::string_view> entries;  // without blanks around them; empty ones stand for nothing

  /// `entry`, or the part of it that is a name, stands for `name`.
  bool fits(std::string_view entry, std::string_view name) const;
};

/// Without entries nothing is named, with any marks.
NameList read_name_list(std::string_view text);

/// What is wrong with the text, and what is made of it; empty: nothing is.
std::string name_list_problem(std::string_view text);

}  // namespace meshbed
