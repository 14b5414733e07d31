// Two ranks, one cable, the real library: what travels, and what it says of itself.
#include <doctest/doctest.h>

#include "tests/net/mesh_ranks.h"

namespace pair_test {

using namespace meshbed;
using namespace meshbed::test;
using sim::OutcomeKind;

TEST_CASE("D8: messages of 0 B to 8 MiB arrive whole, with the size that was sent, not the one that was posted") {
  const std::vector<std::size_t> sizes{0, 1, 7, 64, 4095, 4096, 4097, 65536, 1 << 20, (1 << 20) + 1, 8 << 20, 0, 3};
  const auto result = run_mesh(ring_cluster(2), [&](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    const Buffer out = rank.buffer(comms.send, 8 << 20, static_cast<std::uint32_t>(rank.rank()));
    Buffer in = rank.buffer(comms.receive, 9 << 20, 99);
    for (const std::size_t size : sizes) {
      std::fill(in.bytes.begin(), in.bytes.end(), 0xcc);
      void* receive = rank.receive(comms.receive, in);
      void* send = rank.send(comms.send, out, size);
      CHECK(rank.finish(receive) == static_cast<int>(size));
      CHECK(rank.finish(send) == static_cast<int>(size));
      std::size_t wrong = 0;
      for (std::size_t at = 0; at < in.bytes.size(); ++at) {
        const std::uint8_t wanted =
            at < size ? MeshRank::pattern(at, static_cast<std::uint32_t>(1 - rank.rank())) : 0xcc;
        wrong += in.bytes[at] != wanted ? 1 : 0;
      }
      CHECK(wrong == 0);
    }
    rank.release(comms.send, out);
    rank.release(comms.receive, in);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D9: a grouped receive of eight takes each message by its tag, and test() gives every size") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    // 60 rounds of 8, 3 and 1 parts walk the ring's end at every offset.
    for (int round = 0; round < 60; ++round) {
      const int parts = round % 3 == 0 ? 8 : round % 3 == 1 ? 3 : 1;
      if (rank.rank() == 0) {
        Buffer out = rank.buffer(comms.send, 4096, 5);
        std::vector<void*> requests;
        for (int part = 0; part < parts; ++part) {
          const int tag = (part * 5 + round) % parts;  // any order
          const std::size_t size = parts == 3 || parts == 8 ? static_cast<std::size_t>(tag) * 100 : 17;
          requests.push_back(rank.send(comms.send, out, size, parts == 3 ? (part + round) % 3 : tag));
        }
        for (void* request : requests) CHECK(rank.finish(request) >= 0);
        rank.release(comms.send, out);
      } else {
        std::array<Buffer, 8> in;
        void* data[8];
        std::size_t sizes[8];
        int tags[8];
        void* memories[8];
        for (int part = 0; part < parts; ++part) {
          in[part] = rank.buffer(comms.receive, 1024, 0);
          data[part] = in[part].bytes.data();
          sizes[part] = 1024;
          tags[part] = part;
          memories[part] = in[part].memory;
        }
        void* request = nullptr;
        while (request == nullptr) {
          CHECK(rank.net().irecv(comms.receive, parts, data, sizes, tags, memories, nullptr, &request) == 0);
        }
        int got[8];
        CHECK(rank.finish(request, got) >= 0);
        for (int part = 0; part < parts; ++part) {
          if (parts == 8) CHECK(got[part] == part * 100);
          if (parts == 1) CHECK(got[part] == 17);
          CHECK(std::equal(in[part].bytes.begin(), in[part].bytes.begin() + got[part], [] {
            static std::vector<std::uint8_t> wanted(4096);
            MeshRank::fill(wanted, 5);
            return wanted.begin();
          }()));
          rank.release(comms.receive, in[part]);
        }
      }
    }
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("what is posted is announced at once: its sender serves all of it although the receives are not polled") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    void* comm = rank.rank() == 0 ? comms.send : comms.receive;
    Buffer bytes = rank.buffer(comm, 64, 3);
    std::vector<void*> requests;
    for (const int parts : {8, 2, 1, 1, 1, 1, 1, 1, 1, 1}) {
      if (rank.rank() == 0) {
        for (int part = 0; part < parts; ++part) requests.push_back(rank.send(comm, bytes, 64, part));
        continue;
      }
      std::array<void*, 8> data, memories;
      std::array<std::size_t, 8> sizes;
      std::array<int, 8> tags;
      for (int part = 0; part < parts; ++part) {
        data[part] = bytes.bytes.data();
        memories[part] = bytes.memory;
        sizes[part] = 64;
        tags[part] = part;
      }
      void* request = nullptr;
      CHECK(rank.net().irecv(comm, parts, data.data(), sizes.data(), tags.data(), memories.data(), nullptr, &request) ==
            0);
      requests.push_back(request);
    }
    if (rank.rank() == 0) {
      for (void* request : requests) CHECK(rank.finish(request) == 64);
    }
    rank.meet("sent", 2);
    if (rank.rank() == 1) {
      for (void* request : requests) CHECK(rank.finish(request) == 64);
    }
    rank.release(comm, bytes);
    rank.close(comms);
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("D12, D13: 32 x 8 receives are taken, then the request is NULL; a send without a receive is NULL") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    Buffer bytes = rank.buffer(rank.rank() == 0 ? comms.send : comms.receive, 64, 3);
    void* comm = rank.rank() == 0 ? comms.send : comms.receive;
    if (rank.rank() == 0) CHECK(rank.send_once(comm, bytes, 64) == nullptr);
    rank.meet("no receive yet", 2);
    std::vector<void*> requests;
    if (rank.rank() == 1) {
      for (int index = 0; index < 256; ++index) requests.push_back(rank.receive_once(comm, bytes));
      for (void* request : requests) CHECK(request != nullptr);
      CHECK(rank.receive_once(comm, bytes) == nullptr);
    }
    rank.meet("receives posted", 2);
    if (rank.rank() == 0) {
      for (int index = 0; index < 256; ++index) requests.push_back(rank.send(comm, bytes, 64));
      CHECK(rank.send_once(comm, bytes, 64) == nullptr);
    }
    for (void* request : requests) CHECK(rank.finish(request) == 64);
    // All are free again.
    if (rank.rank() == 1) {
      void* request = rank.receive_once(comm, bytes);
      CHECK(request != nullptr);
      CHECK(rank.finish(request) == 8);
    } else {
      CHECK(rank.finish(rank.send(comm, bytes, 8)) == 8);
    }
    rank.release(comm, bytes);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

TEST_CASE("receives posted before their sends complete in order, many in flight both ways") {
  const auto result = run_mesh(ring_cluster(2), [](MeshRank& rank) {
    const Comms comms = rank.connect_both(1 - rank.rank(), 0);
    constexpr int kMessages = 2000;
    const Buffer out = rank.buffer(comms.send, 256, 1);
    Buffer in = rank.buffer(comms.receive, 256, 2);
    int sent = 0, received = 0, posted = 0;
    std::vector<void*> sends, receives;
    for (int turn = 0; received < kMessages || sent < kMessages || !sends.empty(); ++turn) {
      if (posted < kMessages) {
        if (void* request = rank.receive_once(comms.receive, in)) receives.push_back(request), ++posted;
      }
      if (sent < kMessages) {
        if (void* request = rank.send_once(comms.send, out, static_cast<std::size_t>(sent % 200))) {
          sends.push_back(request), ++sent;
        }
      }
      int done = 0, size = 0;
      if (!receives.empty()) CHECK(rank.net().test(receives.front(), &done, &size) == 0);
      if (done != 0) {
        CHECK(size == received % 200);
        ++received;
        receives.erase(receives.begin());
      }
      done = 0;
      if (!sends.empty()) CHECK(rank.net().test(sends.front(), &done, nullptr) == 0);
      if (done != 0) sends.erase(sends.begin());
      if (turn > 1'000'000) break;
    }
    CHECK(received == kMessages);
    rank.close(comms);
    CHECK(rank.warnings().empty());
  });
  CHECK(result.outcome == OutcomeKind::kFinished);
}

}  // namespace pair_test
