// The drop-in against the library whose place it takes: rdma-core 44's libibverbs.so.1, where that is installed.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <set>
#include <string>

#include "tests/verbs/pair.h"

namespace abi_test {

using namespace meshbed;
using namespace meshbed::test;

namespace {

constexpr const char* kInstalled = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

/// "name@@VERSION" of every default-version symbol whose version begins with IBVERBS_.
std::set<std::string> default_symbols(const std::string& path) {
  std::set<std::string> symbols;
  std::FILE* listing = ::popen(("nm -D --defined-only " + path).c_str(), "r");
  REQUIRE(listing != nullptr);
  std::array<char, 512> line;
  while (std::fgets(line.data(), line.size(), listing) != nullptr) {
    std::string text = line.data();
    text.erase(text.find_last_not_of("\n") + 1);
    const std::string symbol = text.substr(text.rfind(' ') + 1);
    if (symbol.find("@@IBVERBS_") != std::string::npos) symbols.insert(symbol);
  }
  ::pclose(listing);
  return symbols;
}

template <typename Function>
Function* function_of(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

// rdma-core 44's libibverbs/libibverbs.map.in: symbols of libibverbs.so.1 and the version of each.
TEST_CASE("the drop-in exports the installed library's default symbols, each in its version, and no others") {
  const auto ours = default_symbols(libibverbs_path());
  CHECK(ours.size() == 146);
  if (::access(kInstalled, R_OK) != 0) {
    MESSAGE("skipped the comparison: no rdma-core library is installed");
    return;
  }
  const auto theirs = default_symbols(kInstalled);
  for (const auto& symbol : theirs) CHECK_MESSAGE(ours.count(symbol) == 1, "missing: ", symbol);
  for (const auto& symbol : ours) CHECK_MESSAGE(theirs.count(symbol) == 1, "unknown: ", symbol);
}

// ibv_event_type_str(3), ibv_rate_to_mult(3), ibv_rate_to_mbps(3).
TEST_CASE("texts and rates are the installed library's own") {
  void* theirs = dlopen(kInstalled, RTLD_NOW | RTLD_LOCAL);
  if (theirs == nullptr) {
    MESSAGE("skipped: no rdma-core library is installed");
    return;
  }
  const auto wc_text = function_of<decltype(ibv_wc_status_str)>(theirs, "ibv_wc_status_str");
  const auto event_text = function_of<decltype(ibv_event_type_str)>(theirs, "ibv_event_type_str");
  const auto node_text = function_of<decltype(ibv_node_type_str)>(theirs, "ibv_node_type_str");
  const auto port_text = function_of<decltype(ibv_port_state_str)>(theirs, "ibv_port_state_str");
  const auto to_mult = function_of<decltype(ibv_rate_to_mult)>(theirs, "ibv_rate_to_mult");
  const auto to_mbps = function_of<decltype(ibv_rate_to_mbps)>(theirs, "ibv_rate_to_mbps");
  const auto from_mult = function_of<decltype(mult_to_ibv_rate)>(theirs, "mult_to_ibv_rate");
  const auto from_mbps = function_of<decltype(mbps_to_ibv_rate)>(theirs, "mbps_to_ibv_rate");
  REQUIRE((wc_text != nullptr && wc_text != &ibv_wc_status_str));
  for (int value = -1; value < 30; ++value) {
    CAPTURE(value);
    CHECK(std::string(ibv_wc_status_str(ibv_wc_status(value))) == wc_text(ibv_wc_status(value)));
    CHECK(std::string(ibv_event_type_str(ibv_event_type(value))) == event_text(ibv_event_type(value)));
    CHECK(std::string(ibv_node_type_str(ibv_node_type(value))) == node_text(ibv_node_type(value)));
    CHECK(std::string(ibv_port_state_str(ibv_port_state(value))) == port_text(ibv_port_state(value)));
    CHECK(ibv_rate_to_mult(ibv_rate(value)) == to_mult(ibv_rate(value)));
    CHECK(ibv_rate_to_mbps(ibv_rate(value)) == to_mbps(ibv_rate(value)));
    const int mbps = to_mbps(ibv_rate(value));
    CHECK(mbps_to_ibv_rate(mbps) == from_mbps(mbps));
  }
  int differences = 0;
  for (int multiple = -1; multiple < 600; ++multiple) {
    differences += mult_to_ibv_rate(multiple) != from_mult(multiple) ? 1 : 0;
  }
  CHECK(differences == 0);
}

// ibv_get_device_list(3): ENOSYS, "No kernel support for RDMA."; sim/verbs/backend.h: the table carries its version.
TEST_CASE("without a back end there are no devices, and a table of another version is refused") {
  int count = -1;
  CHECK(ibv_get_device_list(&count) == nullptr);
  CHECK(errno == ENOSYS);
  CHECK(count == 0);
  void* ours = dlopen(libibverbs_path().c_str(), RTLD_NOW);
  REQUIRE(ours != nullptr);
  const auto set_backend = function_of<int(const sim::VerbsBackend*)>(ours, sim::kSetBackendSymbol);
  REQUIRE((set_backend != nullptr));
  sim::VerbsBackend other{};
  other.version = sim::kBackendVersion + 1;
  other.size = sizeof(other);
  CHECK(set_backend(&other) == EINVAL);
  CHECK(set_backend(nullptr) == EINVAL);
}

// rdma-core's libibverbs/dummy_ops.c: a verb that a provider lacks answers EOPNOTSUPP.
TEST_CASE("a verb that is not implemented answers EOPNOTSUPP and logs one WARN with its name") {
  const auto result = run_pair({}, [](Side& side) {
    if (side.index != 0) return;
    for (int call = 0; call < 2; ++call) {
      errno = 0;
      CHECK(ibv_rereg_mr(side.mr, 0, nullptr, nullptr, 0, 0) == EOPNOTSUPP);  // exported
      CHECK(ibv_alloc_mw(side.pd, IBV_MW_TYPE_1) == nullptr);                 // through ibv_context::ops
      CHECK(errno == EOPNOTSUPP);
      CHECK(ibv_advise_mr(side.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0) == EOPNOTSUPP);  // verbs_context
      ibv_srq_init_attr srq{};
      CHECK(ibv_create_srq(side.pd, &srq) == nullptr);
      ibv_ah_attr address{};
      CHECK(ibv_create_ah(side.pd, &address) == nullptr);
      // A kind of a verb that is implemented otherwise.
      ibv_qp_init_attr datagrams{};
      datagrams.send_cq = datagrams.recv_cq = side.cq;
      datagrams.qp_type = IBV_QPT_UD;
      errno = 0;
      CHECK(ibv_create_qp(side.pd, &datagrams) == nullptr);
      CHECK(errno == EOPNOTSUPP);
      ibv_qp_attr drain{};
      drain.qp_state = IBV_QPS_SQD;
      CHECK(ibv_modify_qp(side.qp, &drain, IBV_QP_STATE) == EOPNOTSUPP);
      CHECK(ibv_reg_mr(side.pd, side.memory.data(), 4096, IBV_ACCESS_ZERO_BASED) == nullptr);
      CHECK(errno == EOPNOTSUPP);
    }
  });
  for (const std::string verb : {"ibv_rereg_mr", "ibv_alloc_mw", "ibv_advise_mr", "ibv_create_srq", "ibv_create_ah",
                                 "ibv_create_qp with type 4 (not IBV_QPT_RC)", "ibv_modify_qp to IBV_QPS_SQD",
                                 "ibv_reg_mr with access flags 0x20"}) {
    CAPTURE(verb);
    const std::size_t first = result.output.find(verb + " is not implemented");
    CHECK(first != std::string::npos);
    CHECK(result.output.find(verb + " is not implemented", first + 1) == std::string::npos);
  }
}

}  // namespace abi_test
