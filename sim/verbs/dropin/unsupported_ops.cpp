// The slots of ibv_context::ops and verbs_context that nothing here implements. Each gets a function of its own type
// that returns EOPNOTSUPP (or NULL and errno) and logs one WARN, because verbs.h calls some of them without a check.

#include <algorithm>
#include <type_traits>

#include "sim/verbs/dropin/objects.h"
#include "sim/verbs/dropin/table.h"

namespace meshbed::dropin {
namespace {

template <std::size_t kSize>
struct Name {
  constexpr Name(const char (&literal)[kSize]) { std::copy_n(literal, kSize, text); }
  char text[kSize];
};

/// Fills `slot` with a function of its own type that refuses.
template <Name kVerb, typename Answer, typename... Arguments>
void refuse(Answer (*&slot)(Arguments...)) {
  slot = [](Arguments...) -> Answer {
    static std::atomic_flag told;
    tell_unsupported(kVerb.text, told);
    errno = EOPNOTSUPP;
    if constexpr (std::is_pointer_v<Answer>) {
      return nullptr;
    } else {
      return EOPNOTSUPP;
    }
  };
}

}  // namespace

void refuse_the_rest(verbs_context& context) {
  ibv_context_ops& ops = context.context.ops;
  refuse<"ibv_alloc_mw">(ops.alloc_mw);
  refuse<"ibv_bind_mw">(ops.bind_mw);
  refuse<"ibv_dealloc_mw">(ops.dealloc_mw);
  refuse<"ibv_post_srq_recv">(ops.post_srq_recv);
  refuse<"ibv_advise_mr">(context.advise_mr);
  refuse<"ibv_alloc_null_mr">(context.alloc_null_mr);
  refuse<"ibv_read_counters">(context.read_counters);
  refuse<"ibv_attach_counters_point_flow">(context.attach_counters_point_flow);
  refuse<"ibv_create_counters">(context.create_counters);
  refuse<"ibv_destroy_counters">(context.destroy_counters);
  refuse<"ibv_reg_dm_mr">(context.reg_dm_mr);
  refuse<"ibv_alloc_dm">(context.alloc_dm);
  refuse<"ibv_free_dm">(context.free_dm);
  refuse<"ibv_modify_flow_action_esp">(context.modify_flow_action_esp);
  refuse<"ibv_destroy_flow_action">(context.destroy_flow_action);
  refuse<"ibv_create_flow_action_esp">(context.create_flow_action_esp);
  refuse<"ibv_modify_qp_rate_limit">(context.modify_qp_rate_limit);
  refuse<"ibv_alloc_parent_domain">(context.alloc_parent_domain);
  refuse<"ibv_dealloc_td">(context.dealloc_td);
  refuse<"ibv_alloc_td">(context.alloc_td);
  refuse<"ibv_modify_cq">(context.modify_cq);
  refuse<"ibv_post_srq_ops">(context.post_srq_ops);
  refuse<"ibv_destroy_rwq_ind_table">(context.destroy_rwq_ind_table);
  refuse<"ibv_create_rwq_ind_table">(context.create_rwq_ind_table);
  refuse<"ibv_destroy_wq">(context.destroy_wq);
  refuse<"ibv_modify_wq">(context.modify_wq);
  refuse<"ibv_create_wq">(context.create_wq);
  refuse<"ibv_query_rt_values_ex">(context.query_rt_values);
  refuse<"ibv_create_cq_ex">(context.create_cq_ex);
  refuse<"ibv_destroy_flow">(context.ibv_destroy_flow);
  refuse<"ibv_create_flow">(context.ibv_create_flow);
  refuse<"ibv_open_qp">(context.open_qp);
  refuse<"ibv_get_srq_num">(context.get_srq_num);
  refuse<"ibv_create_srq_ex">(context.create_srq_ex);
  refuse<"ibv_open_xrcd">(context.open_xrcd);
  refuse<"ibv_close_xrcd">(context.close_xrcd);
}

}  // namespace meshbed::dropin
