#pragma once
// Transport: an NCCL net plugin behind one interface, for every version of the table.
//
// Loaded as NCCL loads it: the name taken literally with dlopen(RTLD_NOW | RTLD_LOCAL), then as libnccl-net-NAME.so;
// "STATIC_PLUGIN" means the symbols of the program itself. The newest of v12..v8 wins unless a version is asked for.
// Then init, devices, getProperties twice. Functions return ncclResult_t values (0: success) on the data path; the
// caller adds the words. Threads: as in nccl/net_abi.h. The file is never unloaded: v8 to v10 have no finalize, so
// their threads may outlive us.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugin/base/result.h"
#include "plugin/coll/plan/messages.h"
#include "plugin/nccl/net_abi.h"

namespace meshbed::coll {

/// Of the table, as far as we know them.
inline constexpr int kOldestNetVersion = 8, kNewestNetVersion = 12;

struct DeviceProperties {
  std::string name;
  int speed_mbps = 0;
  int receives_max = 1;  // grouped
  std::uint64_t message_bytes_max = 0;
  int pointer_support = 0;  // nccl::kPtrHost | ...
  int port = 0;
  int connections_max = 0;
  int offload_type = 0;            // nccl::NetDeviceType
  std::vector<int> physical = {};  // v9 on: the devices that this one is made of
  bool operator==(const DeviceProperties&) const = default;
};

/// One part of a grouped receive.
struct ReceivePart {
  void* data = nullptr;
  std::uint64_t size_bytes = 0;
  int tag = 0;
  void* handle = nullptr;
};

/// One version's table. Handles are nccl::kHandleBytes long.
class NetTable : public Messages {
 public:
  virtual int version() const = 0;
  virtual const char* name() const = 0;
  /// The first entry that every plugin must have and this one lacks; nullptr: all are there.
  virtual const char* missing_entry() const = 0;
  virtual int init(std::uint64_t comm_id) = 0;
  virtual int finalize() = 0;
  virtual int devices(int* count) = 0;
  virtual int properties(int device, DeviceProperties* properties) = 0;

  virtual int listen(int device, void* handle, void** listen_comm) = 0;
  virtual int connect(int device, void* handle, void** send_comm) = 0;  // NULL comm: call again
  virtual int accept(void* listen_comm, void** recv_comm) = 0;          // NULL comm: call again
  virtual int close_send(void* comm) = 0;
  virtual int close_receive(void* comm) = 0;
  virtual int close_listen(void* comm) = 0;
  virtual int register_memory(void* comm, void* data, std::uint64_t size_bytes, void** handle) = 0;
  /// GPU memory, by its address.
  virtual int register_gpu_memory(void* comm, void* data, std::uint64_t size_bytes, void** handle) = 0;
  /// GPU memory, which lies in the dma-buf `descriptor` from `offset_bytes` on. ncclInvalidUsage where the plugin has
  /// no regMrDmaBuf.
  virtual int register_dma_buf(void* comm, void* data, std::uint64_t size_bytes, std::uint64_t offset_bytes,
                               int descriptor, void** handle) = 0;
  virtual int deregister_memory(void* comm, void* handle) = 0;

  /// Up to nccl::kMaxGroupedReceives parts, one request for all.
  virtual int receive_group(void* comm, std::span<const ReceivePart> parts, void** request) = 0;
  /// `sizes` has room for each part.
  virtual int test_group(void* request, bool* done, int* sizes) = 0;
  /// Success and no request where the plugin has no iflush.
  virtual int flush(void* comm, std::span<const ReceivePart> parts, void** request) = 0;
  /// NCCL's hints before a transfer; from v11 on, and only if the plugin has the entry.
  virtual int set_attributes(nccl::NetAttr* attributes) = 0;
  // Entries that a plugin may lack.
  virtual bool has_flush() const = 0;
  virtual bool has_set_attributes() const = 0;
};

struct TransportOptions {
  std::string plugin;         // as NCCL_NET_PLUGIN
  int version = 0;            // 8..12; 0: the newest
  std::uint64_t comm_id = 0;  // the same on all ranks of a communicator
  int rank = 0;               // for the log
};

/// A plugin that has been initialised for one communicator. Finalised with it.
class Transport {
 public:
  static Result<std::unique_ptr<Transport>> load(const TransportOptions& options);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  NetTable& table() { return *table_; }
  const std::vector<DeviceProperties>& devices() const { return devices_; }

 private:
  explicit Transport(std::unique_ptr<NetTable> table) : table_(std::move(table)) {}
  Result<void> start(std::uint64_t comm_id);

  std::unique_ptr<NetTable> table_;
  std::vector<DeviceProperties> devices_;
  bool initialised_ = false;
};

/// Wraps the table found as ncclNetPlugin_v<version>; nullptr where we do not know that version.
std::unique_ptr<NetTable> wrap_table(int version, void* symbol);

/// "ncclSystemError: <the plugin's last WARN since `warns_before`>".
std::string explain_net_error(int code, std::uint64_t warns_before);

}  // namespace meshbed::coll
