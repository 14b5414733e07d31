#include "testbed/verify/explore_rank.h"

#include <fmt/format.h>

#include <memory>

#include "plugin/coll/transport/plugin_log.h"

namespace meshbed::testbed {

using Answer = Interleaver::Answer;

void ExploredRank::broken(const std::string& finding) {
  interleaver_.broken(fmt::format("rank {}: {}", rank_, finding));
}

bool ExploredRank::succeeded(int code, const std::string& call, Errors errors) {
  if (code == nccl::kNcclSuccess) return true;
  if (errors == Errors::kNone) broken(fmt::format("{}: {}", call, coll::explain_net_error(code, 0)));
  interleaver_.note(rank_, "error");
  return false;
}

void ExploredRank::until_done(std::vector<Poll> polls) {
  for (std::size_t next = 0; !polls.empty(); next = polls.empty() ? 0 : next % polls.size()) {
    const bool first = !std::exchange(polls[next].looked, true) || polls[next].counted;
    const Answer answer = interleaver_.take(rank_, polls[next].name, {.circle = polls.size(), .first = first},
                                            polls[next].ready, polls[next].look);
    answer == Answer::kDone ? void(polls.erase(polls.begin() + static_cast<std::ptrdiff_t>(next))) : void(++next);
  }
}

void ExploredRank::once(const std::string& name, const std::function<void()>& call) {
  until_done({{name, [&call] {
                 call();
                 return Answer::kDone;
               }}});
}

void* ExploredRank::listen(int device, const std::string& key) {
  void* listener = nullptr;
  once("listen", [&] {
    CaseHandle handle;
    succeeded(net_.listen(device, handle.bytes.data(), &listener), "listen", Errors::kNone);
    if (listener == nullptr) broken("listen succeeded without a listener");
    board_[key] = handle;
  });
  return listener;
}

void ExploredRank::close_listen(void* listener) {
  once("closeListen", [&] { succeeded(net_.close_listen(listener), "closeListen", Errors::kNone); });
}

Poll ExploredRank::connecting(int device, const std::string& key, void*& comm, Errors errors) {
  // The handle is the caller's until the connection is there: a plugin may keep its state in it.
  auto handle = std::make_shared<CaseHandle>();
  auto known = std::make_shared<bool>(false);
  return {"connect",
          [this, device, key, &comm, errors, handle, known] {
            if (!std::exchange(*known, true)) *handle = board_.at(key);
            if (!succeeded(net_.connect(device, handle->bytes.data(), &comm), "connect", errors)) return Answer::kDone;
            return comm != nullptr ? Answer::kDone : Answer::kNotYet;
          },
          [this, key] { return board_.count(key) != 0; }};
}

Poll ExploredRank::accepting(void* listener, void*& comm, Errors errors) {
  return {"accept", [this, listener, &comm, errors] {
            if (!succeeded(net_.accept(listener, &comm), "accept", errors)) return Answer::kDone;
            return comm != nullptr ? Answer::kDone : Answer::kNotYet;
          }};
}

Poll ExploredRank::briefly(const Poll& poll, int looks) {
  auto left = std::make_shared<int>(looks);
  return {poll.name, [look = poll.look, left] { return --*left == 0 ? (look(), Answer::kDone) : look(); }, poll.ready,
          true};
}

Poll ExploredRank::accepting_briefly(void* listener, void*& comm, int looks) {
  return briefly(accepting(listener, comm, Errors::kExpected), looks);
}

Poll ExploredRank::sending_briefly(Message& message, int looks) {
  return briefly(sending(message, Errors::kExpected), looks);
}

void* ExploredRank::connect(int device, const std::string& key, Errors errors) {
  void* comm = nullptr;
  until_done({connecting(device, key, comm, errors)});
  return comm;
}

void* ExploredRank::accept(void* listener, Errors errors) {
  void* comm = nullptr;
  until_done({accepting(listener, comm, errors)});
  return comm;
}

Poll ExploredRank::sending(Message& message, Errors errors) {
  return {"isend", [this, &message, errors] {
            Message& one = message;
            if (one.memory == nullptr) {
              one.buffer.fill(one.seed, 0, one.buffer.size());
              succeeded(net_.register_memory(one.comm, one.buffer.data(), one.buffer.size(), &one.memory), "regMr",
                        Errors::kNone);
            }
            const int code = net_.send(one.comm, one.buffer.data(), one.buffer.size(), 0, one.memory, &one.request);
            one.failed = !succeeded(code, "isend", errors);
            return one.failed || one.request != nullptr ? Answer::kDone : Answer::kNotYet;
          }};
}

Poll ExploredRank::receiving(Message& message, Errors errors) {
  return {"irecv", [this, &message, errors] {
            Message& one = message;
            if (one.memory == nullptr) {
              succeeded(net_.register_memory(one.comm, one.buffer.data(), one.buffer.size(), &one.memory), "regMr",
                        Errors::kNone);
            }
            const int code = net_.receive(one.comm, one.buffer.data(), one.buffer.size(), 0, one.memory, &one.request);
            one.failed = !succeeded(code, "irecv", errors);
            return one.failed || one.request != nullptr ? Answer::kDone : Answer::kNotYet;
          }};
}

void ExploredRank::post_send(Message& message, Errors errors) { until_done({sending(message, errors)}); }
void ExploredRank::post_receive(Message& message, Errors errors) { until_done({receiving(message, errors)}); }

void ExploredRank::check_received(Message& message, std::uint64_t size) {
  const std::uint64_t sent = message.buffer.size();
  if (size != sent) broken(fmt::format("a receive is done with {} bytes where {} were sent", size, sent));
  const std::uint64_t wrong = message.buffer.first_wrong(message.seed, 0, sent);
  if (wrong != sent) broken(fmt::format("byte {} of {} that were received is not what was sent", wrong, sent));
  if (!message.buffer.untouched_outside(0, sent)) broken("something is written outside a message");
}

Poll ExploredRank::finishing(Message& message, bool receives, Errors errors) {
  return {receives ? "test of the receive" : "test of the send", [this, &message, receives, errors] {
            if (message.failed) return Answer::kDone;
            bool done = false;
            std::uint64_t size = 0;
            message.failed = !succeeded(net_.test(message.request, &done, &size), "test", errors);
            if (message.failed) return Answer::kDone;
            if (!done) return Answer::kNotYet;
            interleaver_.note(rank_, fmt::format("{} bytes", size));
            if (receives) {
              check_received(message, size);
            } else if (size != message.buffer.size()) {
              broken(fmt::format("a send of {} bytes is done with {}", message.buffer.size(), size));
            }
            return Answer::kDone;
          }};
}

void ExploredRank::finish_send(Message& message, Errors errors) { until_done({finishing(message, false, errors)}); }
void ExploredRank::finish_receive(Message& message, Errors errors) { until_done({finishing(message, true, errors)}); }

void ExploredRank::deregister(Message* message) {
  if (message == nullptr || message->memory == nullptr) return;
  succeeded(net_.deregister_memory(message->comm, message->memory), "deregMr", Errors::kNone);
}

void ExploredRank::close_send(void* comm, Message* message) {
  once("closeSend", [&] {
    deregister(message);
    succeeded(net_.close_send(comm), "closeSend", Errors::kNone);
  });
}

void ExploredRank::close_receive(void* comm, Message* message) {
  once("closeRecv", [&] {
    deregister(message);
    succeeded(net_.close_receive(comm), "closeRecv", Errors::kNone);
  });
}

void ExploredRank::finalize() {
  once("finalize", [&] { succeeded(net_.finalize(), "finalize", Errors::kNone); });
}

}  // namespace meshbed::testbed
