# cmake -DFROM=FOLDER -DTO=FILE.cpp -P embed_folder.cmake: the TOML files of a folder as functions of C++, for
# models/shipped_profiles.h: of models/profiles shipped_profile(), of models/data/decode shipped_decode(), of
# models/intervals shipped_interval().
get_filename_component(kind ${FROM} NAME)
string(REGEX REPLACE "s$" "" kind ${kind})
file(GLOB files ${FROM}/*.toml)
list(SORT files)
set(cases "")
set(names "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WLE)
  file(READ ${file} text)
  # Compilers take string literals of 64 KiB at least; such a file is far from that.
  string(APPEND cases "  if (name == \"${name}\") return R\"toml(${text})toml\";\n")
  string(APPEND names "\"${name}\", ")
endforeach()
file(CONFIGURE OUTPUT ${TO} @ONLY CONTENT [==[
#include "models/shipped_profiles.h"

namespace meshbed::models {

std::optional<std::string_view> shipped_@kind@(std::string_view name) {
@cases@  return std::nullopt;
}

std::vector<std::string> shipped_@kind@_names() { return {@names@}; }

}  // namespace meshbed::models
]==])
