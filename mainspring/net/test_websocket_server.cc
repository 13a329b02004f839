#include "mainspring/net/test_websocket_server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>
#include <list>
#include <thread>
#include <utility>

namespace mainspring {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;
using Code = beast::error_code;

namespace {

/// One connection: reads a message, answers it, reads the next.
struct Session : std::enable_shared_from_this<Session> {
  Session(tcp::socket socket, const TestWebSocketAnswers& answers)
      : stream(std::move(socket)), answers(answers) {}

  void start() {
    stream.async_accept([self = shared_from_this()](Code error) {
      if (error) return;
      const auto said = self->answers.on_connect();
      if (said.has_value()) {
        self->say(*said, true);
      } else {
        self->read();
      }
    });
  }
  void read() {
    buffer.clear();
    stream.async_read(buffer, [self = shared_from_this()](Code error, size_t) {
      if (error) return;
      const auto answer = self->answers.on_message(beast::buffers_to_string(self->buffer.data()));
      if (!answer.has_value()) {
        Code ignored;
        self->stream.next_layer().close(ignored);
      } else if (answer->empty()) {
        self->read();
      } else {
        self->say(*answer, false);
      }
    });
  }
  void say(std::string text, bool is_last) {
    reply = std::move(text);
    stream.async_write(
        asio::buffer(reply), [self = shared_from_this(), is_last](Code error, size_t) {
          if (error) return;
          if (!is_last) return self->read();
          self->stream.async_close(beast::websocket::close_code::try_again_later, [self](Code) {});
        });
  }

  beast::websocket::stream<tcp::socket> stream;
  const TestWebSocketAnswers& answers;
  beast::flat_buffer buffer;
  std::string reply;
};

}  // namespace

struct TestWebSocketServer::Running {
  TestWebSocketAnswers answers;
  asio::io_context context;
  tcp::acceptor acceptor{context, {asio::ip::make_address("127.0.0.1"), 0}};
  std::thread thread;

  void accept() {
    acceptor.async_accept([this](Code error, tcp::socket socket) {
      if (error) return;
      std::make_shared<Session>(std::move(socket), answers)->start();
      accept();
    });
  }
};

TestWebSocketServer::TestWebSocketServer(TestWebSocketAnswers answers)
    : running_(std::make_unique<Running>()) {
  running_->answers = std::move(answers);
  running_->accept();
  running_->thread = std::thread([this] { running_->context.run(); });
}

TestWebSocketServer::~TestWebSocketServer() {
  running_->context.stop();
  running_->thread.join();
}

std::string TestWebSocketServer::url() const {
  return "ws://127.0.0.1:" + std::to_string(running_->acceptor.local_endpoint().port()) + "/ws";
}

}  // namespace mainspring
