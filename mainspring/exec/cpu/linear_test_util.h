// What the tests of linear operations share: every kernel table, and the rules of docs/exactness.md
// written out as plain loops, which every path must equal bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/base/philox.h"
#include "mainspring/exec/cpu/chunks.h"
#include "mainspring/exec/cpu/rows_test_util.h"

namespace mainspring::cpu {

namespace scalar {
const LinearTable& wide_linear_table();
}
namespace avx2 {
const LinearTable& wide_linear_table();
}

struct NamedTable {
  std::string name;
  KernelTable table;
};

/// The tables this processor can run, those with the AVX-512 layouts on narrower vectors included.
inline std::vector<NamedTable> all_tables() {
  std::vector<NamedTable> out;
  for (const Isa isa : test_paths()) out.push_back({std::string(isa_name(isa)), kernel_table(isa)});
  KernelTable wide = kernel_table(Isa::kScalar);
  wide.linear = &scalar::wide_linear_table();
  out.push_back({"scalar, 12 x 32", wide});
  if (out.size() > 2) {
    wide.linear = &avx2::wide_linear_table();
    out.push_back({"avx2, 12 x 32", wide});
  }
  return out;
}

/// Elements i, i + stride, ... of a matrix, as a reduction reads them.
struct Vector {
  const Values* values = nullptr;
  int64_t offset = 0;
  int64_t stride = 1;
  float operator[](int64_t i) const { return static_cast<float>(values->get(offset + i * stride)); }
};

/// Rule 4 over elements [begin, end), continuing from acc; an odd end is completed by a zero.
inline float fold(DType dtype, const Vector& a, const Vector& b, int64_t begin, int64_t end,
                  float acc) {
  for (int64_t i = begin; i < end; i += 2) {
    const float odd_a = i + 1 < end ? a[i + 1] : 0.0f;
    const float odd_b = i + 1 < end ? b[i + 1] : 0.0f;
    if (dtype == DType::kBF16) {
      acc = std::fma(odd_a, odd_b, acc);
      acc = std::fma(a[i], b[i], acc);
    } else {
      acc = std::fma(a[i], b[i], acc);
      acc = std::fma(odd_a, odd_b, acc);
    }
  }
  return acc;
}

struct DotTerm {
  Vector a, b;
  int64_t k = 0;
};

/// Rule 5: chunks of the summed width, folded over the terms in order, then the tree.
inline float chunked_dot(DType dtype, const std::vector<DotTerm>& terms) {
  int64_t summed = 0;
  for (const DotTerm& term : terms) summed += term.k;
  const int n = num_chunks(summed);
  std::vector<float> sums(static_cast<size_t>(n), 0.0f);
  for (int c = 0; c < n; ++c) {
    for (const DotTerm& term : terms) {
      const int64_t width = 2 * chunk_pairs(term.k, n);
      const int64_t begin = std::min(term.k, c * width);
      const int64_t end = std::min(term.k, begin + width);
      float& sum = sums[static_cast<size_t>(c)];
      sum = fold(dtype, term.a, term.b, begin, end, sum);
    }
  }
  while (sums.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i < sums.size(); i += 2) next.push_back(sums[i] + sums[i + 1]);
    sums = next;
  }
  return sums[0] + 0.0f;
}

/// Rule 18 as loops: the mask of one row, applied in place from channel 0.
inline void drop(uint64_t key, float p, const Segment& segment, int64_t row,
                 std::vector<float>& x) {
  const PhiloxCounter words =
      philox4x32({static_cast<uint32_t>(segment.sample_index),
                  static_cast<uint32_t>(segment.sample_index >> 32), segment.epoch,
                  static_cast<uint32_t>(segment.position + row - segment.row_begin)},
                 philox_key(key));
  for (size_t j = 0; j < x.size(); ++j) {
    const auto mask = philox4x32({static_cast<uint32_t>(j / 4), 0, 0, 0}, {words[0], words[1]});
    const bool kept = mask[j % 4] >= static_cast<uint64_t>(static_cast<double>(p) * 4294967296.0);
    x[j] = kept ? x[j] * (1.0f / (1.0f - p)) : 0.0f;
  }
}

inline Values stored(DType dtype, const std::vector<float>& x) {
  const ComputeScope scope;
  Values out(dtype, static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) out.set(static_cast<int64_t>(i), x[i]);
  return out;
}

/// A weight with both packed layouts on one context.
struct TestWeight {
  std::vector<char> forward, input_grad;
  PackedWeight packed;

  TestWeight(const Context& context, const Values& values, int64_t out, int64_t in)
      : forward(packed_forward_bytes(context, out, in)),
        input_grad(packed_input_grad_bytes(context, out, in)) {
    const WeightView view{context.compute, values.data(), out, in, nullptr};
    pack_forward(context, view, forward.data());
    pack_input_grad(context, view, input_grad.data());
    packed = {out, in, forward.data(), input_grad.data()};
  }
};

/// One sequence of `rows` rows per slot given, packed on even rows.
struct SlotTable : PackedTable {
  SlotTable(const std::vector<int32_t>& lengths, const std::vector<int32_t>& slots)
      : PackedTable(lengths) {
    for (size_t i = 0; i < segments.size(); ++i) {
      segments[i].adapter_slot = slots[i];
      segments[i].sample_index = 100 + i;
    }
  }
  int32_t slot_of(int64_t row, int32_t otherwise) const {
    for (const Segment& s : segments) {
      if (row >= s.row_begin && row < s.row_begin + s.num_rows) return s.adapter_slot;
    }
    return otherwise;
  }
};

}  // namespace mainspring::cpu
