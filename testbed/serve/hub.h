#pragma once
// Data shared by the sessions of a server. Used only by the thread that runs `io`.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "testbed/serve/server.h"

namespace meshbed::testbed::serve {

struct Hub {
  Hub(Content& its, const Limits& at_most) : content(its), limits(at_most) {}

  Content& content;
  Limits limits;
  std::atomic<std::size_t> clients{0}, websocket_clients{0};  // before `io`, whose handlers hold sessions
  boost::asio::io_context io{1};
  boost::asio::thread_pool maker{1};                                              // makes replies, one at a time
  std::shared_ptr<const std::string> snapshot = std::make_shared<std::string>();  // the last one that could be made

  /// Calls `make` on the maker's thread and then `take` with its result on the server's.
  template <typename Make, typename Take>
  void ask(Make make, Take take) {
    boost::asio::post(maker, [this, make = std::move(make), take = std::move(take)]() mutable {
      auto made = make();
      boost::asio::post(io, [take = std::move(take), made = std::move(made)]() mutable { take(std::move(made)); });
    });
  }
};

/// One more of `count` as long as it lives.
class Counted {
 public:
  explicit Counted(std::atomic<std::size_t>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<std::size_t>& count_;
};

}  // namespace meshbed::testbed::serve
