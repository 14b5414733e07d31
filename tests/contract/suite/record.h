#pragma once
// What a test reports to its host, line by line. A line is a kind and its fields, separated by tabs, which no field
// holds.
//
//   source   S  the pages that promise it
//   seen     O  what was looked at / what was seen / what is promised / what soft-RoCE does instead / why, and where
//               that is written down; the last two are empty where soft-RoCE is held to the promise
//   broken   B  why the test could not go on

namespace meshbed::contract {

inline constexpr char kSourceLine = 'S';
inline constexpr char kSeenLine = 'O';
inline constexpr char kBrokenLine = 'B';

}  // namespace meshbed::contract
