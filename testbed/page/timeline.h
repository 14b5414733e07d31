#pragma once
// The data of a run's timeline: the activities of each rank, port, link direction and ring, with their times. The
// page's script draws them; without a script a note replaces the drawing.

#include <string>

#include "testbed/page/source.h"

namespace meshbed::testbed::page {

/// The section's content for the run with this prefix of ids; empty where the run kept neither messages nor calls.
std::string timeline_html(const RunSource& source, const std::string& prefix, const Budget& budget);

}  // namespace meshbed::testbed::page
