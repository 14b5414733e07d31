#pragma once
// The state of this copy of the library: the transport and its users. The ncclNet table has functions without any
// context (devices, getProperties), so there must be one; it is here and nowhere else.

#include <cstdint>
#include <memory>
#include <string>

#include "plugin/base/result.h"
#include "plugin/nccl/net_abi.h"
#include "plugin/net/transport.h"

namespace meshbed::nccl {

/// This process is a child (fork) of the one that opened the transport. What that has open is shared with it: closing
/// a queue pair or a TCP connection here would end it there.
bool is_fork();
/// A new user of the transport; opens it where there is none.
Result<net::Context*> add_context(const net::ContextSettings& settings);
/// Likewise, but nullptr where no net plugin of ours is in use: nothing is opened.
net::Context* add_context_if_open();
/// Ends what the context began. The last one closes the devices, unless connections are still open: they would dangle.
Result<void> remove_context(net::Context* context);
/// The context of the versions that have none of their own: made once, with the first one's profiler, never removed.
Result<net::Context*> shared_process_context(net::EventFunction profiler);
net::Context* shared_process_context_if_any();
/// nullptr before the first init and after the last finalize.
net::Transport* transport();
/// The state as JSON while nothing of this library runs (net::Transport::state_while_frozen); empty: it is not open.
std::string state_while_frozen(std::int64_t now_ns);

}  // namespace meshbed::nccl
