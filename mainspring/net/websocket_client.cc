#include "mainspring/net/websocket_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>

namespace mainspring {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;
using Code = beast::error_code;

}  // namespace

struct WebSocketClient::Connection {
  asio::io_context context;
  beast::websocket::stream<tcp::socket> stream{context};
  std::string url;
  bool is_open = false;

  /// Starts an operation with a handler, and runs until it was called or the time is up. Where it
  /// failed, the connection is given up.
  template <typename Start>
  Status run(const char* what, double seconds, Start start) {
    bool is_done = false;
    Code error;
    const auto handler = [&](Code code) {
      is_done = true;
      error = code;
    };
    start(handler);
    context.restart();
    context.run_for(std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(seconds)));
    if (is_done && !error) return {};
    is_open = false;
    const bool is_late = !is_done;
    Code ignored;
    stream.next_layer().close(ignored);
    if (is_late) {
      // The handler refers to this frame: what was cancelled calls it at once.
      context.restart();
      context.run();
      return deadline_exceeded(url + ": no end of \"" + what + "\" in time");
    }
    return unavailable(url + ": cannot " + what + ": " + error.message());
  }
};

Result<WebSocketAddress> parse_websocket_url(const std::string& url) {
  constexpr std::string_view kScheme = "ws://";
  if (url.starts_with("wss://")) {
    return unimplemented(url + ": wss:// is not spoken; put a proxy that ends TLS before it");
  }
  const std::string_view rest = std::string_view(url).substr(std::min(url.size(), kScheme.size()));
  const size_t path = std::min(rest.find('/'), rest.size());
  const std::string_view authority = rest.substr(0, path);
  const size_t colon = authority.rfind(':');
  WebSocketAddress address;
  address.host = authority.substr(0, colon);
  address.port = colon == std::string_view::npos ? "80" : authority.substr(colon + 1);
  address.target = path == rest.size() ? "/" : rest.substr(path);
  const bool is_port = !address.port.empty() && address.port.size() <= 5 &&
                       address.port.find_first_not_of("0123456789") == std::string::npos;
  if (!url.starts_with(kScheme) || address.host.empty() || !is_port) {
    return invalid_argument("expected a URL such as \"ws://127.0.0.1:8000/ws\", got \"" + url +
                            "\"");
  }
  return address;
}

WebSocketClient::WebSocketClient(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
WebSocketClient::~WebSocketClient() = default;

Result<std::unique_ptr<WebSocketClient>> WebSocketClient::connect(const std::string& url,
                                                                  double seconds) {
  MS_ASSIGN_OR_RETURN(const WebSocketAddress address, parse_websocket_url(url));
  const auto began = std::chrono::steady_clock::now();
  const auto left = [&] {
    return seconds -
           std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  auto connection = std::make_unique<Connection>();
  connection->url = url;
  auto& stream = connection->stream;
  stream.read_message_max(kMaxMessageBytes);
  tcp::resolver resolver(connection->context);
  tcp::resolver::results_type found;
  MS_RETURN_IF_ERROR(connection->run("resolve", left(), [&](const auto& done) {
    resolver.async_resolve(address.host, address.port, [&, done](Code error, auto results) {
      found = results;
      done(error);
    });
  }));
  MS_RETURN_IF_ERROR(connection->run("connect", left(), [&](const auto& done) {
    asio::async_connect(stream.next_layer(), found,
                        [done](Code error, const tcp::endpoint&) { done(error); });
  }));
  stream.next_layer().set_option(tcp::no_delay(true));
  MS_RETURN_IF_ERROR(connection->run("shake hands", left(), [&](const auto& done) {
    stream.async_handshake(address.host + ":" + address.port, address.target, done);
  }));
  connection->is_open = true;
  return std::unique_ptr<WebSocketClient>(new WebSocketClient(std::move(connection)));
}

bool WebSocketClient::is_open() const { return connection_->is_open; }

Status WebSocketClient::send(std::string_view text, double seconds) {
  if (!is_open()) return unavailable(connection_->url + ": the connection is closed");
  return connection_->run("send", seconds, [&](const auto& done) {
    connection_->stream.async_write(asio::buffer(text.data(), text.size()),
                                    [done](Code error, size_t) { done(error); });
  });
}

Result<std::string> WebSocketClient::receive(double seconds) {
  if (!is_open()) return unavailable(connection_->url + ": the connection is closed");
  beast::flat_buffer buffer;
  MS_RETURN_IF_ERROR(connection_->run("receive", seconds, [&](const auto& done) {
    connection_->stream.async_read(buffer, [done](Code error, size_t) { done(error); });
  }));
  return beast::buffers_to_string(buffer.data());
}

void WebSocketClient::close(double seconds) {
  if (!is_open()) return;
  // Whether the peer answers is of no consequence: the connection is given up either way.
  (void)connection_->run("close", seconds, [&](const auto& done) {
    connection_->stream.async_close(beast::websocket::close_code::normal, done);
  });
  connection_->is_open = false;
}

}  // namespace mainspring
