#include <dlfcn.h>

#include "plugin/base/plugin_file.h"
#include "plugin/coll/transport/plugin_log.h"
#include "plugin/coll/transport/transport.h"

namespace meshbed::coll {
namespace {

Error net_error(std::string text) { return {ErrorCode::kSystem, Scope::kDevice, std::move(text)}; }

const char* name_of_result(int code) {
  switch (code) {
    case nccl::kNcclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case nccl::kNcclSystemError:
      return "ncclSystemError";
    case nccl::kNcclInternalError:
      return "ncclInternalError";
    case nccl::kNcclInvalidArgument:
      return "ncclInvalidArgument";
    case nccl::kNcclInvalidUsage:
      return "ncclInvalidUsage";
    case nccl::kNcclRemoteError:
      return "ncclRemoteError";
    case nccl::kNcclInProgress:
      return "ncclInProgress";
    default:
      return "an unknown ncclResult_t";
  }
}

std::unique_ptr<NetTable> find_table(void* library, int version) {
  for (int candidate = kNewestNetVersion; candidate >= kOldestNetVersion; --candidate) {
    if (version != 0 && version != candidate) continue;
    const std::string symbol = "ncclNetPlugin_v" + std::to_string(candidate);
    if (void* table = dlsym(library, symbol.c_str())) return wrap_table(candidate, table);
  }
  return nullptr;
}

}  // namespace

std::string explain_net_error(int code, std::uint64_t warns_before) {
  const std::string reason = last_warn(warns_before);
  return std::string(name_of_result(code)) + ": " + (reason.empty() ? "the net plugin gave no reason" : reason);
}

Result<std::unique_ptr<Transport>> Transport::load(const TransportOptions& options) {
  if (options.plugin.empty()) return Error{ErrorCode::kInvalidArgument, Scope::kJob, "no net plugin is named"};
  const auto library = open_plugin(options.plugin, "libnccl-net");
  if (!library) return net_error("net plugin \"" + options.plugin + "\" does not load: " + library.error().text);
  auto table = find_table(*library, options.version);
  if (table == nullptr) {
    return net_error("net plugin \"" + options.plugin + "\" has no table ncclNetPlugin_v" +
                     (options.version != 0 ? std::to_string(options.version) : std::string("12 .. v8")));
  }
  if (const char* missing = table->missing_entry()) {
    return net_error("net plugin \"" + options.plugin + "\": its table ncclNetPlugin_v" +
                     std::to_string(table->version()) + " has no " + missing);
  }
  begin_plugin_log(options.rank);
  std::unique_ptr<Transport> transport(new Transport(std::move(table)));
  auto started = transport->start(options.comm_id);
  if (!started) return started.error();
  return transport;
}

Result<void> Transport::start(std::uint64_t comm_id) {
  const std::uint64_t warns = warn_count();
  const std::string who = std::string("net plugin ") + table_->name() + " (v" + std::to_string(table_->version()) + ")";
  int code = table_->init(comm_id);
  if (code != nccl::kNcclSuccess) return net_error(who + " does not initialise: " + explain_net_error(code, warns));
  initialised_ = true;
  int count = 0;
  code = table_->devices(&count);
  if (code != nccl::kNcclSuccess) return net_error(who + " cannot count devices: " + explain_net_error(code, warns));
  if (count <= 0) return net_error(who + " has no device");
  devices_.resize(static_cast<std::size_t>(count));
  // Twice, as NCCL does it: once to judge the plugin, once to read it.
  for (int pass = 0; pass < 2; ++pass) {
    for (int device = 0; device < count; ++device) {
      code = table_->properties(device, &devices_[static_cast<std::size_t>(device)]);
      if (code != nccl::kNcclSuccess) {
        return net_error(who + ", device " + std::to_string(device) + ": " + explain_net_error(code, warns));
      }
    }
  }
  return ok();
}

Transport::~Transport() {
  if (initialised_) table_->finalize();
}

}  // namespace meshbed::coll
