#include "tests/contract/suite/end.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "tests/contract/suite/patience.h"
#include "tests/contract/suite/record.h"

namespace meshbed::contract {
namespace {

constexpr std::uint32_t kFirstPsn = 0xabc000;
constexpr std::uint8_t kHopLimit = 64;

std::string line(char kind, const std::vector<std::string>& fields) {
  std::string text(1, kind);
  for (const std::string& field : fields) text += "\t" + field;
  return text;
}

void never_block(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

void need(int result, const char* step) {
  if (result != 0) throw std::runtime_error(std::string(step) + ": " + answer(result));
}

void need(const void* object, const char* step) {
  if (object == nullptr) throw std::runtime_error(std::string(step) + ": " + answer(errno));
}

ibv_gid parse_gid(const std::string& address) {
  const bool six = address.find(':') != std::string::npos;
  ibv_gid gid{};
  if (inet_pton(AF_INET6, (six ? address : "::ffff:" + address).c_str(), gid.raw) != 1) {
    throw std::runtime_error(address + " is no address");
  }
  return gid;
}

End::End(const ContractPlace& place) : place_(place), handshake_(place) {}

End::~End() {
  if (qp != nullptr) ibv_destroy_qp(qp);
  if (mr != nullptr) ibv_dereg_mr(mr);
  if (cq != nullptr) ibv_destroy_cq(cq);
  if (channel != nullptr) ibv_destroy_comp_channel(channel);
  if (pd != nullptr) ibv_dealloc_pd(pd);
  if (context != nullptr) ibv_close_device(context);
}

void End::sees(const std::string& what, const std::string& seen, const std::string& promised) {
  place_.record(place_.host, line(kSeenLine, {what, seen, promised, "", ""}).c_str());
}

void End::sees(const std::string& what, const std::string& seen, const std::string& promised, const SoftRoce& instead) {
  place_.record(place_.host, line(kSeenLine, {what, seen, promised, instead.seen, instead.why}).c_str());
}

void End::open_device() {
  if (context != nullptr) return;
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  need(devices, "ibv_get_device_list");
  context = count > 0 ? ibv_open_device(devices[0]) : nullptr;
  ibv_free_device_list(devices);
  need(context, "ibv_open_device");
  never_block(context->async_fd);
}

ibv_gid End::own_gid() {
  ibv_gid wanted = parse_gid(setup.gid == GidKind::kIpv6 ? kSixAddresses[rank()] : kAddresses[rank()]);
  ibv_port_attr port{};
  need(ibv_query_port(context, 1, &port), "ibv_query_port");
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, 1, static_cast<std::uint32_t>(index), &entry, 0) != 0) continue;
    if (entry.gid_type != IBV_GID_TYPE_ROCE_V2) continue;
    const bool link_local = entry.gid.raw[0] == 0xfe && entry.gid.raw[1] == 0x80;
    const bool found = setup.gid == GidKind::kLinkLocal
                           ? link_local
                           : std::equal(std::begin(wanted.raw), std::end(wanted.raw), std::begin(entry.gid.raw));
    if (!found) continue;
    gid_index = static_cast<std::uint32_t>(index);
    return entry.gid;
  }
  throw std::runtime_error("the port has no such RoCE v2 GID");
}

ibv_qp_init_attr End::qp_init() const {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = setup.signal_all ? 1 : 0;
  init.cap = {.max_send_wr = setup.send_depth,
              .max_recv_wr = setup.recv_depth,
              .max_send_sge = setup.sges,
              .max_recv_sge = setup.sges,
              .max_inline_data = setup.inline_bytes};
  return init;
}

void End::open(const Setup& wanted) {
  setup = wanted;
  open_device();
  if (setup.channel) {
    channel = ibv_create_comp_channel(context);
    need(channel, "ibv_create_comp_channel");
    never_block(channel->fd);
  }
  pd = ibv_alloc_pd(context);
  need(pd, "ibv_alloc_pd");
  cq = ibv_create_cq(context, setup.cqe, this, channel, 0);
  need(cq, "ibv_create_cq");
  memory.assign(setup.memory_bytes, 0);
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), static_cast<int>(setup.access));
  need(mr, "ibv_reg_mr");
  ibv_qp_init_attr init = qp_init();
  qp = ibv_create_qp(pd, &init);
  need(qp, "ibv_create_qp");
  setup.inline_bytes = init.cap.max_inline_data;
}

void End::exchange() {
  peer = handshake_.swap(Peer{.gid = own_gid(),
                              .qp_num = qp->qp_num,
                              .psn = kFirstPsn + static_cast<std::uint32_t>(rank()),
                              .rkey = mr->rkey,
                              .address = reinterpret_cast<std::uint64_t>(memory.data())});
}

void End::connect(const Setup& wanted) {
  open(wanted);
  exchange();
  need(to_init(), "ibv_modify_qp to INIT");
  need(to_rtr(), "ibv_modify_qp to RTR");
  need(to_rts(), "ibv_modify_qp to RTS");
  meet();
}

int End::modify_once(ibv_qp_attr attr, int mask) const { return ibv_modify_qp(qp, &attr, mask); }

int End::modify(const ibv_qp_attr& attr, int mask) const {
  int result = ETIMEDOUT;
  wait_for(kPatience_ms, [&] { return (result = modify_once(attr, mask)) != ETIMEDOUT; });
  return result;
}

int End::to_state(ibv_qp_state state) const {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  return modify(attr, IBV_QP_STATE);
}

int End::to_init() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = setup.qp_access;
  return modify(attr, kInitMask);
}

ibv_qp_attr End::rtr_attributes() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = setup.path_mtu;
  attr.dest_qp_num = setup.dest_qp_num.value_or(peer.qp_num);
  attr.rq_psn = peer.psn + setup.rq_psn_shift;
  attr.max_dest_rd_atomic = setup.max_dest_rd_atomic;
  attr.min_rnr_timer = setup.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attr.ah_attr.grh.hop_limit = kHopLimit;
  return attr;
}

int End::to_rtr() const { return modify(rtr_attributes(), kRtrMask); }

ibv_qp_attr End::rts_attributes() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = kFirstPsn + static_cast<std::uint32_t>(rank());
  attr.timeout = setup.timeout;
  attr.retry_cnt = setup.retry_cnt;
  attr.rnr_retry = setup.rnr_retry;
  attr.max_rd_atomic = setup.max_rd_atomic;
  return attr;
}

int End::to_rts() const { return modify(rts_attributes(), kRtsMask); }

std::string End::state() const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  need(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
  return state_name(attr.qp_state);
}

}  // namespace meshbed::contract
