// Attention backward: one task per sequence and query head, then the heads of each group are
// combined.
//
// Each head's dK and dV are kept apart in f32 (2 * h * rows * c floats of scratch), so that a
// sequence's heads spread over threads; docs/exactness.md, rule 8, has the tree over them.

#include <algorithm>
#include <cstring>

#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/row_walk.h"
#include "mainspring/exec/cpu/rows_of.h"

namespace mainspring::cpu {
namespace {

int64_t padded_width(const AttentionShape& shape) { return (shape.width + 15) / 16 * 16; }

size_t align_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t thread_scratch_bytes(const Context& context, const AttentionShape& shape, int64_t rows) {
  return align_64(rows_of(context).attention_grad_scratch_bytes(rows, shape.width));
}

/// Floats of one head's dK or dV.
int64_t part_floats(const AttentionShape& shape, int64_t rows) {
  return rows * padded_width(shape);
}

}  // namespace

size_t attention_grad_scratch_bytes(const Context& context, const AttentionShape& shape,
                                    int64_t rows) {
  const auto parts = static_cast<size_t>(2 * shape.query_heads * part_floats(shape, rows));
  return parts * sizeof(float) +
         static_cast<size_t>(context.pool->size()) * thread_scratch_bytes(context, shape, rows);
}

void attention_grad(const Context& context, const AttentionShape& shape, int64_t rows,
                    const void* q, const void* k, const void* v, const void* o, const float* lse,
                    const void* d_o, void* dq, void* dk, void* dv, const RowTable& table,
                    void* scratch) {
  const RowKernels& kernels = rows_of(context);
  const int64_t heads = shape.query_heads;
  const int64_t group = heads / shape.kv_heads;
  const int64_t q_row = heads * shape.width;
  const int64_t kv_row = shape.kv_heads * shape.width;
  const int64_t part = part_floats(shape, rows);
  float* dk_parts = static_cast<float*>(scratch);
  float* dv_parts = dk_parts + heads * part;
  char* thread_scratch = reinterpret_cast<char*>(dv_parts + heads * part);
  const size_t thread_bytes = thread_scratch_bytes(context, shape, rows);

  const auto num_tasks = static_cast<int64_t>(table.segments.size()) * heads;
  context.pool->run(num_tasks, [&](int64_t index, int thread) {
    const Segment& segment = table.segments[static_cast<size_t>(index / heads)];
    const int64_t head = index % heads;
    const int64_t q_at = segment.row_begin * q_row + head * shape.width;
    const int64_t kv_at = segment.row_begin * kv_row + head / group * shape.width;
    AttentionGradTask task;
    task.num_rows = segment.num_rows;
    task.width = shape.width;
    task.scale = shape.scale;
    task.window = shape.window;
    task.softcap = shape.softcap;
    task.q = value_at(context, q, q_at);
    task.o = value_at(context, o, q_at);
    task.d_o = value_at(context, d_o, q_at);
    task.dq = value_at(context, dq, q_at);
    task.q_stride = q_row;
    task.lse = lse + segment.row_begin * heads + head;
    task.lse_stride = heads;
    task.k = value_at(context, k, kv_at);
    task.v = value_at(context, v, kv_at);
    task.kv_stride = kv_row;
    task.dk = dk_parts + head * part + segment.row_begin * padded_width(shape);
    task.dv = dv_parts + head * part + segment.row_begin * padded_width(shape);
    task.scratch = thread_scratch + static_cast<size_t>(thread) * thread_bytes;
    kernels.attention_grad(task);
  });

  parallel_pieces(*context.pool, rows, 32, [&](int64_t first, int64_t last) {
    walk_rows(table, first, last, [&](const Segment* segment, int64_t begin, int64_t end) {
      if (segment == nullptr) {
        const auto zero_rows = [&](void* p, int64_t row) {
          std::memset(value_at(context, p, begin * row), 0,
                      static_cast<size_t>((end - begin) * row * value_bytes(context)));
        };
        zero_rows(dq, q_row);
        zero_rows(dk, kv_row);
        zero_rows(dv, kv_row);
        return;
      }
      for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
        const int64_t at = kv_head * group * part + begin * padded_width(shape);
        const int64_t to = begin * kv_row + kv_head * shape.width;
        kernels.attention_grad_combine(end - begin, shape.width, group, shape.scale, dk_parts + at,
                                       dv_parts + at, part, value_at(context, dk, to),
                                       value_at(context, dv, to), kv_row);
      }
    });
  });
}

}  // namespace mainspring::cpu
