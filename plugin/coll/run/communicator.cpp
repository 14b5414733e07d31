// A communicator's beginning and end; communicator_run.cpp has what happens between.
#include "plugin/coll/run/communicator.h"

#include "plugin/base/log.h"
#include "plugin/coll/run/gpu.h"
#include "plugin/coll/run/recorded_call.h"

namespace meshbed::coll {
namespace {

// FNV-1a.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return hash;
}

/// All ranks of a communicator share the place where they meet; NCCL likewise derives commId from its unique id. It
/// travels where strangers read it, so the key itself is no part of it.
std::uint64_t comm_id_of(const std::string& bootstrap) {
  const auto place = parse_meeting_place(bootstrap);
  if (!place || !place->key) return hash_of(bootstrap);
  return hash_of(to_text(place->address)) ^ place->key->public_number();
}

/// No algorithm has such a one.
std::uint32_t number_of(const std::string& choice) { return static_cast<std::uint32_t>(hash_of(choice)) | 1U << 31U; }

std::uint32_t choice_of(const CommunicatorOptions& options) {
  const AlgorithmChoice& choice = options.way.algorithm;
  const ProtocolChoice& protocol = options.way.protocol;
  const bool automatic = choice.automatic || protocol.automatic;
  const bool by_cables =
      choice.algorithm == Algorithm::kTorus || (choice.algorithm == Algorithm::kMesh && !options.cables.empty());
  if (!automatic && !by_cables && protocol.protocol == Protocol::kSimple) {
    return static_cast<std::uint32_t>(choice.algorithm);
  }
  std::string text = choice.automatic ? "auto " : std::string(name_of(choice.algorithm)) + " ";
  text += protocol.automatic ? "auto " : std::string(name_of(protocol.protocol)) + " ";
  const CostModel& network = options.way.network;
  for (const double number :
       {network.gigabits_per_s, network.message_ns, network.hop_ns, network.hops, network.registration_ns}) {
    if (automatic) text += std::to_string(number) + " ";
  }
  for (const TuningRow& row : options.way.tuning) text += automatic ? to_text(row) : "";
  if (!automatic && !by_cables) return number_of(text);
  for (const MeshCable& cable : options.cables) {
    text += std::to_string(cable.a) + "-" + std::to_string(cable.b) + ":" + std::to_string(cable.mbps) + " ";
  }
  for (const int length : options.shape) text += "x" + std::to_string(length);
  for (const int mbps : options.rank_mbps) text += std::to_string(mbps) + " ";
  return number_of(text);
}

Identity identity_of(const CommunicatorOptions& options) {
  return {.world = static_cast<std::uint32_t>(options.world),
          .rank = static_cast<std::uint32_t>(options.rank),
          .channels = static_cast<std::uint32_t>(options.channels),
          .steps = static_cast<std::uint32_t>(options.steps),
          .choice = choice_of(options),
          .slice_bytes = options.slice_bytes};
}

}  // namespace

StoreServer::Options server_options(const CommunicatorOptions& options, const MeetingPlace& place) {
  return {.address = place.address,
          .identity = identity_of(options),
          .linger_ms = options.connect_timeout_ms,
          .key = place.key};
}

Result<std::unique_ptr<Communicator>> Communicator::create(const CommunicatorOptions& options,
                                                           std::unique_ptr<StoreServer> server) {
  std::unique_ptr<Communicator> communicator(new Communicator(options));
  communicator->server_ = std::move(server);
  auto started = communicator->start();
  if (!started) return started.error();
  return communicator;
}

Result<std::unique_ptr<Communicator>> Communicator::create_at(const CommunicatorOptions& options, Socket listener) {
  if (options.world == 1 || !listener.is_open()) return create(options);
  const auto place = parse_meeting_place(options.bootstrap);
  if (!place) return place.error();
  auto server = StoreServer::start(server_options(options, *place), std::move(listener));
  if (!server) return server.error();
  return create(options, std::move(*server));
}

Result<void> Communicator::start() {
  service_ = std::make_unique<Worker>();
  progress_ = std::make_unique<Worker>();
  // Without a driver in the process there is no memory of a GPU's; and to load one takes long.
  if (cuda::Driver::is_loaded()) {
    const auto opened = Gpu::open();
    if (opened) {
      adopt(*opened);
      if (auto loaded = (*opened)->load_sums(); !loaded) return loaded;
    } else if (opened.error().code != ErrorCode::kUnsupported) {
      MESHBED_WARN("rank %d: buffers have to be host memory, and calls cannot be in streams: %s", options_.rank,
                   opened.error().text.c_str());
    }
  }
  if (options_.world == 1) return ok();  // no peers: neither store nor plugin
  if (options_.rank == 0 && server_ == nullptr) {
    const auto place = parse_meeting_place(options_.bootstrap);
    if (!place) return place.error();
    auto server = StoreServer::start(server_options(options_, *place));
    if (!server) return server.error();
    server_ = std::move(*server);
  }
  constexpr std::int64_t kReachMs = 60000;  // as NCCL has it
  const std::int64_t connect_ms = options_.connect_timeout_ms;
  const std::int64_t reach_ms = options_.reach_timeout_ms > 0 ? options_.reach_timeout_ms : connect_ms;
  auto store = StoreClient::connect(options_.bootstrap, identity_of(options_),
                                    Deadline::after_ms(reach_ms > 0 ? reach_ms : kReachMs),
                                    Deadline::after_ms_or_never(connect_ms));
  if (!store) return store.error();
  store_ = std::move(*store);
  store_->report_calls_by([this] { return encode_calls(recent_calls()); });
  auto opened = open_transport();
  if (!opened) {
    store_->announce_failure(opened.error().text);
    return opened.error();
  }
  return store_->barrier(connect_ms, connect_ms > 0 ? 0 : options_.long_wait_ms());
}

Result<void> Communicator::open_transport() {
  auto transport = Transport::load({.plugin = options_.net_plugin,
                                    .version = options_.net_version,
                                    .comm_id = comm_id_of(options_.bootstrap),
                                    .rank = options_.rank});
  if (!transport) return transport.error();
  transport_ = std::move(*transport);
  lined_ = std::make_unique<LinedMessages>(transport_->table());
  direct_ = std::make_unique<DirectMessages>(transport_->table());
  auto chosen = choose_devices();
  if (!chosen) return chosen;
  memory_ = std::make_unique<MemoryTable>(transport_->table());
  connections_ = std::make_unique<ConnectionTable>(
      ConnectContext{transport_->table(), *store_, options_.rank, channel_devices_}, *memory_);
  return ok();
}

Result<void> Communicator::choose_devices() {
  const auto& devices = transport_->devices();
  const int count = static_cast<int>(devices.size());
  gpu_support_ = nccl::kPtrCuda | nccl::kPtrDmaBuf;
  for (int channel = 0; channel < options_.channels; ++channel) {
    const int device = options_.channel_devices.empty() ? channel % count
                                                        : options_.channel_devices[static_cast<std::size_t>(channel)];
    if (device < 0 || device >= count) {
      return Error{ErrorCode::kInvalidArgument, Scope::kJob,
                   "channel " + std::to_string(channel) + " wants device " + std::to_string(device) + " of " +
                       std::to_string(count)};
    }
    const DeviceProperties& properties = devices[static_cast<std::size_t>(device)];
    if (properties.message_bytes_max < options_.slice_bytes) {
      return Error{ErrorCode::kInvalidArgument, Scope::kJob,
                   "slice_bytes is " + std::to_string(options_.slice_bytes) + ", but a message on " + properties.name +
                       " is at most " + std::to_string(properties.message_bytes_max) + " bytes"};
    }
    channel_devices_.push_back(device);
    gpu_support_ &= properties.pointer_support;
  }
  return ok();
}

Communicator::~Communicator() {
  for (RecordedCall* call : recorded_) call->forget_communicator();
  // After what was issued. Connections are the service thread's to close, even now.
  if (service_ != nullptr) service_->call([this] { connections_.reset(); });
  progress_.reset();
  service_.reset();
  memory_.reset();
  lined_.reset();
  direct_.reset();
  transport_.reset();
  store_.reset();  // sends kBye; only then may the server wait for that of all ranks
  server_.reset();
}

}  // namespace meshbed::coll
