// The GID table: which addresses a port has, and how it is asked.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

constexpr const char* kNoRoceV1 =
    "drivers/infiniband/sw/rxe/rxe_verbs.c, rxe_port_immutable: the port is RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP, so that "
    "drivers/infiniband/core/roce_gid_mgmt.c, roce_gid_type_mask_support, makes entries of RoCE v2 only";

std::vector<ibv_gid_entry> entries_of(End& end) {
  end.open_device();
  ibv_port_attr port{};
  need(ibv_query_port(end.context, 1, &port), "ibv_query_port");
  std::vector<ibv_gid_entry> entries;
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(end.context, 1, static_cast<std::uint32_t>(index), &entry, 0) == 0) entries.push_back(entry);
  }
  return entries;
}

bool is(const ibv_gid& left, const ibv_gid& right) { return std::memcmp(left.raw, right.raw, sizeof left.raw) == 0; }
bool link_local(const ibv_gid& gid) { return gid.raw[0] == 0xfe && gid.raw[1] == 0x80; }

template <typename Test>
std::string count(const std::vector<ibv_gid_entry>& entries, Test test) {
  return std::to_string(std::count_if(entries.begin(), entries.end(), test));
}

int first_empty(End& end) {
  ibv_port_attr port{};
  need(ibv_query_port(end.context, 1, &port), "ibv_query_port");
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(end.context, 1, static_cast<std::uint32_t>(index), &entry, 0) == ENODATA) return index;
  }
  return -1;
}

const Contract kGidContracts[] = {
    {"an IPv4 address stands in the table once as a mapped RoCE v2 GID", "ibv_query_gid_ex(3); RoCE v2 annex (A17)",
     [](End& end) {
       const auto entries = entries_of(end);
       const ibv_gid own = parse_gid(kAddresses[end.rank()]);
       const auto mapped = [](const ibv_gid& gid) {
         static constexpr std::array<std::uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
         return std::equal(kPrefix.begin(), kPrefix.end(), gid.raw);
       };
       end.sees("v2 entries of the address",
                count(entries,
                      [&](const ibv_gid_entry& entry) {
                        return is(entry.gid, own) && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
                      }),
                "1");
       end.sees("mapped addresses of others",
                count(entries, [&](const ibv_gid_entry& entry) { return mapped(entry.gid) && !is(entry.gid, own); }),
                "0");
     }},
    {"an IPv6 address stands in the table once as a RoCE v2 GID", "ibv_query_gid_ex(3)",
     [](End& end) {
       const auto entries = entries_of(end);
       const ibv_gid own = parse_gid(kSixAddresses[end.rank()]);
       end.sees("v2 entries of the address",
                count(entries,
                      [&](const ibv_gid_entry& entry) {
                        return is(entry.gid, own) && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
                      }),
                "1");
     }},
    {"the link-local address comes first", "ibv_query_gid_ex(3); Linux roce_gid_mgmt.c",
     [](End& end) {
       const auto entries = entries_of(end);
       end.sees("entry 0 is link-local", yes_or_no(!entries.empty() && link_local(entries[0].gid)), "yes");
       end.sees("v2 entries that are link-local",
                count(entries,
                      [](const ibv_gid_entry& entry) {
                        return link_local(entry.gid) && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
                      }),
                "1");
     }},
    {"every address stands in the table as RoCE v1 too", "Linux roce_gid_mgmt.c: one entry a type that the port has",
     [](End& end) {
       const auto entries = entries_of(end);
       end.sees("entries", std::to_string(entries.size()), "6", {"3", kNoRoceV1});
       end.sees("RoCE v1",
                count(entries, [](const ibv_gid_entry& entry) { return entry.gid_type == IBV_GID_TYPE_ROCE_V1; }), "3",
                {"0", kNoRoceV1});
       end.sees("RoCE v2",
                count(entries, [](const ibv_gid_entry& entry) { return entry.gid_type == IBV_GID_TYPE_ROCE_V2; }), "3");
     }},
    {"an entry names its port, its index and its interface", "ibv_query_gid_ex(3)",
     [](End& end) {
       const auto entries = entries_of(end);
       end.sees(
           "port 1 everywhere",
           yes_or_no(std::all_of(entries.begin(), entries.end(), [](const auto& each) { return each.port_num == 1; })),
           "yes");
       end.sees("an interface everywhere",
                yes_or_no(std::all_of(entries.begin(), entries.end(),
                                      [](const auto& each) { return each.ndev_ifindex != 0; })),
                "yes");
       end.sees("index of the first", entries.empty() ? "none" : std::to_string(entries[0].gid_index), "0");
     }},
    {"an empty entry has no data, and reads as the zero GID", "ibv_query_gid_ex(3): ENODATA; ibv_query_gid(3)",
     [](End& end) {
       end.open_device();
       const int index = first_empty(end);
       end.sees("there is an empty entry", yes_or_no(index >= 0), "yes");
       ibv_gid gid{};
       gid.raw[5] = 1;
       end.sees("ibv_query_gid", std::to_string(ibv_query_gid(end.context, 1, index, &gid)), "0");
       end.sees("its GID", is(gid, ibv_gid{}) ? "zero" : "something", "zero");
     }},
    {"an index past the table is refused", "ibv_query_gid_ex(3), ibv_query_gid(3)",
     [](End& end) {
       end.open_device();
       ibv_port_attr port{};
       need(ibv_query_port(end.context, 1, &port), "ibv_query_port");
       ibv_gid_entry entry{};
       ibv_gid gid{};
       end.sees("ibv_query_gid_ex",
                answer(ibv_query_gid_ex(end.context, 1, static_cast<std::uint32_t>(port.gid_tbl_len), &entry, 0)),
                "EINVAL");
       end.sees("ibv_query_gid", std::to_string(ibv_query_gid(end.context, 1, port.gid_tbl_len, &gid)), "-1");
       end.sees("port 2", answer(ibv_query_gid_ex(end.context, 2, 0, &entry, 0)), "EINVAL");
     }},
    {"the whole table in one call is the same table", "ibv_query_gid_table(3)",
     [](End& end) {
       const auto entries = entries_of(end);
       std::array<ibv_gid_entry, 64> table{};
       const auto count = ibv_query_gid_table(end.context, table.data(), table.size(), 0);
       end.sees("as many entries", std::to_string(count), std::to_string(entries.size()));
       bool same = count == static_cast<ssize_t>(entries.size());
       for (std::size_t at = 0; same && at < entries.size(); ++at) {
         same = is(table[at].gid, entries[at].gid) && table[at].gid_index == entries[at].gid_index &&
                table[at].gid_type == entries[at].gid_type;
       }
       end.sees("the same ones", yes_or_no(same), "yes");
     }},
    {"flags of the GID queries that do not exist are refused",
     "ibv_query_gid_ex(3): flags must be 0; Linux uverbs_get_flags32",
     [](End& end) {
       end.open_device();
       ibv_gid_entry entry{};
       end.sees("ibv_query_gid_ex", answer(ibv_query_gid_ex(end.context, 1, 0, &entry, 1)), "EINVAL");
       end.sees("ibv_query_gid_table", std::to_string(ibv_query_gid_table(end.context, &entry, 1, 1)),
                std::to_string(-EINVAL));
     }},
};

}  // namespace

std::span<const Contract> gid_contracts() { return kGidContracts; }

}  // namespace meshbed::contract
