// Attention forward: cuts the rows into tasks and, with a cache, writes the new keys and values
// first.
//
// A task is a few query rows of one segment and one kv head with its whole group of query heads, so
// that each key block is packed once per group. About 96 (row, head) pairs a task: packing a block
// of keys is then 2 % of the products with it, and a sequence of 1,024 rows still gives 32 tasks
// per kv head.

#include <algorithm>
#include <cstring>

#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/row_walk.h"
#include "mainspring/exec/cpu/rows_of.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kTaskRows = 96;
constexpr int64_t kPreparedRows = 8;  // written to pages by one thread at a time

int64_t query_rows_per_task(const AttentionShape& shape) {
  return std::max<int64_t>(1, kTaskRows / (shape.query_heads / shape.kv_heads));
}

size_t align_64(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t thread_scratch_bytes(const Context& context, const AttentionShape& shape, int64_t rows) {
  const int64_t group = shape.query_heads / shape.kv_heads;
  const int64_t task_rows = std::min(query_rows_per_task(shape), std::max<int64_t>(rows, 1));
  return align_64(rows_of(context).attention_scratch_bytes(task_rows * group, shape.width));
}

size_t prefix_bytes(int64_t rows) {
  return align_64(static_cast<size_t>(rows + 1) * sizeof(int64_t));
}

/// Writes rows [begin, end) of a segment's keys and values into their pages.
void write_pages(const Context& context, const AttentionShape& shape, const KvView& kv,
                 int64_t layer, const Segment& segment, int64_t begin, int64_t end, const void* k,
                 const void* v) {
  const KvSequence& sequence = kv.sequences[static_cast<size_t>(segment.cache_sequence)];
  PageRows rows;
  rows.heads = shape.kv_heads;
  rows.width = shape.width;
  for (int64_t row = begin; row < end; row += rows.rows) {
    const int64_t position = segment.position + (row - segment.row_begin);
    const int64_t page = sequence.pages[static_cast<size_t>(position / kPageTokens)];
    const int64_t offset = page * kPageTokens * kv.row_elements;
    rows.slot = position % kPageTokens;
    rows.rows = std::min(end - row, kPageTokens - rows.slot);
    rows.is_last = row + rows.rows == segment.row_begin + segment.num_rows;
    rows.k = value_at(context, k, row * shape.kv_heads * shape.width);
    rows.v = value_at(context, v, row * shape.kv_heads * shape.width);
    rows.keys = value_at(context, kv.keys[static_cast<size_t>(layer)], offset);
    rows.values = value_at(context, kv.values[static_cast<size_t>(layer)], offset);
    rows_of(context).write_page(rows);
  }
}

struct ForwardCall {
  const Context& context;
  const AttentionShape& shape;
  const void* q;
  const void* k;
  const void* v;
  void* o;
  float* lse;
  const KvView* kv;
  int64_t layer;
};

AttentionTask make_task(const ForwardCall& call, const Segment& segment, int64_t first_row,
                        int64_t num_rows, int64_t kv_head, void* scratch) {
  const AttentionShape& shape = call.shape;
  AttentionTask task;
  task.num_rows = num_rows;
  task.position = segment.position + first_row;
  task.group = shape.query_heads / shape.kv_heads;
  task.width = shape.width;
  task.scale = shape.scale;
  task.window = shape.window;
  task.softcap = shape.softcap;
  task.q_stride = shape.query_heads * shape.width;
  const int64_t row = segment.row_begin + first_row;
  const int64_t head = kv_head * task.group;
  task.q = value_at(call.context, call.q, row * task.q_stride + head * shape.width);
  task.o = value_at(call.context, call.o, row * task.q_stride + head * shape.width);
  task.lse_stride = shape.query_heads;
  if (call.lse != nullptr) task.lse = call.lse + row * shape.query_heads + head;
  task.kv_stride = shape.kv_heads * shape.width;
  const int64_t column = kv_head * shape.width;
  if (segment.cache_sequence >= 0) {
    const auto layer = static_cast<size_t>(call.layer);
    const int64_t part = kPageTokens * (call.kv->row_elements / shape.kv_heads) * kv_head;
    task.k = value_at(call.context, call.kv->keys[layer], part);
    task.v = value_at(call.context, call.kv->values[layer], part);
    task.page_elements = kPageTokens * call.kv->row_elements;
    task.pages = call.kv->sequences[static_cast<size_t>(segment.cache_sequence)].pages.data();
  } else {
    task.k = value_at(call.context, call.k, segment.row_begin * task.kv_stride + column);
    task.v = value_at(call.context, call.v, segment.row_begin * task.kv_stride + column);
  }
  task.scratch = scratch;
  return task;
}

/// Pages for the new keys; zeros for rows in no segment.
void prepare_rows(const ForwardCall& call, int64_t rows, const RowTable& table) {
  const int64_t row_elements = call.shape.query_heads * call.shape.width;
  parallel_pieces(*call.context.pool, rows, kPreparedRows, [&](int64_t first, int64_t last) {
    walk_rows(table, first, last, [&](const Segment* segment, int64_t begin, int64_t end) {
      if (segment == nullptr) {
        const auto bytes =
            static_cast<size_t>((end - begin) * row_elements * value_bytes(call.context));
        std::memset(value_at(call.context, call.o, begin * row_elements), 0, bytes);
        if (call.lse != nullptr) {
          std::fill(call.lse + begin * call.shape.query_heads,
                    call.lse + end * call.shape.query_heads, 0.0f);
        }
      } else if (segment->cache_sequence >= 0) {
        write_pages(call.context, call.shape, *call.kv, call.layer, *segment, begin, end, call.k,
                    call.v);
      }
    });
  });
}

}  // namespace

size_t attention_forward_scratch_bytes(const Context& context, const AttentionShape& shape,
                                       int64_t rows) {
  return prefix_bytes(rows) +
         static_cast<size_t>(context.pool->size()) * thread_scratch_bytes(context, shape, rows);
}

void attention_forward(const Context& context, const AttentionShape& shape, int64_t rows,
                       const void* q, const void* k, const void* v, void* o, float* lse,
                       const RowTable& table, const KvView* kv, int64_t layer, void* scratch) {
  MS_CHECK(kv == nullptr || kv->row_elements == kv_row_elements(shape.kv_heads, shape.width),
           "a cache with room for this layout");
  const ForwardCall call{context, shape, q, k, v, o, lse, kv, layer};
  prepare_rows(call, rows, table);
  // first_block[s]: query blocks of the segments before s.
  auto* first_block = static_cast<int64_t*>(scratch);
  const int64_t task_rows = query_rows_per_task(shape);
  const size_t num_segments = table.segments.size();
  first_block[0] = 0;
  for (size_t s = 0; s < num_segments; ++s) {
    first_block[s + 1] = first_block[s] + (table.segments[s].num_rows + task_rows - 1) / task_rows;
  }
  char* thread_scratch = static_cast<char*>(scratch) + prefix_bytes(rows);
  const size_t thread_bytes = thread_scratch_bytes(context, shape, rows);
  const RowKernels& kernels = rows_of(context);
  context.pool->run(first_block[num_segments] * shape.kv_heads, [&](int64_t task, int thread) {
    const int64_t block = task / shape.kv_heads;
    const int64_t* next = std::upper_bound(first_block, first_block + num_segments + 1, block);
    const auto s = static_cast<size_t>(next - first_block) - 1;
    const Segment& segment = table.segments[s];
    // Later blocks see more keys: they go first, so that threads finish together.
    const int64_t first_row = (first_block[s + 1] - 1 - block) * task_rows;
    const int64_t count = std::min(task_rows, segment.num_rows - first_row);
    kernels.attention(make_task(call, segment, first_row, count, task % shape.kv_heads,
                                thread_scratch + static_cast<size_t>(thread) * thread_bytes));
  });
}

}  // namespace mainspring::cpu
