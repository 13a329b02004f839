#include "mainspring/cli/cmd_bench.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "mainspring/cli/exit_code.h"
#include "mainspring/cli/made_prompts.h"
#include "mainspring/io/json.h"

namespace mainspring::cli {
namespace {

namespace fs = std::filesystem;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Result<std::vector<int64_t>> parse_counts(const std::string& text) {
  std::vector<int64_t> counts;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int64_t count = 0;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc() || count < 1 || count > 4096 || (next != end && *next != ',')) {
      return invalid_argument("--sequences: expected numbers from 1 to 4096 with commas, got \"" +
                              text + "\"");
    }
    counts.push_back(count);
    if (next == end) return counts;
    at = next + 1;
  }
}

std::vector<SampleRequest> make_requests(const BenchSampleFlags& flags, int64_t vocabulary,
                                         int64_t sequences, int64_t new_tokens) {
  std::vector<SampleRequest> requests;
  for (int64_t s = 0; s < sequences; ++s) {
    requests.push_back(made_request(s, flags.prompt_tokens, new_tokens, vocabulary));
  }
  return requests;
}

struct Figure {
  int64_t sequences = 0;
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;  // of all sequences together
  double accepted = -1;            // share of guesses that were right; -1: no speculation
};

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Status submit_all(Sampler& sampler, std::vector<SampleRequest> requests) {
  for (SampleRequest& request : requests) {
    MS_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t id, sampler.submit(std::move(request)));
  }
  return {};
}

/// Until every prompt is computed.
Result<double> time_prefill(Sampler& sampler, std::vector<SampleRequest> requests) {
  MS_RETURN_IF_ERROR(submit_all(sampler, std::move(requests)));
  const double start = now_s();
  while (!sampler.is_idle()) sampler.step();
  return now_s() - start;
}

/// Tokens a second while all sequences decode: from the step after the last one's first token to
/// the first one's end.
Result<double> decode_rate(Sampler& sampler, std::vector<SampleRequest> requests) {
  const size_t sequences = requests.size();
  MS_RETURN_IF_ERROR(submit_all(sampler, std::move(requests)));
  std::set<int64_t> started;
  int64_t tokens = 0;
  double seconds = 0;
  bool has_ended = false;
  while (!sampler.is_idle()) {
    const bool counts = started.size() == sequences && !has_ended;
    const double start = now_s();
    const std::vector<SampleEvent> events = sampler.step();
    if (counts) seconds += now_s() - start;
    for (const SampleEvent& event : events) {
      if (event.token >= 0 && counts) ++tokens;
      if (event.result.has_value()) has_ended = true;
      started.insert(event.request);
    }
  }
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

Result<Figure> measure(const BenchSampleFlags& flags, ModelSession& session,
                       const Speculation& speculation, int64_t sequences) {
  const int64_t vocabulary = session.model().config.vocabulary;
  SamplerOptions options;
  options.max_batch = static_cast<int32_t>(sequences);
  options.max_sequence_tokens = flags.prompt_tokens + flags.new_tokens;
  options.cache_pages =
      static_cast<int32_t>(sequences * (options.max_sequence_tokens / kPageTokens + 2));
  options.share_prefixes = false;
  options.speculation = speculation;
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<Sampler> sampler,
                      Sampler::create(session.executor(), session.forward_model(), options));
  // Weights are packed and memory is touched at first use.
  MS_ASSIGN_OR_RETURN([[maybe_unused]] const double warm,
                      time_prefill(*sampler, make_requests(flags, vocabulary, sequences, 2)));
  Figure figure;
  figure.sequences = sequences;
  std::vector<double> prefills;
  std::vector<double> rates;
  for (int64_t round = 0; round < flags.rounds; ++round) {
    MS_ASSIGN_OR_RETURN(prefills.emplace_back(),
                        time_prefill(*sampler, make_requests(flags, vocabulary, sequences, 1)));
    MS_ASSIGN_OR_RETURN(
        rates.emplace_back(),
        decode_rate(*sampler, make_requests(flags, vocabulary, sequences, flags.new_tokens)));
  }
  figure.prefill_tokens_per_s =
      static_cast<double>(sequences * flags.prompt_tokens) / median_of(prefills);
  figure.decode_tokens_per_s = median_of(rates);
  const SamplerStats& stats = sampler->stats();
  if (stats.drafted_tokens > 0) {
    figure.accepted =
        static_cast<double>(stats.accepted_tokens) / static_cast<double>(stats.drafted_tokens);
  }
  return figure;
}

void print_text(const std::vector<Figure>& figures) {
  std::printf("%10s %18s %18s %14s\n", "sequences", "prefill tokens/s", "decode tokens/s",
              "ms per token");
  for (const Figure& figure : figures) {
    std::printf("%10lld %18.1f %18.1f %14.2f", static_cast<long long>(figure.sequences),
                figure.prefill_tokens_per_s, figure.decode_tokens_per_s,
                1e3 * static_cast<double>(figure.sequences) / figure.decode_tokens_per_s);
    if (figure.accepted >= 0) std::printf("  %.0f %% of guesses right", 100 * figure.accepted);
    std::printf("\n");
  }
}

void print_json(const BenchSampleFlags& flags, ModelSession& session,
                const std::vector<Figure>& figures) {
  Json json = Json::object();
  json["model"] = flags.model.model;
  json["dtype"] = flags.model.dtype;
  json["executor"] = std::string(session.executor().name());
  json["threads"] = session.executor().num_threads();
  json["prompt_tokens"] = flags.prompt_tokens;
  json["new_tokens"] = flags.new_tokens;
  json["rounds"] = flags.rounds;
  json["speculate"] = flags.speculation.max_draft;
  json["figures"] = Json::array();
  for (const Figure& figure : figures) {
    Json row = {{"sequences", figure.sequences},
                {"prefill_tokens_per_s", figure.prefill_tokens_per_s},
                {"decode_tokens_per_s", figure.decode_tokens_per_s}};
    if (figure.accepted >= 0) row["accepted_guesses"] = figure.accepted;
    json["figures"].push_back(std::move(row));
  }
  std::printf("%s\n", json_text(json).c_str());
}

Status bench_sample(const BenchSampleFlags& flags) {
  MS_ASSIGN_OR_RETURN(const std::vector<int64_t> counts, parse_counts(flags.sequences));
  MS_ASSIGN_OR_RETURN(const std::unique_ptr<ModelSession> session, ModelSession::open(flags.model));
  MS_ASSIGN_OR_RETURN(const OpenedSpeculation opened,
                      open_speculation(flags.speculation, *session));
  if (flags.prompt_tokens + flags.new_tokens > session->model().config.context_length) {
    return invalid_argument("--prompt-tokens and --new-tokens: " +
                            std::to_string(flags.prompt_tokens + flags.new_tokens) +
                            " are more than the model's context of " +
                            std::to_string(session->model().config.context_length));
  }
  std::fprintf(stderr, "bench: %s; prompts of %lld tokens, %lld new ones\n",
               session->description().c_str(), static_cast<long long>(flags.prompt_tokens),
               static_cast<long long>(flags.new_tokens));
  std::vector<Figure> figures;
  for (const int64_t count : counts) {
    MS_ASSIGN_OR_RETURN(const Figure figure, measure(flags, *session, opened.speculation, count));
    figures.push_back(figure);
  }
  if (flags.json)
    print_json(flags, *session, figures);
  else
    print_text(figures);
  return {};
}

// What bench/run is called with.
std::vector<std::string> script_arguments(const BenchPeersFlags& flags) {
  std::vector<std::string> arguments{"--rounds",     std::to_string(flags.rounds),
                                     "--only",       flags.only,
                                     "--precisions", flags.precisions};
  const std::pair<const char*, const std::string*> optional[] = {{"--peers", &flags.peers},
                                                                 {"--llama", &flags.llama},
                                                                 {"--smollm2", &flags.smollm2},
                                                                 {"--json", &flags.json}};
  for (const auto& [name, value] : optional) {
    if (!value->empty()) arguments.insert(arguments.end(), {name, *value});
  }
  return arguments;
}

Status bench_peers(const BenchPeersFlags& flags) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  std::string script = find_bench_script(program.parent_path().string());
  if (script.empty()) script = find_bench_script(fs::current_path(error).string());
  if (script.empty()) {
    return not_found(
        "bench/run: is not in a folder above the program or the working directory; the comparison "
        "runs in a clone of the sources (mainspring bench sample needs none)");
  }
  std::vector<std::string> arguments{"python3", script};
  const std::vector<std::string> rest = script_arguments(flags);
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return not_found("python3, which runs " + script + ": " + std::strerror(errno));
}

}  // namespace

int run_bench_sample(const BenchSampleFlags& flags) {
  return exit_code("bench sample", bench_sample(flags));
}

std::string find_bench_script(const std::string& start) {
  std::error_code error;
  for (fs::path folder = fs::absolute(start, error);; folder = folder.parent_path()) {
    const fs::path script = folder / "bench" / "run";
    if (fs::is_regular_file(script, error)) return script.string();
    if (folder == folder.parent_path()) return "";
  }
}

int run_bench_peers(const BenchPeersFlags& flags) { return exit_code("bench", bench_peers(flags)); }

namespace {

void add_bench_peers(CommandRegistry& registry) {
  auto state = std::make_shared<BenchPeersFlags>();
  Flags& flags = registry.add(
      "bench", "Compare with tuned peers (torch, llama.cpp) where these are, in one table",
      [state] { return run_bench_peers(*state); });
  flags.integer("rounds", &state->rounds, 1, "alternated measurements of each side");
  flags.text("only", &state->only,
             "cases with commas, or all; a wrong name is answered with their list");
  flags.text("precisions", &state->precisions,
             "of the torch peers: f32, amp (autocast over f32), bf16");
  flags.text("peers", &state->peers,
             "venv with torch, transformers and peft (default $MS_PEERS, .cache/peers)");
  flags.text("llama", &state->llama,
             "folder with llama.cpp and its models (default $MS_LLAMA, .cache/llama)");
  flags.text("smollm2", &state->smollm2,
             "SmolLM2 as a Hugging Face folder (default $MS_SMOLLM2, .cache/smollm2)");
  flags.text("json", &state->json, "file for every figure of every round");
}

}  // namespace

void add_bench(CommandRegistry& registry) {
  add_bench_peers(registry);
  auto state = std::make_shared<BenchSampleFlags>();
  Flags& flags = registry.add("bench sample", "Measure how fast a model generates on this machine",
                              [state] { return run_bench_sample(*state); });
  state->model.declare(flags);
  flags.text("sequences", &state->sequences, "how many run at once, with commas");
  flags.integer("prompt-tokens", &state->prompt_tokens, 1, "of each sequence");
  flags.integer("new-tokens", &state->new_tokens, 2, "to sample after each prompt");
  flags.integer("rounds", &state->rounds, 1, "measurements, of which the median is printed");
  state->speculation.declare(flags);
  flags.toggle("json", &state->json, "one JSON object instead of a table");
}

}  // namespace mainspring::cli
