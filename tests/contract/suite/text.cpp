#include "tests/contract/suite/text.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace meshbed::contract {
namespace {

template <std::size_t kCount>
std::string name_at(const std::array<const char*, kCount>& names, int index) {
  return index >= 0 && index < static_cast<int>(kCount) ? names[static_cast<std::size_t>(index)]
                                                        : "number " + std::to_string(index);
}

std::string opcode_name(const ibv_wc& wc) {
  switch (wc.opcode) {
    case IBV_WC_SEND:
      return "SEND";
    case IBV_WC_RDMA_WRITE:
      return "RDMA_WRITE";
    case IBV_WC_RDMA_READ:
      return "RDMA_READ";
    case IBV_WC_COMP_SWAP:
      return "COMP_SWAP";
    case IBV_WC_FETCH_ADD:
      return "FETCH_ADD";
    case IBV_WC_RECV:
      return "RECV";
    case IBV_WC_RECV_RDMA_WITH_IMM:
      return "RECV_RDMA_WITH_IMM";
    default:
      return "opcode " + std::to_string(static_cast<int>(wc.opcode));
  }
}

/// The bytes of a completion say something where data came in; of what went out the poster knows it.
bool brought_data(const ibv_wc& wc) { return (wc.opcode & IBV_WC_RECV) != 0 || wc.opcode == IBV_WC_RDMA_READ; }

}  // namespace

std::string answer(int result) {
  if (result == 0) return "0";
  const char* name = strerrorname_np(result);
  return name != nullptr ? name : std::to_string(result);
}

std::string answer(const void* object) { return object != nullptr ? "object" : answer(errno); }

std::string answer_of_errno(int result) { return result == 0 ? "0" : answer(errno); }

std::string status_name(ibv_wc_status status) {
  static constexpr std::array kNames{"SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
                                     "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
                                     "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
                                     "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
                                     "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
                                     "RESP_TIMEOUT_ERR", "GENERAL_ERR"};
  return name_at(kNames, status);
}

std::string state_name(ibv_qp_state state) {
  static constexpr std::array kNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return name_at(kNames, state);
}

std::string event_name(ibv_event_type type) {
  static constexpr std::array kNames{"CQ_ERR",
                                     "QP_FATAL",
                                     "QP_REQ_ERR",
                                     "QP_ACCESS_ERR",
                                     "COMM_EST",
                                     "SQ_DRAINED",
                                     "PATH_MIG",
                                     "PATH_MIG_ERR",
                                     "DEVICE_FATAL",
                                     "PORT_ACTIVE",
                                     "PORT_ERR",
                                     "LID_CHANGE",
                                     "PKEY_CHANGE",
                                     "SM_CHANGE",
                                     "SRQ_ERR",
                                     "SRQ_LIMIT_REACHED",
                                     "QP_LAST_WQE_REACHED",
                                     "CLIENT_REREGISTER",
                                     "GID_CHANGE"};
  return name_at(kNames, type);
}

std::string text(const ibv_wc& wc, std::uint32_t qp_num) {
  std::string text = std::to_string(wc.wr_id) + " " + status_name(wc.status);
  if (wc.qp_num != qp_num) text += " of another QP";
  if (wc.status != IBV_WC_SUCCESS) return text;
  text += " " + opcode_name(wc);
  if (brought_data(wc)) text += " " + std::to_string(wc.byte_len) + " bytes";
  if ((wc.opcode & IBV_WC_RECV) != 0 && (wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
    std::array<char, 32> imm;
    std::snprintf(imm.data(), imm.size(), " imm 0x%x", ntohl(wc.imm_data));
    text += imm.data();
  }
  return text;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text.empty() ? "none" : text;
}

}  // namespace meshbed::contract
