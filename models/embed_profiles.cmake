# cmake -DFROM=FOLDER -DTO=FILE.cpp -P embed_profiles.cmake: the profiles of a folder as functions of C++.
file(GLOB profiles ${FROM}/*.toml)
list(SORT profiles)
set(cases "")
set(names "")
foreach(profile ${profiles})
  get_filename_component(name ${profile} NAME_WE)
  file(READ ${profile} text)
  # Compilers take string literals of 64 KiB at least; a profile is far from that.
  string(APPEND cases "  if (name == \"${name}\") return R\"profile(${text})profile\";\n")
  string(APPEND names "\"${name}\", ")
endforeach()
file(CONFIGURE OUTPUT ${TO} @ONLY CONTENT [==[
#include "models/shipped_profiles.h"

namespace meshbed::models {

std::optional<std::string_view> shipped_profile(std::string_view name) {
@cases@  return std::nullopt;
}

std::vector<std::string> shipped_profile_names() { return {@names@}; }

}  // namespace meshbed::models
]==])
