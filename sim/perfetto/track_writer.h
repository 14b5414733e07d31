#pragma once
// TrackWriter: a trace in Perfetto's own format, a file of TracePackets with TrackEvents
// (https://github.com/google/perfetto, protos/perfetto/trace). ui.perfetto.dev and trace_processor read it.
//
// Names of events, categories and arguments are interned: each is in the file once, in the first packet. Times are
// picoseconds here and nanoseconds in the file, rounded down, which keeps their order.
//
// Events may come in any order of time between tracks; on one track they come as they nest: an inner slice's begin and
// end before the outer one's end. The same calls give the same bytes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/base/units.h"
#include "sim/perfetto/protobuf.h"

namespace meshbed::perfetto {

using Track = std::uint64_t;  // its uuid; kNoTrack: none
inline constexpr Track kNoTrack = 0;

/// What a slice or an instant has beside its time. Made by TrackWriter::event().
class Event {
 public:
  Event& argument(std::string_view name, std::uint64_t value);
  Event& argument(std::string_view name, std::string_view value);
  /// A flow's arrow begins here, or goes on.
  Event& flow(std::uint64_t id);
  /// The flow's arrow ends here.
  Event& flow_end(std::uint64_t id);

 private:
  friend class TrackWriter;
  explicit Event(class TrackWriter& writer) : writer_(writer) {}
  TrackWriter& writer_;
  ProtobufMessage fields_;
};

class TrackWriter {
 public:
  /// `pid` from 1.
  Track process(int pid, std::string_view name);
  /// A track below `parent` (kNoTrack: below none). Tracks of one parent are shown by `place`; those with one name as
  /// one track, whose slices may overlap.
  Track track(Track parent, std::string_view name, std::uint32_t place = 0);
  Track counter(Track parent, std::string_view name, std::string_view unit, std::uint32_t place = 0);

  Event event(std::string_view category, std::string_view name);
  void begin(Track track, Picoseconds at_ps, const Event& event);
  void end(Track track, Picoseconds at_ps);
  void slice(Track track, Picoseconds from_ps, Picoseconds to_ps, const Event& event) {
    begin(track, from_ps, event);
    end(track, to_ps);
  }
  void instant(Track track, Picoseconds at_ps, const Event& event);
  void count(Track track, Picoseconds at_ps, double value);
  void count(Track track, Picoseconds at_ps, std::int64_t value);

  std::size_t events() const { return entries_.size(); }
  /// The file. To be called once.
  std::string finish();

 private:
  friend class Event;
  /// Strings of one kind, with the numbers by which events name them.
  class Interned {
   public:
    std::uint64_t id_of(std::string_view text);
    void add_to(ProtobufMessage& data, std::uint32_t field) const;

   private:
    std::map<std::string, std::uint64_t, std::less<>> ids_;
    std::vector<std::string> texts_;  // in the order of their numbers
  };
  struct Entry {
    Picoseconds at_ps = 0;
    std::size_t begin = 0, size = 0;  // in bytes_
  };

  Track add_track(ProtobufMessage& descriptor, Track parent, std::uint32_t place);
  void add(std::uint64_t type, Track track, Picoseconds at_ps, std::string_view fields);

  Interned categories_, names_, argument_names_, argument_texts_;
  Track tracks_ = 0;
  std::string descriptors_;  // packets
  std::string bytes_;        // of all events, a TrackEvent each
  std::vector<Entry> entries_;
};

/// Divides slices that may overlap among tracks of one name, on each of which none do. Slices come in the order of
/// their begin.
class Lanes {
 public:
  Lanes(TrackWriter& writer, Track parent, std::string name, std::uint32_t place = 0)
      : writer_(&writer), parent_(parent), name_(std::move(name)), place_(place) {}
  void slice(Picoseconds from_ps, Picoseconds to_ps, const Event& event);

 private:
  TrackWriter* writer_;
  Track parent_;
  std::string name_;
  std::uint32_t place_;
  std::vector<std::pair<Picoseconds, Track>> lanes_;  // with the end of its last slice
};

}  // namespace meshbed::perfetto
