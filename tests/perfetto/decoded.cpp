#include "tests/perfetto/decoded.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <utility>

namespace meshbed::test {
namespace {

namespace schema = perfetto::protos;

void find_unknown(const google::protobuf::Message& message, std::vector<std::string>& problems) {
  const google::protobuf::Reflection& look = *message.GetReflection();
  const google::protobuf::UnknownFieldSet& unknown = look.GetUnknownFields(message);
  for (int index = 0; index < unknown.field_count(); ++index) {
    problems.push_back(message.GetTypeName() + " has an unknown field " +
                       std::to_string(unknown.field(index).number()));
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  look.ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      find_unknown(look.GetMessage(message, field), problems);
      continue;
    }
    for (int index = 0; index < look.FieldSize(message, field); ++index) {
      find_unknown(look.GetRepeatedMessage(message, field, index), problems);
    }
  }
}

/// The interned strings so far.
struct Names {
  std::map<std::uint64_t, std::string> categories, events, arguments, texts;
};

class Decoder {
 public:
  void packet(const schema::TracePacket& packet) {
    if (packet.trusted_packet_sequence_id() != 1) problem("a packet of another sequence");
    if (packet.has_interned_data()) {
      const schema::InternedData& data = packet.interned_data();
      for (const auto& one : data.event_categories()) add(names_.categories, one.iid(), one.name());
      for (const auto& one : data.event_names()) add(names_.events, one.iid(), one.name());
      for (const auto& one : data.debug_annotation_names()) add(names_.arguments, one.iid(), one.name());
      for (const auto& one : data.debug_annotation_string_values()) add(names_.texts, one.iid(), one.str());
    }
    if (packet.has_track_descriptor()) track(packet.track_descriptor());
    if (packet.has_track_event()) event(packet);
  }
  DecodedTrace trace;

 private:
  void problem(const std::string& text) { trace.problems.push_back(text); }

  void add(std::map<std::uint64_t, std::string>& names, std::uint64_t id, const std::string& name) {
    if (id == 0 || !names.emplace(id, name).second) problem("an interned number that is 0, or taken: " + name);
  }
  std::string look_up(const std::map<std::uint64_t, std::string>& names, std::uint64_t id) {
    const auto found = names.find(id);
    if (found != names.end()) return found->second;
    problem("no name has the number " + std::to_string(id));
    return "";
  }

  void track(const schema::TrackDescriptor& descriptor) {
    DecodedTrack track{.name = descriptor.has_process() ? descriptor.process().process_name() : descriptor.name(),
                       .parent = descriptor.parent_uuid(),
                       .pid = descriptor.process().pid(),
                       .unit = descriptor.counter().unit_name()};
    if (track.parent != 0 && trace.tracks.count(track.parent) == 0) problem("no parent of track " + track.name);
    if (descriptor.uuid() == 0 || !trace.tracks.emplace(descriptor.uuid(), track).second) {
      problem("a track without a number of its own: " + track.name);
    }
  }

  void event(const schema::TracePacket& packet) {
    const schema::TrackEvent& seen = packet.track_event();
    DecodedEvent event{.at_ns = packet.timestamp(), .type = seen.type(), .track = seen.track_uuid()};
    if (packet.sequence_flags() != schema::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE) problem("an event's flags");
    if (trace.tracks.count(event.track) == 0) problem("an event of no track");
    for (const std::uint64_t id : seen.category_iids()) event.category = look_up(names_.categories, id);
    if (seen.has_name_iid()) event.name = look_up(names_.events, seen.name_iid());
    for (const auto& one : seen.debug_annotations()) {
      event.arguments[look_up(names_.arguments, one.name_iid())] =
          one.has_uint_value() ? std::to_string(one.uint_value()) : look_up(names_.texts, one.string_value_iid());
    }
    event.value = seen.has_counter_value() ? static_cast<double>(seen.counter_value()) : seen.double_counter_value();
    event.flows.assign(seen.flow_ids().begin(), seen.flow_ids().end());
    event.ended_flows.assign(seen.terminating_flow_ids().begin(), seen.terminating_flow_ids().end());
    trace.events.push_back(std::move(event));
  }

  Names names_;
};

}  // namespace

std::string DecodedTrace::path_of(std::uint64_t track) const {
  const DecodedTrack& own = tracks.at(track);
  return own.parent == 0 ? own.name : path_of(own.parent) + " / " + own.name;
}

DecodedTrace decode_trace(const std::string& file) {
  Decoder decoder;
  schema::Trace trace;
  if (!trace.ParseFromString(file)) decoder.trace.problems.emplace_back("it is no Trace");
  find_unknown(trace, decoder.trace.problems);
  for (const schema::TracePacket& packet : trace.packet()) decoder.packet(packet);
  decoder.trace.bytes = file.size();
  return std::move(decoder.trace);
}

}  // namespace meshbed::test
