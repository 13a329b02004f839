#include "tests/conformance/run_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/ref/ref_executor.h"
#include "mainspring/exec/ref/storage.h"

namespace mainspring::conformance {
namespace {

constexpr int64_t kSpareRows = 3;

RowCounts counts_of(const BuiltCase& built) {
  return {built.rows.num_rows, static_cast<int64_t>(built.rows.picked.size())};
}

RowCounts capacity_of(const BuiltCase& built) {
  const RowCounts counts = counts_of(built);
  return {counts.rows + kSpareRows, counts.picked + kSpareRows};
}

std::unique_ptr<Buffer> make_buffer(Executor& executor, const SourceData& source,
                                    RowCounts capacity) {
  std::vector<int64_t> dims = source.type.shape.dims;
  for (int64_t& dim : dims)
    dim = dim == kRows ? capacity.rows : dim == kPicked ? capacity.picked : dim;
  if (source.kind == OpKind::kParam) {
    BorrowedTensor tensor;
    tensor.dtype = source.type.dtype;
    tensor.shape = std::move(dims);
    tensor.data = source.bytes.data();
    tensor.aux = source.aux.empty() ? nullptr : source.aux.data();
    return executor.borrow(std::move(tensor));
  }
  auto buffer = executor.allocate(source.type.dtype, std::move(dims));
  std::memset(buffer->data(), 0xff, static_cast<size_t>(buffer->size_bytes()));  // NaNs
  std::copy(source.bytes.begin(), source.bytes.end(), static_cast<std::byte*>(buffer->data()));
  buffer->mark_changed();
  return buffer;
}

/// Where an executor keeps element (position's place, kv head, channel) of a page, in elements.
struct PageLayout {
  bool is_packed = false;  // exec/cpu/kernels/page.h; else rows
  int64_t step = 1;        // elements of a word: 2 for bf16
  int64_t width = 0;
  int64_t row_elements = 0;

  int64_t key(int64_t slot, int64_t head, int64_t j) const {
    if (!is_packed) return slot * row_elements + head * width + j;
    const int64_t words = (width + step - 1) / step;
    const int64_t word = slot / 16 * 16 * words + j / step * 16 + slot % 16;
    return head * head_elements() + word * step + j % step;
  }
  int64_t value(int64_t slot, int64_t head, int64_t j) const {
    if (!is_packed) return slot * row_elements + head * width + j;
    const int64_t word = j / 16 * (kPageTokens / step) * 16 + slot / step * 16 + j % 16;
    return head * head_elements() + word * step + slot % step;
  }
  int64_t head_elements() const { return kPageTokens * ((width + 15) / 16 * 16); }
};

/// A private copy of a case's cache in an executor's layout; slots nobody wrote are NaN.
class Cache {
 public:
  Cache(const CacheData& data, DType compute, bool is_packed)
      : data_(data), compute_(compute), size_(static_cast<size_t>(dtype_bytes(compute, 1))) {
    layout_ = {is_packed, compute == DType::kBF16 ? 2 : 1, data.head_width, data.row_elements};
    const auto elements = static_cast<size_t>(data.num_pages * kPageTokens * data.row_elements);
    keys_.assign(elements * size_, std::byte{0xff});
    values_ = keys_;
    std::vector<std::byte> keys = data.keys, values = data.values;
    each_element([&](size_t row, size_t key, size_t value) {
      std::memcpy(&keys_[key], &keys[row], size_);
      std::memcpy(&values_[value], &values[row], size_);
    });
    key_pointers_[0] = keys_.data();
    value_pointers_[0] = values_.data();
    for (const auto& pages : data.pages) sequences_.push_back({pages});
    view_ = {key_pointers_, value_pointers_, data.row_elements, sequences_};
  }
  const KvView* view() const { return data_.kv_heads > 0 ? &view_ : nullptr; }
  /// The written positions' rows.
  void collect(CaseResults& results) const {
    if (view() == nullptr) return;
    std::vector<std::byte> keys(data_.keys.size()), values(data_.values.size());
    each_element([&](size_t row, size_t key, size_t value) {
      std::memcpy(&keys[row], &keys_[key], size_);
      std::memcpy(&values[row], &values_[value], size_);
    });
    for (const auto& [name, bytes] : {std::pair{"cache.keys", &keys}, {"cache.values", &values}}) {
      results.bytes[name] = *bytes;
      results.values[name] = ref::decode(compute_, bytes->data(), nullptr,
                                         static_cast<int64_t>(bytes->size() / size_));
    }
  }

 private:
  /// Calls use(offset in the case's rows, in the keys, in the values), in bytes, for each element
  /// of a position that is written in the end.
  template <class Use>
  void each_element(const Use& use) const {
    const int64_t page_elements = kPageTokens * data_.row_elements;
    for (size_t s = 0; s < data_.pages.size(); ++s) {
      for (int64_t position = 0; position < data_.lengths[s]; ++position) {
        const int64_t page = data_.pages[s][static_cast<size_t>(position / kPageTokens)];
        const int64_t slot = position % kPageTokens;
        for (int64_t head = 0; head < data_.kv_heads; ++head) {
          for (int64_t j = 0; j < data_.head_width; ++j) {
            const int64_t row = ((page * kPageTokens + slot) * data_.kv_heads + head);
            use(static_cast<size_t>(row * data_.head_width + j) * size_,
                static_cast<size_t>(page * page_elements + layout_.key(slot, head, j)) * size_,
                static_cast<size_t>(page * page_elements + layout_.value(slot, head, j)) * size_);
          }
        }
      }
    }
  }

  const CacheData& data_;
  DType compute_;
  size_t size_;
  PageLayout layout_;
  std::vector<std::byte> keys_, values_;
  void* key_pointers_[1];
  void* value_pointers_[1];
  std::vector<KvSequence> sequences_;
  KvView view_;
};

void add_result(CaseResults& results, const Checked& checked, const void* data, RowCounts counts) {
  const int64_t elements = checked.type.shape.num_elements(counts);
  results.bytes[checked.name].resize(
      static_cast<size_t>(dtype_bytes(checked.type.dtype, elements)));
  if (elements == 0) data = "";  // executors may give null
  std::memcpy(results.bytes[checked.name].data(), data, results.bytes[checked.name].size());
  results.values[checked.name] = ref::decode(checked.type.dtype, data, nullptr, elements);
}

double unit_roundoff(DType dtype) { return dtype == DType::kBF16 ? 0x1p-8 : 0x1p-24; }

double largest(const std::vector<double>& values) {
  double result = 0;
  for (double x : values) result = std::max(result, std::abs(x));
  return result;
}

// By row or pick: compared, and must be exactly zero.
struct RowKinds {
  std::vector<bool> compared;
  std::vector<bool> zero;
};

RowKinds row_kinds(const Rows& rows, const Checked& checked) {
  const bool by_picks = !checked.type.shape.dims.empty() && checked.type.shape.dims[0] == kPicked;
  const size_t count = by_picks ? rows.picked.size() : static_cast<size_t>(rows.num_rows);
  RowKinds kinds{std::vector<bool>(count, checked.slot == kAnySlot),
                 std::vector<bool>(count, !by_picks)};
  if (by_picks) {
    for (size_t i = 0; i < count; ++i) kinds.zero[i] = rows.picked[i] < 0;
    return kinds;
  }
  for (const Segment& s : rows.segments) {
    for (int32_t r = s.row_begin; r < s.row_begin + s.num_rows; ++r) {
      kinds.zero[static_cast<size_t>(r)] = false;
      if (s.adapter_slot == checked.slot) kinds.compared[static_cast<size_t>(r)] = true;
    }
  }
  return kinds;
}

void expect_near(const Rows& rows, const Checked& checked, DType compute,
                 const std::vector<double>& got, const std::vector<double>& want,
                 const Tolerance& tolerance) {
  ASSERT_EQ(got.size(), want.size()) << checked.name;
  const bool has_rows = !checked.type.shape.dims.empty() && checked.type.shape.dims[0] < 0;
  const RowKinds kinds = has_rows ? row_kinds(rows, checked) : RowKinds{};
  const size_t width = has_rows && !kinds.zero.empty() ? got.size() / kinds.zero.size() : 1;
  const double magnitude = std::max(largest(want), tolerance.magnitude);
  const double slack =
      (tolerance.sums * 0x1p-24 + tolerance.inner * unit_roundoff(compute)) * magnitude;
  for (size_t i = 0; i < got.size(); ++i) {
    if (has_rows && !kinds.compared[i / width]) continue;
    const bool is_zero = has_rows && kinds.zero[i / width] && want[i] == 0;
    const double allowed = is_zero || tolerance.is_zero
                               ? 0
                               : unit_roundoff(checked.type.dtype) * std::abs(want[i]) + slack;
    ASSERT_TRUE(std::abs(got[i] - want[i]) <= allowed)  // false for NaN
        << checked.name << " element " << i << ": expected " << want[i] << " +- " << allowed
        << ", got " << got[i];
  }
}

}  // namespace

std::vector<std::unique_ptr<Executor>> make_executors() {
  std::vector<std::unique_ptr<Executor>> executors;
  executors.push_back(
      std::make_unique<ref::RefExecutor>(ref::RefOptions{.round_to_compute = true}));
  for (cpu::Isa isa : cpu::supported_isas()) {
    for (int threads : {1, 2}) {
      auto executor =
          cpu::make_cpu_executor({.num_threads = threads, .isa = std::string(cpu::isa_name(isa))});
      EXPECT_TRUE(executor.ok()) << executor.status().to_string();
      if (executor.ok()) executors.push_back(std::move(executor).value());
    }
  }
  return executors;
}

Result<CaseResults> run_case(Executor& executor, const BuiltCase& built, CompileOptions options) {
  options.capacity = capacity_of(built);
  MS_ASSIGN_OR_RETURN(auto executable, executor.compile(built.graph, options));
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const SourceData& source : built.sources) {
    buffers.push_back(make_buffer(executor, source, options.capacity));
    MS_RETURN_IF_ERROR(executable->bind(source.name, buffers.back().get()));
  }
  const RowTable table = built.rows.table();
  const RowTable pick_table = built.rows.pick_table();
  const Cache cache(built.cache, built.graph.compute(), executor.name().starts_with("cpu/"));
  executable->run({.table = &table, .pick_table = &pick_table, .kv = cache.view()});
  CaseResults results;
  for (const Checked& checked : built.checked) {
    const void* data = executable->output(checked.name);
    for (size_t i = 0; i < built.sources.size(); ++i) {  // a state: its buffer
      if (built.sources[i].name == checked.name) data = std::as_const(*buffers[i]).data();
    }
    if (data == nullptr && checked.type.shape.num_elements(counts_of(built)) > 0)
      return not_found("no result named " + checked.name);
    add_result(results, checked, data, counts_of(built));
  }
  cache.collect(results);
  return results;
}

CaseResults run_oracle(const BuiltCase& built) {
  ref::RefExecutor executor;
  auto executable = executor.compile_ref(built.graph, {.capacity = capacity_of(built)});
  EXPECT_TRUE(executable.ok()) << executable.status().to_string();
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const SourceData& source : built.sources) {
    buffers.push_back(make_buffer(executor, source, capacity_of(built)));
    EXPECT_TRUE((*executable)->bind(source.name, buffers.back().get()).ok()) << source.name;
  }
  const RowTable table = built.rows.table();
  const RowTable pick_table = built.rows.pick_table();
  const Cache cache(built.cache, built.graph.compute(), false);
  (*executable)->run({.table = &table, .pick_table = &pick_table, .kv = cache.view()});
  CaseResults results;
  for (const Checked& checked : built.checked) {
    const auto values = (*executable)->values(checked.name);
    results.values[checked.name].assign(values.begin(), values.end());
  }
  cache.collect(results);
  return results;
}

void expect_near_oracle(const BuiltCase& built, const CaseResults& got, const CaseResults& oracle,
                        const Tolerance& tolerance) {
  for (const Checked& checked : built.checked) {
    expect_near(built.rows, checked, built.graph.compute(), got.values.at(checked.name),
                oracle.values.at(checked.name), tolerance);
  }
  if (built.cache.kv_heads > 0) {  // written by copy: exact
    for (const char* name : {"cache.keys", "cache.values"}) {
      EXPECT_EQ(got.values.at(name), oracle.values.at(name)) << name;
    }
  }
}

}  // namespace mainspring::conformance
