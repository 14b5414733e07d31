#pragma once

namespace meshbed::sim {

/// Debian's SimGrid is linked with ns-3, whose constructors run as the process starts: some 13 MB of its code are
/// mapped from then on, and none of it runs here. Releases those pages; a call of that code maps them again.
void let_go_of_unused_code();

}  // namespace meshbed::sim
