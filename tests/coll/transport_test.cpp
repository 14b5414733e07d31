// One adaptor over five table versions: every argument arrives where that version expects it.
#include "plugin/coll/transport/transport.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <type_traits>

#include "plugin/coll/transport/plugin_log.h"

namespace transport_test {

using namespace meshbed;
using namespace meshbed::coll;

namespace {

/// What the last call handed over. Tests run one after another.
struct Seen {
  std::uint64_t comm_id = 0, size = 0;
  void *context = nullptr, *comm = nullptr, *data = nullptr, *handle = nullptr;
  int device = -1, tag = -1;
  bool logger = false, finalised = false;
};
Seen seen;
int context_object = 0, comm_object = 0, request_object = 0, handle_object = 0;

int fill_listen(int device, void* handle, void** comm) {
  seen.device = device;
  seen.handle = handle;
  *comm = &comm_object;
  return 0;
}
int fill_send(void* comm, void* data, std::uint64_t size, int tag, void* handle, void** request) {
  seen.comm = comm;
  seen.data = data;
  seen.size = size;
  seen.tag = tag;
  seen.handle = handle;
  *request = &request_object;
  return 0;
}
template <typename Properties>
int fill_properties(int, Properties* properties) {
  static char name[] = "fake0";
  properties->name = name;
  properties->speed = 400000;
  properties->maxRecvs = 8;
  if constexpr (!std::is_same_v<Properties, nccl::PropertiesV8>) properties->maxP2pBytes = 1U << 20U;
  return 0;
}

// What all versions have alike.
template <typename Table>
Table common() {
  Table table{};
  table.name = "fake";
  table.devices = [](int* count) {
    *count = 1;
    return 0;
  };
  table.accept = [](void* listener, void** comm, nccl::NetDeviceHandle**) {
    seen.comm = listener;
    *comm = &comm_object;
    return 0;
  };
  table.regMr = [](void* comm, void* data, std::size_t size, int type, void** handle) {
    seen = {.size = size, .comm = comm, .data = data, .tag = type};
    *handle = &handle_object;
    return 0;
  };
  table.test = [](void*, int* done, int* size) {
    *done = 1;
    *size = 4096;
    return 0;
  };
  return table;
}

nccl::NetV8 table_v8() {
  auto table = common<nccl::NetV8>();
  table.init = [](nccl::LogFunction log) {
    seen.logger = log == plugin_logger();
    return 0;
  };
  table.getProperties = fill_properties<nccl::PropertiesV8>;
  table.listen = fill_listen;
  table.connect = [](int device, void* handle, void** comm, nccl::NetDeviceHandle**) {
    return fill_listen(device, handle, comm);
  };
  table.isend = [](void* comm, void* data, int size, int tag, void* handle, void** request) {
    return fill_send(comm, data, static_cast<std::uint64_t>(size), tag, handle, request);
  };
  table.irecv = [](void* comm, int, void** data, int* sizes, int* tags, void** handles, void** request) {
    return fill_send(comm, data[0], static_cast<std::uint64_t>(sizes[0]), tags[0], handles[0], request);
  };
  return table;
}

nccl::NetV9 table_v9() {
  auto table = common<nccl::NetV9>();
  const nccl::NetV8 v8 = table_v8();
  table.init = v8.init;
  table.getProperties = fill_properties<nccl::PropertiesV9>;
  table.listen = v8.listen;
  table.connect = v8.connect;
  table.isend = [](void* comm, void* data, std::size_t size, int tag, void* handle, void** request) {
    return fill_send(comm, data, size, tag, handle, request);
  };
  table.irecv = [](void* comm, int, void** data, std::size_t* sizes, int* tags, void** handles, void** request) {
    return fill_send(comm, data[0], sizes[0], tags[0], handles[0], request);
  };
  return table;
}

// v10 to v12 pass a profiler event with every transfer.
template <typename Table>
void with_events(Table* table) {
  table->isend = [](void* comm, void* data, std::size_t size, int tag, void* handle, void*, void** request) {
    return fill_send(comm, data, size, tag, handle, request);
  };
  table->irecv = [](void* comm, int, void** data, std::size_t* sizes, int* tags, void** handles, void** events,
                    void** request) {
    CHECK(events != nullptr);
    return fill_send(comm, data[0], sizes[0], tags[0], handles[0], request);
  };
}

nccl::NetV10 table_v10() {
  auto table = common<nccl::NetV10>();
  table.init = [](nccl::LogFunction log, nccl::ProfilerFunction) {
    seen.logger = log == plugin_logger();
    return 0;
  };
  table.getProperties = fill_properties<nccl::PropertiesV9>;
  table.listen = fill_listen;
  table.connect = [](int device, nccl::CommConfig* config, void* handle, void** comm, nccl::NetDeviceHandle**) {
    CHECK(config->trafficClass == nccl::kTrafficClassUndefined);
    return fill_listen(device, handle, comm);
  };
  with_events(&table);
  return table;
}

template <typename Table, typename Properties>
Table table_with_context() {
  auto table = common<Table>();
  table.init = [](void** context, std::uint64_t comm_id, nccl::CommConfig* config, nccl::LogFunction log,
                  nccl::ProfilerFunction) {
    CHECK(config->trafficClass == nccl::kTrafficClassUndefined);
    seen.comm_id = comm_id;
    seen.logger = log == plugin_logger();
    *context = &context_object;
    return 0;
  };
  table.getProperties = fill_properties<Properties>;
  table.listen = [](void* context, int device, void* handle, void** comm) {
    CHECK(context == &context_object);
    return fill_listen(device, handle, comm);
  };
  table.connect = [](void* context, int device, void* handle, void** comm, nccl::NetDeviceHandle**) {
    CHECK(context == &context_object);
    return fill_listen(device, handle, comm);
  };
  table.finalize = [](void* context) {
    CHECK(context == &context_object);
    seen.finalised = true;
    return 0;
  };
  with_events(&table);
  return table;
}

void check_table(int version, void* symbol) {
  INFO("version ", version);
  const std::unique_ptr<NetTable> net = wrap_table(version, symbol);
  REQUIRE(net != nullptr);
  CHECK(net->version() == version);
  CHECK(std::string(net->name()) == "fake");
  seen = {};
  CHECK(net->init(77) == 0);
  CHECK(seen.logger);
  CHECK(seen.comm_id == (version >= 11 ? 77U : 0U));
  DeviceProperties properties;
  CHECK(net->properties(0, &properties) == 0);
  CHECK(properties.name == "fake0");
  CHECK(properties.speed_mbps == 400000);
  CHECK(properties.receives_max == 8);
  CHECK(properties.message_bytes_max == (version == 8 ? 1U << 30U : 1U << 20U));

  void *comm = nullptr, *request = nullptr, *handle = nullptr;
  char data[8];
  CHECK(net->listen(3, data, &comm) == 0);
  CHECK((seen.device == 3 && seen.handle == data && comm == &comm_object));
  comm = nullptr;
  CHECK(net->connect(2, data + 1, &comm) == 0);
  CHECK((seen.device == 2 && seen.handle == data + 1 && comm == &comm_object));
  CHECK(net->accept(data + 2, &comm) == 0);
  CHECK(seen.comm == data + 2);
  CHECK(net->register_memory(comm, data, 8, &handle) == 0);
  CHECK((seen.comm == comm && seen.data == data && seen.size == 8 && seen.tag == nccl::kPtrHost));
  CHECK(handle == &handle_object);
  CHECK(net->send(comm, data, 5, 9, handle, &request) == 0);
  CHECK((seen.comm == comm && seen.data == data && seen.size == 5 && seen.tag == 9 && seen.handle == handle));
  CHECK(net->receive(comm, data + 1, 6, 4, handle, &request) == 0);
  CHECK((seen.data == data + 1 && seen.size == 6 && seen.tag == 4 && seen.handle == handle));
  CHECK(request == &request_object);
  bool done = false;
  std::uint64_t size_bytes = 0;
  CHECK(net->test(request, &done, &size_bytes) == 0);
  CHECK((done && size_bytes == 4096));
  seen.finalised = false;
  CHECK(net->finalize() == 0);
  CHECK(seen.finalised == (version >= 11));
}

}  // namespace

TEST_CASE("tables v8 to v12 receive every argument where their version expects it") {
  auto v8 = table_v8();
  auto v9 = table_v9();
  auto v10 = table_v10();
  auto v11 = table_with_context<nccl::NetV11, nccl::PropertiesV11>();
  auto v12 = table_with_context<nccl::NetV12, nccl::PropertiesV12>();
  check_table(8, &v8);
  check_table(9, &v9);
  check_table(10, &v10);
  check_table(11, &v11);
  check_table(12, &v12);
  CHECK(wrap_table(7, &v8) == nullptr);
  CHECK(wrap_table(13, &v12) == nullptr);
}

TEST_CASE("a table without an entry that NCCL would call names it") {
  auto v12 = table_with_context<nccl::NetV12, nccl::PropertiesV12>();
  const auto missing = [&v12] { return wrap_table(12, &v12)->missing_entry(); };
  v12.deregMr = [](void*, void*) { return 0; };
  v12.closeSend = v12.closeRecv = [](void*) { return 0; };
  CHECK(std::string(missing()) == "closeListen");
  v12.closeListen = v12.closeSend;
  CHECK(missing() == nullptr);
  v12.isend = nullptr;
  CHECK(std::string(missing()) == "isend");
}

TEST_CASE("the reason for an error code is the plugin's last WARN since the call began") {
  plugin_logger()(nccl::kNcclLogWarn, nccl::kNcclLogNet, "file", 1, "old news");
  const std::uint64_t before = warn_count();
  CHECK(explain_net_error(nccl::kNcclSystemError, before) == "ncclSystemError: the net plugin gave no reason");
  plugin_logger()(nccl::kNcclLogInfo, nccl::kNcclLogNet, "file", 1, "only information");
  CHECK(last_warn(before).empty());
  plugin_logger()(nccl::kNcclLogWarn, nccl::kNcclLogNet, "file", 1, "no path: %d", 7);
  CHECK(explain_net_error(nccl::kNcclRemoteError, before) == "ncclRemoteError: no path: 7");
}

}  // namespace transport_test
