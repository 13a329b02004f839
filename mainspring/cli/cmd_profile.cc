#include "mainspring/cli/cmd_profile.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>

#include "mainspring/cli/exit_code.h"
#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/io/atomic_file.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/lab/advice.h"
#include "mainspring/lab/chrome_trace.h"
#include "mainspring/lab/profile_page.h"
#include "mainspring/lab/profile_text.h"
#include "mainspring/train/trainer.h"

namespace mainspring::cli {
namespace {

constexpr size_t kExpectedSpans = size_t{1} << 17;  // some 6 MB: a hundred micro-batches

ProfileBy by_from(const std::string& name) {
  if (name == "layer") return ProfileBy::kLayer;
  return name == "path" ? ProfileBy::kPath : ProfileBy::kOp;
}

std::string command_of(const ProfileFlags& flags) {
  std::string command = "mainspring profile";
  if (flags.model.model.empty()) {
    command += " " + flags.recipe;
  } else {
    command += " --model " + flags.model.model + " --sequences " +
               std::to_string(flags.decode.sequences) + " --prompt-tokens " +
               std::to_string(flags.decode.prompt_tokens);
  }
  for (const std::string& set : flags.sets) command += " --set " + set;
  return command + " --steps " + std::to_string(flags.steps);
}

// CPU time of the program by what its threads could have had.
double busy_of(double cpu_s, double wall_s, int threads) {
  return std::min(1.0, cpu_s / (wall_s * threads));
}

ProfileFacts facts_of(const ProfileFlags& flags, const Recipe& recipe, const ProfiledRun& run,
                      const Profile& profile, int threads) {
  const double wall_s = static_cast<double>(profile.wall_ns) * 1e-9;
  const double nominal = flags.nominal_peak * 1e12;
  return {.title = recipe.title,
          .description = run.description,
          .command = command_of(flags),
          .num_steps = flags.steps,
          .num_tokens = run.num_tokens,
          .num_learned = run.num_learned,
          .num_micro_batches = run.num_micro_batches,
          .model_flops = run.model_flops,
          .mfu_formula = run.flops.formula,
          .mfu = mfu(run.model_flops, wall_s, run.flops.peak),
          .nominal_peak = nominal,
          .nominal_mfu = nominal > 0 ? mfu(run.model_flops, wall_s, nominal) : 0.0,
          .busy = busy_of(run.cpu_s, wall_s, threads),
          .digest = run.digest};
}

Status write_files(const std::string& folder, const Timeline& timeline,
                   const std::vector<Profile>& tables, const ProfileFacts& facts,
                   const std::vector<std::string>& advice) {
  MS_RETURN_IF_ERROR(make_directories(folder));
  MS_RETURN_IF_ERROR(write_file_atomically(join_path(folder, "profile.html"),
                                           profile_page(tables, facts, advice)));
  MS_RETURN_IF_ERROR(
      write_file_atomically(join_path(folder, "profile.json"),
                            json_text(profile_json(tables[0], facts, advice), 1) + "\n"));
  return write_file_atomically(join_path(folder, "trace.json"),
                               chrome_trace(timeline, "mainspring " + facts.title));
}

Status check_flags(const ProfileFlags& flags) {
  if (flags.recipe.empty() == flags.model.model.empty()) {
    return invalid_argument(
        "expected a recipe (mainspring profile recipes/sft_lora.toml) or --model, got " +
        std::string(flags.recipe.empty() ? "neither" : "both"));
  }
  if (!flags.model.model.empty() && !flags.sets.empty()) {
    return invalid_argument("--set: changes a recipe, and there is none beside --model");
  }
  if (flags.nominal_peak < 0) {
    return invalid_argument("--nominal-peak: expected TFLOP/s above 0, got " +
                            std::to_string(flags.nominal_peak));
  }
  if (flags.out.empty()) return {};
  // Before the work, which would be lost for want of a place.
  MS_RETURN_IF_ERROR(make_directories(flags.out));
  return AtomicFile::create(join_path(flags.out, "profile.html")).status();
}

// Makes the facts once the wall time is known.
using FactsFrom = std::function<ProfileFacts(const Profile&)>;

Status show(const ProfileFlags& flags, Executor& executor, const Timeline& timeline,
            const FactsFrom& facts_from) {
  const Ceilings ceilings{executor.peak_flops(), executor.memory_bandwidth()};
  const std::vector<Profile> tables{make_profile(timeline, ceilings, ProfileBy::kOp),
                                    make_profile(timeline, ceilings, ProfileBy::kLayer)};
  const ProfileFacts facts = facts_from(tables[0]);
  const std::vector<std::string> advice = advise(tables[0], facts);
  const Profile shown = make_profile(timeline, ceilings, by_from(flags.by));
  std::printf("%s\n", flags.json ? json_text(profile_json(shown, facts, advice)).c_str()
                                 : profile_text(shown, facts, advice).c_str());
  if (flags.out.empty()) return {};
  MS_RETURN_IF_ERROR(write_files(flags.out, timeline, tables, facts, advice));
  std::fprintf(stderr, "profile %s\ntrace %s (for Perfetto or chrome://tracing)\n",
               join_path(flags.out, "profile.html").c_str(),
               join_path(flags.out, "trace.json").c_str());
  return {};
}

Status profile_training(const ProfileFlags& flags) {
  MS_ASSIGN_OR_RETURN(const Recipe recipe, load_recipe(flags.recipe, flags.sets));
  std::vector<std::string> notes;
  MS_ASSIGN_OR_RETURN(
      auto executor,
      cpu::make_cpu_executor(
          {.num_threads = static_cast<int>(flags.model.threads), .isa = flags.model.isa}, &notes));
  for (const std::string& note : notes) std::fprintf(stderr, "%s\n", note.c_str());
  Timeline timeline(kExpectedSpans);
  MS_ASSIGN_OR_RETURN(const ProfiledRun run, mainspring::run_profile(recipe, *executor,
                                                                     {.steps = flags.steps,
                                                                      .warmup_steps = flags.warmup,
                                                                      .timeline = &timeline}));
  return show(flags, *executor, timeline, [&](const Profile& profile) {
    return facts_of(flags, recipe, run, profile, executor->num_threads());
  });
}

Status profile_decoding(const ProfileFlags& flags) {
  MS_ASSIGN_OR_RETURN(const auto session, ModelSession::open(flags.model));
  Timeline timeline(kExpectedSpans);
  MS_ASSIGN_OR_RETURN(const DecodedRun run,
                      decode_on(*session, flags.decode, flags.steps, flags.warmup, &timeline));
  return show(flags, session->executor(), timeline, [&](const Profile& profile) {
    const double wall_s = static_cast<double>(profile.wall_ns) * 1e-9;
    return ProfileFacts{.title = flags.model.model,
                        .description = session->description() + "; decoding " +
                                       std::to_string(flags.decode.sequences) +
                                       " sequences behind " +
                                       std::to_string(flags.decode.prompt_tokens) + " tokens",
                        .command = command_of(flags),
                        .num_steps = flags.steps,
                        .num_tokens = run.num_tokens,
                        .num_decoding = flags.decode.sequences,
                        .busy = busy_of(run.cpu_s, wall_s, session->executor().num_threads()),
                        .digest = run.digest};
  });
}

Status profile(const ProfileFlags& flags) {
  MS_RETURN_IF_ERROR(check_flags(flags));
  return flags.model.model.empty() ? profile_training(flags) : profile_decoding(flags);
}

}  // namespace

int run_profile(const ProfileFlags& flags) { return exit_code("profile", profile(flags)); }

void add_profile(CommandRegistry& registry) {
  auto flags = std::make_shared<ProfileFlags>();
  Flags& f = registry.add("profile", "show where the time of training or decoding steps goes",
                          [flags] { return run_profile(*flags); });
  f.positional("recipe", &flags->recipe, false, "TOML file, such as recipes/sft_lora.toml");
  f.texts("set", &flags->sets, "override a key: a.b=value, the value as TOML, else a string");
  f.integer("steps", &flags->steps, 1, "steps to time");
  f.integer("warmup", &flags->warmup, 0, "steps before them, not timed");
  f.text("out", &flags->out, "folder for profile.html, profile.json and trace.json");
  f.choice("by", &flags->by, {"op", "layer", "path"}, "what makes a line of the printed table");
  f.number("nominal-peak", &flags->nominal_peak,
           "TFLOP/s by the processor's data sheet, for a second MFU");
  f.text("model", &flags->model.model,
         "instead of a recipe: time steps of decoding with this Hugging Face folder or .gguf file");
  f.integer("sequences", &flags->decode.sequences, 1, "that decode at once, with --model");
  f.integer("prompt-tokens", &flags->decode.prompt_tokens, 1, "before each of them, with --model");
  f.choice("dtype", &flags->model.dtype, {"bf16", "f32"},
           "what activations are computed in, with --model");
  f.integer("threads", &flags->model.threads, 0, "compute threads; 0: all cores of the container");
  f.text("isa", &flags->model.isa,
         "scalar, avx2, avx512 or avx512bf16 (default: the fastest that works)");
  f.toggle("json", &flags->json, "one JSON object instead of a table");
}

}  // namespace mainspring::cli
