// Conformance: devices, listeners, connections.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plugin/coll/transport/plugin_log.h"
#include "testbed/verify/conformance_cases.h"

namespace meshbed::testbed {
namespace {

void devices_described(CaseRank& rank) {
  const int devices = rank.devices();
  rank.require(devices > 0, "there is a device");
  std::vector<coll::DeviceProperties> first;
  for (int device = 0; device < devices; ++device) {
    const coll::DeviceProperties properties = rank.properties(device);
    const auto require = [&](bool holds, const char* rule) {
      rank.require(holds, fmt::format("properties of device {}: {}", device, rule));
    };
    require(properties.name != "unnamed" && !properties.name.empty(), "name is a text");
    require((properties.pointer_support & nccl::kPtrHost) != 0, "ptrSupport has NCCL_PTR_HOST");
    require(properties.speed_mbps > 0, "speed is above 0 Mb/s");
    require(properties.connections_max > 0, "maxComms is above 0");
    require(properties.receives_max >= 1, "maxRecvs is 1 at least");
    require(properties.offload_type == nccl::kNetDeviceHost || properties.offload_type == nccl::kNetDeviceUnpack,
            "netDeviceType is one that NCCL knows");
    require(properties.message_bytes_max > 0, "maxP2pBytes is above 0");
    if (rank.net().version() >= 9) {
      require(!properties.physical.empty(), "vProps.ndevs is 1 at least");
      require(std::find(properties.physical.begin(), properties.physical.end(), device) != properties.physical.end() ||
                  properties.physical.size() > 1,
              "vProps.devs names the device itself, or those that it is made of");
    }
    first.push_back(properties);
  }
  for (int device = devices - 1; device >= 0; --device) {
    rank.require(rank.properties(device) == first[static_cast<std::size_t>(device)],
                 fmt::format("device {} reports the same properties when queried again, after others", device));
  }
}

void device_that_is_not_there(CaseRank& rank) {
  CaseHandle handle;
  void* listener = nullptr;
  const int code = rank.net().listen(rank.devices(), handle.bytes.data(), &listener);
  rank.require(code != nccl::kNcclSuccess, "listen on a device that does not exist is an error");
}

void handles(CaseRank& rank) {
  CaseHandle one, other;
  one.bytes.fill(0x5a);
  other.bytes.fill(0x5a);
  void* first = nullptr;
  const Picoseconds took_ps = rank.time_of([&] { first = rank.listen(0, one); });
  rank.require(took_ps < kCallAtMost, "listen does not wait");
  void* second = rank.listen(0, other);
  rank.require(std::all_of(one.bytes.begin() + nccl::kHandleBytes, one.bytes.end(),
                           [](std::uint8_t byte) { return byte == 0x5a; }),
               "listen writes no more than the 128 bytes of a handle");
  rank.require(!std::equal(one.bytes.begin(), one.bytes.begin() + nccl::kHandleBytes, other.bytes.begin()),
               "two listeners have two handles");
  rank.close_listener(first);
  rank.close_listener(second);
}

void connect_polled(CaseRank& rank) {
  if (rank.first()) {
    void* listener = rank.listen(0, "listener");
    rank.meet("the other has tried");
    rank.succeeded(rank.net().close_receive(rank.accept(listener)), "closeRecv", coll::warn_count());
    rank.close_listener(listener);
    return;
  }
  const std::string handle_text = rank.await("listener");
  CaseHandle handle;
  std::copy_n(handle_text.begin(), nccl::kHandleBytes, handle.bytes.begin());
  void* comm = nullptr;
  const Picoseconds took_ps = rank.time_of([&] {
    const std::uint64_t warns = coll::warn_count();
    rank.succeeded(rank.net().connect(0, handle.bytes.data(), &comm), "connect before the other accepts", warns);
  });
  rank.require(took_ps < kCallAtMost, "connect does not wait for the other to accept: it says success and NULL");
  rank.meet("the other has tried");
  rank.wait("connect", [&] {
    const std::uint64_t warns = coll::warn_count();
    if (comm == nullptr) rank.succeeded(rank.net().connect(0, handle.bytes.data(), &comm), "connect", warns);
    return comm != nullptr;
  });
  rank.succeeded(rank.net().close_send(comm), "closeSend", coll::warn_count());
}

void accept_polled(CaseRank& rank) {
  if (!rank.first()) {
    rank.meet("accept was tried");
    rank.succeeded(rank.net().close_send(rank.connect(0, "listener")), "closeSend", coll::warn_count());
    return;
  }
  void* listener = rank.listen(0, "listener");
  void* comm = nullptr;
  const Picoseconds took_ps = rank.time_of([&] {
    for (int look = 0; look < 10; ++look) {
      const std::uint64_t warns = coll::warn_count();
      rank.succeeded(rank.net().accept(listener, &comm), "accept without a peer", warns);
      rank.require(comm == nullptr, "accept returns NULL without a peer");
    }
  });
  rank.require(took_ps < kCallAtMost, "accept does not wait for a peer");
  rank.meet("accept was tried");
  comm = rank.accept(listener);
  rank.succeeded(rank.net().close_receive(comm), "closeRecv", coll::warn_count());
  rank.close_listener(listener);
}

void many_on_one_listener(CaseRank& rank) {
  constexpr int kMany = 8;
  std::vector<void*> comms;
  void* listener = rank.first() ? rank.listen(0, "listener") : nullptr;
  // All use the same handle; each connect gets a copy.
  std::string handle_text;
  if (!rank.first()) handle_text = rank.await("listener");
  std::vector<CaseHandle> handles(kMany);
  for (CaseHandle& handle : handles) std::copy_n(handle_text.begin(), handle_text.size(), handle.bytes.begin());
  comms.resize(kMany, nullptr);
  rank.wait("many connections on one listener", [&] {
    bool all = true;
    for (std::size_t index = 0; index < kMany; ++index) {
      if (comms[index] != nullptr) continue;
      const std::uint64_t warns = coll::warn_count();
      if (rank.first()) {
        rank.succeeded(rank.net().accept(listener, &comms[index]), "accept", warns);
      } else {
        rank.succeeded(rank.net().connect(0, handles[index].bytes.data(), &comms[index]), "connect", warns);
      }
      all = all && comms[index] != nullptr;
    }
    return all;
  });
  // Messages pair each accept with its connect: each connection carries a different number once.
  if (rank.first()) {
    std::vector<bool> seen(kMany);
    for (void* comm : comms) {
      CaseBuffer buffer(8);
      void* handle = rank.register_memory(comm, buffer);
      rank.finish(rank.receive(comm, buffer.data(), 8, 0, handle));
      rank.deregister_memory(comm, handle);
      rank.require(buffer.data()[0] < kMany && !seen[buffer.data()[0]], "each connection is another one");
      seen[buffer.data()[0]] = true;
      rank.succeeded(rank.net().close_receive(comm), "closeRecv", coll::warn_count());
    }
    rank.close_listener(listener);
  } else {
    std::vector<CaseBuffer> buffers(kMany, CaseBuffer(8));
    std::vector<void*> memories, requests;
    for (std::size_t index = 0; index < kMany; ++index) {
      buffers[index].data()[0] = static_cast<std::uint8_t>(index);
      memories.push_back(rank.register_memory(comms[index], buffers[index]));
    }
    // The other rank accepts them one after the other: none may block another.
    requests.resize(kMany, nullptr);
    rank.wait("isend on many connections", [&] {
      bool all = true;
      for (std::size_t index = 0; index < kMany; ++index) {
        if (requests[index] == nullptr) {
          requests[index] = rank.try_send(comms[index], buffers[index].data(), 8, 0, memories[index]);
        }
        all = all && requests[index] != nullptr;
      }
      return all;
    });
    rank.finish_all(requests);
    for (std::size_t index = 0; index < kMany; ++index) {
      rank.deregister_memory(comms[index], memories[index]);
      rank.succeeded(rank.net().close_send(comms[index]), "closeSend", coll::warn_count());
    }
  }
}

void listener_closed_at_once(CaseRank& rank) {
  // As NCCL does it: closeListen follows accept, traffic comes later. connect_both() closes it so.
  const CasePair pair = rank.connect_both();
  rank.exchange(pair, 100'000, 1);
  rank.meet("exchanged");
  rank.close(pair);
}

/// Device i to the other side's device i, or N-1-i; all carry messages.
void over_devices(CaseRank& rank, bool reversed) {
  const int devices = rank.devices();
  rank.publish("devices", std::to_string(devices));
  const int common = std::min(devices, std::stoi(rank.await("devices")));
  if (reversed && common < 2) rank.not_looked_at("a single device is its own reverse");
  std::vector<CasePair> pairs;
  for (int device = 0; device < common; ++device) {
    pairs.push_back(
        rank.connect_both(device, reversed ? common - 1 - device : device, fmt::format("listener {}", device)));
  }
  for (std::size_t index = 0; index < pairs.size(); ++index) rank.exchange(pairs[index], 50'000, 10 * index);
  rank.meet("exchanged");
  for (const CasePair& pair : pairs) rank.close(pair);
}

void every_device(CaseRank& rank) { over_devices(rank, false); }

// NCCL opens device c on both nodes, whatever its cabling, and the nodes may order their devices differently.
void reversed_devices(CaseRank& rank) { over_devices(rank, true); }

void made_again(CaseRank& rank) {
  constexpr int kTimes = 32;
  for (int time = 0; time < kTimes; ++time) {
    const CasePair pair = rank.connect_both(0, 0, fmt::format("listener {}", time));
    rank.exchange(pair, 1000, static_cast<std::uint64_t>(2 * time));
    rank.meet(fmt::format("exchanged {}", time));
    rank.close(pair);
  }
}

void initialised_twice(CaseRank& rank) {
  // Two communicators of one process: v11 and v12 have a context for each; before, init is called once more.
  const std::unique_ptr<coll::NetTable> table = rank.another_table();
  const std::uint64_t warns = coll::warn_count();
  rank.succeeded(table->init(2), "init for a second communicator", warns);
  CaseRank second(rank.host(), *table, rank.name() + " second");
  const CasePair pair = rank.connect_both();
  const CasePair second_pair = second.connect_both();
  second.exchange(second_pair, 5000, 1);
  rank.meet("exchanged");
  second.close(second_pair);
  rank.succeeded(table->finalize(), "finalize of the second communicator", warns);
  rank.meet("the second is over");
  rank.exchange(pair, 5000, 3);
  rank.meet("exchanged again");
  rank.close(pair);
}

void attributes_taken(CaseRank& rank) {
  if (!rank.net().has_set_attributes()) {
    rank.not_looked_at(rank.net().version() < 11 ? "the table has no setNetAttr before v11"
                                                 : "the plugin has no setNetAttr, which it may lack");
    return;
  }
  const CasePair pair = rank.connect_both();
  nccl::NetAttr attributes{};
  // As NCCL 2.28.9 sets them: all undefined before connections, then for an all-reduce over a ring with Simple.
  const nccl::CommAttr undefined{nccl::kAttributeUndefined, nccl::kAttributeUndefined, nccl::kAttributeUndefined,
                                 nccl::kAttributeUndefined};
  attributes.sendCommAttr = attributes.recvCommAttr = undefined;
  attributes.op = attributes.algo = attributes.proto = static_cast<std::uint32_t>(nccl::kAttributeUndefined);
  std::uint64_t warns = coll::warn_count();
  rank.succeeded(rank.net().set_attributes(&attributes), "setNetAttr, all undefined", warns);
  attributes.sendCommAttr = attributes.recvCommAttr = {1, 1, 2, 2};
  attributes.op = 0x10;
  attributes.algo = 0x2;
  attributes.proto = 0x4;
  warns = coll::warn_count();
  rank.succeeded(rank.net().set_attributes(&attributes), "setNetAttr of an all-reduce", warns);
  rank.exchange(pair, 5000, 1);
  rank.meet("exchanged");
  rank.close(pair);
}

}  // namespace

std::vector<ConformanceCase> conformance_setup_cases() {
  return {
      {"devices", "every device has properties, which are the same each time", devices_described, false},
      {"no-such-device", "listen on a device that does not exist is an error", device_that_is_not_there, false},
      {"handles", "a handle is 128 bytes and belongs to one listener; listen does not wait", handles},
      {"connect-polled", "connect never waits: success and NULL until the other accepts", connect_polled},
      {"accept-polled", "accept never waits: success and NULL until a peer connects", accept_polled},
      {"many-on-one-listener", "a listener serves as many connections as come", many_on_one_listener},
      {"listener-closed", "closeListen right after accept leaves the connection alone", listener_closed_at_once},
      {"every-device", "every device connects and carries messages", every_device},
      {"reversed-devices", "device i reaches the other side's device N-1-i", reversed_devices},
      {"made-again", "connections can be made and closed again and again", made_again},
      {"initialised-twice", "a second communicator of the process works", initialised_twice},
      {"attributes", "setNetAttr takes what NCCL says (v11 on)", attributes_taken},
  };
}

}  // namespace meshbed::testbed
