#include "tests/conformance/case_builder.h"

#include <cstring>

#include "mainspring/autodiff/grad.h"
#include "mainspring/exec/kv_view.h"
#include "mainspring/exec/ref/op.h"
#include "mainspring/exec/ref/storage.h"
#include "tests/conformance/random_values.h"

namespace mainspring::conformance {
namespace {

constexpr int64_t kTailVocabulary = 5;
constexpr int64_t kMixWidth = 3;  // inputs that a gradient-mode activation is mixed from

std::vector<std::byte> encoded(DType dtype, const std::vector<double>& values) {
  std::vector<std::byte> bytes(
      static_cast<size_t>(dtype_bytes(dtype, static_cast<int64_t>(values.size()))));
  ref::encode(dtype, values, bytes.data());
  return bytes;
}

// Blocks with random codes; every 16-bit scale or minimum is a half of magnitude 2^-4 to 2^-2.
std::vector<std::byte> random_blocks(const std::string& name, DType dtype, int64_t elements) {
  RandomValues random(name);
  std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(dtype, elements)));
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.bits());
  const bool has_minimum = dtype == DType::kQ4_1 || dtype == DType::kQ5_1 ||
                           dtype == DType::kQ4_K || dtype == DType::kQ5_K;
  const int num_halves = has_minimum ? 2 : dtype == DType::kNF4 || dtype == DType::kInt8 ? 0 : 1;
  const size_t first_half = dtype == DType::kQ6_K ? 208 : 0;
  const auto block_bytes = static_cast<size_t>(dtype_block_bytes(dtype));
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    for (int h = 0; h < num_halves; ++h) {
      const auto half =
          static_cast<uint16_t>(0x2c00 + random.below(0x800) + (random.below(2) << 15));
      std::memcpy(bytes.data() + block + first_half + 2 * static_cast<size_t>(h), &half, 2);
    }
  }
  return bytes;
}

int64_t product(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t dim : dims) n *= dim;
  return n;
}

}  // namespace

CaseBuilder::CaseBuilder(DType compute, Rows rows, Mode mode)
    : compute_(compute), tracer_(compute), mode_(mode) {
  built_.rows = std::move(rows);
}

std::vector<double> CaseBuilder::random(const std::string& name, size_t count, double low,
                                        double high) const {
  RandomValues random(name);
  std::vector<double> values(count);
  for (double& x : values) x = ref::round_to(DType::kBF16, random.uniform(low, high));
  return values;
}

std::vector<double> CaseBuilder::random_rows(const std::string& name, int64_t width,
                                             double magnitude) const {
  const auto w = static_cast<size_t>(width);
  std::vector<double> values =
      random(name, static_cast<size_t>(built_.rows.num_rows) * w, -magnitude, magnitude);
  std::vector<bool> is_padding(static_cast<size_t>(built_.rows.num_rows), true);
  for (const Segment& s : built_.rows.segments) {
    for (int32_t r = 0; r < s.num_rows; ++r)
      is_padding[static_cast<size_t>(s.row_begin + r)] = false;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_padding[i / w]) values[i] = 0;
  }
  return values;
}

std::vector<double> CaseBuilder::random_picks(const std::string& name, int64_t width,
                                              double magnitude) const {
  const auto w = static_cast<size_t>(width);
  std::vector<double> values = random(name, built_.rows.picked.size() * w, -magnitude, magnitude);
  for (size_t i = 0; i < values.size(); ++i) {
    if (built_.rows.picked[i / w] < 0) values[i] = 0;
  }
  return values;
}

SourceData& CaseBuilder::add_data(const std::string& name, OpKind kind, const ValueType& type,
                                  std::vector<std::byte> bytes) {
  SourceData& data = built_.sources.emplace_back();
  data.name = name;
  data.kind = kind;
  data.type = type;
  data.bytes = std::move(bytes);
  return data;
}

Tensor CaseBuilder::add_source(const std::string& name, OpKind kind, ValueType type,
                               const std::vector<double>& values) {
  add_data(name, kind, type, encoded(type.dtype, values));
  switch (kind) {
    case OpKind::kParam:
      return tracer_.param(name, type);
    case OpKind::kState:
      return tracer_.state(name, type);
    default:
      return tracer_.input(name, type);
  }
}

Tensor CaseBuilder::rows(const std::string& name, int64_t width, double magnitude) {
  if (mode_ == Mode::kForward) {
    return add_source(name, OpKind::kInput, {compute(), {{kRows, width}}},
                      random_rows(name, width, magnitude));
  }
  const Tensor mixed = add_source(name + ".in", OpKind::kInput, {compute(), {{kRows, kMixWidth}}},
                                  random_rows(name, kMixWidth, magnitude));
  return linear(mixed, {param(name + ".w", {width, kMixWidth})})[0];
}

Tensor CaseBuilder::picks(const std::string& name, int64_t width, double magnitude) {
  if (mode_ == Mode::kGradient) return gather_rows(rows(name, width, magnitude));
  return add_source(name, OpKind::kInput, {compute(), {{kPicked, width}}},
                    random_picks(name, width, magnitude));
}

Tensor CaseBuilder::per_pick(const std::string& name) {
  if (mode_ == Mode::kGradient) {
    return head_logprob(picks(name, 3), param(name + ".head", {kTailVocabulary, 3}),
                        targets(name + ".targets", kTailVocabulary));
  }
  return add_source(name, OpKind::kInput, {DType::kF32, {{kPicked}}}, random_picks(name, 1, 1));
}

Tensor CaseBuilder::constant(const std::string& name, std::vector<int64_t> dims,
                             std::vector<double> values) {
  return add_source(name, OpKind::kInput, {DType::kF32, {std::move(dims)}}, values);
}

Tensor CaseBuilder::random_constant(const std::string& name, std::vector<int64_t> dims, double low,
                                    double high) {
  const ValueType type{DType::kF32, {std::move(dims)}};
  const RowCounts counts{built_.rows.num_rows, static_cast<int64_t>(built_.rows.picked.size())};
  return add_source(name, OpKind::kInput, type,
                    random(name, static_cast<size_t>(type.shape.num_elements(counts)), low, high));
}

Tensor CaseBuilder::tokens(const std::string& name, int64_t count) {
  RandomValues random(name);
  std::vector<double> values(static_cast<size_t>(built_.rows.num_rows));
  for (double& x : values) x = static_cast<double>(random.below(count));
  return add_source(name, OpKind::kInput, {DType::kI32, {{kRows}}}, values);
}

Tensor CaseBuilder::targets(const std::string& name, int64_t count) {
  RandomValues random(name);
  std::vector<double> values(built_.rows.picked.size());
  for (double& x : values) x = static_cast<double>(random.below(count));
  return add_source(name, OpKind::kInput, {DType::kI32, {{kPicked}}}, values);
}

Tensor CaseBuilder::distinct_targets(const std::string& name, int64_t count, int64_t k) {
  RandomValues random(name);
  std::vector<double> values;
  for (size_t i = 0; i < built_.rows.picked.size(); ++i) {
    const int64_t first = random.below(count);
    for (int64_t j = 0; j < k; ++j) {
      values.push_back(static_cast<double>((first + j * (count / k)) % count));
    }
  }
  return add_source(name, OpKind::kInput, {DType::kI32, {{kPicked, k}}}, values);
}

Tensor CaseBuilder::f32_picks(const std::string& name, int64_t width) {
  return add_source(name, OpKind::kInput, {DType::kF32, {{kPicked, width}}},
                    random_picks(name, width, 1));
}

Tensor CaseBuilder::param(const std::string& name, std::vector<int64_t> dims, DType dtype,
                          double magnitude) {
  const int64_t elements = product(dims);
  const ValueType type{dtype, {std::move(dims)}};
  built_.params.push_back(name);
  if (dtype == DType::kF32 || dtype == DType::kBF16) {
    return add_source(name, OpKind::kParam, type,
                      random(name, static_cast<size_t>(elements), -magnitude, magnitude));
  }
  SourceData& data = add_data(name, OpKind::kParam, type, random_blocks(name, dtype, elements));
  if (dtype == DType::kNF4) {
    data.aux.push_back(0.03f);  // offset, then a scale per 256 blocks
    for (int64_t b = 0; b < elements / dtype_block_elements(dtype); b += 256) {
      data.aux.push_back(0.1f + 0.01f * static_cast<float>(b / 256));
    }
  }
  if (dtype == DType::kInt8) {  // magnitudes up to about 1
    RandomValues scales(name + ".scales");
    for (int64_t row = 0; row < elements / type.shape.dims.back(); ++row)
      data.aux.push_back(static_cast<float>(1 + scales.below(64)) / 8192.0f);
  }
  return tracer_.param(name, type);
}

Tensor CaseBuilder::state(const std::string& name, std::vector<int64_t> dims, double low,
                          double high) {
  const auto elements = static_cast<size_t>(product(dims));
  return add_source(name, OpKind::kState, {DType::kF32, {std::move(dims)}},
                    random(name, elements, low, high));
}

Tensor CaseBuilder::state(const std::string& name, ValueType type, double low, double high) {
  const auto elements = static_cast<size_t>(type.shape.num_elements({}));
  return add_source(name, OpKind::kState, std::move(type), random(name, elements, low, high));
}

Tensor CaseBuilder::integer(const std::string& name, int32_t value) {
  return add_source(name, OpKind::kInput, {DType::kI32, {{1}}}, {static_cast<double>(value)});
}

void CaseBuilder::cache(int64_t kv_heads, int64_t head_width) {
  CacheData& cache = built_.cache;
  cache.kv_heads = kv_heads;
  cache.head_width = head_width;
  cache.row_elements = kv_row_elements(kv_heads, head_width);
  for (const Segment& s : built_.rows.segments) {
    if (s.cache_sequence < 0) continue;
    // Pages are handed out backwards, so a sequence's pages do not lie in order.
    const int32_t needed = (s.position + s.num_rows + kPageTokens - 1) / kPageTokens;
    std::vector<int32_t> pages;
    for (int32_t p = needed; p-- > 0;) pages.push_back(cache.num_pages + p);
    cache.num_pages += needed;
    cache.pages.push_back(std::move(pages));
    cache.lengths.push_back(s.position + s.num_rows);
  }
  const auto elements = static_cast<size_t>(cache.num_pages * kPageTokens * kv_heads * head_width);
  cache.keys = encoded(compute(), random("cache.keys", elements, -1, 1));
  cache.values = encoded(compute(), random("cache.values", elements, -1, 1));
}

void CaseBuilder::check(const std::string& name, const Tensor& value, CheckOptions options) {
  tracer_.output(name, value);
  built_.checked.push_back({name, value.type(), options.slot});
  if (options.differentiable) to_differentiate_.push_back(value);
}

void CaseBuilder::check_state(const std::string& name) {
  for (const SourceData& source : built_.sources) {
    if (source.name == name) built_.checked.push_back({name, source.type, kAnySlot});
  }
}

// One checked value as f32(picked): the log-probability of a random target under a random head, or
// the value itself, each times a random weight.
Tensor CaseBuilder::loss_term(size_t index) {
  Tensor value = to_differentiate_[index];
  const std::string name = "tail" + std::to_string(index);
  if (value.shape().rank() == 2) {
    if (value.shape().dims[0] == kRows) value = gather_rows(value);
    const Tensor head = param(name + ".head", {kTailVocabulary, value.shape().dims[1]});
    value = head_logprob(value, head, targets(name + ".targets", kTailVocabulary));
  }
  return mul(value, random_constant(name + ".weights", {kPicked}, -1, 1));
}

BuiltCase CaseBuilder::finish(bool with_gradients) {
  if (mode_ == Mode::kGradient) {
    Tensor loss = to_differentiate_[0];
    if (loss.shape().dims != std::vector<int64_t>{1}) {
      std::vector<Tensor> terms;
      for (size_t i = 0; i < to_differentiate_.size(); ++i) terms.push_back(loss_term(i));
      loss = reduce_sum(add(terms));
    }
    tracer_.output("loss", loss);
    built_.checked = {{"loss", loss.type(), kAnySlot}};
    if (with_gradients) {
      built_.params.clear();
      for (const GradAccumulator& a :
           value_and_grad(loss, [](const std::string&) { return true; })) {
        built_.accumulators.push_back(a.state_name);
        built_.params.push_back(a.param_name);
        const auto elements = static_cast<size_t>(product(a.shape.dims));
        add_data(a.state_name, OpKind::kState, {DType::kF32, a.shape},
                 encoded(DType::kF32, std::vector<double>(elements)));
        check_state(a.state_name);
      }
    }
  }
  built_.graph = tracer_.release();
  return std::move(built_);
}

}  // namespace mainspring::conformance
