#include "mainspring/cli/cmd_chat.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "mainspring/cli/conversation.h"
#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/interrupt.h"
#include "mainspring/cli/line_reader.h"
#include "mainspring/io/atomic_file.h"

namespace mainspring::cli {
namespace {

constexpr const char* kHelp =
    "  /reset        forget the conversation\n"
    "  /save FILE    write it as one row of chat data (JSONL)\n"
    "  /quit         leave (or Ctrl-D)\n"
    "  Ctrl-C        stop the reply\n"
    "  a line that ends in \\ goes on in the next\n";

float or_suggested(double flag, const std::optional<float>& suggested, float fallback) {
  return flag == -1.0 ? suggested.value_or(fallback) : static_cast<float>(flag);
}

SamplingParams params_of(const ChatFlags& flags, const ModelSession& session) {
  const GenerationConfig& suggested = session.model().generation;
  SamplingParams params;
  params.max_tokens = static_cast<int32_t>(flags.max_tokens);
  params.temperature = or_suggested(flags.temperature, suggested.temperature, 0.7f);
  params.top_p = or_suggested(flags.top_p, suggested.top_p, 1.0f);
  params.min_p = or_suggested(flags.min_p, suggested.min_p, 0.0f);
  params.top_k = flags.top_k >= 0 ? static_cast<int32_t>(flags.top_k) : suggested.top_k.value_or(0);
  params.stop_tokens = session.eos_tokens();
  return params;
}

class Chat {
 public:
  Chat(const ChatFlags& flags, ModelSession& session, Sampler& sampler)
      : flags_(flags),
        session_(session),
        sampler_(sampler),
        conversation_(session.text(), flags.system),
        params_(params_of(flags, session)),
        is_terminal_(isatty(STDIN_FILENO) == 1) {}

  Status run();

 private:
  enum class Next { kGoOn, kLeave };
  LineReader::Outcome read_message(std::string& message);
  Next command(const std::string& line);
  void reply(std::string message);
  std::string stream(int64_t request);

  const ChatFlags& flags_;
  ModelSession& session_;
  Sampler& sampler_;
  Conversation conversation_;
  SamplingParams params_;
  bool is_terminal_;
  LineReader lines_{STDIN_FILENO};
  Interrupt interrupt_{/*second_ends=*/false};
  int64_t num_replies_ = 0;
};

/// One line, or several joined where a line ends in a backslash.
LineReader::Outcome Chat::read_message(std::string& message) {
  message.clear();
  while (true) {
    if (is_terminal_) {
      std::fputs(message.empty() ? "> " : ". ", stdout);
      std::fflush(stdout);
    }
    std::string line;
    const LineReader::Outcome outcome = lines_.read(line);
    if (outcome != LineReader::Outcome::kLine) return outcome;
    if (line.empty() || line.back() != '\\') {
      message += line;
      return outcome;
    }
    line.back() = '\n';
    message += line;
  }
}

Chat::Next Chat::command(const std::string& line) {
  const std::string name = line.substr(0, line.find(' '));
  const std::string argument = name.size() < line.size() ? line.substr(name.size() + 1) : "";
  if (name == "/quit" || name == "/exit") return Next::kLeave;
  if (name == "/reset") {
    conversation_.reset();
    std::puts("(forgotten)");
  } else if (name == "/save") {
    const Status saved = argument.empty()
                             ? invalid_argument("/save needs a file name")
                             : write_file_atomically(argument, conversation_.to_row() + "\n");
    std::printf("(%s)\n", saved.ok() ? ("saved to " + argument).c_str() : saved.message().c_str());
  } else {
    if (name != "/help") std::printf("(no command %s)\n", name.c_str());
    std::fputs(kHelp, stdout);
  }
  return Next::kGoOn;
}

/// Prints text as it becomes certain until the sample ends or Ctrl-C; returns all of it.
std::string Chat::stream(int64_t request) {
  std::string text;
  bool is_stopped = false;
  while (!sampler_.is_idle()) {
    if (!is_stopped && interrupt_.pending() != 0) {
      is_stopped = true;
      sampler_.cancel(request);
    }
    for (const SampleEvent& event : sampler_.step()) {
      std::fwrite(event.text.data(), 1, event.text.size(), stdout);
      std::fflush(stdout);
      if (!event.result.has_value()) continue;
      text = event.result->text;
      if (event.result->stop_reason == StopReason::kCancelled) std::fputs(" (stopped)", stdout);
      if (event.result->stop_reason == StopReason::kMaxTokens)
        std::fputs(" (--max-tokens)", stdout);
      if (event.result->stop_reason == StopReason::kNonFinite) {
        std::fputs(" (the model's logits are not finite)", stdout);
      }
    }
  }
  std::puts("");
  return text;
}

void Chat::reply(std::string message) {
  conversation_.add_user(std::move(message));
  const int64_t context = sampler_.options().max_sequence_tokens;
  // A quarter of the context, or --max-tokens if that is less, is kept for the reply.
  const int64_t room = context - std::min<int64_t>(params_.max_tokens, context / 4);
  Result<Conversation::Prompt> prompt = conversation_.prompt(room);
  if (!prompt.ok()) {
    conversation_.drop_last();
    std::printf("(%s)\n", prompt.status().message().c_str());
    return;
  }
  if (prompt->forgotten_turns > 0) {
    std::printf("(the oldest %lld turns no longer fit and are forgotten)\n",
                static_cast<long long>(prompt->forgotten_turns));
  }
  SampleRequest request;
  request.prompt = std::move(prompt->tokens);
  request.params = params_;
  request.adapter = session_.adapter_index();
  request.place = num_replies_++;
  const SamplerStats before = sampler_.stats();
  const auto start = std::chrono::steady_clock::now();
  const size_t prompt_size = request.prompt.size();
  Result<int64_t> submitted = sampler_.submit(std::move(request));
  if (!submitted.ok()) {
    conversation_.drop_last();
    std::printf("(%s)\n", submitted.status().message().c_str());
    return;
  }
  conversation_.add_assistant(stream(*submitted));
  if (!flags_.stats) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const int64_t tokens = sampler_.stats().sampled_tokens - before.sampled_tokens;
  std::fprintf(stderr, "(%zu prompt tokens, %lld of them cached; %lld tokens, %.1f a second)\n",
               prompt_size,
               static_cast<long long>(sampler_.stats().shared_tokens - before.shared_tokens),
               static_cast<long long>(tokens), static_cast<double>(tokens) / seconds.count());
}

Status Chat::run() {
  if (is_terminal_) std::puts("/help tells the commands.");
  std::string message;
  while (true) {
    const LineReader::Outcome outcome = read_message(message);
    if (outcome == LineReader::Outcome::kEnd) break;
    if (outcome == LineReader::Outcome::kInterrupted) {
      if (interrupt_.pending() == SIGTERM) break;
      interrupt_.clear();
      std::puts("\n(/quit or Ctrl-D leaves)");
      continue;
    }
    if (message.empty()) continue;
    if (message[0] == '/') {
      if (command(message) == Next::kLeave) break;
      continue;
    }
    interrupt_.clear();
    reply(std::move(message));
    if (interrupt_.pending() == SIGTERM) break;
    interrupt_.clear();
  }
  if (is_terminal_) std::puts("");
  return {};
}

Status chat(const ChatFlags& flags) {
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::open(flags.model));
  const ModelText& text = session->text();
  if (text.tokenizer == nullptr || text.chat_template == nullptr) {
    return failed_precondition(flags.model.model + ": has no " +
                               (text.tokenizer == nullptr ? "tokenizer" : "chat template") +
                               "; `mainspring sample` takes prompts without one");
  }
  SamplerOptions options;
  options.max_batch = 1;
  options.run_seed = static_cast<uint64_t>(flags.seed);
  options.make_text = session->make_text();
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<Sampler> sampler,
                      Sampler::create(session->executor(), session->forward_model(), options));
  MS_RETURN_IF_ERROR(validate(params_of(flags, *session), session->model().config.vocabulary));
  std::fprintf(stderr, "chat: %s\n", session->description().c_str());
  return Chat(flags, *session, *sampler).run();
}

}  // namespace

int run_chat(const ChatFlags& flags) { return exit_code("chat", chat(flags)); }

void add_chat(CommandRegistry& registry) {
  auto state = std::make_shared<ChatFlags>();
  Flags& flags = registry.add("chat", "Talk with a model in the terminal",
                              [state] { return run_chat(*state); });
  state->model.declare(flags);
  flags.text("system", &state->system, "the system message");
  flags.integer("max-tokens", &state->max_tokens, 1, "longest reply");
  flags.number("temperature", &state->temperature,
               "0 is greedy (-1: as the model's makers say, else 0.7)");
  flags.number("top-p", &state->top_p, "1 is off (-1: as the model's makers say, else off)");
  flags.integer("top-k", &state->top_k, -1, "0 is off (-1: as the model's makers say, else off)");
  flags.number("min-p", &state->min_p, "0 is off (-1: as the model's makers say, else off)");
  flags.integer("seed", &state->seed, 0, "replies are a function of it and of what was said",
                std::numeric_limits<int64_t>::max());
  flags.toggle("stats", &state->stats, "after each reply, say how fast it was");
}

}  // namespace mainspring::cli
