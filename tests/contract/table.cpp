#include "tests/contract/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <utility>

#include "tests/contract/suite/record.h"

namespace meshbed::contract {
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char each : line) {
    if (each == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += each;
    }
  }
  return fields;
}

std::string place(const Seen& seen) { return fmt::format("rank {}, {}", seen.rank, seen.what); }

/// What both ranks saw alike is one line.
void add_once(std::vector<std::string>& lines, const Seen& seen, const std::string& text) {
  const std::string first = fmt::format("rank 0, {}: {}", seen.what, text);
  const auto found = std::find(lines.begin(), lines.end(), first);
  if (seen.rank == 1 && found != lines.end()) {
    *found = fmt::format("both ranks, {}: {}", seen.what, text);
  } else {
    lines.push_back(fmt::format("{}: {}", place(seen), text));
  }
}

const char* outcome_text(const Verdict& verdict) {
  if (!verdict.unexplained.empty()) return "FAILED";
  return verdict.held() ? "held" : "departs";
}

void add_lines(std::string& text, const std::vector<std::string>& lines, const char* mark) {
  for (const std::string& line : lines) text += fmt::format("    {} {}\n", mark, line);
}

}  // namespace

void take_lines(Run& run, int rank, const std::string& lines) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> fields = fields_of(line);
    const char kind = line.empty() ? '\0' : line[0];
    if (kind == kSourceLine && fields.size() == 2) {
      run.source = fields[1];
    } else if (kind == kSeenLine && fields.size() == 6) {
      run.seen.push_back({rank, fields[1], fields[2], fields[3], fields[4], fields[5]});
    } else {
      run.broken.push_back(fmt::format("rank {}: {}", rank,
                                       kind == kBrokenLine && fields.size() == 2 ? fields[1] : "not a line: " + line));
    }
  }
}

Verdict judge(const Run& run, World world) {
  Verdict verdict;
  for (const std::string& why : run.broken) verdict.unexplained.push_back("broke: " + why);
  if (run.seen.empty() && run.broken.empty()) verdict.unexplained.emplace_back("nothing was looked at");
  for (const Seen& seen : run.seen) {
    const bool may_depart = world == World::kEmu && !seen.instead.empty();
    const std::string& expected = may_depart ? seen.instead : seen.promised;
    if (seen.seen != expected) {
      add_once(verdict.unexplained, seen, fmt::format("{} instead of {}", seen.seen, expected));
    } else if (may_depart) {
      add_once(verdict.departures, seen, fmt::format("{} instead of {}: {}", seen.seen, seen.promised, seen.why));
    }
  }
  return verdict;
}

std::vector<std::string> unlike(const Run& sim, const Run& emu) {
  std::vector<std::string> lines;
  const auto missing = [&lines](const Run& from, const Run& in, const char* world) {
    for (const Seen& seen : from.seen) {
      const auto same = [&](const Seen& other) { return place(other) == place(seen); };
      if (std::none_of(in.seen.begin(), in.seen.end(), same)) {
        lines.push_back(fmt::format("{}: not looked at in {}", place(seen), world));
      }
    }
  };
  missing(sim, emu, "emu");
  missing(emu, sim, "sim");
  return lines;
}

Table make_table(const std::vector<Run>& sim, const std::vector<Run>& emu) {
  Table table;
  std::size_t sim_held = 0, emu_held = 0, unexplained = 0;
  table.text = fmt::format("{:<88}  {:<7}  {:<7}        {}\n", "contract", "sim", "emu", "promised by");
  for (std::size_t at = 0; at < sim.size(); ++at) {
    const Verdict in_sim = judge(sim[at], World::kSim);
    Verdict in_emu;
    if (!emu.empty()) {
      in_emu = judge(emu[at], World::kEmu);
      for (std::string& line : unlike(sim[at], emu[at])) in_emu.unexplained.push_back(std::move(line));
      emu_held += in_emu.held() ? 1 : 0;
      table.departing += !in_emu.departures.empty() ? 1 : 0;
    }
    sim_held += in_sim.held() ? 1 : 0;
    unexplained += in_sim.unexplained.size() + in_emu.unexplained.size();
    const bool same = !emu.empty() && in_sim.held() && in_emu.held();
    table.text += fmt::format("{:<88}  {:<7}  {:<7}  {:<4}  {}\n", sim[at].name, outcome_text(in_sim),
                              emu.empty() ? "not run" : outcome_text(in_emu), same ? "same" : "", sim[at].source);
    add_lines(table.text, in_sim.unexplained, "sim:");
    add_lines(table.text, in_emu.departures, "emu:");
    add_lines(table.text, in_emu.unexplained, "emu, UNEXPLAINED:");
    for (const std::string& line : in_sim.unexplained)
      table.unexplained += fmt::format("sim: {}: {}\n", sim[at].name, line);
    for (const std::string& line : in_emu.unexplained)
      table.unexplained += fmt::format("emu: {}: {}\n", sim[at].name, line);
  }
  table.summary =
      emu.empty() ? fmt::format("{} tests, sim {} held, emu not run, {} unexplained", sim.size(), sim_held, unexplained)
                  : fmt::format("{} tests, sim {} held, emu {} held, {} with cited departures, {} unexplained",
                                sim.size(), sim_held, emu_held, table.departing, unexplained);
  table.text += table.summary + "\n";
  return table;
}

}  // namespace meshbed::contract
