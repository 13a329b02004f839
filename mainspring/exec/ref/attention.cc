// Causal attention within each sequence, from its own rows or from a paged cache, and its gradient.
#include <algorithm>
#include <cmath>

#include "mainspring/base/bf16.h"
#include "mainspring/base/check.h"
#include "mainspring/exec/ref/op.h"

namespace mainspring::ref {
namespace {

// One element of a cache page, in the compute dtype.
double read_cached(const void* base, int64_t index, DType compute) {
  if (compute == DType::kBF16) return to_f32(static_cast<const bf16*>(base)[index]);
  return static_cast<const float*>(base)[index];
}

void write_cached(void* base, int64_t index, DType compute, double x) {
  if (compute == DType::kBF16) {
    static_cast<bf16*>(base)[index] = to_bf16(static_cast<float>(x));
  } else {
    static_cast<float*>(base)[index] = static_cast<float>(x);
  }
}

int64_t cached_offset(const KvView& kv, const KvSequence& sequence, int64_t position) {
  const int64_t page = sequence.pages[static_cast<size_t>(position / kPageTokens)];
  return (page * kPageTokens + position % kPageTokens) * kv.row_elements;
}

// Keys and values of one sequence by absolute position.
struct Keys {
  Value k;
  Value v;
};

Keys own_rows(const Segment& segment, const Value& k, const Value& v) {
  MS_CHECK(segment.position == 0, "a segment without a cache starts its sequence");
  Keys keys{Value({segment.num_rows, k.width()}), Value({segment.num_rows, v.width()})};
  std::copy_n(k.row(segment.row_begin), keys.k.data.size(), keys.k.data.begin());
  std::copy_n(v.row(segment.row_begin), keys.v.data.size(), keys.v.data.begin());
  return keys;
}

// Writes the segment's rows to its pages, then reads every position up to its last.
Keys through_cache(const OpCall& call, const Segment& segment, const Value& k, const Value& v) {
  const auto layer = static_cast<size_t>(call.attrs<AttentionAttrs>().layer);
  const KvSequence& sequence = call.kv->sequences[static_cast<size_t>(segment.cache_sequence)];
  void* k_base = call.kv->keys[layer];
  void* v_base = call.kv->values[layer];
  for (int64_t i = 0; i < segment.num_rows; ++i) {
    const int64_t offset = cached_offset(*call.kv, sequence, segment.position + i);
    for (int64_t e = 0; e < k.width(); ++e) {
      write_cached(k_base, offset + e, call.compute, k.row(segment.row_begin + i)[e]);
      write_cached(v_base, offset + e, call.compute, v.row(segment.row_begin + i)[e]);
    }
  }
  const int64_t length = segment.position + segment.num_rows;
  Keys keys{Value({length, k.width()}), Value({length, v.width()})};
  for (int64_t p = 0; p < length; ++p) {
    const int64_t offset = cached_offset(*call.kv, sequence, p);
    for (int64_t e = 0; e < k.width(); ++e) {
      keys.k.row(p)[e] = read_cached(k_base, offset + e, call.compute);
      keys.v.row(p)[e] = read_cached(v_base, offset + e, call.compute);
    }
  }
  return keys;
}

// The first key that the query at `position` sees.
int64_t first_key(const AttentionAttrs& attrs, int64_t position) {
  return attrs.window > 0 ? std::max<int64_t>(0, position - attrs.window + 1) : 0;
}

// scale * q . k_j, capped, for the keys j in [first, last].
std::vector<double> scores(const AttentionAttrs& attrs, const double* q, const Value& k,
                           int64_t kv_head, int64_t first, int64_t last) {
  std::vector<double> result;
  for (int64_t j = first; j <= last; ++j) {
    const double* key = k.row(j) + kv_head * attrs.head_width;
    double sum = 0;
    for (int64_t e = 0; e < attrs.head_width; ++e) sum += q[e] * key[e];
    const double score = attrs.scale * sum;
    const double cap = attrs.softcap;
    result.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
  }
  return result;
}

// The derivative of a capped score by the score before.
double cap_slope(const AttentionAttrs& attrs, double capped) {
  const double t = attrs.softcap > 0 ? capped / attrs.softcap : 0;
  return 1 - t * t;
}

void attend(const AttentionAttrs& attrs, const double* q, const Keys& keys, int64_t kv_head,
            int64_t position, double* o, double* lse) {
  const int64_t first = first_key(attrs, position);
  const std::vector<double> s = scores(attrs, q, keys.k, kv_head, first, position);
  const double max = *std::max_element(s.begin(), s.end());
  double sum = 0;
  for (double score : s) sum += std::exp(score - max);
  *lse = max + std::log(sum);
  for (size_t i = 0; i < s.size(); ++i) {
    const double* value = keys.v.row(first + static_cast<int64_t>(i)) + kv_head * attrs.head_width;
    const double p = std::exp(s[i] - *lse);
    for (int64_t e = 0; e < attrs.head_width; ++e) o[e] += p * value[e];
  }
}

}  // namespace

// Inputs q (rows, h*c), k, v (rows, kv*c); outputs o (rows, h*c), lse (rows, h).
void attention(const OpCall& call) {
  const auto& attrs = call.attrs<AttentionAttrs>();
  const int64_t group = attrs.query_heads / attrs.kv_heads;
  const Value& q = call.in(0);
  for (const Segment& segment : call.segments(q)) {
    const bool is_cached = call.kv != nullptr && segment.cache_sequence >= 0;
    const Keys keys = is_cached ? through_cache(call, segment, call.in(1), call.in(2))
                                : own_rows(segment, call.in(1), call.in(2));
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      const int64_t r = segment.row_begin + i;
      for (int64_t head = 0; head < attrs.query_heads; ++head) {
        const int64_t offset = head * attrs.head_width;
        attend(attrs, q.row(r) + offset, keys, head / group, segment.position + i,
               call.out(0).row(r) + offset, call.out(1).row(r) + head);
      }
    }
  }
}

// With p = exp(s - lse) and delta = d_o . o:
//   dv_j += p_j d_o,   ds_j = p_j (d_o . v_j - delta) [times the cap's slope],   dq += scale ds_j
//   k_j,   dk_j += scale ds_j q.
// Inputs q, k, v, o, lse, d_o; outputs dq, dk, dv.
void attention_grad(const OpCall& call) {
  const auto& attrs = call.attrs<AttentionAttrs>();
  const int64_t group = attrs.query_heads / attrs.kv_heads;
  const int64_t c = attrs.head_width;
  const Value& q = call.in(0);
  for (const Segment& segment : call.segments(q)) {
    const Keys keys = own_rows(segment, call.in(1), call.in(2));
    for (int64_t i = 0; i < segment.num_rows; ++i) {
      const int64_t r = segment.row_begin + i;
      for (int64_t head = 0; head < attrs.query_heads; ++head) {
        const int64_t kv_offset = head / group * c;
        const double* query = q.row(r) + head * c;
        const double* o = call.in(3).row(r) + head * c;
        const double* d_o = call.in(5).row(r) + head * c;
        const double lse = call.in(4).row(r)[head];
        double delta = 0;
        for (int64_t e = 0; e < c; ++e) delta += d_o[e] * o[e];
        const int64_t first = first_key(attrs, i);
        const std::vector<double> s = scores(attrs, query, keys.k, head / group, first, i);
        for (int64_t j = first; j <= i; ++j) {
          const double score = s[static_cast<size_t>(j - first)];
          const double p = std::exp(score - lse);
          const double* key = keys.k.row(j) + kv_offset;
          const double* value = keys.v.row(j) + kv_offset;
          double d_p = 0;
          for (int64_t e = 0; e < c; ++e) d_p += d_o[e] * value[e];
          const double d_score = attrs.scale * p * (d_p - delta) * cap_slope(attrs, score);
          double* dk = call.out(1).row(segment.row_begin + j) + kv_offset;
          double* dv = call.out(2).row(segment.row_begin + j) + kv_offset;
          for (int64_t e = 0; e < c; ++e) {
            call.out(0).row(r)[head * c + e] += d_score * key[e];
            dk[e] += d_score * query[e];
            dv[e] += p * d_o[e];
          }
        }
      }
    }
  }
}

}  // namespace mainspring::ref
