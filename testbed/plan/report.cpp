#include "testbed/plan/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "testbed/base/units.h"

namespace meshbed::testbed::plan {
namespace {

using document::Value;

Value value_or_null(const std::optional<double>& value) { return value ? Value(*value) : Value(nullptr); }

std::string time_text(double us) {
  if (us >= 1e5) return fmt::format("{:.1f} ms", us / 1e3);
  return us >= 1e4 ? fmt::format("{:.2f} ms", us / 1e3) : fmt::format("{:.1f} us", us);
}

document::Table table_of(const std::vector<Candidate>& candidates, bool has_price) {
  using document::flag, document::integer, document::number, document::text;
  std::size_t width = 7;
  for (const Candidate& one : candidates) width = std::max(width, one.name.size());
  document::Table table{.key = "candidates", .meaning = "the cablings that were run, the best first", .columns = {}};
  const auto priced = [&](document::Field field) {
    return has_price ? std::move(field).shown("price", 9).rounded(0) : std::move(field);
  };
  table.columns = {
      text("cabling", "shape, or its cables by node")
          .shown("cabling", static_cast<int>(std::min<std::size_t>(width, 40)), "")
          .left(),
      integer("cables", "", "from NIC to NIC or to a switch").shown("cables", 6, "  "),
      integer("switches", "", "each with one NIC of every node").shown("switches", 8, "  "),
      priced(number("price", "", "of cables and switches").or_null()),
      text("algorithm", "of the engine, the fastest of all").shown("algorithm", 17, "  ").left(),
      text("protocol", "simple, or auto").shown("protocol", 8).left(),
      number("time_us", "us", "of an iteration, or of a decode step").or_null().shown("time (us)", 11).rounded(1),
      number("low_us", "us", "9 of 10 measurements of such a call are between this").or_null(),
      number("high_us", "us", "and this").or_null(),
      number("ratio", "", "time over the first one's").or_null().shown("x first", 8).rounded(3),
      number("worst_us", "us", "without the cable whose loss costs the most")
          .or_null()
          .shown("cable out", 11)
          .rounded(1),
      text("worst_cable", "that cable, or one whose loss parts the nodes"),
      flag("survives", "each single cable may fail"),
      flag("switch_ends_it", "without one of its switches not all nodes reach each other"),
      flag("tie", "with the fastest, within the error"),
      text("status", "ok, or as a sweep has it"),
      text("reason", "why the status is not ok"),
      text("scenario", "its file"),
  };
  return table;
}

constexpr double kNever = 1e300;
constexpr std::size_t kReasonsMost = 5;

/// In a sentence, after "with".
std::string called(const Candidate& one) {
  const bool is_list = one.cabling.switches == 0 && one.name.find('-') != std::string::npos;
  if (is_list) return "cables " + one.name;
  return one.cabling.switches > 1 ? one.name : "the " + one.name;
}

std::string time_with_error(const Candidate& one) {
  if (!one.low_us || !one.high_us) return time_text(*one.time_us);
  return fmt::format("{}, {} to {}", time_text(*one.time_us), time_text(*one.low_us), time_text(*one.high_us));
}

std::string loss_of(const Candidate& one) {
  std::string text = one.survives ? fmt::format("it takes {} without {}",
                                                one.worst_us ? time_text(*one.worst_us) : "as long", one.worst_cable)
                                  : fmt::format("it ends without {}", one.worst_cable);
  if (one.one_switch_ends_it) text += one.survives ? ", and ends without a switch" : " or a switch";
  return text;
}

std::string capitalised(std::string text) {
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::string note_of(const Candidate& one) {
  if (!one.time_us) return one.status + ": " + one.reason;
  std::string note;
  const auto add = [&](const std::string& text) { note += (note.empty() ? "" : "; ") + text; };
  if (one.is_tie) add("tie");
  if (!one.survives) add("ends without " + one.worst_cable);
  if (one.one_switch_ends_it) add("ends without a switch");
  return note;
}

}  // namespace

document::Document report_of(const Request& request, const Outcome& outcome) {
  const std::vector<Candidate>& candidates = outcome.candidates;
  document::Section section{.title = "Plan"};
  section.with({document::integer("nodes", "", "of the cluster"), document::integer("nics", "", "of each node"),
                document::integer("cablings", "", "considered; isomorphic ones count once"),
                document::texts("reasons", "why the first one is before the second one")});
  section.set("nodes", request.nodes);
  section.set("nics", request.nics);
  section.set("cablings", outcome.cablings);
  const std::vector<std::string> reasons = reasons_of(candidates);
  section.set("reasons", reasons);
  const bool has_price = request.cable_price || request.switch_price;
  section.with(table_of(candidates, has_price));
  document::Table& table = section.table("candidates");
  const double first_us = candidates.front().time_us.value_or(0);
  for (const Candidate& one : candidates) {
    table.add(
        {one.name, one.cabling.cable_count(), one.cabling.switches, value_or_null(one.price), one.algorithm,
         one.protocol, value_or_null(one.time_us), value_or_null(one.low_us), value_or_null(one.high_us),
         one.time_us ? Value(*one.time_us / first_us) : Value(nullptr), value_or_null(one.worst_us), one.worst_cable,
         one.survives, one.one_switch_ends_it, one.is_tie, one.status, one.reason, one.scenario_path},
        note_of(one));
  }
  section.line("{}, {} each: {} in which all reach each other, {} run",
               counted(static_cast<std::uint64_t>(request.nodes), "node"),
               counted(static_cast<std::uint64_t>(request.nics), "NIC"), counted(outcome.cablings, "cabling"),
               candidates.size() == outcome.cablings
                   ? "all"
                   : fmt::format("the best {} by their bounds and prices", candidates.size()));
  if (request.decode) {
    const Decode& decode = *request.decode;
    section.line("a step of {}: {} layers with {} all_reduces of {} B, {:.1f} us of computing a layer on {} nodes",
                 decode.name, decode.layers, decode.calls_per_layer, decode.bytes,
                 decode.compute_us_per_layer / request.nodes, request.nodes);
    section.line("computing: {}", decode.source);
  }
  section.blank();
  section.show("candidates");
  section.blank();
  for (const std::string& reason : reasons) section.line("{}", reason);
  return {.title = "plan", .sections = {std::move(section)}};
}

std::vector<std::string> reasons_of(const std::vector<Candidate>& candidates) {
  const Candidate& first = candidates.front();
  if (candidates.size() < 2 || !candidates[1].time_us) {
    return {fmt::format("With {} it takes {}; on no other cabling does the workload run.", called(first),
                        time_with_error(first))};
  }
  const Candidate& second = candidates[1];
  std::vector<std::string> reasons;
  const std::string other = "with " + called(second);
  if (first.is_tie && second.is_tie) {
    const bool costs_less = first.price && second.price && *first.price < *second.price;
    reasons.push_back(fmt::format("Times with {} ({}) and {} ({}) are equal within the error of the prediction; {}.",
                                  called(first), time_with_error(first), other, time_with_error(second),
                                  costs_less ? "the first costs less" : "the first is better without a cable"));
  } else if (*second.time_us < *first.time_us) {  // it is not wanted, since it does not survive
    reasons.push_back(fmt::format("With {} it takes {}, {} {}, which a lost cable ends.", called(first),
                                  time_with_error(first), other, time_with_error(second)));
  } else {
    reasons.push_back(fmt::format("With {} it takes {}, {} {:.3g} times as long ({}).", called(first),
                                  time_with_error(first), other, *second.time_us / *first.time_us,
                                  time_with_error(second)));
  }
  const auto fastest =
      std::min_element(candidates.begin(), candidates.end(), [](const Candidate& left, const Candidate& right) {
        return left.time_us.value_or(kNever) < right.time_us.value_or(kNever);
      });
  if (&*fastest != &first && &*fastest != &second) {
    reasons.push_back(fmt::format("The least predicted time is that with {}: {}{}, {}.", called(*fastest),
                                  time_with_error(*fastest),
                                  fastest->price ? fmt::format(", at a price of {:.0f}", *fastest->price) : "",
                                  fastest->is_tie ? "within the same error" : "but a lost cable ends it"));
  }
  const double distance = first.cabling.mean_distance(), other_distance = second.cabling.mean_distance();
  const std::size_t cables = first.cabling.cable_count(), other_cables = second.cabling.cable_count();
  if (distance != other_distance) {
    reasons.push_back(
        fmt::format("Two nodes are {:.2f} hops apart on average, {} {:.2f}.", distance, other, other_distance));
  } else if (cables != other_cables) {
    reasons.push_back(fmt::format("It has {}, {} there are {}.", counted(cables, "cable"), other, other_cables));
  }
  if (first.price && second.price && *first.price != *second.price) {
    reasons.push_back(fmt::format("The price is {:.0f}, {} {:.0f}.", *first.price, other, *second.price));
  }
  if (reasons.size() < kReasonsMost) {
    reasons.push_back(fmt::format("{}; {}: {}.", capitalised(loss_of(first)), other, loss_of(second)));
  }
  return reasons;
}

}  // namespace meshbed::testbed::plan
