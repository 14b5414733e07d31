#include "sim/perfetto/track_writer.h"

#include <algorithm>
#include <numeric>

#include "sim/perfetto/fields.h"

namespace meshbed::perfetto {
namespace {

constexpr std::uint64_t kSequence = 1;  // all packets are one writer's

void add_packet(std::string& file, const ProtobufMessage& packet) {
  ProtobufMessage trace;
  file += trace.message(trace::kPacket, packet).text();
}

}  // namespace

Event& Event::argument(std::string_view name, std::uint64_t value) {
  ProtobufMessage annotation;
  annotation.number(annotation::kNameIid, writer_.argument_names_.id_of(name)).number(annotation::kUintValue, value);
  fields_.message(track_event::kDebugAnnotations, annotation);
  return *this;
}

Event& Event::argument(std::string_view name, std::string_view value) {
  ProtobufMessage annotation;
  annotation.number(annotation::kNameIid, writer_.argument_names_.id_of(name))
      .number(annotation::kStringValueIid, writer_.argument_texts_.id_of(value));
  fields_.message(track_event::kDebugAnnotations, annotation);
  return *this;
}

Event& Event::flow(std::uint64_t id) {
  fields_.fixed64(track_event::kFlowIds, id);
  return *this;
}

Event& Event::flow_end(std::uint64_t id) {
  fields_.fixed64(track_event::kTerminatingFlowIds, id);
  return *this;
}

std::uint64_t TrackWriter::Interned::id_of(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  texts_.emplace_back(text);
  ids_.emplace(text, texts_.size());
  return texts_.size();  // from 1; 0 is the same as none
}

void TrackWriter::Interned::add_to(ProtobufMessage& data, std::uint32_t field) const {
  for (std::size_t index = 0; index < texts_.size(); ++index) {
    ProtobufMessage one;
    one.number(interned::kIid, index + 1).bytes(interned::kText, texts_[index]);
    data.message(field, one);
  }
}

Track TrackWriter::add_track(ProtobufMessage& descriptor, Track parent, std::uint32_t place) {
  const Track uuid = ++tracks_;
  descriptor.number(descriptor::kUuid, uuid)
      .number(descriptor::kChildOrdering, descriptor::kExplicitOrdering)
      .number(descriptor::kSiblingOrderRank, place);
  if (parent != kNoTrack) descriptor.number(descriptor::kParentUuid, parent);
  ProtobufMessage packet;
  packet.number(packet::kTrustedPacketSequenceId, kSequence).message(packet::kTrackDescriptor, descriptor);
  add_packet(descriptors_, packet);
  return uuid;
}

Track TrackWriter::process(int pid, std::string_view name) {
  ProtobufMessage process, descriptor;
  process.number(process::kPid, static_cast<std::uint64_t>(pid)).bytes(process::kProcessName, name);
  descriptor.message(descriptor::kProcess, process);
  return add_track(descriptor, kNoTrack, 0);
}

Track TrackWriter::track(Track parent, std::string_view name, std::uint32_t place) {
  ProtobufMessage descriptor;
  descriptor.bytes(descriptor::kName, name);
  return add_track(descriptor, parent, place);
}

Track TrackWriter::counter(Track parent, std::string_view name, std::string_view unit, std::uint32_t place) {
  ProtobufMessage counter, descriptor;
  counter.bytes(counter::kUnitName, unit);
  descriptor.bytes(descriptor::kName, name).message(descriptor::kCounter, counter);
  return add_track(descriptor, parent, place);
}

Event TrackWriter::event(std::string_view category, std::string_view name) {
  Event event(*this);
  event.fields_.number(track_event::kCategoryIids, categories_.id_of(category))
      .number(track_event::kNameIid, names_.id_of(name));
  return event;
}

void TrackWriter::add(std::uint64_t type, Track track, Picoseconds at_ps, std::string_view fields) {
  ProtobufMessage event;
  event.number(track_event::kType, type).number(track_event::kTrackUuid, track);
  entries_.push_back({.at_ps = at_ps, .begin = bytes_.size(), .size = event.text().size() + fields.size()});
  bytes_ += event.text();
  bytes_ += fields;
}

void TrackWriter::begin(Track track, Picoseconds at_ps, const Event& event) {
  add(track_event::kSliceBegin, track, at_ps, event.fields_.text());
}
void TrackWriter::end(Track track, Picoseconds at_ps) { add(track_event::kSliceEnd, track, at_ps, {}); }
void TrackWriter::instant(Track track, Picoseconds at_ps, const Event& event) {
  add(track_event::kInstant, track, at_ps, event.fields_.text());
}

void TrackWriter::count(Track track, Picoseconds at_ps, double value) {
  ProtobufMessage fields;
  add(track_event::kCounter, track, at_ps, fields.real(track_event::kDoubleCounterValue, value).text());
}

void TrackWriter::count(Track track, Picoseconds at_ps, std::int64_t value) {
  ProtobufMessage fields;
  const auto bits = static_cast<std::uint64_t>(value);
  add(track_event::kCounter, track, at_ps, fields.number(track_event::kCounterValue, bits).text());
}

std::string TrackWriter::finish() {
  ProtobufMessage interned, first;
  categories_.add_to(interned, interned::kEventCategories);
  names_.add_to(interned, interned::kEventNames);
  argument_names_.add_to(interned, interned::kDebugAnnotationNames);
  argument_texts_.add_to(interned, interned::kDebugAnnotationStringValues);
  first.number(packet::kTrustedPacketSequenceId, kSequence)
      .number(packet::kSequenceFlags, packet::kIncrementalStateCleared)
      .message(packet::kInternedData, interned);
  std::string file;
  add_packet(file, first);
  file += std::exchange(descriptors_, {});

  // By time; of one time, as they came, which is how they nest.
  std::vector<std::size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t left, std::size_t right) {
    return entries_[left].at_ps < entries_[right].at_ps;
  });
  ProtobufMessage packet;
  for (const std::size_t index : order) {
    const Entry& entry = entries_[index];
    packet.clear();
    packet.number(packet::kTimestamp, static_cast<std::uint64_t>(entry.at_ps / kPicosecondsPerNanosecond))
        .number(packet::kTrustedPacketSequenceId, kSequence)
        .number(packet::kSequenceFlags, packet::kNeedsIncrementalState)
        .bytes(packet::kTrackEvent, std::string_view(bytes_).substr(entry.begin, entry.size));
    add_packet(file, packet);
  }
  return file;
}

void Lanes::slice(Picoseconds from_ps, Picoseconds to_ps, const Event& event) {
  auto free = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& lane) { return lane.first <= from_ps; });
  if (free == lanes_.end()) free = lanes_.insert(free, {0, writer_->track(parent_, name_, place_)});
  free->first = to_ps;
  writer_->slice(free->second, from_ps, to_ps, event);
}

}  // namespace meshbed::perfetto
