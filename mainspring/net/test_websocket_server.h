// A WebSocket server on loopback for tests: one thread, one connection at a time, ended with its
// object. What it does with a message is the test's; every wait of it is bounded.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace mainspring {

struct TestWebSocketAnswers {
  /// Said to a new connection at once, which is closed then; nothing: it is served.
  std::function<std::optional<std::string>()> on_connect = [] { return std::nullopt; };
  /// The answer to a message. "": none, the client waits. Nothing: the connection is cut.
  std::function<std::optional<std::string>(const std::string&)> on_message;
};

class TestWebSocketServer {
 public:
  explicit TestWebSocketServer(TestWebSocketAnswers answers);
  ~TestWebSocketServer();
  TestWebSocketServer(const TestWebSocketServer&) = delete;
  TestWebSocketServer& operator=(const TestWebSocketServer&) = delete;

  /// "ws://127.0.0.1:PORT/ws".
  std::string url() const;

 private:
  struct Running;
  std::unique_ptr<Running> running_;
};

}  // namespace mainspring
