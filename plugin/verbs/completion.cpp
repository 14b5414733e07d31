#include "plugin/verbs/completion.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

namespace meshbed::verbs {

Result<CompletionQueue> CompletionQueue::create(const Device& device, int entries, ibv_comp_channel* channel) {
  CompletionQueue queue;
  queue.queue_.reset(ibv_create_cq(device.context(), entries, nullptr, channel, 0));
  if (!queue.queue_) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kDevice,
                 .text = "cannot create a completion queue of " + std::to_string(entries) + " entries on " +
                         device.name() + ": " + std::strerror(errno),
                 .os_errno = errno};
  }
  return queue;
}

Result<CompletionChannel> CompletionChannel::create(const Device& device) {
  CompletionChannel channel;
  channel.channel_.reset(ibv_create_comp_channel(device.context()));
  // Non-blocking, so that drain() ends when nothing is left.
  if (!channel.channel_ || ::fcntl(channel.channel_->fd, F_SETFL, O_NONBLOCK) != 0) {
    return Error{.code = ErrorCode::kSystem,
                 .scope = Scope::kDevice,
                 .text = "cannot create a completion channel on " + device.name() + ": " + std::strerror(errno),
                 .os_errno = errno};
  }
  return channel;
}

const char* hint(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer did not answer: cable, link or switch down, a wrong GID or subnet, or the peer's process is "
             "gone";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer posted no receive: it speaks another protocol version or is out of memory";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's memory is no longer registered: it closed or deregistered while this side was sending";
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return "the peer's device refused the request: see the peer's log";
    case IBV_WC_LOC_PROT_ERR:
      return "local memory is not registered: it was deregistered or freed while in use";
    case IBV_WC_LOC_LEN_ERR:
      return "the message is longer than the port allows";
    case IBV_WC_LOC_QP_OP_ERR:
      return "the local port is down or the queue pair is inconsistent";
    case IBV_WC_WR_FLUSH_ERR:
      return "a consequence of an earlier failure on this connection, or the peer closed it";
    default:
      return "see the device's log (dmesg) and its hardware counters";
  }
}

}  // namespace meshbed::verbs
