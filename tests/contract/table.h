#pragma once
// Table: what became of every contract in a world, held against what is promised and against the other world.
//
// A world holds a contract where each thing seen is the promised one. Soft-RoCE may depart where the test itself says
// how and why; it then has to depart exactly so. Everything else is unexplained, and fails.

#include <cstddef>
#include <string>
#include <vector>

namespace meshbed::contract {

enum class World { kSim, kEmu };

struct Seen {
  int rank = 0;
  std::string what, seen, promised, instead, why;  // as in suite/record.h
};

/// One contract's run in one world.
struct Run {
  std::string name, source;
  std::vector<Seen> seen;           // rank 0's, then rank 1's, each in order
  std::vector<std::string> broken;  // what kept it from its end; empty: both ranks came there
};

/// Adds the lines that a rank recorded.
void take_lines(Run& run, int rank, const std::string& lines);

struct Verdict {
  std::vector<std::string> departures;   // that the test explains: "rank 1, event: nothing instead of COMM_EST: why"
  std::vector<std::string> unexplained;  // one line each
  bool held() const { return departures.empty() && unexplained.empty(); }
};

Verdict judge(const Run& run, World world);

/// Both worlds must have looked at the same things: one line for each that one of them did not see.
std::vector<std::string> unlike(const Run& sim, const Run& emu);

struct Table {
  std::string text;           // a line for each contract; below it, indented, what departs or is unexplained
  std::string summary;        // "194 tests, sim N held, emu N held, K cited departures, 0 unexplained"
  std::string unexplained;    // one line each; empty where all is well
  std::size_t departing = 0;  // tests in which soft-RoCE departs as they say
};

/// `emu` is empty where that world was not run.
Table make_table(const std::vector<Run>& sim, const std::vector<Run>& emu);

}  // namespace meshbed::contract
