#pragma once
// The parts of the probe: each source fills its entries of the table.

#include "tests/host/probe/probe.h"

namespace probe {

void add_threads(ProbeTable& table);
void add_sockets(ProbeTable& table);
void add_files(ProbeTable& table);

std::int64_t now_ns();

}  // namespace probe
