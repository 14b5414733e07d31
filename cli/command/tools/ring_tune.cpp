#include "cli/command/tools/ring_tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/bench/bench_measure.h"
#include "cli/common/document_output.h"
#include "testbed/base/exit_status.h"
#include "testbed/base/units.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {
namespace {

namespace po = boost::program_options;

/// A field that is made smaller, by halves, from where more of it changes nothing.
struct TunedField {
  const char* key;
  std::uint64_t most;
  std::uint64_t unlimited;  // as the scenario has it where there is no limit
};
constexpr TunedField kTuned[] = {
    {"queue_depth", 1024, 1U << 15U}, {"lanes", 64, 64}, {"slots", 4096, 0}, {"proxies", 16, 16}};

class RingTuner {
 public:
  RingTuner(std::string path, std::vector<std::string> overrides)
      : path_(std::move(path)), overrides_(std::move(overrides)), scenario_(read_scenario(path_, overrides_)) {
    if (scenario_.workload.kind != WorkloadKind::kMegakernel || scenario_.workload.megakernel.program == "queue" ||
        scenario_.workload.gpu_memory) {
      throw std::runtime_error(path_ + ": ring tune is for kind = \"megakernel\" with a program, in host memory");
    }
  }

  std::vector<TunedField> fields() const {
    std::vector<TunedField> all(std::begin(kTuned), std::end(kTuned));
    const Megakernel& kernel = scenario_.workload.megakernel;
    const auto leave_out = [&](const char* key) {
      std::erase_if(all, [&](const TunedField& one) { return std::string_view(one.key) == key; });
    };
    if (kernel.queue == "direct") leave_out("queue_depth");
    if (kernel.strict) leave_out("lanes");
    if (kernel.queue == "ibgda") leave_out("proxies");
    return all;
  }

  /// us of an iteration; negative: the ring does not drain. `values`: "queue_depth=4".
  double time_us(const std::vector<std::string>& values) const {
    std::vector<std::string> overrides = overrides_;
    for (const TunedField& field : fields()) {
      overrides.push_back(fmt::format("workload.megakernel.{}={}", field.key, field.unlimited));
    }
    for (const std::string& value : values) overrides.push_back("workload.megakernel." + value);
    Scenario scenario = read_scenario(path_, overrides);
    scenario.expect = {};
    const double time_us = simulated_us(scenario, fmt::format("{} with {}", path_, fmt::join(values, ", ")));
    return time_us > 0 ? time_us : -1;  // a ring that does not drain has no time
  }

 private:
  std::string path_;
  std::vector<std::string> overrides_;
  Scenario scenario_;
};

std::string text_of(double time_us) { return time_us < 0 ? "stuck" : fmt::format("{:.3f}", time_us); }

document::Document tune_document() {
  using document::number;
  document::Section section{.title = "Ring tuning"};
  section.with({number("unlimited_us", "us", "of an iteration without limits"),
                document::texts("chosen", "the smallest values that cost no more than they may"),
                number("chosen_us", "us", "of an iteration with them; null: its rings do not drain").or_null()});
  section.with(
      document::Table{.key = "points",
                      .meaning = "what was tried, in order",
                      .columns = {document::text("values", "of the fields"),
                                  number("time_us", "us", "of an iteration; null: its rings do not drain").or_null()}});
  return {.title = "ring tune", .sections = {std::move(section)}};
}

}  // namespace

int ring_tune_command(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  std::string path, within = "2%";
  std::vector<std::string> overrides;
  bool json = false;
  Syntax syntax("ring tune SCENARIO [options]");
  syntax.operands.add_options()("scenario", po::value(&path)->required()->value_name("SCENARIO"),
                                "a megakernel's; its program and profile");
  syntax.positions.add("scenario", 1);
  syntax.options.add_options()("set", po::value(&overrides)->value_name("KEY=VALUE"),
                               "override a key; may be repeated")(
      "within", po::value(&within)->value_name("PERCENT")->default_value(within),
      "of the time without limits that a smaller one may cost")("json", po::bool_switch(&json), "one JSON object");
  if (!parse_arguments(arguments, syntax, out)) return kExitOk;
  const Result<double> share = parse_percent(within);
  if (!share || *share < 0) throw std::runtime_error("--within " + within + ": expects a percentage, as in 2%");
  const RingTuner tuner(path, overrides);
  const double unlimited_us = tuner.time_us({});
  if (unlimited_us < 0)
    throw std::runtime_error(path + ": its rings do not drain, even without limits; meshbed run names the cause");
  constexpr double kPercent = 100;
  const double most_us = unlimited_us * (1 + *share / kPercent);
  document::Document report = tune_document();
  document::Section& section = report.sections.front();
  const std::vector<TunedField> fields = tuner.fields();
  std::vector<std::uint64_t> smallest;
  const auto tried = [&](const std::string& text, double time_us) {
    section.table("points").add({text, document::known_value(time_us >= 0, time_us)});
    err << fmt::format("{:<40}{:>14}\n", text, text_of(time_us)) << std::flush;
    return time_us > 0 && time_us <= most_us;
  };
  for (const TunedField& field : fields) {
    smallest.push_back(field.most);
    for (std::uint64_t value = field.most; value > 0; value /= 2) {
      const std::string text = fmt::format("{}={}", field.key, value);
      if (!tried(text, tuner.time_us({text}))) break;
      smallest.back() = value;
    }
  }
  // What each may be alone is too small together where they wait for each other: all are doubled until it is not.
  std::vector<std::string> chosen;
  double together_us = -1;
  for (bool grows = true; grows;) {
    chosen.clear();
    for (std::size_t index = 0; index < fields.size(); ++index) {
      chosen.push_back(fmt::format("{}={}", fields[index].key, smallest[index]));
    }
    together_us = tuner.time_us(chosen);
    if (tried(fmt::format("{}", fmt::join(chosen, " ")), together_us)) break;
    grows = false;
    for (std::size_t index = 0; index < fields.size(); ++index) {
      const std::uint64_t larger = std::min(smallest[index] * 2, fields[index].most);
      grows = grows || larger > smallest[index];
      smallest[index] = larger;
    }
  }
  section.set("unlimited_us", unlimited_us);
  section.set("chosen", chosen);
  section.set("chosen_us", document::known_value(together_us >= 0, together_us));
  section.line("without limits {} us; the smallest that take at most {} longer:", text_of(unlimited_us), within);
  for (const std::string& one : chosen) section.line("  {}", one);
  section.line("an iteration takes {} us", text_of(together_us));
  DocumentOutput output{.json = json, .indent = kOneLine};
  output.finish(report, out);
  return kExitOk;
}

}  // namespace meshbed::testbed
