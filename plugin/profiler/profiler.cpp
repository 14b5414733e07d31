// The profiler plugin libnccl-profiler-meshbed.so: which algorithm, protocol and how many channels NCCL takes for each
// operation and size. NCCL_PROFILER_PLUGIN=meshbed loads it, in any world; where MESHBED_RESULTS names a folder, what
// it has seen is written to nccl-decisions.json there when the last communicator ends.

#include "plugin/profiler/profiler.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plugin/base/json_text.h"
#include "plugin/profiler/config.h"

namespace meshbed::profiler {
namespace {

struct Decision {
  std::string operation, datatype, algorithm, protocol;  // the last two are empty for messages and calls
  std::size_t count = 0;
  int root = 0, peer = -1;  // -1: no message
  int ranks = 0, channels = 0, warps = 0;
  std::uint64_t calls = 0;

  auto same() const {
    return std::tie(operation, datatype, algorithm, protocol, count, root, peer, ranks, channels, warps);
  }
};

struct Seen {
  std::mutex lock;
  std::vector<Decision> decisions;
  std::vector<Decision> calls;  // of collectives, as the program made them
  int communicators = 0;
};
/// Lives as long as the process: its text is asked for when all else has ended.
Seen& seen() {
  static auto* const only = new Seen;
  return *only;
}

/// The decisions, then the calls of collectives that NCCL announces no decision of. 2.30 does so for ncclBroadcast,
/// whose task never gets the profiler's mask (v2.30.7-1, src/enqueue.cc 367 to 392, beside collTaskAppend).
std::vector<Decision> all_rows(const Seen& all) {
  std::vector<Decision> rows = all.decisions;
  for (const Decision& call : all.calls) {
    const bool is_decided = std::any_of(all.decisions.begin(), all.decisions.end(),
                                        [&](const Decision& one) { return one.operation == call.operation; });
    if (!is_decided) rows.push_back(call);
  }
  return rows;
}

std::string text_of(const Seen& all) {
  JsonText json;
  json.open_list();
  for (const Decision& one : all_rows(all)) {
    json.open_object().text("operation", one.operation).text("datatype", one.datatype).number("count", one.count);
    json.signed_number("ranks", one.ranks);
    if (one.peer >= 0) {
      json.signed_number("peer", one.peer);
    } else {
      json.signed_number("root", one.root).text("algorithm", one.algorithm).text("protocol", one.protocol);
      json.signed_number("warps", one.warps);
    }
    json.signed_number("channels", one.channels).number("calls", one.calls).close_object();
  }
  return json.close_list().take();
}

void note(std::vector<Decision> Seen::*list, Decision decision) {
  Seen& all = seen();
  const std::lock_guard hold(all.lock);
  std::vector<Decision>& rows = all.*list;
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Decision& one) { return one.same() == decision.same(); });
  Decision& known = found != rows.end() ? *found : rows.emplace_back(std::move(decision));
  ++known.calls;
}

std::string string_of(const char* text) { return text != nullptr ? text : ""; }

int init(void** context, std::uint64_t, int* events, const char*, int, int ranks, int, nccl::LogFunction) {
  Seen& all = seen();
  const std::lock_guard hold(all.lock);
  ++all.communicators;
  *context = new int(ranks);
  *events = static_cast<int>(nccl::kProfileCollective | nccl::kProfileMessage | nccl::kProfileCall);
  return nccl::kNcclSuccess;
}

int start_event(void* context, void** handle, const nccl::ProfilerEvent* event) {
  *handle = nullptr;  // its end adds no information
  const int ranks = *static_cast<const int*>(context);
  if (event->type == nccl::kProfileCollective) {
    const nccl::ProfilerCollective& call = event->collective;
    note(&Seen::decisions, {.operation = string_of(call.operation),
                            .datatype = string_of(call.datatype),
                            .algorithm = string_of(call.algorithm),
                            .protocol = string_of(call.protocol),
                            .count = call.count,
                            .root = call.root,
                            .ranks = ranks,
                            .channels = call.channels,
                            .warps = call.warps});
  } else if (event->type == nccl::kProfileMessage) {
    const nccl::ProfilerMessage& message = event->message;
    note(&Seen::decisions, {.operation = string_of(message.operation),
                            .datatype = string_of(message.datatype),
                            .algorithm = {},
                            .protocol = {},
                            .count = message.count,
                            .peer = message.peer,
                            .ranks = ranks,
                            .channels = message.channels});
  } else if (event->type == nccl::kProfileCall) {
    const nccl::ProfilerCall& call = event->call;
    note(&Seen::calls, {.operation = string_of(call.operation),
                        .datatype = string_of(call.datatype),
                        .algorithm = {},
                        .protocol = {},
                        .count = call.count,
                        .root = call.root,
                        .ranks = ranks});
  }
  return nccl::kNcclSuccess;
}

int stop_event(void*) { return nccl::kNcclSuccess; }
int record_event_state(void*, int, void*) { return nccl::kNcclSuccess; }

int finalize(void* context) {
  delete static_cast<int*>(context);
  Seen& all = seen();
  const std::lock_guard hold(all.lock);
  const std::string folder = results_folder();
  if (--all.communicators == 0 && !folder.empty()) {
    std::ofstream(folder + "/nccl-decisions.json") << text_of(all) << "\n";
  }
  return nccl::kNcclSuccess;
}

}  // namespace
}  // namespace meshbed::profiler

namespace profiler = meshbed::profiler;

const meshbed::nccl::Profiler ncclProfiler_v6{.name = "Meshbed",
                                              .init = &profiler::init,
                                              .start_event = &profiler::start_event,
                                              .stop_event = &profiler::stop_event,
                                              .record_event_state = &profiler::record_event_state,
                                              .finalize = &profiler::finalize};
const meshbed::nccl::Profiler ncclProfiler_v5 = ncclProfiler_v6;

std::size_t meshbedNcclDecisions(char* text, std::size_t size_bytes) {
  const std::string all = profiler::text_of(profiler::seen());
  if (size_bytes > 0) {
    const std::size_t taken = std::min(all.size(), size_bytes - 1);
    std::memcpy(text, all.data(), taken);
    text[taken] = '\0';
  }
  return all.size();
}
