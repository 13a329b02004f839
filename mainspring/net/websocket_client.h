// WebSocketClient: text messages to and from a WebSocket server.
//
// The one idea: every call has a deadline; when it passes, or anything else goes wrong, the
// connection is gone and every later call says so. Plain ws:// only. The one door to Boost.Beast.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "mainspring/base/status.h"

namespace mainspring {

/// "ws://host:port/path", taken apart.
struct WebSocketAddress {
  std::string host;
  std::string port;    // "80" if left out
  std::string target;  // "/" if left out
};

/// Errors: invalid argument; unimplemented for wss://.
Result<WebSocketAddress> parse_websocket_url(const std::string& url);

class WebSocketClient {
 public:
  /// Larger messages end the connection.
  static constexpr uint64_t kMaxMessageBytes = uint64_t{16} << 20;

  /// Errors: as of parse_websocket_url; unavailable if nobody answers as a WebSocket server;
  /// deadline exceeded.
  static Result<std::unique_ptr<WebSocketClient>> connect(const std::string& url, double seconds);
  ~WebSocketClient();
  WebSocketClient(const WebSocketClient&) = delete;
  WebSocketClient& operator=(const WebSocketClient&) = delete;

  /// Errors: unavailable if the connection is gone; deadline exceeded.
  Status send(std::string_view text, double seconds);
  /// The next message. Errors: the same.
  Result<std::string> receive(double seconds);
  /// Says good-bye; not needed. The connection is gone afterwards.
  void close(double seconds);
  bool is_open() const;

 private:
  struct Connection;
  explicit WebSocketClient(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection_;
};

}  // namespace mainspring
