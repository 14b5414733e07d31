#include "testbed/serve/websocket_session.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <memory>
#include <optional>

namespace meshbed::testbed::serve {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;

using boost::system::error_code;

class WebsocketSession : public std::enable_shared_from_this<WebsocketSession> {
 public:
  WebsocketSession(Hub& hub, boost::asio::ip::tcp::socket socket)
      : hub_(hub), counted_(hub.websocket_clients), stream_(std::move(socket)), timer_(hub.io) {}

  void start() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(hub_.limits.head_bytes));
    parser_->body_limit(0);
    beast::get_lowest_layer(stream_).expires_after(std::chrono::milliseconds(hub_.limits.request_ms));
    http::async_read(stream_.next_layer(), buffer_, *parser_,
                     [self = shared_from_this()](error_code error, std::size_t) { self->on_request(error); });
  }

 private:
  void on_request(error_code error) {
    if (error) {
      const bool parser = error.category() == make_error_code(http::error::bad_method).category();
      if (!parser || error == http::error::end_of_stream || error == http::error::partial_message) return;
      return refuse(error == http::error::header_limit ? 431 : 400, "this is not an HTTP/1.1 request");
    }
    if (hub_.websocket_clients > hub_.limits.websocket_clients) return refuse(503, "too many clients; try again later");
    if (!websocket::is_upgrade(parser_->get())) {
      return refuse(426, "this port is for WebSocket clients; HTTP is on the port before it");
    }
    beast::get_lowest_layer(stream_).expires_never();
    stream_.set_option(websocket::stream_base::timeout{std::chrono::milliseconds(hub_.limits.request_ms),
                                                       std::chrono::milliseconds(hub_.limits.reply_ms), true});
    stream_.set_option(websocket::stream_base::decorator(
        [](websocket::response_type& response) { response.set(http::field::server, "meshbed"); }));
    stream_.read_message_max(hub_.limits.frame_bytes);
    stream_.text(true);
    stream_.async_accept(parser_->get(), [self = shared_from_this()](error_code problem) {
      if (problem) return;
      self->read();
      self->send();
    });
  }

  void refuse(unsigned status, const std::string& text) {
    response_.emplace(static_cast<http::status>(status), 11);
    response_->set(http::field::server, "meshbed");
    response_->set(http::field::content_type, "text/plain; charset=utf-8");
    if (status == 426) response_->set(http::field::upgrade, "websocket");
    response_->keep_alive(false);
    response_->body() = text + "\n";
    response_->prepare_payload();
    http::async_write(stream_.next_layer(), *response_, [self = shared_from_this()](error_code, std::size_t) {
      error_code ignored;
      beast::get_lowest_layer(self->stream_).socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    });
  }

  void read() {
    stream_.async_read(received_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->end();
      self->received_.consume(self->received_.size());
      self->read();
    });
  }

  /// One message at a time: a client that does not take them gets fewer, and is closed by the stream's time-out.
  void send() {
    text_ = hub_.snapshot;
    if (text_->empty()) return wait();
    stream_.async_write(boost::asio::buffer(*text_), [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->end();
      self->wait();
    });
  }

  void wait() {
    if (ended_) return;
    timer_.expires_after(std::chrono::milliseconds(hub_.limits.snapshot_every_ms));
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (!error && !self->ended_) self->send();
    });
  }

  void end() {
    ended_ = true;
    timer_.cancel();
  }

  Hub& hub_;
  Counted counted_;
  websocket::stream<beast::tcp_stream> stream_;
  boost::asio::steady_timer timer_;
  beast::flat_buffer buffer_{16384}, received_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  std::shared_ptr<const std::string> text_;
  bool ended_ = false;
};

}  // namespace

void serve_websocket(Hub& hub, boost::asio::ip::tcp::socket socket) {
  std::make_shared<WebsocketSession>(hub, std::move(socket))->start();
}

}  // namespace meshbed::testbed::serve
