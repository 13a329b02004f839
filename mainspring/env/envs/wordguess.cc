// wordguess: find a word of five letters in a few guesses.
//
// The one idea: the information comes only by acting: each guess is answered letter by letter
// (G: right place, Y: elsewhere in the word, -: not in it; a letter counts as often as the word has
// it). A reply that is no guess costs a turn.
#include <algorithm>
#include <array>
#include <optional>

#include "mainspring/env/env_random.h"
#include "mainspring/env/env_settings.h"
#include "mainspring/env/envs/envs.h"
#include "mainspring/env/rewards/answer_text.h"

namespace mainspring {
namespace {

constexpr size_t kLetters = 5;

constexpr std::string_view kWords[] = {
    "actor", "adult", "agent", "alarm", "album", "angle", "apple", "arrow", "audio", "badge",
    "basin", "beach", "berry", "birch", "blade", "blank", "board", "brain", "brick", "bride",
    "brush", "cabin", "cable", "camel", "candy", "cargo", "chain", "chair", "chalk", "cheek",
    "chest", "chord", "cider", "clock", "cloud", "coach", "coral", "couch", "crane", "crown",
    "curve", "dance", "delta", "depth", "ditch", "draft", "dream", "dress", "eagle", "earth",
    "elbow", "empty", "entry", "equal", "event", "fable", "faith", "fence", "fever", "field",
    "flame", "flash", "fleet", "float", "flour", "focus", "forge", "frame", "fresh", "frost",
    "fruit", "ghost", "giant", "glass", "globe", "glove", "grain", "grape", "grass", "green",
    "guard", "guest", "habit", "heart", "hinge", "honey", "horse", "hotel", "house", "human",
    "image", "index", "ivory", "jelly", "jewel", "joint", "judge", "juice", "knife", "label",
    "ladle", "lemon", "level", "light", "limit", "linen", "lodge", "lunar", "magic", "maple",
    "march", "medal", "melon", "merit", "metal", "model", "month", "motor", "mouse", "mouth",
    "music", "nerve", "night", "noise", "north", "novel", "nurse", "ocean", "olive", "onion",
    "orbit", "order", "otter", "paint", "panel", "paper", "peach", "pearl", "phone", "piano",
    "pilot", "pitch", "place", "plane", "plant", "plate", "point", "porch", "pound", "power",
    "press", "price", "prize", "pulse", "queen", "quiet", "quilt", "radio", "ranch", "range",
    "raven", "ridge", "river", "robin", "route", "ruler", "salad", "scale", "scarf", "scene",
    "scout", "shade", "shape", "sheep", "shelf", "shell", "shirt", "shore", "sight", "skate",
    "skirt", "slate", "sleep", "slope", "smile", "smoke", "snake", "solar", "south", "space",
    "spark", "spoon", "sport", "stage", "stair", "stamp", "steam", "steel", "stone", "storm",
    "story", "sugar", "table", "thumb", "tiger", "tooth", "torch", "tower", "track", "trail",
    "train", "trunk", "truth", "uncle", "union", "valve", "video", "voice", "wagon", "watch",
    "water", "wheat", "wheel", "whale", "woman", "world", "yacht", "youth", "zebra"};
constexpr int64_t kNumWords = std::size(kWords);

/// The last word of five letters that stands alone, in lower case.
std::optional<std::string> find_guess(std::string_view reply) {
  std::optional<std::string> guess;
  std::string word;
  const auto end_of_word = [&] {
    if (word.size() == kLetters) guess = word;
    word.clear();
  };
  for (const char c : reply) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      word.push_back(static_cast<char>(c | 0x20));
    } else {
      end_of_word();
    }
  }
  end_of_word();
  return guess;
}

std::string marks(std::string_view guess, std::string_view word) {
  std::string out(kLetters, '-');
  std::array<int, 26> left{};
  for (size_t i = 0; i < kLetters; ++i) {
    if (guess[i] == word[i]) {
      out[i] = 'G';
    } else {
      ++left[word[i] - 'a'];
    }
  }
  for (size_t i = 0; i < kLetters; ++i) {
    if (out[i] == '-' && left[guess[i] - 'a'] > 0) {
      out[i] = 'Y';
      --left[guess[i] - 'a'];
    }
  }
  return out;
}

class WordguessEpisode final : public Episode {
 public:
  WordguessEpisode(std::string_view word, int64_t guesses, double progress)
      : word_(word), guesses_(guesses), progress_(progress) {}

  Observation start() override {
    Observation first;
    first.messages.push_back(
        {"user", "Guess my word of five letters. You have " + std::to_string(guesses_) +
                     " guesses. I answer each letter with G (right place), Y (elsewhere in the "
                     "word) or - (not in the word). Write one word per turn."});
    return first;
  }

  Feedback step(const Action& action) override {
    MS_CHECK(!is_done_, "the episode is over");
    Feedback feedback;
    feedback.rewards = {{"solved", 0.0}, {"progress", 0.0}};
    ++turn_;
    const auto guess = action.is_complete ? find_guess(action.text) : std::nullopt;
    std::string answer = "That is no word of five letters.";
    if (guess.has_value()) {
      const std::string letters = marks(*guess, word_);
      most_right_ = std::max(most_right_, std::count(letters.begin(), letters.end(), 'G'));
      answer = *guess + ": " + letters;
    }
    const bool is_solved = guess == word_;
    feedback.is_done = is_solved || !action.is_complete || turn_ == guesses_;
    if (is_solved) {
      feedback.rewards["solved"] = 1.0;
    } else if (feedback.is_done && action.is_complete) {
      feedback.rewards["progress"] =
          progress_ * static_cast<double>(most_right_) / static_cast<double>(kLetters);
    }
    if (!feedback.is_done) {
      const int64_t left = guesses_ - turn_;
      feedback.next.messages.push_back(
          {"user",
           answer + "\n" + std::to_string(left) + (left == 1 ? " guess" : " guesses") + " left."});
    }
    is_done_ = feedback.is_done;
    return feedback;
  }

 private:
  std::string word_;
  int64_t guesses_;
  double progress_;
  int64_t turn_ = 0;
  int64_t most_right_ = 0;
  bool is_done_ = false;
};

class WordguessEnvironment final : public Environment {
 public:
  WordguessEnvironment(int64_t guesses, double progress) : guesses_(guesses), progress_(progress) {}

  std::string name() const override { return "wordguess"; }
  int64_t num_tasks() const override { return kNumWords; }

  std::unique_ptr<Episode> make_episode(uint64_t seed, uint64_t index) override {
    return std::make_unique<WordguessEpisode>(
        kWords[task_in_order("wordguess", kNumWords, seed, index)], guesses_, progress_);
  }

 private:
  int64_t guesses_;
  double progress_;
};

}  // namespace

EnvironmentResult make_wordguess_env(const EnvSettings& settings) {
  EnvSettingsReader reader("wordguess", settings);
  const int64_t guesses = reader.integer("guesses", 6, 1, 20);
  const double progress = reader.number("progress", 0.2, 0.0, 1.0);
  MS_RETURN_IF_ERROR(reader.finish());
  return std::unique_ptr<Environment>(std::make_unique<WordguessEnvironment>(guesses, progress));
}

}  // namespace mainspring
