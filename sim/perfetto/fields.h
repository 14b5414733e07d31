#pragma once
// Field numbers of Perfetto's public schema, as of https://github.com/google/perfetto at
// ec5d16b14b743ba6063d720956d6d6af6610fd72 (2026-08-22). Files are below protos/perfetto/trace. The test that decodes
// a trace has the same numbers in a schema of its own (tests/perfetto/trace.proto).

#include <cstdint>

namespace meshbed::perfetto {

using FieldNumber = std::uint32_t;

namespace trace {  // trace.proto, Trace
inline constexpr FieldNumber kPacket = 1;
}

namespace packet {  // trace_packet.proto, TracePacket
inline constexpr FieldNumber kTimestamp = 8;
inline constexpr FieldNumber kTrustedPacketSequenceId = 10;
inline constexpr FieldNumber kTrackEvent = 11;
inline constexpr FieldNumber kInternedData = 12;
inline constexpr FieldNumber kSequenceFlags = 13;
inline constexpr FieldNumber kTrackDescriptor = 60;
// TracePacket.SequenceFlags
inline constexpr std::uint64_t kIncrementalStateCleared = 1, kNeedsIncrementalState = 2;
}  // namespace packet

namespace track_event {  // track_event/track_event.proto, TrackEvent
inline constexpr FieldNumber kCategoryIids = 3;
inline constexpr FieldNumber kDebugAnnotations = 4;
inline constexpr FieldNumber kType = 9;
inline constexpr FieldNumber kNameIid = 10;
inline constexpr FieldNumber kTrackUuid = 11;
inline constexpr FieldNumber kCounterValue = 30;
inline constexpr FieldNumber kDoubleCounterValue = 44;
inline constexpr FieldNumber kFlowIds = 47;             // fixed64
inline constexpr FieldNumber kTerminatingFlowIds = 48;  // fixed64
// TrackEvent.Type
inline constexpr std::uint64_t kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4;
}  // namespace track_event

namespace annotation {  // track_event/debug_annotation.proto, DebugAnnotation
inline constexpr FieldNumber kNameIid = 1;
inline constexpr FieldNumber kUintValue = 3;
inline constexpr FieldNumber kStringValueIid = 17;
}  // namespace annotation

namespace interned {  // interned_data/interned_data.proto, InternedData
inline constexpr FieldNumber kEventCategories = 1;
inline constexpr FieldNumber kEventNames = 2;
inline constexpr FieldNumber kDebugAnnotationNames = 3;
inline constexpr FieldNumber kDebugAnnotationStringValues = 29;
// EventCategory and EventName (track_event/track_event.proto), DebugAnnotationName
// (track_event/debug_annotation.proto) and InternedString (profiling/profile_common.proto) have the same two fields.
inline constexpr FieldNumber kIid = 1;
inline constexpr FieldNumber kText = 2;
}  // namespace interned

namespace descriptor {  // track_event/track_descriptor.proto, TrackDescriptor
inline constexpr FieldNumber kUuid = 1;
inline constexpr FieldNumber kName = 2;
inline constexpr FieldNumber kProcess = 3;
inline constexpr FieldNumber kParentUuid = 5;
inline constexpr FieldNumber kCounter = 8;
inline constexpr FieldNumber kChildOrdering = 11;
inline constexpr FieldNumber kSiblingOrderRank = 12;
inline constexpr std::uint64_t kExplicitOrdering = 3;  // ChildTracksOrdering
}  // namespace descriptor

namespace process {  // track_event/process_descriptor.proto, ProcessDescriptor
inline constexpr FieldNumber kPid = 1;
inline constexpr FieldNumber kProcessName = 6;
}  // namespace process

namespace counter {  // track_event/counter_descriptor.proto, CounterDescriptor
inline constexpr FieldNumber kUnitName = 6;
}

}  // namespace meshbed::perfetto
