#pragma once
// Allocation counter: how often this thread has asked the C library for memory. malloc() and its kin are this program's
// own (allocation_counter.cpp), and thereby those of the plugin that it loads: its libstdc++ is its own, but operator
// new calls malloc() too.

#include <cstdint>

namespace meshbed::test {

/// Of this thread, since it began.
std::uint64_t allocations();

}  // namespace meshbed::test
