#pragma once
// The state of this copy of the library: the transport and who uses it. The ncclNet table has functions without any
// context (devices, getProperties), so there must be one; it is here and nowhere else.

#include <memory>

#include "plugin/base/result.h"
#include "plugin/nccl/net_abi.h"
#include "plugin/net/transport.h"

namespace meshbed::nccl {

/// A new user of the transport; opens it where there is none.
Result<net::Context*> add_context(int traffic_class);
/// Ends what the context began. The last one closes the devices, unless connections are still open: they would dangle.
Result<void> remove_context(net::Context* context);
/// The context of the versions that have none of their own: made once, never removed.
Result<net::Context*> shared_process_context();
net::Context* shared_process_context_if_any();
/// nullptr before the first init and after the last finalize.
net::Transport* transport();

}  // namespace meshbed::nccl
