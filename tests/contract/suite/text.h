#pragma once
// Text: values of the verbs as the tables of expectations spell them.

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

namespace meshbed::contract {

/// "0", "EINVAL", "-1": what a call gave back.
std::string answer(int result);
/// "object", or why there is none: "EINVAL".
std::string answer(const void* object);
/// "EAGAIN" after a call that gave `result` and sets errno where it is not 0.
std::string answer_of_errno(int result);

std::string status_name(ibv_wc_status status);
std::string state_name(ibv_qp_state state);
std::string event_name(ibv_event_type type);

/// "7 SUCCESS RECV 64 bytes imm 0x2a", "7 RNR_RETRY_EXC_ERR": only what is valid (ibv_poll_cq(3)) and defined for both
/// ends of a reliable connection. `qp_num`: whose completion it must be.
std::string text(const ibv_wc& wc, std::uint32_t qp_num);

std::string joined(const std::vector<std::string>& parts);
inline std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

}  // namespace meshbed::contract
