#pragma once
// Exit statuses of every command.

namespace meshbed::testbed {

inline constexpr int kExitOk = 0;
inline constexpr int kExitBroken = 1;         // a broken proof, wrong data, an unmet [expect], a rank's error
inline constexpr int kExitUsage = 2;          // the command line, the scenario, a missing file
inline constexpr int kExitNoProgress = 3;     // deadlock, stall, time limit
inline constexpr int kExitInterrupted = 130;  // by SIGINT, as a shell has it; outside sim by SIGTERM, too
inline constexpr int kExitTerminated = 143;   // in sim, by SIGTERM

}  // namespace meshbed::testbed
