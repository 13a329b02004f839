#include "mainspring/net/websocket_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mainspring/net/test_websocket_server.h"

namespace mainspring {
namespace {

using testing::HasSubstr;

TEST(WebSocketUrl, IsTakenApartOrRefused) {
  const WebSocketAddress address = parse_websocket_url("ws://example.org:8000/a/b?c").value();
  EXPECT_EQ(address.host, "example.org");
  EXPECT_EQ(address.port, "8000");
  EXPECT_EQ(address.target, "/a/b?c");
  EXPECT_EQ(parse_websocket_url("ws://h").value().port, "80");
  EXPECT_EQ(parse_websocket_url("ws://h").value().target, "/");
  for (const char* url : {"", "ws", "http://h", "ws://", "ws://:80", "ws://h:", "ws://h:x"}) {
    EXPECT_EQ(parse_websocket_url(url).status().code(), StatusCode::kInvalidArgument) << url;
  }
  EXPECT_EQ(parse_websocket_url("wss://h").status().code(), StatusCode::kUnimplemented);
}

TEST(WebSocketClient, SpeaksAndHears) {
  TestWebSocketServer server(
      {.on_message = [](const std::string& text) { return "<" + text + ">"; }});
  auto client = WebSocketClient::connect(server.url(), 60);
  ASSERT_TRUE(client.ok()) << client.status().message();
  const std::string large(200000, 'x');
  for (const std::string& text : {std::string("a"), large, std::string("ü")}) {
    ASSERT_TRUE((*client)->send(text, 60).ok());
    EXPECT_EQ((*client)->receive(60).value(), "<" + text + ">");
  }
  (*client)->close(60);
  EXPECT_EQ((*client)->send("a", 60).code(), StatusCode::kUnavailable);
}

TEST(WebSocketClient, EveryWaitEndsAndTheConnectionWithIt) {
  TestWebSocketServer server({.on_message = [](const std::string&) { return ""; }});
  auto client = WebSocketClient::connect(server.url(), 60);
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->send("a", 60).ok());
  const auto answer = (*client)->receive(0.02);
  EXPECT_EQ(answer.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_FALSE((*client)->is_open());
  EXPECT_EQ((*client)->receive(60).status().code(), StatusCode::kUnavailable);
}

TEST(WebSocketClient, ALostPeerIsToldAtOnce) {
  TestWebSocketServer server({.on_message = [](const std::string&) { return std::nullopt; }});
  auto client = WebSocketClient::connect(server.url(), 60);
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->send("a", 60).ok());
  EXPECT_EQ((*client)->receive(60).status().code(), StatusCode::kUnavailable);
}

TEST(WebSocketClient, NobodyThereIsUnavailable) {
  std::string url;
  {
    TestWebSocketServer server({.on_message = [](const std::string&) { return ""; }});
    url = server.url();
  }
  const auto client = WebSocketClient::connect(url, 60);
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(client.status().message(), HasSubstr("cannot connect"));
}

}  // namespace
}  // namespace mainspring
