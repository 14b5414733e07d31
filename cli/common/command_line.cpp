#include "cli/common/command_line.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>

#include "testbed/base/closest_name.h"
#include "testbed/base/diagnostics.h"
#include "testbed/base/units.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

std::string command_of(const Syntax& syntax) { return syntax.usage.substr(0, syntax.usage.find(' ')); }

void print_help(const Syntax& syntax, const po::options_description& options, std::ostream& out) {
  fmt::print(out, "usage: meshbed {}\n\n", syntax.usage);
  if (!syntax.operands.options().empty()) out << "arguments:\n";
  for (const auto& operand : syntax.operands.options()) {
    fmt::print(out, "  {:<20} {}\n", operand->format_parameter(), operand->description());
  }
  if (!syntax.operands.options().empty()) out << "\n";
  out << options;
}

/// "--sed" and the options that there are: what the user may have meant, in brackets with a space before.
std::string suggestion(const std::string& given, const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  const std::string close = closest_name(given.substr(0, given.find('=')), names);
  return close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close);
}

bool is_given(const po::variables_map& values, const std::string& option) {
  return values.count(option) > 0 && !values[option].defaulted();
}

void refuse_idle_options(const Syntax& syntax, const po::variables_map& values) {
  for (const Syntax::Bond& bond : syntax.bonds) {
    if (!is_given(values, bond.option)) continue;
    std::string there;
    for (const std::string& other : bond.others) {
      if (is_given(values, other)) there = other;
    }
    if (bond.with && there.empty()) {
      const std::string others = fmt::format("--{}", fmt::join(bond.others, " or --"));
      throw std::runtime_error(fmt::format("{0}: --{1} says nothing without {2}: add {2}, or leave --{1} out",
                                           command_of(syntax), bond.option, others));
    }
    if (!bond.with && !there.empty()) {
      throw std::runtime_error(fmt::format("{0}: --{1} says nothing beside --{2}: leave one of the two out",
                                           command_of(syntax), bond.option, there));
    }
  }
}

}  // namespace

Arguments own_words(const Arguments& words) {
  auto end = std::find(words.begin(), words.end(), "--");
  if (words.size() > 2 && words[0] == "cuda" && words[1] == "run") {
    for (end = words.begin() + 2; end < words.end() && end->rfind('-', 0) == 0; ++end) {
      const bool has_value = *end == "--gpu" || *end == "--perfetto-out" || *end == "--seed";
      if (has_value && end + 1 < words.end()) ++end;
    }
  }
  return Arguments(words.begin(), end);
}

bool parse_arguments(const Arguments& arguments, const Syntax& syntax, std::ostream& out) {
  // No guessing: an abbreviation that works today would break when an option is added.
  constexpr int kStyle = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
  po::options_description options(syntax.options);
  options.add_options()("help,h", "print this text");
  po::options_description all(options);
  all.add(syntax.operands);
  try {
    po::variables_map values;
    po::store(po::command_line_parser(arguments).options(all).positional(syntax.positions).style(kStyle).run(), values);
    if (values.count("help") > 0) {
      print_help(syntax, options, out);
      return false;
    }
    refuse_idle_options(syntax, values);
    po::notify(values);
    return true;
  } catch (const po::unknown_option& error) {
    throw std::runtime_error(fmt::format("{0}: there is no option '{1}'{2}; meshbed {0} --help lists them",
                                         command_of(syntax), error.get_option_name(),
                                         suggestion(error.get_option_name(), options)));
  } catch (const po::too_many_positional_options_error&) {
    throw std::runtime_error(
        fmt::format("{}: too many arguments; usage: meshbed {}", command_of(syntax), syntax.usage));
  } catch (const po::required_option& error) {
    const std::string name = error.get_option_name();
    const auto* operand = syntax.operands.find_nothrow(name.substr(name.find_first_not_of('-')), false);
    throw std::runtime_error(fmt::format("{}: {} is missing; usage: meshbed {}", command_of(syntax),
                                         operand == nullptr ? name : operand->format_parameter(), syntax.usage));
  } catch (const po::error& error) {
    throw std::runtime_error(command_of(syntax) + ": " + error.what());
  }
}

}  // namespace meshbed::testbed
