#include "testbed/fidelity/validated_document.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace meshbed::testbed {
namespace {

using document::in_text, document::integer, document::number, document::text, document::texts, document::Value;

document::Table row_table() {
  const document::Field basis = document::object(
      "basis", "what the interval rests on",
      {text("class", "the profile; null: none").or_null(), text("choice", "how the profile was chosen"),
       text("gate", "of the call"), text("distance", "of the call from what the profile was fitted to"),
       texts("outside", "in which respects it is beyond that"),
       integer("left_out_points", "", "points that were predicted without their own file"),
       integer("left_out_files", "", "files of those"), text("text", "all that in words")});
  return {.key = "rows",
          .meaning = "measured and predicted times",
          .columns = {text("collective", "its name").shown("collective", 14, "  ").left(),
                      integer("ranks", "", "of the job").shown("ranks", 5),
                      integer("nodes", "", "of the job").shown("nodes", 5),
                      integer("bytes", "B", "of the call").shown("bytes", 13),
                      text("placement", "in or out, as the file has it").shown(" ", 3),
                      text("variant", "as the file has it").shown("variant", 16).left(),
                      number("measured_us", "us", "of the call").shown("measured us", 13).rounded(3),
                      number("predicted_us", "us", "by the profile").shown("predicted us", 13).rounded(3),
                      number("error", "", "predicted / measured - 1")
                          .shown("error", 7)
                          .rounded(1, 100)
                          .with_plus()
                          .followed_by("%"),
                      in_text("9 of 10 lie in, us", 27, "  ").left(), in_text("by", 0, "  ").left(),
                      number("low_us", "us", "9 of 10 measurements lie above it"),
                      number("high_us", "us", "and below this"), basis},
          .heading_before = "# "};
}

document::Section shape() {
  document::Section section{.title = "Validation"};
  section.with({text("file", "its name"), text("profile", "profiles of the rows, joined by +"),
                integer("points", "", "rows that could be judged"),
                number("median", "", "of |predicted / measured - 1|"), number("p90", "", "likewise"),
                number("max", "", "likewise"), number("inside", "", "part of the rows inside their intervals"),
                number("median_relative_width", "", "of (high - low) / predicted"),
                number("naive_own_line_median", "", "error of a line through the file's own points"),
                number("naive_carried_line_median", "", "error of a line of another file"),
                number("naive_two_regime_median", "", "error of two lines")});
  section.with(row_table());
  return section.with(document::Table{.key = "bad_rows",
                                      .meaning = "rows that were left out",
                                      .columns = {integer("line", "", "in the file"), text("reason", "why")}});
}

Value basis_of(const models::Interval& interval, const std::string& choice) {
  const bool has_class = interval.distance != models::Distance::kNoClass;
  return {{"class", document::known_value(has_class, interval.profile)},
          {"choice", choice},
          {"gate", interval.gate},
          {"distance", name_of(interval.distance)},
          {"outside", interval.outside},
          {"left_out_points", interval.left_out},
          {"left_out_files", interval.left_from},
          {"text", basis_text(interval)}};
}

/// "ring LL": how the profile has the call carried out.
std::string way_of(const Validated& validated, std::size_t row) {
  const models::SweepPoint& point = validated.file.rows[row].point;
  if (point.expert) return name_of(point.expert->mode);
  if (point.is_message) return "message";
  const models::CollectiveTime time = models::collective_time(validated.machine_at(row), point.call);
  return fmt::format("{} {}", name_of(time.algorithm), name_of(time.protocol));
}

void add_rows(document::Table& table, const Validated& validated) {
  for (std::size_t index = 0; index < validated.file.rows.size(); ++index) {
    const MeasuredRow& row = validated.file.rows[index];
    const models::Interval& interval = validated.intervals[index];
    const double predicted_us = validated.predicted_us[index], measured_us = row.point.time_us;
    const bool is_inside = interval.low_us <= measured_us && measured_us <= interval.high_us;
    table.add({row.collective, row.point.call.ranks, row.point.call.nodes, row.point.call.bytes, row.placement,
               row.variant, measured_us, predicted_us, predicted_us / measured_us - 1,
               fmt::format("{:>12.3f} {:>12.3f} {}", interval.low_us, interval.high_us, is_inside ? " " : "*"),
               way_of(validated, index), interval.low_us, interval.high_us,
               basis_of(interval, validated.choices.at(validated.machine_of_row[index]))});
  }
}

void add_summary(document::Section& section, const Validated& validated) {
  const auto percent = [](double part) { return fmt::format("{:.1f} %", 100 * part); };
  const Coverage coverage = coverage_of(validated);
  section.set("points", validated.file.rows.size());
  section.set("median", validated.errors.median);
  section.set("p90", validated.errors.p90);
  section.set("max", validated.errors.max);
  section.set("inside", coverage.inside);
  section.set("median_relative_width", coverage.width);
  section.set("naive_own_line_median", validated.own_line.median);
  section.set("naive_carried_line_median", validated.carried_line.median);
  section.set("naive_two_regime_median", validated.two_regime.median);
  section.line("  {} points: median {}, p90 {}, max {}; naive medians: own line {}, carried line {}, two regimes {}",
               validated.file.rows.size(), percent(validated.errors.median), percent(validated.errors.p90),
               percent(validated.errors.max), percent(validated.own_line.median),
               percent(validated.carried_line.median), percent(validated.two_regime.median));
  section.line(
      "  intervals: {} of the points inside (* is outside; 90 % is intended), median width {} of the prediction",
      percent(coverage.inside), percent(coverage.width));
  std::map<std::string, std::size_t> bases;
  for (const models::Interval& interval : validated.intervals) {
    ++bases[fmt::format("{} (from {} points of {} files)", basis_text(interval), interval.left_out,
                        interval.left_from)];
  }
  for (const auto& [basis, points] : bases) section.line("  {} points: {}", points, basis);
}

}  // namespace

document::Document validated_document(const Validated& validated) {
  const MeasuredFile& file = validated.file;
  const auto or_dash = [](const std::string& word) { return word.empty() ? std::string("-") : word; };
  document::Section section = shape();
  section.set("file", file.name);
  section.set("profile", validated.profile_names());
  section.line("# {}  class {}  quality {}", file.name, or_dash(file.topology_class), or_dash(file.quality));
  for (std::size_t index = 0; index < validated.machines.size(); ++index) {
    const models::Machine& machine = validated.machines[index];
    section.line("# profile {}: {}", machine.name, machine.description);
    section.line("# choice: {}", validated.choices[index]);
  }
  add_rows(section.table("rows"), validated);
  for (const BadRow& row : file.bad) section.table("bad_rows").add({row.line, row.reason});
  section.show("rows");
  add_summary(section, validated);
  return {.title = "validate", .sections = {std::move(section)}};
}

}  // namespace meshbed::testbed
