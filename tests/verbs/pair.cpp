#include "tests/verbs/pair.h"

#include <doctest/doctest.h>

#include <memory>
#include <utility>

namespace meshbed::test {

using sim::World;

Picoseconds now() { return World::get().now(); }
void sleep(Picoseconds duration) { World::get().sleep(duration); }
std::string libibverbs_path() { return std::string(MESHBED_BINARY_DIR) + "/sim-lib/libibverbs.so.1"; }

void Handshake::arrive() {
  if (static_cast<int>(waiting_.size()) + 1 == count_) {
    ++generation_;
    for (sim::Thread* thread : std::exchange(waiting_, {})) World::get().wake(*thread);
    return;
  }
  waiting_.push_back(World::current());
  for (const int generation = generation_; generation == generation_;) World::get().block({.what = "a test's barrier"});
}

Side& Side::peer() const { return pair->sides[1 - index]; }
void Side::barrier() const { pair->handshake.arrive(); }

void Side::open() {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  REQUIRE(count > setup.device);
  context = ibv_open_device(devices[setup.device]);
  ibv_free_device_list(devices);
  REQUIRE(context != nullptr);
  if (setup.channel) channel = ibv_create_comp_channel(context);
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, setup.cqe, this, channel, 0);
  memory.assign(setup.memory_bytes, static_cast<char>('A' + index));
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), setup.access);
  REQUIRE(pd != nullptr);
  REQUIRE(cq != nullptr);
  REQUIRE(mr != nullptr);
  CHECK(ibv_query_gid(context, 1, setup.gid_index, &gid) == 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = setup.signal_all ? 1 : 0;
  init.cap = {.max_send_wr = setup.depth,
              .max_recv_wr = setup.depth,
              .max_send_sge = setup.sges,
              .max_recv_sge = setup.sges,
              .max_inline_data = setup.inline_bytes};
  qp = ibv_create_qp(pd, &init);
  REQUIRE(qp != nullptr);
}

int Side::to_init() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = setup.qp_access;
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int Side::to_rtr() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = setup.path_mtu;
  attr.dest_qp_num = setup.dest_qp_num.value_or(peer().qp->qp_num);
  attr.rq_psn = setup.rq_psn.value_or(peer().setup.sq_psn);
  attr.max_dest_rd_atomic = setup.max_dest_rd_atomic;
  attr.min_rnr_timer = setup.min_rnr_timer;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = peer().gid;
  attr.ah_attr.grh.sgid_index = setup.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int Side::to_rts() const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = setup.sq_psn;
  attr.timeout = setup.timeout;
  attr.retry_cnt = setup.retry_cnt;
  attr.rnr_retry = setup.rnr_retry;
  attr.max_rd_atomic = setup.max_rd_atomic;
  return ibv_modify_qp(
      qp, &attr,
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT);
}

void Side::connect() const {
  if (setup.until >= IBV_QPS_INIT) CHECK(to_init() == 0);
  if (setup.until >= IBV_QPS_RTR) CHECK(to_rtr() == 0);
  if (setup.until >= IBV_QPS_RTS) CHECK(to_rts() == 0);
}

ibv_sge Side::sge(std::size_t offset, std::uint32_t length) const {
  return {reinterpret_cast<std::uint64_t>(memory.data()) + offset, length, mr->lkey};
}

ibv_send_wr Side::write_wr(std::uint64_t id, ibv_sge* sge) const {
  ibv_send_wr wr{};
  wr.wr_id = id;
  wr.sg_list = sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  const std::uint64_t offset = sge->addr - reinterpret_cast<std::uint64_t>(memory.data());
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(peer().memory.data()) + offset;
  wr.wr.rdma.rkey = peer().mr->rkey;
  return wr;
}

int Side::post(ibv_send_wr wr) const {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, &wr, &bad);
  CHECK((error != 0) == (bad == &wr));
  return error;
}

int Side::post_write(std::uint64_t id, std::size_t offset, std::uint32_t length, unsigned flags) const {
  ibv_sge list = sge(offset, length);
  ibv_send_wr wr = write_wr(id, &list);
  wr.send_flags = flags;
  return post(wr);
}

int Side::post_send(std::uint64_t id, std::size_t offset, std::uint32_t length, unsigned flags) const {
  ibv_sge list = sge(offset, length);
  ibv_send_wr wr = write_wr(id, &list);
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = flags;
  return post(wr);
}

int Side::post_read(std::uint64_t id, std::size_t offset, std::uint32_t length, unsigned flags) const {
  ibv_sge list = sge(offset, length);
  ibv_send_wr wr = write_wr(id, &list);
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = flags;
  return post(wr);
}

int Side::post_recv(std::uint64_t id, std::size_t offset, std::uint32_t length) const {
  ibv_sge list = sge(offset, length);
  ibv_recv_wr wr{};
  wr.wr_id = id;
  wr.sg_list = &list;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

ibv_wc Side::wait() const {
  ibv_wc wc{};
  const Picoseconds deadline = now() + 1000 * kPicosecondsPerSecond;
  while (now() < deadline) {
    const int count = ibv_poll_cq(cq, 1, &wc);
    if (count == 1) return wc;
    if (count < 0) break;
  }
  CHECK_MESSAGE(false, "no completion");
  wc.status = static_cast<ibv_wc_status>(-1);
  return wc;
}

std::vector<ibv_wc> Side::drain_after(Picoseconds duration) const {
  sleep(duration);
  std::vector<ibv_wc> completions(setup.cqe > 0 ? static_cast<std::size_t>(setup.cqe) : 1);
  const int count = ibv_poll_cq(cq, static_cast<int>(completions.size()), completions.data());
  completions.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return completions;
}

ibv_qp_state Side::state() const {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  CHECK(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
  return attr.qp_state;
}

WorldResult run_pair(const PairOptions& options, const std::function<void(Side&)>& first,
                     const std::function<void(Side&)>& second) {
  sim::WorldOptions world_options{.cluster = options.cluster, .fabric = options.fabric, .seed = options.seed};
  auto pair = std::make_unique<Pair>();
  return run_world(world_options, [&](World& world) {
    sim::install_verbs(world, libibverbs_path(), options.sink, options.cost);
    for (int index = 0; index < 2; ++index) {
      Side& side = pair->sides[index];
      side.index = index;
      side.pair = pair.get();
      options.configure(side.setup, index);
      side.process = &world.add_process(index, index, "rank " + std::to_string(index));
      world.spawn(*side.process, "main", [&side, &first, &second, meet = options.meet_at_end] {
        side.open();
        side.barrier();
        side.connect();
        side.barrier();
        (side.index == 0 ? first : second)(side);
        if (meet) side.barrier();
      });
    }
  });
}

WorldResult run_pair(const PairOptions& options, const std::function<void(Side&)>& body) {
  return run_pair(options, body, body);
}

}  // namespace meshbed::test
