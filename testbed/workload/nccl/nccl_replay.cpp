#include "testbed/workload/nccl/nccl_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "plugin/base/prng.h"
#include "plugin/coll/transport/plugin_log.h"
#include "testbed/workload/rank_table.h"

namespace meshbed::testbed {
namespace {

constexpr int kRecordedVersion = 11;

/// The words of a payload, one after the other.
Prng words_of(const PayloadKey& key) {
  return Prng(mix64(mix64(key.seed) ^ static_cast<std::uint64_t>(key.listener)) ^ key.message);
}

}  // namespace

Replay::Replay(RankHost& host, const RankRecording& calls, ReplayBoard& board, bool other_devices)
    : host_(host),
      calls_(calls),
      board_(board),
      other_devices_(other_devices),
      comms_(static_cast<std::size_t>(calls.comms)) {
  handles_.resize(board.listeners);
  listen_comms_.resize(board.listeners);
  int registrations = 0;
  for (const RecordedCall& call : calls.service) registrations = std::max(registrations, call.mr + 1);
  registrations_.resize(static_cast<std::size_t>(registrations));
  for (const RecordedCall& call : calls.progress) {
    if (call.comm < 0) continue;
    Comm& comm = comm_of(call);
    ++comm.messages;
    // Slots start on cache lines, so that each payload is aligned as NCCL's are.
    comm.slot_bytes = std::max(comm.slot_bytes, (call.size_bytes + 63) / 64 * 64);
  }
}

Result<void> Replay::check(int result, const RecordedCall& call, const char* name) const {
  if (result == nccl::kNcclSuccess) return ok();
  return Error{.code = ErrorCode::kRemote,
               .scope = Scope::kJob,
               .text = fmt::format("{} of line {} (device {}, listener {}, comm {}): {}", name, call.line, call.device,
                                   call.listener, call.comm, coll::explain_net_error(result, 0))};
}

void Replay::fail(const Error& error) {
  if (!error_) error_ = error;
  board_.stop = true;
}

Result<void> Replay::open(const std::string& plugin_path) {
  const Result<RankTable> opened = open_rank_table(host_, plugin_path, kRecordedVersion);
  if (!opened) return opened.error();
  net_ = static_cast<nccl::NetV11*>(opened->symbol);
  if (net_ == nullptr) {
    return Error{.code = ErrorCode::kUnsupported,
                 .scope = Scope::kJob,
                 .text = fmt::format("{} has no ncclNetPlugin_v{}, the version that was recorded", plugin_path,
                                     kRecordedVersion)};
  }
  return ok();
}

Result<void> Replay::count_devices(const RecordedCall& call) {
  if (const Result<void> done = check(net_->devices(&devices_), call, "devices"); !done) return done;
  if (devices_ == call.count || (other_devices_ && devices_ > 0)) return ok();
  return Error{.code = ErrorCode::kInvalidArgument,
               .scope = Scope::kJob,
               .text = fmt::format("the plugin has {} devices, {} were recorded (workload.other_devices = true takes "
                                   "device d for d % devices)",
                                   devices_, call.count)};
}

Result<void> Replay::issue_main(const RecordedCall& call) {
  switch (call.call) {
    case NetCall::kInit: {
      nccl::CommConfig config{.trafficClass = nccl::kTrafficClassUndefined};
      return check(net_->init(&context_, 0, &config, coll::plugin_logger(), nullptr), call, "init");
    }
    case NetCall::kDevices:
      return count_devices(call);
    case NetCall::kGetProperties: {
      nccl::PropertiesV11 properties{};
      return check(net_->getProperties(device_of(call), &properties), call, "getProperties");
    }
    case NetCall::kFinalize:
      return check(net_->finalize(context_), call, "finalize");
    default:
      return Error{.code = ErrorCode::kUnsupported,
                   .scope = Scope::kJob,
                   .text = fmt::format("line {}: not a call of the main thread", call.line)};
  }
}

Result<void> Replay::run(const std::string& plugin_path) {
  if (const Result<void> opened = open(plugin_path); !opened) return opened;
  const auto finalize = std::find_if(calls_.main.begin(), calls_.main.end(),
                                     [](const RecordedCall& call) { return call.call == NetCall::kFinalize; });
  for (auto call = calls_.main.begin(); call != finalize; ++call) {
    if (const Result<void> done = issue_main(*call); !done) return done;
  }
  if (const Result<void> ready = host_.rendezvous(); !ready) return ready;
  board_.started_ps = host_.now_ps();

  const auto guarded = [this](Result<void> (Replay::*body)()) {
    if (const Result<void> done = (this->*body)(); !done) fail(done.error());
  };
  host_.run_together(
      {{"service", [&] { guarded(&Replay::run_service); }}, {"progress", [&] { guarded(&Replay::run_progress); }}});
  if (error_) return *error_;
  board_.ended_ps = std::max(board_.ended_ps, host_.now_ps());
  if (const Result<void> connected = wait_until_all_connected(); !connected) return connected;
  for (auto call = finalize; call != calls_.main.end(); ++call) {
    if (const Result<void> done = issue_main(*call); !done) return done;
  }
  return ok();
}

void generate_payload(const PayloadKey& key, std::uint8_t* bytes, std::uint64_t size_bytes) {
  Prng random = words_of(key);
  std::uint64_t at = 0;
  for (; at + sizeof(std::uint64_t) <= size_bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes + at, &word, sizeof word);
  }
  const std::uint64_t last = random.next();
  std::memcpy(bytes + at, &last, size_bytes - at);
}

std::uint64_t first_wrong_byte(const PayloadKey& key, const std::uint8_t* bytes, std::uint64_t size_bytes) {
  Prng random = words_of(key);
  for (std::uint64_t at = 0; at < size_bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    const std::uint64_t here = std::min<std::uint64_t>(sizeof word, size_bytes - at);
    if (std::memcmp(bytes + at, &word, here) == 0) continue;
    const auto* expected = reinterpret_cast<const std::uint8_t*>(&word);
    return at + static_cast<std::uint64_t>(std::mismatch(bytes + at, bytes + at + here, expected).first - (bytes + at));
  }
  return size_bytes;
}

}  // namespace meshbed::testbed
