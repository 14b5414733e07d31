#include "testbed/serve/http_session.h"

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>

namespace meshbed::testbed::serve {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

using boost::system::error_code;
using Response = http::response<http::string_body>;

constexpr std::string_view kAllowed = "GET, HEAD";

/// The status of a request that cannot be read; 0: nothing is left to reply to.
unsigned status_of(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::end_of_stream || error == http::error::partial_message) return 0;
  // The other errors of the parser are about the request; all others are about the connection.
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

const char* cause_of(unsigned status) {
  switch (status) {
    case 413:
      return "the body is too long: requests here need none";
    case 431:
      return "the head of the request is too long";
    case 408:
      return "the request took too long";
    default:
      return "this is not an HTTP/1.1 request";
  }
}

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(Hub& hub, boost::asio::ip::tcp::socket socket)
      : hub_(hub), counted_(hub.clients), stream_(std::move(socket)), timer_(hub.io), buffer_(hub.limits.head_bytes) {}

  void start() {
    if (hub_.clients > hub_.limits.clients) return refuse(503, "too many clients; try again later");
    read();
  }

 private:
  void read() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(hub_.limits.head_bytes));
    parser_->body_limit(hub_.limits.body_bytes);
    late_ = false;
    // One deadline for the whole request: bytes that trickle in do not extend it.
    timer_.expires_after(std::chrono::milliseconds(hub_.limits.request_ms));
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (error) return;
      self->late_ = true;
      self->stream_.cancel();
    });
    stream_.expires_never();
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
      self->timer_.cancel();
      self->on_read(error);
    });
  }

  void on_read(error_code error) {
    if (late_) {
      if (parser_->got_some()) return refuse(408, cause_of(408));
      return close();
    }
    if (error) {
      const unsigned status = status_of(error);
      return status == 0 ? close() : refuse(status, cause_of(status));
    }
    const auto& request = parser_->get();
    version_ = request.version();
    keep_alive_ = request.keep_alive();
    is_head_ = request.method() == http::verb::head;
    if (version_ != 10 && version_ != 11) return refuse(400, "the version must be HTTP/1.0 or HTTP/1.1");
    if (request.method() != http::verb::get && !is_head_)
      return answer(plain_reply(405, "only GET and HEAD are served"));
    const std::string_view target(request.target().data(), request.target().size());
    if (target.empty() || target.front() != '/') return refuse(400, "the address must begin with /");
    const std::string path(target.substr(0, target.find_first_of("?#")));
    if (path == "/health") return answer({.type = "text/plain; charset=utf-8", .body = "ok"});
    hub_.ask([this, path] { return hub_.content.reply(path); },
             [self = shared_from_this()](Reply reply) { self->answer(std::move(reply)); });
  }

  /// After it nothing more is read from this client.
  void refuse(unsigned status, const std::string& text) {
    keep_alive_ = false;
    answer(plain_reply(status, text));
  }

  void answer(Reply reply) {
    response_.emplace(static_cast<http::status>(reply.status), version_);
    response_->set(http::field::server, "meshbed");
    response_->set(http::field::content_type, reply.type);
    response_->set(http::field::cache_control, "no-store");
    response_->set("X-Content-Type-Options", "nosniff");
    if (reply.status == 405) response_->set(http::field::allow, beast::string_view(kAllowed.data(), kAllowed.size()));
    if (reply.status == 503) response_->set(http::field::retry_after, "1");
    if (reply.refresh_s > 0) response_->set("Refresh", std::to_string(reply.refresh_s));
    response_->keep_alive(keep_alive_);
    response_->content_length(reply.body.size());
    if (!is_head_) response_->body() = std::move(reply.body);
    serializer_.emplace(*response_);
    stream_.expires_after(std::chrono::milliseconds(hub_.limits.reply_ms));
    const auto done = [self = shared_from_this()](error_code error, std::size_t) { self->on_written(error); };
    // A reply to HEAD has the length of the body and no body.
    if (is_head_) {
      http::async_write_header(stream_, *serializer_, done);
    } else {
      http::async_write(stream_, *serializer_, done);
    }
  }

  void on_written(error_code error) {
    is_head_ = false;
    if (error || !keep_alive_) return close();
    read();
  }

  /// What the client still sends is taken in for a moment: the kernel would otherwise send a reset, which may overtake
  /// the reply.
  void close() {
    error_code ignored;
    stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    drain();
  }

  void drain() {
    if (drains_left_-- == 0) return;
    stream_.expires_after(std::chrono::milliseconds(kDrainMs));
    stream_.async_read_some(boost::asio::buffer(drained_), [self = shared_from_this()](error_code error, std::size_t) {
      if (!error) self->drain();
    });
  }

  static constexpr std::int64_t kDrainMs = 500;

  Hub& hub_;
  Counted counted_;
  beast::tcp_stream stream_;
  boost::asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<Response> response_;
  std::optional<http::response_serializer<http::string_body>> serializer_;
  std::array<char, 4096> drained_{};
  int drains_left_ = 16;
  unsigned version_ = 11;
  bool keep_alive_ = true, is_head_ = false, late_ = false;
};

}  // namespace

void serve_http(Hub& hub, boost::asio::ip::tcp::socket socket) {
  std::make_shared<HttpSession>(hub, std::move(socket))->start();
}

}  // namespace meshbed::testbed::serve
