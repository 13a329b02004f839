// An adapter's way down and its gradient (rules 5, 16, 18). Its way up is part of linear_forward
// and linear_input_grad.
#include <algorithm>
#include <cstring>

#include "mainspring/exec/cpu/dropout.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {
namespace {

void store_scaled(const LinearKernels& kernels, const GemmTile& tile, uint32_t mask, float scale,
                  int64_t rank, void* y) {
  StoreTile store;
  store.tile = tile.c;
  store.tile_stride = tile.c_stride;
  store.rows = tile.rows;
  store.columns = tile.columns;
  store.row_mask = mask;
  store.zero_others = false;
  store.scale = &scale;
  store.y = static_cast<char*>(y) + (tile.row * rank + tile.column) * kernels.element_bytes;
  store.y_stride = rank;
  kernels.store(store);
}

struct DownHooks : GemmHooks {
  const LoraDown* lora = nullptr;
  const RowTable* table = nullptr;

  bool skip(const GemmTile& tile) const { return tile.mask_of(lora->slot) == 0; }

  void pack(const LinearKernels& kernels, const GemmTerm& term, const GemmTile& tile,
            void* packed) const {
    const uint32_t mask = tile.mask_of(lora->slot);
    const void* rows[kMaxTileRows];
    for (int r = 0; r < tile.rows; ++r) {
      const int64_t offset = (tile.row + r) * term.k * kernels.element_bytes;
      rows[r] = (mask >> r) & 1u ? static_cast<const char*>(term.x) + offset : nullptr;
    }
    if (lora->dropout > 0.0f) {
      pack_dropped(kernels, term, tile, rows, static_cast<char*>(packed));
    } else {
      kernels.pack_a_rows(rows, tile.rows, term.k, packed);
    }
  }

  /// Packs the rows under their masks, a slice of columns at a time.
  void pack_dropped(const LinearKernels& kernels, const GemmTerm& term, const GemmTile& tile,
                    const void* const* rows, char* packed) const {
    constexpr int64_t kSlice = 256;
    alignas(64) char slices[kMaxTileRows][kSlice * 4];
    DropoutRows masks(lora->dropout_key, lora->dropout);
    const void* pointers[kMaxTileRows];
    for (int r = 0; r < tile.rows; ++r) {
      const int64_t row = tile.row + r;
      rows[r] != nullptr ? masks.add(segment_of(*table, row), row) : masks.skip();
      pointers[r] = rows[r] != nullptr ? slices[r] : nullptr;
    }
    for (int64_t column = 0; column < term.k; column += kSlice) {
      const int64_t n = std::min(kSlice, term.k - column);
      masks.apply_rounded(kernels, rows, column, n, slices, sizeof slices[0]);
      kernels.pack_a_rows(pointers, tile.rows, n,
                          packed + column / 2 * kernels.a_pair_bytes * tile.rows);
    }
  }

  void finish(const LinearKernels& kernels, const GemmTile& tile) const {
    store_scaled(kernels, tile, tile.mask_of(lora->slot), lora->scale, lora->rank, lora->u);
  }
};

/// One panel of one tile of du: chunks by rule 5, packed on the stack.
void up_grad_panel(const LinearKernels& kernels, const void* const* rows, int64_t out,
                   const LoraUpGrad& lora, GemmTile& tile) {
  constexpr int kMaxPanelFloats = kMaxTileFloats / 2;
  alignas(64) float waiting[3][kMaxPanelFloats];
  const int chunks = num_chunks(out);
  const int64_t width = 2 * chunk_pairs(out, chunks);
  const int64_t bytes = panel_bytes(kernels, out);
  const char* panel =
      static_cast<const char*>(lora.b.input_grad) + tile.column / kernels.panel_columns * bytes;
  for (int chunk = 0;; ++chunk) {
    const int64_t begin = std::min(out, chunk * width);
    const void* pointers[kMaxTileRows];
    for (int r = 0; r < tile.rows; ++r) {
      pointers[r] = rows[r] == nullptr
                        ? nullptr
                        : static_cast<const char*>(rows[r]) + begin * kernels.element_bytes;
    }
    const char* b = panel + begin / 2 * kernels.b_pair_bytes * kernels.panel_columns;
    fold_rows(kernels, pointers, tile.rows, std::min(width, out - begin), b, bytes, 1, tile.c,
              tile.c_stride);
    int level = 0;
    for (; (chunk >> level) & 1; ++level) {
      kernels.add_tile(waiting[level], tile.c_stride, tile.rows, tile.c_stride, ~0u, tile.c,
                       tile.c_stride);
    }
    if (chunk + 1 == chunks) return;
    std::memcpy(waiting[level], tile.c,
                static_cast<size_t>(tile.rows * tile.c_stride) * sizeof(float));
  }
}

}  // namespace

size_t lora_down_scratch_bytes(const Context& context, int64_t rows, int64_t in) {
  return gemm_scratch_bytes(context, rows, num_pairs(in));
}

void lora_down(const Context& context, int64_t rows, int64_t in, const void* x,
               const LoraDown& lora, const RowTable& table, void* scratch) {
  DownHooks hooks;
  hooks.lora = &lora;
  hooks.table = &table;
  Gemm gemm;
  gemm.rows = rows;
  gemm.num_terms = 1;
  gemm.terms[0] = {x, in};
  gemm.num_chunks = num_chunks(in);
  gemm.num_outputs = 1;
  gemm.outputs[0].columns = lora.rank;
  gemm.outputs[0].b[0] = lora.a.forward;
  gemm.outputs[0].panel_bytes[0] = panel_bytes(linear_kernels(context), in);
  gemm.table = &table;
  gemm.scratch = scratch;
  run_gemm(context, gemm, hooks);
}

void lora_up_input_grad(const Context& context, int64_t rows, int64_t out, const void* dy,
                        const LoraUpGrad& lora, const RowTable& table, void* /*scratch*/) {
  const LinearKernels& kernels = linear_kernels(context);
  const int64_t tiles = ceil_div(rows, kernels.tile_rows);
  context.pool->run(tiles, [&](int64_t i, int) {
    GemmTile tile;
    tile.row = rows * i / tiles;
    tile.rows = static_cast<int>(rows * (i + 1) / tiles - tile.row);
    int32_t slots[kMaxTileRows];
    row_slots(&table, tile.row, tile.rows, slots);
    tile.slots = slots;
    const uint32_t mask = tile.mask_of(lora.slot);
    if (mask == 0) return;
    const void* pointers[kMaxTileRows];
    for (int r = 0; r < tile.rows; ++r) {
      const int64_t offset = (tile.row + r) * out * kernels.element_bytes;
      pointers[r] = (mask >> r) & 1u ? static_cast<const char*>(dy) + offset : nullptr;
    }
    alignas(64) float c[kMaxTileFloats];
    tile.c = c;
    tile.c_stride = kernels.panel_columns;
    for (; tile.column < lora.rank; tile.column += kernels.panel_columns) {
      tile.columns = std::min<int64_t>(kernels.panel_columns, lora.rank - tile.column);
      up_grad_panel(kernels, pointers, out, lora, tile);
      store_scaled(kernels, tile, mask, lora.scale, lora.rank, lora.du);
    }
  });
}

}  // namespace mainspring::cpu
