// The five table versions behind NetTable. What differs: v8 has int sizes; v10 takes a profiler and a configuration;
// v11 has a context object per communicator.
#include <cstdint>
#include <utility>

#include "plugin/coll/plugin_log.h"
#include "plugin/coll/transport.h"

namespace meshbed::coll {
namespace {

// What NCCL assumes when it wraps a v8 table: one message is at most 1 GiB.
constexpr std::uint64_t kV8MessageBytesMax = std::uint64_t{1} << 30U;

template <int kVersion, typename Table, typename Properties>
class TableOf final : public NetTable {
 public:
  explicit TableOf(const Table* table) : table_(*table) {}

  int version() const override { return kVersion; }
  const char* name() const override { return table_.name != nullptr ? table_.name : "unnamed"; }

  const char* missing_entry() const override {
    const std::pair<const char*, bool> required[] = {{"init", table_.init != nullptr},
                                                     {"devices", table_.devices != nullptr},
                                                     {"getProperties", table_.getProperties != nullptr},
                                                     {"listen", table_.listen != nullptr},
                                                     {"connect", table_.connect != nullptr},
                                                     {"accept", table_.accept != nullptr},
                                                     {"regMr", table_.regMr != nullptr},
                                                     {"deregMr", table_.deregMr != nullptr},
                                                     {"isend", table_.isend != nullptr},
                                                     {"irecv", table_.irecv != nullptr},
                                                     {"test", table_.test != nullptr},
                                                     {"closeSend", table_.closeSend != nullptr},
                                                     {"closeRecv", table_.closeRecv != nullptr},
                                                     {"closeListen", table_.closeListen != nullptr}};
    for (const auto& [entry, is_there] : required) {
      if (!is_there) return entry;
    }
    return nullptr;
  }

  int init(std::uint64_t comm_id) override {
    if constexpr (kVersion >= 11) {
      nccl::CommConfig config{nccl::kTrafficClassUndefined};
      return table_.init(&context_, comm_id, &config, plugin_logger(), nullptr);
    } else if constexpr (kVersion == 10) {
      return table_.init(plugin_logger(), nullptr);
    } else {
      return table_.init(plugin_logger());
    }
  }

  int finalize() override {
    if constexpr (kVersion >= 11) {
      if (table_.finalize != nullptr) return table_.finalize(context_);
    }
    return nccl::kNcclSuccess;
  }

  int devices(int* count) override { return table_.devices(count); }

  int properties(int device, DeviceProperties* out) override {
    Properties properties{};
    const int code = table_.getProperties(device, &properties);
    if (code != nccl::kNcclSuccess) return code;
    *out = {properties.name != nullptr ? properties.name : "unnamed", properties.speed, properties.maxRecvs,
            kV8MessageBytesMax};
    if constexpr (kVersion >= 9) out->message_bytes_max = properties.maxP2pBytes;
    return code;
  }

  int listen(int device, void* handle, void** listen_comm) override {
    if constexpr (kVersion >= 11) {
      return table_.listen(context_, device, handle, listen_comm);
    } else {
      return table_.listen(device, handle, listen_comm);
    }
  }

  int connect(int device, void* handle, void** send_comm) override {
    nccl::NetDeviceHandle* offload = nullptr;
    if constexpr (kVersion >= 11) {
      return table_.connect(context_, device, handle, send_comm, &offload);
    } else if constexpr (kVersion == 10) {
      nccl::CommConfig config{nccl::kTrafficClassUndefined};
      return table_.connect(device, &config, handle, send_comm, &offload);
    } else {
      return table_.connect(device, handle, send_comm, &offload);
    }
  }

  int accept(void* listen_comm, void** recv_comm) override {
    nccl::NetDeviceHandle* offload = nullptr;
    return table_.accept(listen_comm, recv_comm, &offload);
  }

  int close_send(void* comm) override { return table_.closeSend(comm); }
  int close_receive(void* comm) override { return table_.closeRecv(comm); }
  int close_listen(void* comm) override { return table_.closeListen(comm); }

  int register_memory(void* comm, void* data, std::uint64_t size_bytes, void** handle) override {
    return table_.regMr(comm, data, size_bytes, nccl::kPtrHost, handle);
  }
  int deregister_memory(void* comm, void* handle) override { return table_.deregMr(comm, handle); }

  int send(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override {
    if constexpr (kVersion >= 10) {
      return table_.isend(comm, data, size_bytes, tag, handle, nullptr, request);
    } else if constexpr (kVersion == 9) {
      return table_.isend(comm, data, size_bytes, tag, handle, request);
    } else {
      return table_.isend(comm, data, static_cast<int>(size_bytes), tag, handle, request);
    }
  }

  int receive(void* comm, void* data, std::uint64_t size_bytes, int tag, void* handle, void** request) override {
    if constexpr (kVersion >= 9) {
      std::size_t size = size_bytes;
      if constexpr (kVersion >= 10) {
        void* event = nullptr;  // no profiler
        return table_.irecv(comm, 1, &data, &size, &tag, &handle, &event, request);
      } else {
        return table_.irecv(comm, 1, &data, &size, &tag, &handle, request);
      }
    } else {
      int size = static_cast<int>(size_bytes);
      return table_.irecv(comm, 1, &data, &size, &tag, &handle, request);
    }
  }

  int test(void* request, bool* done, std::uint64_t* size_bytes) override {
    int finished = 0, size = 0;
    const int code = table_.test(request, &finished, &size);
    *done = finished != 0;
    *size_bytes = static_cast<std::uint64_t>(static_cast<unsigned>(size));
    return code;
  }

 private:
  const Table& table_;
  void* context_ = nullptr;
};

template <int kVersion, typename Table, typename Properties>
std::unique_ptr<NetTable> wrap(void* symbol) {
  return std::make_unique<TableOf<kVersion, Table, Properties>>(static_cast<const Table*>(symbol));
}

}  // namespace

std::unique_ptr<NetTable> wrap_table(int version, void* symbol) {
  switch (version) {
    case 8:
      return wrap<8, nccl::NetV8, nccl::PropertiesV8>(symbol);
    case 9:
      return wrap<9, nccl::NetV9, nccl::PropertiesV9>(symbol);
    case 10:
      return wrap<10, nccl::NetV10, nccl::PropertiesV9>(symbol);
    case 11:
      return wrap<11, nccl::NetV11, nccl::PropertiesV11>(symbol);
    case 12:
      return wrap<12, nccl::NetV12, nccl::PropertiesV12>(symbol);
    default:
      return nullptr;
  }
}

}  // namespace meshbed::coll
