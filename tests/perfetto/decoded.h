#pragma once
// DecodedTrace: a trace in Perfetto's format, read with its schema (trace.proto), with names in the place of numbers.

#include <trace.pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace meshbed::test {

struct DecodedTrack {
  std::string name;  // of a process, the process's
  std::uint64_t parent = 0;
  int pid = 0;       // of a process; else 0
  std::string unit;  // of a counter
};

struct DecodedEvent {
  std::uint64_t at_ns = 0;
  perfetto::protos::TrackEvent::Type type{};
  std::uint64_t track = 0;
  std::string category{}, name{};
  std::map<std::string, std::string> arguments{};
  double value = 0;  // of a counter
  std::vector<std::uint64_t> flows{}, ended_flows{};
};

struct DecodedTrace {
  std::size_t bytes = 0;
  std::map<std::uint64_t, DecodedTrack> tracks;
  std::vector<DecodedEvent> events;
  std::vector<std::string> problems;  // what breaks the format: fields that the schema lacks, names that are not there

  /// "node0 / rank 0 / isend"
  std::string path_of(std::uint64_t track) const;
};

DecodedTrace decode_trace(const std::string& file);

}  // namespace meshbed::test
