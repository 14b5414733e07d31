#include "models/time/machine_profile.h"

#include <array>
#include <charconv>
#include <cstddef>

namespace meshbed::models {
namespace {

Error refused(std::string text) {
  return {.code = ErrorCode::kInvalidArgument, .scope = Scope::kJob, .text = std::move(text), .os_errno = 0};
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

/// Shortest decimal text that is read back as the same number, in every locale.
std::string number_text(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::string(text.data(), end) : std::string("0");
}

std::string toml_text(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  }
  return out + "\"";
}

std::string list_of(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) all.push_back(toml_text(text));
  return "[" + joined(all) + "]";
}

}  // namespace

Result<Machine> machine_of(const Profile& profile) {
  Machine machine;
  machine.name = profile.name();
  machine.description = profile.description();
  machine.fitted_on = profile.fitted_on();
  machine.residuals = profile.residuals();
  machine.held_out = profile.held_out();
  machine.measured = profile.measured();
  const auto& described = profile.machine_class();
  if (!described) return refused(profile.name() + ": there is no [topology] with cabling and ranks_per_node");
  machine.classes = described->classes;
  machine.keywords = described->set_up_words;
  machine.variants = described->variants;
  machine.library = described->library;
  machine.ranks_per_node = described->ranks_per_node;
  const auto cabling = parse_cabling(described->cabling);
  if (!cabling) return refused(described->place + ": cabling has to be switch, ring or mesh");
  machine.cabling = *cabling;
  const auto transport = parse_transport(described->transport.empty() ? "none" : described->transport);
  if (!transport) {
    return refused(described->place +
                   ": transport has to be none, verbs, staged, unified, efa, tcp, tcpx, slingshot, within, kernel, "
                   "message or expert");
  }
  machine.transport = *transport;
  for (const auto& [name, value] : profile.parameters()) {
    const auto parameter = parse_parameter(name);
    if (!parameter) {
      return refused(value.place + ": " + name + ": a machine has no such value; meshbed models --explain NAME --all " +
                     "lists those that it has");
    }
    const ParameterInfo& info = info_of(*parameter);
    if (value.value < info.low || value.value > info.high) {
      return refused(value.place + ": " + name + " = " + number_text(value.value) + " is not plausible; " +
                     number_text(info.low) + " to " + number_text(info.high));
    }
    Value taken{value.value, value.basis, value.source, std::nullopt};
    if (value.range.first != value.range.second) taken.range = value.range;
    machine.set(*parameter, std::move(taken));
  }
  return machine;
}

std::string profile_text(const Machine& machine, const std::map<std::string, std::string>& residuals) {
  std::string text = "name = " + toml_text(machine.name) + "\ndescription = " + toml_text(machine.description) +
                     "\nfitted_on = " + list_of(machine.fitted_on) + "\n\n";
  const std::string fitted_on = joined(machine.fitted_on);
  for (std::size_t index = 0; index < kParameters; ++index) {
    const auto& value = machine.values.at(index);
    if (!value) continue;
    const std::string name = info_of(static_cast<MachineParameter>(index)).name;
    const bool is_fitted = value->basis == Basis::kCalibrated && !fitted_on.empty() && value->source == fitted_on;
    text += name + " = { value = " + number_text(value->value) + (unit_of_name(name).empty() ? ", unit = \"1\"" : "") +
            ", basis = \"" + name_of(value->basis) + "\", source = " + toml_text(is_fitted ? kFittedOn : value->source);
    // A guess has a range: its own, or what is plausible at all.
    auto range = value->range;
    if (!range && value->basis == Basis::kGuess) {
      const ParameterInfo& info = info_of(static_cast<MachineParameter>(index));
      range = {info.low, info.high};
    }
    if (range) text += ", range = [" + number_text(range->first) + ", " + number_text(range->second) + "]";
    text += " }\n";
  }
  text += "\n[match]\nclass = " + list_of(machine.classes) + "\nsetup = " + list_of(machine.keywords) +
          "\nvariant = " + list_of(machine.variants) +
          (machine.library.empty() ? "" : "\nlibrary = " + toml_text(machine.library)) +
          "\n\n[topology]\ncabling = \"" + name_of(machine.cabling) +
          "\"\nranks_per_node = " + std::to_string(machine.ranks_per_node) + "\ntransport = \"" +
          name_of(machine.transport) + "\"\n";
  if (!residuals.empty()) text += "\n[residuals]\n";
  for (const auto& [file, errors] : residuals) text += toml_text(file) + " = " + toml_text(errors) + "\n";
  if (!machine.measured.empty()) text += "\n[measured]\n";
  for (const auto& [kind, sizes] : machine.measured) {
    text += toml_text(kind) + " = " + toml_text(sizes_text(sizes)) + "\n";
  }
  return text;
}

}  // namespace meshbed::models
