#pragma once
// What the runner in an emulated node and the host say to each other, in files of the node's job folder.

namespace meshbed::contract {

inline constexpr const char* kRecord = "record";             // the lines of all contracts, see suite/record.h
inline constexpr const char* kBeginsLine = "contract ";      // and its number, before its own lines
inline constexpr const char* kEndsLine = "end";              // after them
inline constexpr const char* kLinkRequest = "link-request";  // "NUMBER UP": plug the cable in (1) or out (0)
inline constexpr const char* kLinkServed = "link-served";    // the number of the last one that was done

}  // namespace meshbed::contract
