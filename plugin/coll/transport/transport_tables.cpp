// The five table versions behind NetTable. What differs: v8 has int sizes; v10 takes a profiler and a configuration;
// v11 has a context object per communicator.
#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "plugin/coll/transport/plugin_log.h"
#include "plugin/coll/transport/transport.h"

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
    *out = {.name = properties.name != nullptr ? properties.name : "unnamed",
            .speed_mbps = properties.speed,
            .receives_max = properties.maxRecvs,
            .message_bytes_max = kV8MessageBytesMax,
            .pointer_support = properties.ptrSupport,
            .port = properties.port,
            .connections_max = properties.maxComms,
            .offload_type = properties.netDeviceType};
    if constexpr (kVersion >= 9) {
      out->message_bytes_max = properties.maxP2pBytes;
      const auto& virtual_device = properties.vProps;
      const int devices = std::clamp(virtual_device.ndevs, 0, static_cast<int>(std::size(virtual_device.devs)));
      out->physical.assign(virtual_device.devs, virtual_device.devs + devices);
    }
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
  int register_gpu_memory(void* comm, void* data, std::uint64_t size_bytes, void** handle) override {
    return table_.regMr(comm, data, size_bytes, nccl::kPtrCuda, handle);
  }
  int register_dma_buf(void* comm, void* data, std::uint64_t size_bytes, std::uint64_t offset_bytes, int descriptor,
                       void** handle) override {
    if (table_.regMrDmaBuf == nullptr) return nccl::kNcclInvalidUsage;
    return table_.regMrDmaBuf(comm, data, size_bytes, nccl::kPtrCuda, offset_bytes, descriptor, handle);
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

  int receive_group(void* comm, std::span<const ReceivePart> parts, void** request) override {
    Arrays arrays(parts);
    const int count = static_cast<int>(parts.size());
    if constexpr (kVersion >= 10) {
      std::array<void*, nccl::kMaxGroupedReceives> events{};  // no profiler
      return table_.irecv(comm, count, arrays.data.data(), arrays.sizes.data(), arrays.tags.data(),
                          arrays.handles.data(), events.data(), request);
    } else {
      return table_.irecv(comm, count, arrays.data.data(), arrays.sizes.data(), arrays.tags.data(),
                          arrays.handles.data(), request);
    }
  }

  int test_group(void* request, bool* done, int* sizes) override {
    int finished = 0;
    const int code = table_.test(request, &finished, sizes);
    *done = finished != 0;
    return code;
  }

  int flush(void* comm, std::span<const ReceivePart> parts, void** request) override {
    *request = nullptr;
    if (!has_flush()) return nccl::kNcclSuccess;
    Arrays arrays(parts);
    std::array<int, nccl::kMaxGroupedReceives> sizes{};
    for (std::size_t part = 0; part < parts.size(); ++part) sizes[part] = static_cast<int>(parts[part].size_bytes);
    return table_.iflush(comm, static_cast<int>(parts.size()), arrays.data.data(), sizes.data(), arrays.handles.data(),
                         request);
  }

  int set_attributes(nccl::NetAttr* attributes) override {
    if constexpr (kVersion >= 11) {
      if (has_set_attributes()) return table_.setNetAttr(context_, attributes);
    }
    return nccl::kNcclSuccess;
  }

  bool has_flush() const override { return table_.iflush != nullptr; }
  bool has_set_attributes() const override {
    if constexpr (kVersion >= 11) return table_.setNetAttr != nullptr;
    return false;
  }

 private:
  /// The parts of a grouped receive as the table takes them.
  struct Arrays {
    using Size = std::conditional_t<kVersion >= 9, std::size_t, int>;
    explicit Arrays(std::span<const ReceivePart> parts) {
      for (std::size_t part = 0; part < parts.size(); ++part) {
        data[part] = parts[part].data;
        sizes[part] = static_cast<Size>(parts[part].size_bytes);
        tags[part] = parts[part].tag;
        handles[part] = parts[part].handle;
      }
    }
    std::array<void*, nccl::kMaxGroupedReceives> data{};
    std::array<Size, nccl::kMaxGroupedReceives> sizes{};
    std::array<int, nccl::kMaxGroupedReceives> tags{};
    std::array<void*, nccl::kMaxGroupedReceives> handles{};
  };

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
