// An end's work: what it posts, what completes, the events that come, and its memory.

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "tests/contract/suite/end.h"
#include "tests/contract/suite/patience.h"

namespace meshbed::contract {
namespace {

char pattern(std::size_t at, int seed) {
  return static_cast<char>((at * 2'654'435'761U + static_cast<unsigned>(seed) * 97U + 1) >> 9U);
}

/// `list`, or `one` where there is none; all with `lkey` where it is set.
std::vector<ibv_sge> elements(const std::optional<std::vector<ibv_sge>>& list, const ibv_sge& one,
                              const std::optional<std::uint32_t>& lkey) {
  std::vector<ibv_sge> made = list.value_or(std::vector<ibv_sge>{one});
  for (ibv_sge& each : made) each.lkey = lkey.value_or(each.lkey);
  return made;
}

}  // namespace

ibv_sge End::sge(std::size_t from, std::uint32_t bytes) const {
  return {reinterpret_cast<std::uint64_t>(memory.data()) + from, bytes, mr->lkey};
}

int End::post(const Send& send) const {
  std::vector<ibv_sge> list = elements(send.list, sge(send.from, send.bytes), send.lkey);
  ibv_send_wr wr{};
  wr.wr_id = send.id;
  wr.sg_list = list.data();
  wr.num_sge = static_cast<int>(list.size());
  wr.opcode = send.opcode;
  wr.send_flags = send.flags;
  wr.imm_data = htonl(send.imm);
  const std::uint32_t rkey = send.rkey.value_or(peer.rkey);
  if (send.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || send.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = peer.address + send.to;
    wr.wr.atomic.rkey = rkey;
    wr.wr.atomic.compare_add = send.compare_add;
    wr.wr.atomic.swap = send.swap;
  } else {
    wr.wr.rdma.remote_addr = peer.address + send.to;
    wr.wr.rdma.rkey = rkey;
  }
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp, &wr, &bad);
}

int End::post(const Receive& receive) const {
  std::vector<ibv_sge> list = elements(receive.list, sge(receive.to, receive.bytes), receive.lkey);
  ibv_recv_wr wr{};
  wr.wr_id = receive.id;
  wr.sg_list = list.data();
  wr.num_sge = static_cast<int>(list.size());
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(qp, &wr, &bad);
}

std::string End::next(int count) const {
  std::vector<std::string> parts;
  while (static_cast<int>(parts.size()) < count) {
    ibv_wc wc{};
    int polled = 0;
    if (!wait_for(kPatience_ms, [&] { return (polled = ibv_poll_cq(cq, 1, &wc)) != 0; })) {
      parts.emplace_back("nothing");
      break;
    }
    if (polled < 0) throw std::runtime_error("ibv_poll_cq failed");
    parts.push_back(text(wc, qp->qp_num));
  }
  return joined(parts);
}

std::string End::there() const {
  std::vector<std::string> parts;
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) == 1) parts.push_back(text(wc, qp->qp_num));
  return joined(parts);
}

std::string End::silence() const {
  ibv_wc wc{};
  return wait_for(kSilence_ms, [&] { return ibv_poll_cq(cq, 1, &wc) == 1; }) ? text(wc, qp->qp_num) : "nothing";
}

std::string End::one_completion_event(int patience_ms) const {
  ibv_cq* which = nullptr;
  void* its_context = nullptr;
  const bool came = wait_for(patience_ms, [&] {
    if (ibv_get_cq_event(channel, &which, &its_context) == 0) return true;
    if (errno != EAGAIN) throw std::runtime_error("ibv_get_cq_event: " + answer(errno));
    return false;
  });
  if (!came) return "no event";
  ibv_ack_cq_events(which, 1);
  return which == cq && its_context == this ? "event" : "event of another CQ";
}

std::string End::completion_event() const { return one_completion_event(kPatience_ms); }
std::string End::no_completion_event() const { return one_completion_event(kSilence_ms); }

std::string End::one_event(int patience_ms) const {
  ibv_async_event event{};
  const bool came = wait_for(patience_ms, [&] {
    if (ibv_get_async_event(context, &event) == 0) return true;
    if (errno != EAGAIN) throw std::runtime_error("ibv_get_async_event: " + answer(errno));
    return false;
  });
  if (!came) return "nothing";
  std::string seen = event_name(event.event_type);
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
      seen += event.element.qp == qp ? " own QP" : " another QP";
      break;
    case IBV_EVENT_CQ_ERR:
      seen += event.element.cq == cq ? " own CQ" : " another CQ";
      break;
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
      seen += " port " + std::to_string(event.element.port_num);
      break;
    default:
      break;
  }
  ibv_ack_async_event(&event);
  return seen;
}

std::string End::event() const { return one_event(kPatience_ms); }
std::string End::no_event() const { return one_event(kSilence_ms); }

std::string End::port_state() const {
  ibv_port_attr port{};
  need(ibv_query_port(context, 1, &port), "ibv_query_port");
  return port.state == IBV_PORT_ACTIVE ? "ACTIVE" : port.state == IBV_PORT_DOWN ? "DOWN" : "other";
}

void End::wait_for_port(ibv_port_state state) const {
  const bool reached = wait_for(kPatience_ms, [&] {
    ibv_port_attr port{};
    need(ibv_query_port(context, 1, &port), "ibv_query_port");
    return port.state == state;
  });
  if (!reached) throw std::runtime_error(std::string("the port does not become ") + ibv_port_state_str(state));
}

void End::fill(int seed) {
  for (std::size_t at = 0; at < memory.size(); ++at) memory[at] = pattern(at, seed);
}

std::string End::data(int seed, std::size_t from, std::size_t bytes, std::size_t shift) const {
  for (std::size_t at = from; at < from + bytes; ++at) {
    if (memory[at] != pattern(at - shift, seed)) return "wrong at " + std::to_string(at);
  }
  return "as sent";
}

std::uint64_t End::word(std::size_t offset) const {
  std::uint64_t value = 0;
  std::memcpy(&value, memory.data() + offset, sizeof value);
  return value;
}

void End::set_word(std::size_t offset, std::uint64_t value) {
  std::memcpy(memory.data() + offset, &value, sizeof value);
}

}  // namespace meshbed::contract
