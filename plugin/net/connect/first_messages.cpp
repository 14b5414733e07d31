#include "plugin/net/connect/first_messages.h"

#include <utility>

namespace meshbed::net {
namespace {

class FirstMessage : public Introduction {
 public:
  Result<bool> advance(int descriptor) override {
    Socket borrowed(descriptor);
    auto message = reader_.read(borrowed);
    (void)borrowed.release();  // the queue's
    if (!message) return message.error();
    if (!*message) return false;
    message_ = std::move(**message);
    return true;
  }
  bool untouched() const override { return reader_.untouched(); }
  WireMessage take() { return std::move(message_); }

 private:
  MessageReader reader_;
  WireMessage message_;
};

}  // namespace

Result<void> FirstMessages::open(bool ipv6, AcceptQueueOptions options) {
  auto socket = listen_anywhere(ipv6);
  if (!socket) return socket.error();
  options.make_introduction = [] { return std::make_unique<FirstMessage>(); };
  return queue_.open(Descriptor(socket->release()), std::move(options));
}

Result<void> FirstMessages::advance(std::vector<Arrival>& arrivals) {
  const Result<void> accepted = queue_.advance(introduced_);
  for (Introduced& client : introduced_) {
    arrivals.push_back({.socket = Socket(client.descriptor.release()),
                        .local = client.local,
                        .remote = client.remote,
                        .over_cable = client.over_cable,
                        .deadline = client.deadline,
                        .message = static_cast<FirstMessage&>(*client.introduction).take()});
  }
  introduced_.clear();
  return accepted;
}

}  // namespace meshbed::net
