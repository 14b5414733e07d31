#pragma once
// `meshbed fuzz --explore`: every order in which two ranks can make the calls of small programs, and the wire deliver
// between them, on a net plugin in virtual time. No order may end in a deadlock, lose a request, leak an object,
// or return an error for a correct program.

#include <iosfwd>
#include <string>

#include "testbed/scenario/scenario.h"
#include "testbed/verify/choice_tree.h"
#include "testbed/verify/explore_programs.h"

namespace meshbed::testbed {

struct ExploreOptions {
  std::string plugin;                                   // absolute path
  int version = 0;                                      // of the table; 0: the newest that the file has
  int interruptions = 0, late = Interleaver::kNoBound;  // see interleaver.h
  std::ostream* transcript = nullptr;                   // gets a line for each step
};

/// One run of `program` on a cluster of two nodes, as `chooser` decides; in a process of its own.
void explore_run(const Scenario& scenario, const ExploreOptions& options, const ExploredProgram& program,
                 Chooser& chooser);

}  // namespace meshbed::testbed
