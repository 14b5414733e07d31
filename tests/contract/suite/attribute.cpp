// ibv_modify_qp's attributes: which a transition needs and takes, which values, and what ibv_query_qp reports of them.

#include <cerrno>
#include <string>

#include "tests/contract/suite/suite.h"

namespace meshbed::contract {
namespace {

constexpr const char* kUnchecked =
    "drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr (and core/uverbs_cmd.c, modify_qp) do not look at the value";

ibv_qp_attr init_attributes() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = kRemoteAccess;
  return attr;
}

/// The transition without one of its attributes, for each of them; the state must not have changed.
void needs_each(End& end, const ibv_qp_attr& attr, int mask, const std::string& state) {
  for (int bit = 1; bit <= mask; bit <<= 1) {
    if ((mask & bit) == 0 || bit == IBV_QP_STATE) continue;
    end.sees("without attribute " + std::to_string(bit), end.moved(end.modify(attr, mask & ~bit)), "EINVAL " + state);
  }
}

void to_init(End& end) {
  end.open();
  end.exchange();
  need(end.to_init(), "ibv_modify_qp to INIT");
}

void to_rtr(End& end) {
  to_init(end);
  need(end.to_rtr(), "ibv_modify_qp to RTR");
}

/// What RTR with a changed attribute gives; back in INIT afterwards.
template <typename Change>
std::string rtr_with(End& end, Change change) {
  ibv_qp_attr attr = end.rtr_attributes();
  change(attr);
  const int result = end.modify(attr, kRtrMask);
  if (result == 0) {
    need(end.to_state(IBV_QPS_RESET), "ibv_modify_qp to RESET");
    need(end.to_init(), "ibv_modify_qp to INIT");
  }
  return answer(result);
}

template <typename Change>
std::string rts_with(End& end, Change change) {
  ibv_qp_attr attr = end.rts_attributes();
  change(attr);
  const int result = end.modify(attr, kRtsMask);
  if (result == 0) {
    need(end.to_state(IBV_QPS_RESET), "ibv_modify_qp to RESET");
    need(end.to_init(), "ibv_modify_qp to INIT");
    need(end.to_rtr(), "ibv_modify_qp to RTR");
  }
  return answer(result);
}

const Contract kAttributeContracts[] = {
    {"INIT needs each of its attributes", "ibv_modify_qp(3): required attributes",
     [](End& end) {
       end.open();
       needs_each(end, init_attributes(), kInitMask, "RESET");
       end.sees("with all", answer(end.to_init()), "0");
     }},
    {"RTR needs each of its attributes", "ibv_modify_qp(3): required attributes",
     [](End& end) {
       to_init(end);
       needs_each(end, end.rtr_attributes(), kRtrMask, "INIT");
       end.sees("with all", answer(end.to_rtr()), "0");
     }},
    {"RTS needs each of its attributes", "ibv_modify_qp(3): required attributes",
     [](End& end) {
       to_rtr(end);
       needs_each(end, end.rts_attributes(), kRtsMask, "RTR");
       end.sees("with all", answer(end.to_rts()), "0");
     }},
    {"a transition takes no attribute that is not its own", "Linux ib_modify_qp_is_ok",
     [](End& end) {
       end.open();
       end.exchange();
       end.sees("INIT with a timeout", answer(end.modify(init_attributes(), kInitMask | IBV_QP_TIMEOUT)), "EINVAL");
       need(end.to_init(), "ibv_modify_qp to INIT");
       end.sees("RTR with a send PSN", answer(end.modify(end.rtr_attributes(), kRtrMask | IBV_QP_SQ_PSN)), "EINVAL");
       need(end.to_rtr(), "ibv_modify_qp to RTR");
       end.sees("RTS with a path MTU", answer(end.modify(end.rts_attributes(), kRtsMask | IBV_QP_PATH_MTU)), "EINVAL");
       need(end.to_rts(), "ibv_modify_qp to RTS");
       end.sees("RTS again with a timeout", answer(end.modify(end.rts_attributes(), IBV_QP_STATE | IBV_QP_TIMEOUT)),
                "EINVAL");
     }},
    {"a transition takes the attributes that are optional to it", "Linux ib_modify_qp_is_ok",
     [](End& end) {
       to_init(end);
       ibv_qp_attr rtr = end.rtr_attributes();
       rtr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
       end.sees("RTR with access flags", answer(end.modify(rtr, kRtrMask | IBV_QP_ACCESS_FLAGS)), "0");
       ibv_qp_attr rts = end.rts_attributes();
       rts.cur_qp_state = IBV_QPS_RTR;
       rts.min_rnr_timer = 3;
       end.sees("RTS with the current state and an RNR timer",
                answer(end.modify(rts, kRtsMask | IBV_QP_CUR_STATE | IBV_QP_MIN_RNR_TIMER)), "0");
       rts.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
       end.sees("RTS again with access flags", answer(end.modify(rts, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS)), "0");
       ibv_qp_attr attr{};
       ibv_qp_init_attr init{};
       need(ibv_query_qp(end.qp, &attr, IBV_QP_ACCESS_FLAGS, &init), "ibv_query_qp");
       end.sees("the flags", std::to_string(attr.qp_access_flags), std::to_string(IBV_ACCESS_REMOTE_WRITE));
     }},
    {"a port that the device does not have is refused", "ibv_modify_qp(3): port_num",
     [](End& end) {
       end.open();
       ibv_qp_attr attr = init_attributes();
       attr.port_num = 2;
       end.sees("port 2", answer(end.modify(attr, kInitMask)), "EINVAL");
       attr.port_num = 0;
       end.sees("port 0", answer(end.modify(attr, kInitMask)), "EINVAL");
       end.sees("state", end.state(), "RESET");
     }},
    {"the address vector's port is the queue pair's", "Linux uverbs_cmd.c, modify_qp",
     [](End& end) {
       to_init(end);
       end.sees("port 0", rtr_with(end, [](ibv_qp_attr& attr) { attr.ah_attr.port_num = 0; }), "EINVAL");
       end.sees("port 2", rtr_with(end, [](ibv_qp_attr& attr) { attr.ah_attr.port_num = 2; }), "EINVAL");
     }},
    {"a partition key that the port does not have is refused", "ibv_modify_qp(3): pkey_index; ibv_query_port(3)",
     [](End& end) {
       end.open();
       ibv_qp_attr attr = init_attributes();
       attr.pkey_index = 1;
       end.sees("index 1 of one", answer(end.modify(attr, kInitMask)), "EINVAL", {"0", kUnchecked});
     }},
    {"a path MTU beyond the port's active one is refused", "ibv_modify_qp(3): path_mtu; ibv_query_port(3)",
     [](End& end) {
       to_init(end);
       end.sees("256", rtr_with(end, [](ibv_qp_attr& attr) { attr.path_mtu = IBV_MTU_256; }), "0");
       end.sees("the active one", rtr_with(end, [](ibv_qp_attr& attr) { attr.path_mtu = IBV_MTU_1024; }), "0");
       end.sees("4096 of 1024", rtr_with(end, [](ibv_qp_attr& attr) { attr.path_mtu = IBV_MTU_4096; }), "EINVAL",
                {"0", "drivers/infiniband/sw/rxe/rxe_qp.c, rxe_qp_chk_attr: compares with the port's max_mtu, 4096"});
       end.sees("none that there is", rtr_with(end, [](ibv_qp_attr& attr) { attr.path_mtu = static_cast<ibv_mtu>(6); }),
                "EINVAL");
     }},
    {"more outstanding reads than the device has are refused", "ibv_modify_qp(3): max_rd_atomic; ibv_query_device(3)",
     [](End& end) {
       to_rtr(end);
       ibv_device_attr device{};
       need(ibv_query_device(end.context, &device), "ibv_query_device");
       const auto most = static_cast<std::uint8_t>(device.max_qp_rd_atom);
       end.sees("one too many",
                rts_with(end, [most](ibv_qp_attr& attr) { attr.max_rd_atomic = static_cast<std::uint8_t>(most + 1); }),
                "EINVAL");
       end.sees("all of them", rts_with(end, [most](ibv_qp_attr& attr) { attr.max_rd_atomic = most; }), "0");
     }},
    {"more responder resources than the device has are refused", "ibv_modify_qp(3): max_dest_rd_atomic",
     [](End& end) {
       to_init(end);
       ibv_device_attr device{};
       need(ibv_query_device(end.context, &device), "ibv_query_device");
       const auto most = static_cast<std::uint8_t>(device.max_qp_rd_atom);
       end.sees(
           "one too many",
           rtr_with(end, [most](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = static_cast<std::uint8_t>(most + 1); }),
           "EINVAL", {"0", kUnchecked});
       end.sees("all of them", rtr_with(end, [most](ibv_qp_attr& attr) { attr.max_dest_rd_atomic = most; }), "0");
     }},
    {"a queue pair number has 24 bits", "InfiniBand Architecture, volume 1, 9.2: DestQP",
     [](End& end) {
       to_init(end);
       end.sees("25 bits", rtr_with(end, [](ibv_qp_attr& attr) { attr.dest_qp_num = 1U << 24U; }), "EINVAL",
                {"0", kUnchecked});
     }},
    {"a timeout of more than five bits is refused", "ibv_modify_qp(3): timeout; InfiniBand Architecture, 9.7.6.1.3",
     [](End& end) {
       to_rtr(end);
       end.sees("32", rts_with(end, [](ibv_qp_attr& attr) { attr.timeout = 32; }), "EINVAL");
       end.sees("31", rts_with(end, [](ibv_qp_attr& attr) { attr.timeout = 31; }), "0");
       end.sees("0, for ever", rts_with(end, [](ibv_qp_attr& attr) { attr.timeout = 0; }), "0");
     }},
    {"retry counts of more than three bits are refused",
     "InfiniBand Architecture, chapter 12: 3-bit fields (Linux ibta_vol1_c12.h)",
     [](End& end) {
       to_rtr(end);
       end.sees("retry_cnt 8", rts_with(end, [](ibv_qp_attr& attr) { attr.retry_cnt = 8; }), "EINVAL",
                {"0", kUnchecked});
       end.sees("rnr_retry 8", rts_with(end, [](ibv_qp_attr& attr) { attr.rnr_retry = 8; }), "EINVAL",
                {"0", kUnchecked});
       end.sees("7 of each", rts_with(end, [](ibv_qp_attr& attr) { attr.retry_cnt = attr.rnr_retry = 7; }), "0");
     }},
    {"an RNR timer of more than five bits is refused", "InfiniBand Architecture, volume 1, table 45: 5-bit codes",
     [](End& end) {
       to_init(end);
       end.sees("32", rtr_with(end, [](ibv_qp_attr& attr) { attr.min_rnr_timer = 32; }), "EINVAL", {"0", kUnchecked});
       end.sees("31", rtr_with(end, [](ibv_qp_attr& attr) { attr.min_rnr_timer = 31; }), "0");
     }},
    {"a transition from a state that is not the current one is refused", "ibv_modify_qp(3): cur_qp_state",
     [](End& end) {
       to_rtr(end);
       ibv_qp_attr attr = end.rts_attributes();
       attr.cur_qp_state = IBV_QPS_INIT;
       end.sees("RTS, as if from INIT", answer(end.modify(attr, kRtsMask | IBV_QP_CUR_STATE)), "EINVAL");
       end.sees("state", end.state(), "RTR");
     }},
    {"a state that is none is refused", "Linux uverbs_cmd.c, modify_qp",
     [](End& end) {
       end.open();
       end.sees("state 17", answer(end.to_state(static_cast<ibv_qp_state>(17))), "EINVAL");
       end.sees("state", end.state(), "RESET");
     }},
    {"a queue pair reports the attributes that it was given", "ibv_query_qp(3)",
     [](End& end) {
       end.connect({.qp_access = IBV_ACCESS_REMOTE_WRITE,
                    .path_mtu = IBV_MTU_512,
                    .timeout = 13,
                    .retry_cnt = 5,
                    .rnr_retry = 4,
                    .min_rnr_timer = 21,
                    .max_rd_atomic = 2,
                    .max_dest_rd_atomic = 8});
       ibv_qp_attr attr{};
       ibv_qp_init_attr init{};
       end.sees("call", answer(ibv_query_qp(end.qp, &attr, kInitMask | kRtrMask | kRtsMask, &init)), "0");
       end.sees("path MTU", std::to_string(attr.path_mtu), std::to_string(IBV_MTU_512));
       end.sees("destination", yes_or_no(attr.dest_qp_num == end.peer.qp_num), "yes");
       end.sees("access flags", std::to_string(attr.qp_access_flags), std::to_string(IBV_ACCESS_REMOTE_WRITE));
       end.sees("timeout, retries, RNR retries, RNR timer",
                std::to_string(attr.timeout) + " " + std::to_string(attr.retry_cnt) + " " +
                    std::to_string(attr.rnr_retry) + " " + std::to_string(attr.min_rnr_timer),
                "13 5 4 21");
       end.sees("outstanding reads, each way",
                std::to_string(attr.max_rd_atomic) + " " + std::to_string(attr.max_dest_rd_atomic), "2 8");
       end.sees("port", std::to_string(attr.port_num), "1");
       end.sees("PSNs", yes_or_no(attr.rq_psn == end.peer.psn && attr.sq_psn == end.rts_attributes().sq_psn), "yes");
       end.sees("the peer's GID",
                yes_or_no(attr.ah_attr.is_global == 1 &&
                          attr.ah_attr.grh.dgid.global.interface_id == end.peer.gid.global.interface_id &&
                          attr.ah_attr.grh.sgid_index == end.gid_index),
                "yes");
       end.sees("queues",
                yes_or_no(init.send_cq == end.cq && init.recv_cq == end.cq && init.qp_type == IBV_QPT_RC &&
                          init.sq_sig_all == 0),
                "yes");
       end.sees("depths, at least", yes_or_no(init.cap.max_send_wr >= 16 && init.cap.max_recv_wr >= 16), "yes");
     }},
};

}  // namespace

std::span<const Contract> attribute_contracts() { return kAttributeContracts; }

}  // namespace meshbed::contract
