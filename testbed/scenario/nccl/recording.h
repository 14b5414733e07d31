#pragma once
// Recording: every call that NCCL made on its net plugin while a program ran, read from a file of JSON lines.
//
// First line: {"meta": ...}. Then one call a line, ordered by rank and time. `listener` numbers the handles over all
// ranks, so that a connect names the listen whose handle it was given; `comm`, `mr` and `req` count within a rank.
// The calls are normalised: polls of a pending connection are dropped except the first, and each isend and irecv
// contains the final result of its request.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/nccl/net_abi.h"
#include "testbed/scenario/scenario.h"

namespace meshbed::testbed {

enum class NetCall : std::uint8_t {
  kInit,
  kDevices,
  kGetProperties,
  kListen,
  kConnect,
  kAccept,
  kRegMr,
  kDeregMr,
  kCloseSend,
  kCloseRecv,
  kCloseListen,
  kSetNetAttr,
  kIsend,
  kIrecv,
  kFinalize
};

struct RecordedCall {
  NetCall call = NetCall::kInit;
  int line = 0;                     // in the file, for messages
  int device = -1;                  // getProperties listen connect
  int count = 0;                    // devices: how many
  int listener = -1;                // listen connect accept closeListen
  int comm = -1;                    // connect accept regMr deregMr close* isend irecv
  int mr = -1;                      // regMr deregMr
  int tag = 0;                      // isend irecv
  bool optional = false;            // irecv: completion is optional
  std::uint64_t size_bytes = 0;     // regMr; isend: sent; irecv: posted
  std::uint64_t arrived_bytes = 0;  // isend irecv: what the finished request reported
  nccl::NetAttr attributes{};       // setNetAttr
};

struct RankRecording {
  std::vector<RecordedCall> main, service, progress;  // each in its own order
  int comms = 0;
};

struct Recording {
  std::string name;  // the file's stem
  std::string program;
  int gpus_per_node = 1;
  int devices_per_node = 1;
  int listeners = 0;
  std::vector<RankRecording> ranks;

  std::uint64_t requests() const;     // isend and irecv
  std::uint64_t connections() const;  // connect; as many as accept
};

/// Throws std::runtime_error("FILE:LINE: ...") for text that is not JSON, a call that is not known, a field that is
/// missing or of another type (with the fields that such a line has), a request that never finished, a connection with
/// one end only, a grouped receive (the recordings hold none).
Recording read_recording(const std::string& path);
Recording parse_recording(const std::string& text, const std::string& path);

/// Why the scenario's ranks cannot replay it; empty: they can.
std::string recording_misfit(const Scenario& scenario, const Recording& recording);

}  // namespace meshbed::testbed
