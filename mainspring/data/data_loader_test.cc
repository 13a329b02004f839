#include "mainspring/data/data_loader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>

namespace mainspring {
namespace {

/// Rows are pre-tokenised: row i of a file is [base + i, base + i + 1000, 1], so a datum names its
/// row.
class DataLoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/data-" + std::to_string(::getpid()) + "-" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string put(const std::string& name, const std::string& text) {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  static std::string row(int id) {
    return "{\"tokens\":[" + std::to_string(id) + "," + std::to_string(id + 1000) + ",1]}\n";
  }
  std::string rows(const std::string& name, int first, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += row(first + i);
    return put(name, text);
  }
  static DataOptions options_of(std::vector<std::vector<std::string>> sources) {
    DataOptions options;
    options.seed = 11;
    for (auto& files : sources) options.sources.push_back({"", std::move(files), 0.0});
    return options;
  }
  static Result<std::unique_ptr<DataLoader>> open(DataOptions options, int64_t max_tokens = 0) {
    RowEncoderOptions encoder;
    encoder.max_tokens = max_tokens;
    return DataLoader::open(std::move(options),
                            std::make_shared<RowEncoder>(nullptr, nullptr, encoder));
  }
  static std::vector<int> ids(const std::vector<Datum>& datums) {
    std::vector<int> out;
    for (const Datum& datum : datums) out.push_back(datum.tokens[0]);
    return out;
  }
  static std::vector<int> take(DataLoader& loader, int64_t n) {
    Result<std::vector<Datum>> datums = loader.next(n);
    EXPECT_TRUE(datums.ok()) << datums.status().to_string();
    return datums.ok() ? ids(*datums) : std::vector<int>{};
  }

  std::string dir_;
};

TEST_F(DataLoaderTest, AnEpochHasEachRowOnceAndTheNextOneAnotherOrder) {
  auto loader = open(options_of({{rows("a", 0, 50)}}));
  ASSERT_TRUE(loader.ok()) << loader.status().to_string();
  const auto first = take(**loader, 50);
  const auto second = take(**loader, 50);
  EXPECT_EQ(std::set<int>(first.begin(), first.end()).size(), 50u);
  EXPECT_EQ(std::set<int>(second.begin(), second.end()).size(), 50u);
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST_F(DataLoaderTest, DatumsCarryTheirSampleIndexAndEpoch) {
  auto loader = open(options_of({{rows("a", 0, 4)}}));
  const auto datums = (*loader)->next(6);
  ASSERT_TRUE(datums.ok());
  for (uint64_t i = 0; i < 6; ++i) {
    const Datum& datum = (*datums)[i];
    EXPECT_EQ(datum.sample_index, i);
    EXPECT_EQ(datum.epoch, i / 4);
    EXPECT_EQ(datum.targets, (std::vector<int32_t>{datum.tokens[0] + 1000, 1}));
    EXPECT_EQ(datum.weights, (std::vector<float>{1, 1}));
  }
}

TEST_F(DataLoaderTest, WithoutShuffleRowsComeInFileOrder) {
  DataOptions options = options_of({{rows("a", 0, 3), rows("b", 3, 2)}});
  options.shuffle = false;
  EXPECT_EQ(take(**open(options), 7), (std::vector<int>{0, 1, 2, 3, 4, 0, 1}));
}

TEST_F(DataLoaderTest, PrefetchCallSizesAndFileSplittingChangeNothing) {
  DataOptions options = options_of({{rows("a", 0, 40)}, {rows("b", 100, 13)}});
  const auto expected = take(**open(options), 200);
  for (const int64_t prefetch : {0, 1, 7, 500}) {
    options.prefetch_samples = prefetch;
    auto loader = open(options);
    std::vector<int> got;
    for (int64_t n = 1; got.size() < 200; ++n) {
      const auto part =
          take(**loader, std::min<int64_t>(n, 200 - static_cast<int64_t>(got.size())));
      got.insert(got.end(), part.begin(), part.end());
    }
    EXPECT_EQ(got, expected) << prefetch;
  }
  DataOptions split = options_of({{rows("a1", 0, 7), rows("a2", 7, 33)}, {rows("b", 100, 13)}});
  EXPECT_EQ(take(**open(split), 200), expected);
}

TEST_F(DataLoaderTest, ARestoredLoaderGoesOnExactly) {
  const DataOptions options = options_of({{rows("a", 0, 30)}, {rows("b", 100, 9)}});
  auto whole = open(options);
  take(**whole, 57);
  const DataState state = (*whole)->state();
  EXPECT_EQ(state.next_sample, 57u);
  const auto expected = take(**whole, 80);

  auto resumed = open(options);
  ASSERT_TRUE((*resumed)->restore(state).ok());
  EXPECT_EQ((*resumed)->state(), state);
  EXPECT_EQ(take(**resumed, 80), expected);
  ASSERT_TRUE((*resumed)->restore(state).ok()) << "also back, after taking some";
  EXPECT_EQ(take(**resumed, 80), expected);
}

TEST_F(DataLoaderTest, AStateOfOtherDataIsRefused) {
  auto a = open(options_of({{rows("a", 0, 30)}}));
  auto b = open(options_of({{rows("b", 0, 31)}}));
  EXPECT_EQ((*b)->restore((*a)->state()).code(), StatusCode::kFailedPrecondition);
  DataState state = (*a)->state();
  state.cursors.push_back(0);
  EXPECT_EQ((*a)->restore(state).code(), StatusCode::kInvalidArgument);
  state.sources.clear();  // as older checkpoints have it
  EXPECT_EQ((*a)->restore(state).code(), StatusCode::kInvalidArgument);
  state = (*b)->state();
  state.sources.clear();
  EXPECT_EQ((*a)->restore(state).code(), StatusCode::kFailedPrecondition);
}

TEST_F(DataLoaderTest, SourcesAreMixedByTheirWeights) {
  DataOptions options = options_of({{rows("a", 0, 10)}, {rows("b", 100, 10)}});
  options.sources[0].weight = 3;
  options.sources[1].weight = 1;
  auto loader = open(options);
  const auto got = take(**loader, 64);
  EXPECT_EQ(std::count_if(got.begin(), got.end(), [](int id) { return id < 100; }), 48);
  EXPECT_DOUBLE_EQ((*loader)->report()[0].share, 0.75);
}

TEST_F(DataLoaderTest, ASourceOfWeight0KeepsItsPlaceAndGivesNoSample) {
  DataOptions options =
      options_of({{rows("a", 0, 10)}, {rows("b", 100, 10)}, {rows("c", 200, 10)}});
  options.sources[0].weight = options.sources[2].weight = 1;
  auto loader = open(options);
  for (const int id : take(**loader, 300)) EXPECT_TRUE(id < 100 || id >= 200) << id;
  EXPECT_EQ((*loader)->report()[1].share, 0.0);
  EXPECT_EQ((*loader)->state().cursors[1], 0);
}

TEST_F(DataLoaderTest, AnotherMixtureCountsFromTheNextSampleOnAndCursorsGoOn) {
  DataOptions before = options_of({{rows("a", 0, 30)}, {rows("b", 100, 20)}});
  before.sources[0].weight = 3;
  before.sources[1].weight = 1;
  DataOptions after = before;
  after.sources[0].weight = 1;
  after.sources.push_back({"", {rows("c", 200, 25)}, 2.0});
  auto old = open(before);
  take(**old, 70);
  const DataState state = (*old)->state();

  auto loader = open(after);
  ASSERT_TRUE((*loader)->restore(state).ok());
  const DataState start = (*loader)->state();
  EXPECT_EQ(start.next_sample, 70u);
  EXPECT_EQ(start.cursors, (std::vector<int64_t>{state.cursors[0], state.cursors[1], 0}));
  ASSERT_EQ(start.mixture.size(), 2u);
  EXPECT_EQ(start.mixture[0], state.mixture[0]);
  EXPECT_EQ(start.mixture[1].from_sample, 70u);
  // From here on the source of a sample is that of a run that had the new mixture all along, and
  // each source gives the rows it would have given next.
  const auto got = take(**loader, 90);
  auto fresh = open(after);
  const auto with_new = take(**fresh, 160);
  auto rows_of_a = open(options_of({{rows("a", 0, 30)}}));
  const auto a = take(**rows_of_a, 200);
  int64_t next_a = state.cursors[0];
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i] / 100, with_new[70 + i] / 100) << i;
    if (got[i] < 100) {
      EXPECT_EQ(got[i], a[static_cast<size_t>(next_a++)]) << i;
    }
  }
}

TEST_F(DataLoaderTest, AChangedMixtureResumesExactlyAndASecondChangeToo) {
  DataOptions first = options_of({{rows("a", 0, 30)}, {rows("b", 100, 20)}});
  DataOptions second = first;
  second.sources[0].weight = 1;
  second.sources[1].weight = 9;
  DataOptions third = second;
  third.sources[0].weight = 0;
  auto loader = open(first);
  take(**loader, 40);
  const DataState at_40 = (*loader)->state();
  auto changed = open(second);
  ASSERT_TRUE((*changed)->restore(at_40).ok());
  take(**changed, 30);
  const DataState at_70 = (*changed)->state();
  const auto expected = take(**changed, 50);

  auto again = open(second);
  ASSERT_TRUE((*again)->restore(at_70).ok());
  EXPECT_EQ((*again)->state(), at_70) << "the same mixture is no new change";
  EXPECT_EQ(take(**again, 50), expected);
  ASSERT_TRUE((*again)->restore(at_40).ok()) << "back before its own change";
  take(**again, 30);
  EXPECT_EQ((*again)->state(), at_70);
  EXPECT_EQ(take(**again, 50), expected);

  auto last = open(third);
  ASSERT_TRUE((*last)->restore(at_70).ok());
  EXPECT_EQ((*last)->state().mixture.size(), 3u);
  for (const int id : take(**last, 40)) EXPECT_GE(id, 100);
}

TEST_F(DataLoaderTest, ARollbackBeforeAChangeDrawsTheOldMixtureUpToIt) {
  DataOptions options = options_of({{rows("a", 0, 30)}, {rows("b", 100, 20)}});
  auto loader = open(options);
  take(**loader, 20);
  const DataState at_20 = (*loader)->state();
  take(**loader, 20);
  options.sources[0].weight = 1;
  options.sources[1].weight = 9;
  auto changed = open(options);
  ASSERT_TRUE((*changed)->restore((*loader)->state()).ok());
  const auto expected_after = take(**changed, 30);
  ASSERT_TRUE((*changed)->restore(at_20).ok());
  EXPECT_EQ((*changed)->state().mixture.size(), 2u);
  auto old = open(options_of({{rows("a", 0, 30)}, {rows("b", 100, 20)}}));
  ASSERT_TRUE((*old)->restore(at_20).ok());
  EXPECT_EQ(take(**changed, 20), take(**old, 20));
  EXPECT_EQ(take(**changed, 30), expected_after);
}

TEST_F(DataLoaderTest, ASourceThatIsGoneOrElsewhereIsRefusedByName) {
  auto loader = open(options_of({{rows("a", 0, 30)}, {rows("b", 100, 20)}}));
  const DataState state = (*loader)->state();
  auto one = open(options_of({{rows("a", 0, 30)}}));
  const Status gone = (*one)->restore(state);
  EXPECT_EQ(gone.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(gone.message().find("source 2 is gone"), std::string::npos) << gone.message();
  auto swapped = open(options_of({{rows("b", 100, 20)}, {rows("a", 0, 30)}}));
  const Status elsewhere = (*swapped)->restore(state);
  EXPECT_EQ(elsewhere.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(elsewhere.message().find("source 1 (now " + dir_ + "/b)"), std::string::npos)
      << elsewhere.message();
}

TEST_F(DataLoaderTest, WithoutWeightsSourcesAreMixedByTheirRows) {
  auto loader = open(options_of({{rows("a", 0, 90)}, {rows("b", 100, 10)}}));
  EXPECT_NEAR((*loader)->report()[0].share, 0.9, 1.0 / 65536);
}

TEST_F(DataLoaderTest, HeldOutRowsAreNeverTrainedOn) {
  DataOptions options = options_of({{rows("a", 0, 40)}});
  options.held_out_fraction = 0.25;
  auto loader = open(options);
  const auto held = (*loader)->held_out(0);
  ASSERT_TRUE(held.ok());
  const auto held_ids = ids(held->datums);
  ASSERT_EQ(held_ids.size(), 10u);
  EXPECT_EQ((*loader)->num_rows(), 30);
  std::vector<int> all = take(**loader, 30);
  all.insert(all.end(), held_ids.begin(), held_ids.end());
  EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), 40u);
  EXPECT_EQ(ids((*loader)->held_out(3)->datums),
            (std::vector<int>(held_ids.begin(), held_ids.begin() + 3)));
}

TEST_F(DataLoaderTest, WithoutShuffleTheLastRowsAreHeldOut) {
  DataOptions options = options_of({{rows("a", 0, 4)}});
  options.shuffle = false;
  options.held_out_fraction = 0.25;
  auto loader = open(options);
  EXPECT_EQ(ids((*loader)->held_out(0)->datums), (std::vector<int>{3}));
  EXPECT_EQ(take(**loader, 4), (std::vector<int>{0, 1, 2, 0}));
}

TEST_F(DataLoaderTest, LongAndMasklessRowsAreLeftOutAndCounted) {
  const std::string path = put(
      "a", row(0) + "{\"tokens\":[1,2,3,4]}\n" + "{\"tokens\":[5,6],\"mask\":[1,0]}\n" + row(1));
  DataOptions options = options_of({{path}});
  options.shuffle = false;
  auto loader = open(options, /*max_tokens=*/3);
  ASSERT_TRUE(loader.ok()) << loader.status().to_string();
  EXPECT_EQ(take(**loader, 2), (std::vector<int>{0, 1}));
  const SourceReport report = (*loader)->report()[0];
  EXPECT_EQ(report.num_used, 2);
  EXPECT_EQ(report.num_too_long, 1);
  EXPECT_EQ(report.first_too_long, path + ":2: 4 tokens, at most 3");
  EXPECT_EQ(report.num_empty_mask, 1);
  EXPECT_EQ(report.first_empty_mask, path + ":3");
  EXPECT_EQ((*loader)->state().cursors, (std::vector<int64_t>{4}));
  EXPECT_NE(describe(report).find("2 left out: 1 too long"), std::string::npos) << describe(report);
}

TEST_F(DataLoaderTest, SurveyCountsEveryRowWithoutMovingTheStream) {
  const std::string path = put("a", row(0) + "{\"tokens\":[1,2,3,4]}\n" + row(1));
  auto loader = open(options_of({{path}}), /*max_tokens=*/3);
  const auto survey = (*loader)->survey();
  ASSERT_TRUE(survey.ok());
  EXPECT_EQ(survey->sources[0].num_used, 2);
  EXPECT_EQ(survey->sources[0].num_too_long, 1);
  EXPECT_EQ(survey->num_tokens, 6);
  EXPECT_EQ(survey->num_learned, 4);
  EXPECT_EQ(survey->longest_tokens, 4);
  EXPECT_EQ((*loader)->state().next_sample, 0u);
}

TEST_F(DataLoaderTest, DescribedRowsAreTheNextOnesWithTheirPlace) {
  DataOptions options = options_of({{put("a", row(7) + "{\"tokens\":[1,2,3,4]}\n")}});
  options.shuffle = false;
  auto loader = open(options, /*max_tokens=*/3);
  const auto described = (*loader)->describe_next(2);
  ASSERT_TRUE(described.ok());
  EXPECT_EQ((*described)[0].row.tokens[0], 7);
  EXPECT_EQ((*described)[0].pieces[0], "[7]");
  EXPECT_EQ((*described)[1].line, 2);
  EXPECT_EQ((*described)[1].use, RowUse::kTooLong);
  EXPECT_EQ(take(**loader, 1), (std::vector<int>{7}));
}

TEST_F(DataLoaderTest, DataWithoutAUsableRowIsRefusedWithTheFirstRowAndWhy) {
  const std::string path = put("a", "{\"tokens\":[1,2,3,4]}\n{\"tokens\":[5,6],\"mask\":[1,0]}\n");
  DataOptions options = options_of({{path}});
  options.shuffle = false;
  const auto loader = open(options, /*max_tokens=*/3);
  EXPECT_EQ(loader.status().code(), StatusCode::kInvalidArgument);
  for (const std::string& part :
       {std::string("none of its 2 rows"), path + ":1: 4 tokens, at most 3", path + ":2"}) {
    EXPECT_NE(loader.status().message().find(part), std::string::npos) << loader.status().message();
  }
}

TEST_F(DataLoaderTest, MalformedRowsAreRefusedBeforeAnyWork) {
  const std::string path = put("a", row(0) + row(1) + "{\"tokens\":7}\n");
  EXPECT_EQ(open(options_of({{path}})).status().message(),
            path +
                ":3: expected a field messages, prompt and completion, tokens, or text; the row "
                "has tokens");
}

TEST_F(DataLoaderTest, AMalformedRowBeyondTheCheckedPartStopsTheStreamWhereItIs) {
  DataOptions options = options_of({{put("a", row(0) + row(1) + "{\"tokens\":[\"x\"]}\n")}});
  options.shuffle = false;
  options.check_bytes = 1;
  auto loader = open(options);
  ASSERT_TRUE(loader.ok());
  EXPECT_EQ(take(**loader, 1), (std::vector<int>{0}));
  const Status failed = (*loader)->next(2).status();
  EXPECT_EQ(failed.message(), dir_ + "/a:3: tokens[0]: expected an integer, got a string");
  EXPECT_EQ((*loader)->state().next_sample, 1u);
  EXPECT_EQ(take(**loader, 1), (std::vector<int>{1})) << "the good row before it is still there";
}

TEST_F(DataLoaderTest, OptionsOutOfRangeAreRefused) {
  const std::string path = rows("a", 0, 4);
  DataOptions options = options_of({{path}});
  options.held_out_fraction = 1.0;
  EXPECT_EQ(open(options).status().code(), StatusCode::kInvalidArgument);
  options.held_out_fraction = 0.9;
  EXPECT_NE(open(options).status().message().find("leaves none"), std::string::npos);
  EXPECT_EQ(open(options_of({})).status().code(), StatusCode::kInvalidArgument);
  DataOptions weights = options_of({{path}, {path}});
  weights.sources[0].weight = -1.0;
  EXPECT_NE(open(weights).status().message().find("weight of 0 or more"), std::string::npos);
  EXPECT_EQ(open(options_of({{dir_ + "/missing"}})).status().code(), StatusCode::kNotFound);
}

TEST_F(DataLoaderTest, APipeThatStallsIsNamedWhenOpening) {
  const std::string pipe = dir_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  DataOptions options = options_of({{rows("a", 0, 4), pipe}});
  options.stall_timeout_s = 0.05;
  const auto loader = open(options);
  EXPECT_EQ(loader.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(loader.status().message().find(pipe), std::string::npos);
}

/// A read that hangs until it is let go, as on a dead mount.
struct Hang {
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return !hanging; });
  }
  void set(bool value) {
    const std::lock_guard<std::mutex> lock(mutex);
    hanging = value;
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool hanging = false;
};

TEST_F(DataLoaderTest, AFileThatHangsWhileTrainingIsNamedAndTheStreamGoesOnWhenItComesBack) {
  auto hang = std::make_shared<Hang>();
  DataOptions options = options_of({{rows("a", 0, 4)}});
  options.stall_timeout_s = 0.05;
  options.prefetch_samples = 1;
  options.before_read = [hang](const std::string&) { hang->wait(); };
  auto loader = open(options);
  ASSERT_TRUE(loader.ok());
  hang->set(true);
  const auto stalled = (*loader)->next(1);
  EXPECT_EQ(stalled.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(stalled.status().message().find(dir_ + "/a: gave nothing for 0.05 s"),
            std::string::npos)
      << stalled.status().message();
  EXPECT_EQ((*loader)->state().next_sample, 0u);
  hang->set(false);
  EXPECT_EQ(take(**loader, 4).size(), 4u);
}

TEST_F(DataLoaderTest, ALoaderWhoseFileHangsCanBeDestroyed) {
  auto hang = std::make_shared<Hang>();
  DataOptions options = options_of({{rows("a", 0, 4)}});
  options.stall_timeout_s = 0.02;
  options.before_read = [hang](const std::string&) { hang->wait(); };
  {
    auto loader = open(options);
    ASSERT_TRUE(loader.ok());
    hang->set(true);
    EXPECT_FALSE((*loader)->next(1).ok());
  }
  hang->set(false);  // lets the left-behind thread end
}

TEST_F(DataLoaderTest, SeparateEvaluationFilesAreReadInOrder) {
  const std::string path = rows("a", 5, 3);
  const auto encoder = std::make_shared<RowEncoder>(nullptr, nullptr, RowEncoderOptions{});
  const auto read = read_rows({path}, encoder, 2);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(ids(read->datums), (std::vector<int>{5, 6}));
  EXPECT_EQ(read_rows({put("b", "{\"tokens\":[1]}\n")}, encoder, 0).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mainspring
