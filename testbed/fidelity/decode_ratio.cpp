// models --decode --measured: ratios of tokens per second, measured and predicted.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

#include "models/fit/sweep.h"
#include "testbed/base/files.h"
#include "testbed/fidelity/decode_plan.h"
#include "testbed/fidelity/measured_file.h"

namespace meshbed::testbed {
namespace {

constexpr double kUsPerS = 1e6;

struct DecodeLine {
  int line = 0;
  std::map<std::string, std::string> fields;
  std::string text(const char* name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? "" : found->second;
  }
  double number(const char* name) const { return std::atof(text(name).c_str()); }
};

std::vector<std::string> fields_in(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char letter : line) {
    if (letter == '"') {
      quoted = !quoted;
    } else if (letter == ',' && !quoted) {
      fields.emplace_back();
    } else if (letter != '\r') {
      fields.back() += letter;
    }
  }
  return fields;
}

struct DecodeFile {
  std::vector<DecodeLine> lines;
  double memory_bytes_per_second = 0;
};

DecodeFile read_decode_file(const std::string& path) {
  DecodeFile file;
  std::istringstream text(read_text_file(path));
  std::vector<std::string> names;
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    if (line.empty()) continue;
    if (line.front() == '#') {
      std::smatch match;
      const bool is_machine = line.rfind("# machines:", 0) == 0;
      if (is_machine && std::regex_search(line, match, std::regex("([0-9.]+) GB/s"))) {
        file.memory_bytes_per_second = std::stod(match[1]) * 1e9;
      }
      continue;
    }
    const std::vector<std::string> fields = fields_in(line);
    if (names.empty()) {
      names = fields;
      for (const char* needed : {"model", "nodes", "tp", "pp", "batch", "tokens_per_s"}) {
        if (std::find(names.begin(), names.end(), needed) != names.end()) continue;
        throw std::runtime_error(
            fmt::format("{}:{}: there is no column \"{}\"; models/data/decode/cal_decode_spark.csv "
                        "has the columns that are needed",
                        path, number, needed));
      }
      continue;
    }
    DecodeLine row{.line = number, .fields = {}};
    for (std::size_t at = 0; at < std::min(fields.size(), names.size()); ++at) row.fields[names[at]] = fields[at];
    if (row.number("tokens_per_s") <= 0 || row.number("nodes") < 1 || row.number("batch") < 1) {
      throw std::runtime_error(
          fmt::format("{}:{}: nodes, batch and tokens_per_s have to be positive numbers", path, number));
    }
    file.lines.push_back(std::move(row));
  }
  if (file.lines.empty()) throw std::runtime_error(path + ": no rows");
  if (file.memory_bytes_per_second == 0) {
    throw std::runtime_error(path + ": no line \"# machines: NAME (..., N GB/s ...)\" with the rate of the memory");
  }
  return file;
}

/// What rows have to have in common to be the same engine under the same conditions.
std::string conditions_of(const DecodeLine& row) {
  std::smatch match;
  const std::string note = row.text("note");
  const std::string context = std::regex_search(note, match, std::regex("context [0-9]+K")) ? match.str() : "";
  return fmt::format("{}|{}|{}|{}|{}", row.text("source"), row.text("model"), row.text("quant_bits"), row.text("batch"),
                     context);
}

/// The class of the row's nodes and network.
const models::Machine* machine_of_row(const DecodeLine& row, const std::vector<models::Machine>& profiles) {
  std::string name;
  const std::string transport = lower_case(row.text("transport")), network = lower_case(row.text("network"));
  const bool is_ring = network.find("ring") != std::string::npos;
  const bool is_switch = network.find("switch") != std::string::npos && !is_ring;
  if (transport == "tcp") {
    name = "tcp-socket";
  } else if (is_ring) {
    name = "spark-ring-nccl-eager";
  } else {
    name = is_switch || row.number("nodes") > 2 ? "spark-switch-200g" : "spark-pair-200g";
  }
  const auto found =
      std::find_if(profiles.begin(), profiles.end(), [&](const models::Machine& each) { return each.name == name; });
  return found == profiles.end() ? nullptr : &*found;
}

/// Public configurations of models whose layers or hidden size the file leaves open.
struct Known {
  const char* model;
  int layers;
  double hidden;
};
constexpr Known kKnown[] = {{"Gemma4-26B-A4B", 30, 2816}, {"DeepSeek-V4-Flash", 43, 4096}};

DecodePlan plan_of(const DecodeLine& row, double one_node_us, double memory_bytes_per_second) {
  DecodePlan plan;
  plan.layers = static_cast<int>(row.number("layers"));
  plan.hidden = row.number("hidden");
  for (const Known& each : kKnown) {
    if (row.text("model") != each.model) continue;
    if (plan.layers == 0) plan.layers = each.layers;
    if (plan.hidden == 0) plan.hidden = each.hidden;
  }
  plan.batch = row.number("batch");
  plan.tensor = std::max(1, static_cast<int>(row.number("tp")));
  plan.pipeline = std::max(1, static_cast<int>(row.number("pp")));
  plan.compute_us = one_node_us;
  plan.weights_us = weights_us(row.number("params_total_b"), row.number("params_active_b"), row.number("quant_bits"),
                               plan.batch, memory_bytes_per_second);
  return plan;
}

struct Ratio {
  const DecodeLine* row;
  DecodePlan plan;
  models::Machine machine;
  double measured = 0;

  double predicted(const std::vector<models::Machine>& profiles, const DecodeShares& shares) const {
    return plan.compute_us / decode_time(plan, machine, profiles, shares).step_us();
  }
};

/// The shares with the least mean error over some ratios: a grid of steps of 0.05.
DecodeShares fitted_to(const std::vector<const Ratio*>& ratios, const std::vector<models::Machine>& profiles) {
  DecodeShares best;
  double least = -1;
  constexpr int kSteps = 20;
  for (int weights = 0; weights <= kSteps; ++weights) {
    for (int rest = 0; rest <= kSteps; ++rest) {
      const DecodeShares shares{.weights_repeated = weights / double{kSteps}, .rest_repeated = rest / double{kSteps}};
      double sum = 0;
      for (const Ratio* each : ratios) sum += std::abs(std::log(each->predicted(profiles, shares) / each->measured));
      if (least >= 0 && sum >= least) continue;
      least = sum;
      best = shares;
    }
  }
  return best;
}

/// Errors of each ratio by shares that were fitted to the other models alone; empty with one model.
std::map<const Ratio*, double> left_out(const std::vector<Ratio>& ratios,
                                        const std::vector<models::Machine>& profiles) {
  std::set<std::string> all;
  for (const Ratio& each : ratios) all.insert(each.row->text("model"));
  std::map<const Ratio*, double> predicted;
  if (all.size() < 2) return predicted;
  for (const std::string& model : all) {
    std::vector<const Ratio*> others;
    for (const Ratio& each : ratios) {
      if (each.row->text("model") != model) others.push_back(&each);
    }
    const DecodeShares shares = fitted_to(others, profiles);
    for (const Ratio& each : ratios) {
      if (each.row->text("model") == model) predicted[&each] = each.predicted(profiles, shares);
    }
  }
  return predicted;
}

/// Pairs of rows of the same nodes and engine whose networks differ, such as TCP and RDMA.
std::string network_ratios(const DecodeFile& file, const std::vector<models::Machine>& profiles,
                           std::vector<double>& errors) {
  std::string text;
  const auto step_us = [](const DecodeLine& row) { return row.number("batch") / row.number("tokens_per_s") * kUsPerS; };
  for (const DecodeLine& slow : file.lines) {
    for (const DecodeLine& fast : file.lines) {
      const bool is_pair = slow.text("transport") == "TCP" && fast.text("transport") == "RDMA" &&
                           conditions_of(slow) == conditions_of(fast) && slow.text("nodes") == fast.text("nodes");
      const models::Machine *by_slow = machine_of_row(slow, profiles), *by_fast = machine_of_row(fast, profiles);
      if (!is_pair || by_slow == nullptr || by_fast == nullptr) continue;
      DecodePlan plan = plan_of(slow, 0, file.memory_bytes_per_second);
      plan.compute_us = 0;
      const double communication = decode_time(plan, *by_slow, profiles).step_us();
      const double after = step_us(slow) - communication + decode_time(plan, *by_fast, profiles).step_us();
      const double measured = fast.number("tokens_per_s") / slow.number("tokens_per_s");
      const double predicted = step_us(slow) / after;
      errors.push_back(std::abs(predicted / measured - 1));
      text +=
          fmt::format("| {} | {} | {} | TCP to RDMA | {:.3f} | {:.3f} | {:+.1f} % | |\n", fast.text("model"),
                      fast.text("nodes"), fast.text("batch"), measured, predicted, 100 * (predicted / measured - 1));
    }
  }
  return text;
}

}  // namespace

std::string decode_ratio_table(const std::string& path, const std::vector<models::Machine>& profiles) {
  const DecodeFile file = read_decode_file(path);
  std::map<std::string, const DecodeLine*> one_node;
  for (const DecodeLine& row : file.lines) {
    if (row.number("nodes") == 1) one_node.emplace(conditions_of(row), &row);
  }
  std::vector<Ratio> ratios;
  std::set<std::string> alone;
  std::size_t rows_alone = 0;
  for (const DecodeLine& row : file.lines) {
    if (row.number("nodes") == 1) continue;
    const auto base = one_node.find(conditions_of(row));
    const models::Machine* machine = machine_of_row(row, profiles);
    if (base == one_node.end() || machine == nullptr) {
      ++rows_alone;
      alone.insert(row.text("model"));
      continue;
    }
    const double one_us = base->second->number("batch") / base->second->number("tokens_per_s") * kUsPerS;
    Ratio ratio{.row = &row, .plan = plan_of(row, one_us, file.memory_bytes_per_second), .machine = *machine};
    ratio.measured = row.number("tokens_per_s") / base->second->number("tokens_per_s");
    ratios.push_back(std::move(ratio));
  }
  std::string text =
      "| model | nodes | batch | profile | measured ratio | predicted | error | model left out of the fit |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const std::map<const Ratio*, double> others = left_out(ratios, profiles);
  std::vector<double> errors, errors_left_out;
  for (const Ratio& each : ratios) {
    const double predicted = each.predicted(profiles, {}), error = predicted / each.measured - 1;
    errors.push_back(std::abs(error));
    std::string held;
    if (const auto found = others.find(&each); found != others.end()) {
      errors_left_out.push_back(std::abs(found->second / each.measured - 1));
      held = fmt::format("{:+.1f} %", 100 * (found->second / each.measured - 1));
    }
    text += fmt::format("| {} | {} | {} | {} | {:.3f} | {:.3f} | {:+.1f} % | {} |\n", each.row->text("model"),
                        each.row->text("nodes"), each.row->text("batch"), each.machine.name, each.measured, predicted,
                        100 * error, held);
  }
  text += network_ratios(file, profiles, errors);
  const models::ErrorSummary summary = models::summarise(errors), held = models::summarise(errors_left_out);
  text += fmt::format("\n{} ratios: median error {:.1f} %, 90th percentile {:.1f} %", errors.size(),
                      100 * summary.median, 100 * summary.p90);
  if (!errors_left_out.empty()) {
    text += fmt::format("; each model left out of the fit of the two shares: {:.1f} %, {:.1f} %", 100 * held.median,
                        100 * held.p90);
  }
  text += "\n";
  if (rows_alone > 0) {
    std::string names;
    for (const std::string& each : alone) names += (names.empty() ? "" : ", ") + each;
    text += fmt::format("{} rows have no row of the same engine on one node, and so no ratio: {}\n", rows_alone, names);
  }
  return text;
}

}  // namespace meshbed::testbed
