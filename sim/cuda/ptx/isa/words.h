#pragma once
// The words of PTX ISA 9.0, to distinguish an instruction that is not implemented from one that is not PTX.

#include <string_view>

namespace meshbed::sim::ptx {

/// Whether PTX has an instruction of that name.
bool is_opcode(std::string_view name);

/// Modifiers that instructions of all kinds share; types are none of them. An operand that does not fit an instruction
/// of which all others were read is a mistake; beside another one it may be a form that is not implemented.
bool is_usual_modifier(std::string_view name);

}  // namespace meshbed::sim::ptx
