// The driver behind every product of activation rows with packed weights.
//
// The one idea: rows are cut into balanced tiles; a block of tiles is packed once and meets panel
// after panel of the weights. Many rows: each task packs a block of its own (within the
// second-level cache) and walks all panels. Few rows: all rows are packed first and tasks share the
// panels out, so the weights are streamed from memory once. Neither changes a bit: a row's result
// does not depend on its tile. Internal to exec/cpu.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "mainspring/base/check.h"
#include "mainspring/exec/cpu/chunks.h"
#include "mainspring/exec/cpu/kernels/table.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {

inline constexpr int kMaxGemmTerms = 8;
inline constexpr int kMaxGemmOutputs = 8;
inline constexpr int32_t kPaddingSlot = std::numeric_limits<int32_t>::min();

inline const LinearKernels& linear_kernels(const Context& context) {
  const LinearTable& table = *context.kernels->linear;
  return context.compute == DType::kBF16 ? table.bf16 : table.f32;
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t num_pairs(int64_t k) { return (k + 1) / 2; }

/// Bytes of one panel of a packed matrix reduced over k.
inline int64_t panel_bytes(const LinearKernels& kernels, int64_t k) {
  return num_pairs(k) * kernels.b_pair_bytes * kernels.panel_columns;
}

/// Bytes between packed tiles of up to tile_rows rows and `pairs` pairs, slack included.
inline int64_t tile_bytes(const LinearKernels& kernels, int64_t pairs) {
  const int64_t bytes = pairs * kernels.a_pair_bytes * kernels.tile_rows + kPackSlackBytes;
  return ceil_div(bytes, 64) * 64;
}

inline char* align64(void* p) {
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63});
}

/// Row-major activations that a product reduces over.
struct GemmTerm {
  const void* x = nullptr;
  int64_t k = 0;  // columns, and elements from row to row
};

struct GemmOutput {
  int64_t columns = 0;
  std::array<const void*, kMaxGemmTerms> b{};        // first panel per term
  std::array<int64_t, kMaxGemmTerms> panel_bytes{};  // per term
};

struct Gemm {
  int64_t rows = 0;
  int num_terms = 0;
  int num_outputs = 0;
  int num_chunks = 1;
  int64_t plan_pairs = 0;  // what gemm_scratch_bytes was given; 0: the terms' own sum
  std::array<GemmTerm, kMaxGemmTerms> terms{};
  std::array<GemmOutput, kMaxGemmOutputs> outputs{};
  const RowTable* table = nullptr;  // null or without segments: every row is plain
  void* scratch = nullptr;
};

/// Part of an output that a kernel has just computed, or is about to.
struct GemmTile {
  int output = 0;
  int64_t row = 0;
  int rows = 0;
  int64_t column = 0;
  int64_t columns = 0;  // without the panel's padding
  int panels = 1;
  const int32_t* slots = nullptr;  // per row of the tile: adapter slot, -1, or kPaddingSlot
  bool one_slot = false;           // all rows have slots[0]
  const char** extra = nullptr;    // per output: packed by the hooks beside the terms, or null
  float* c = nullptr;
  int64_t c_stride = 0;

  uint32_t all_rows() const { return (1u << rows) - 1u; }
  uint32_t mask_of(int32_t slot) const {
    if (one_slot) return slots[0] == slot ? all_rows() : 0u;
    uint32_t mask = 0;
    for (int r = 0; r < rows; ++r) mask |= static_cast<uint32_t>(slots[r] == slot) << r;
    return mask;
  }
  uint32_t live_mask() const { return all_rows() & ~mask_of(kPaddingSlot); }
};

/// How rows are cut.
struct GemmPlan {
  int64_t tiles = 0;
  int64_t blocks = 0;
  int64_t block_tiles = 0;  // most tiles of a block
  bool shared = false;      // all rows packed first
  int64_t column_splits = 1;

  int64_t tile_row(int64_t rows, int64_t tile) const { return rows * tile / tiles; }
  /// Larger blocks before smaller ones: threads that take them in turn end together.
  int64_t block_tile(int64_t block) const { return (tiles * block + blocks - 1) / blocks; }
};

inline constexpr int64_t kMaxBlockRows = 192;
inline constexpr int64_t kMaxSharedRows = 288;
inline constexpr int64_t kMaxBlockTiles = 72;  // of 4 rows or more
/// Room on the stack for sums of chunks of all tiles of a block.
inline constexpr int64_t kWaitingFloats = 3 * kMaxSharedRows * 32;
/// Room on the stack for what the hooks pack beside the terms of a block.
inline constexpr int64_t kExtraBytes = 64 << 10;

/// Most tiles of a block: packed, they fill half of a small second-level cache. `pairs`: over all
/// terms.
inline int64_t most_block_tiles(const LinearKernels& kernels, int64_t pairs) {
  constexpr int64_t kBlockBytes = 384 << 10;
  return std::clamp<int64_t>(kBlockBytes / tile_bytes(kernels, pairs), 1,
                             kMaxBlockRows / kernels.tile_rows);
}

/// Most tiles that are packed before all else: they fit into the second-level cache beside a panel,
/// or are too few to give every thread a block.
inline int64_t most_shared_tiles(const LinearKernels& kernels, int64_t threads, int64_t pairs) {
  constexpr int64_t kSharedBytes = 384 << 10;
  return std::min(std::max(kSharedBytes / tile_bytes(kernels, pairs), 2 * threads - 1),
                  kMaxSharedRows / kernels.tile_rows);
}

inline GemmPlan plan_gemm(const LinearKernels& kernels, int threads, int64_t rows, int64_t pairs) {
  GemmPlan plan;
  plan.tiles = std::max<int64_t>(1, ceil_div(rows, kernels.tile_rows));
  const int64_t most = most_block_tiles(kernels, pairs);
  plan.shared = plan.tiles <= most_shared_tiles(kernels, threads, pairs);
  plan.blocks = 1;
  if (!plan.shared) {
    plan.blocks = ceil_div(plan.tiles, most);
    plan.blocks = std::min(plan.tiles, ceil_div(plan.blocks, 2 * threads) * 2 * threads);
    if (plan.blocks < 2 * threads) plan.column_splits = ceil_div(2 * threads, plan.blocks);
  }
  plan.block_tiles = ceil_div(plan.tiles, plan.blocks);
  return plan;
}

/// Enough for every number of rows up to `rows`.
inline size_t gemm_scratch_bytes(const Context& context, int64_t rows, int64_t pairs) {
  const LinearKernels& kernels = linear_kernels(context);
  const int64_t threads = context.pool->size();
  const int64_t tiles = std::max<int64_t>(1, ceil_div(rows, kernels.tile_rows));
  const int64_t most = most_block_tiles(kernels, pairs);
  const int64_t packed = std::max(std::min(tiles, most_shared_tiles(kernels, threads, pairs)),
                                  threads * std::min(tiles, most));
  // Terms are packed apart, each with its own slack.
  return static_cast<size_t>(
      packed * (tile_bytes(kernels, pairs) + kMaxGemmTerms * (kPackSlackBytes + 64)) + 64);
}

/// The adapter slot of rows [row, row + count): -1 without segments, kPaddingSlot outside every
/// segment.
void row_slots(const RowTable* table, int64_t row, int64_t count, int32_t* slots);

/// c (rows x panels) = fold over the pairs of packed rows with panels of b, in one chunk.
inline void fold_packed(const LinearKernels& kernels, const void* packed, int num_rows,
                        int64_t pairs, const void* b, int64_t b_panel_bytes, int panels, float* c,
                        int64_t c_stride, bool load_c = false) {
  TileTerm term;
  term.a = packed;
  term.b = b;
  term.panel_bytes = b_panel_bytes;
  term.pairs = pairs;
  term.chunk_pairs = pairs;
  TileArgs args;
  args.terms = &term;
  args.num_terms = 1;
  args.load_c = load_c;
  args.c = c;
  args.c_stride = c_stride;
  kernels.tile[num_rows - 1][panels - 1](args);
}

/// The same over `k` elements of unpacked rows (null: zeros), packing on the stack.
void fold_rows(const LinearKernels& kernels, const void* const* rows, int num_rows, int64_t k,
               const void* b, int64_t b_panel_bytes, int panels, float* c, int64_t c_stride);

/// What a product does with its tiles; derive and hide what differs.
struct GemmHooks {
  bool skip(const GemmTile&) const { return false; }
  /// Fills tile.c and returns true to fold on from it (one chunk only).
  bool load(const GemmTile&) const { return false; }
  /// Fetches what finish() writes to. If the product is all there is to the tile, says in `args`
  /// where it goes and returns true: finish() is not called.
  bool is_plain(const LinearKernels&, const GemmTile&, TileArgs&) const { return false; }
  /// Packs what else the tile's rows need and notes it in tile.extra, if it fits into `room` bytes
  /// (finish packs for itself otherwise); returns the bytes used.
  int64_t pack_extra(const LinearKernels&, GemmTile&, char*, int64_t /*room*/) const { return 0; }
  /// Packs rows [row, row + rows) of a term.
  void pack(const LinearKernels& kernels, const GemmTerm& term, const GemmTile& tile,
            void* packed) const {
    const void* pointers[kMaxTileRows];
    const int64_t stride = term.k * kernels.element_bytes;
    for (int r = 0; r < tile.rows; ++r) {
      pointers[r] = static_cast<const char*>(term.x) + (tile.row + r) * stride;
    }
    kernels.pack_a_rows(pointers, tile.rows, term.k, packed);
  }
};

template <class Hooks>
class GemmRun {
 public:
  GemmRun(const Context& context, const Gemm& gemm, const Hooks& hooks)
      : kernels_(linear_kernels(context)), pool_(*context.pool), gemm_(gemm), hooks_(hooks) {
    MS_CHECK(gemm.num_terms <= kMaxGemmTerms && gemm.num_outputs <= kMaxGemmOutputs,
             "too many terms or outputs in one product");
    int64_t pairs = 0;
    for (int t = 0; t < gemm.num_terms; ++t) {
      const int64_t k = gemm.terms[t].k;
      pairs += num_pairs(k);
      tile_terms_[t].pairs = num_pairs(k);
      tile_terms_[t].chunk_pairs = chunk_pairs(k, gemm.num_chunks);
      term_offset_[t + 1] = term_offset_[t] + tile_bytes(kernels_, num_pairs(k));
    }
    plan_ =
        plan_gemm(kernels_, pool_.size(), gemm.rows, gemm.plan_pairs > 0 ? gemm.plan_pairs : pairs);
  }

  void run() {
    if (gemm_.rows == 0 || gemm_.num_outputs == 0) return;
    if (plan_.shared) {
      run_shared();
    } else {
      run_blocks();
    }
  }

 private:
  /// Rows packed together, and what is known of their tiles.
  struct Block {
    char* packed = nullptr;
    int64_t num_tiles = 0;
    int32_t slots[kMaxSharedRows];
    GemmTile tiles[kMaxBlockTiles];
    const char* extra[kMaxBlockTiles][kMaxGemmOutputs] = {};
  };

  void cut(Block& block, int64_t tile_begin, int64_t tile_end, char* packed) const {
    MS_CHECK(tile_end - tile_begin <= kMaxBlockTiles, "too many tiles in a block");
    block.packed = packed;
    block.num_tiles = tile_end - tile_begin;
    const int64_t first = plan_.tile_row(gemm_.rows, tile_begin);
    row_slots(gemm_.table, first, plan_.tile_row(gemm_.rows, tile_end) - first, block.slots);
    for (int64_t i = 0; i < block.num_tiles; ++i) {
      GemmTile& tile = block.tiles[i];
      tile = {};
      tile.row = plan_.tile_row(gemm_.rows, tile_begin + i);
      tile.rows = static_cast<int>(plan_.tile_row(gemm_.rows, tile_begin + i + 1) - tile.row);
      tile.slots = block.slots + (tile.row - first);
      tile.extra = block.extra[i];
      tile.one_slot = std::all_of(tile.slots, tile.slots + tile.rows,
                                  [&](int32_t slot) { return slot == tile.slots[0]; });
    }
  }

  int64_t tile_stride() const { return term_offset_[gemm_.num_terms]; }

  void pack(const Block& block, int64_t i) const {
    const GemmTile& tile = block.tiles[i];
    if (hooks_.skip(tile)) return;
    char* packed = block.packed + i * tile_stride();
    for (int t = 0; t < gemm_.num_terms; ++t) {
      hooks_.pack(kernels_, gemm_.terms[t], tile, packed + term_offset_[t]);
    }
  }

  int64_t panels_of(int output) const {
    return ceil_div(gemm_.outputs[output].columns, kernels_.panel_columns);
  }

  /// The tiles of a block read the same panels: each fetches its part of the next ones, so that
  /// what comes from memory comes while all of them compute.
  static const char* ahead_of(const TileTerm& term, int64_t tile, int panels) {
    return static_cast<const char*>(term.b) + panels * term.panel_bytes +
           tile * term.pairs * term.ahead_bytes;
  }

  /// Chunks computed for all tiles of a block before the next ones: their part of a panel and of a
  /// tile stay in the first-level cache.
  int chunks_at_once(int panels) const {
    constexpr int64_t kFirstLevelBytes = 40 << 10;
    int64_t bytes = 0;
    for (int t = 0; t < gemm_.num_terms; ++t) {
      bytes +=
          tile_terms_[t].chunk_pairs * (panels * kernels_.panel_columns * kernels_.b_pair_bytes +
                                        kernels_.tile_rows * kernels_.a_pair_bytes);
    }
    int chunks = gemm_.num_chunks;
    while (chunks > 1 && chunks * bytes > kFirstLevelBytes) chunks /= 2;
    return chunks;
  }

  /// One group of panels of one output against all tiles of a block.
  void compute(const Block& block, int output, int64_t panel, int panels) const {
    const GemmOutput& out = gemm_.outputs[output];
    alignas(64) float c[kMaxTileFloats];
    alignas(64) float waiting[kWaitingFloats];
    TileTerm terms[kMaxGemmTerms];
    for (int t = 0; t < gemm_.num_terms; ++t) {
      terms[t].pairs = tile_terms_[t].pairs;
      terms[t].chunk_pairs = tile_terms_[t].chunk_pairs;
      terms[t].panel_bytes = out.panel_bytes[t];
      terms[t].b = static_cast<const char*>(out.b[t]) + panel * out.panel_bytes[t];
      terms[t].ahead_bytes =
          ceil_div(kernels_.b_pair_bytes * kernels_.panel_columns, block.num_tiles);
    }
    const int64_t tile_floats = kernels_.tile_rows * panels * kernels_.panel_columns;
    const int chunks = block.num_tiles > 1 ? chunks_at_once(panels) : gemm_.num_chunks;
    for (int chunk = 0; chunk < gemm_.num_chunks; chunk += chunks) {
      for (int64_t i = 0; i < block.num_tiles; ++i) {
        GemmTile tile = block.tiles[i];
        if (hooks_.skip(tile)) continue;
        const char* packed = block.packed + i * tile_stride();
        for (int t = 0; t < gemm_.num_terms; ++t) {
          terms[t].a = packed + term_offset_[t];
          if (block.num_tiles > 1) terms[t].ahead = ahead_of(terms[t], i, panels);
        }
        TileArgs args;
        args.terms = terms;
        args.num_terms = gemm_.num_terms;
        args.num_chunks = gemm_.num_chunks;
        args.chunk_begin = chunk;
        args.chunk_end = chunk + chunks;
        args.waiting = chunks < gemm_.num_chunks ? waiting + i * 3 * tile_floats : nullptr;
        args.c = c;
        args.c_stride = panels * kernels_.panel_columns;
        const TileFn run = kernels_.tile[tile.rows - 1][panels - 1];
        if (args.chunk_end < gemm_.num_chunks) {
          run(args);
          continue;
        }
        tile.output = output;
        tile.column = panel * kernels_.panel_columns;
        tile.columns = std::min<int64_t>(args.c_stride, out.columns - tile.column);
        tile.panels = panels;
        tile.c = c;
        tile.c_stride = args.c_stride;
        args.load_c = hooks_.load(tile);
        const bool is_plain = hooks_.is_plain(kernels_, tile, args);
        run(args);
        if (!is_plain) hooks_.finish(kernels_, tile);
      }
    }
  }

  void run_shared() {
    Block block;
    cut(block, 0, plan_.tiles, align64(gemm_.scratch));
    if (plan_.tiles <= 2) {
      for (int64_t i = 0; i < plan_.tiles; ++i) pack(block, i);
    } else {
      pool_.run(plan_.tiles, [&](int64_t i, int) { pack(block, i); });
    }
    const int group = plan_.tiles == 1 ? kernels_.wide_panels[gemm_.rows - 1] : 1;
    std::array<int64_t, kMaxGemmOutputs + 1> first{};
    for (int o = 0; o < gemm_.num_outputs; ++o)
      first[o + 1] = first[o] + ceil_div(panels_of(o), group);
    const auto compute_group = [&](int64_t g) {
      int o = 0;
      while (g >= first[o + 1]) ++o;
      const int64_t panel = (g - first[o]) * group;
      const int64_t left = panels_of(o) - panel;
      if (left >= group) return compute(block, o, panel, group);
      for (int64_t p = 0; p < left; ++p) compute(block, o, panel + p, 1);
    };
    // Neighbouring groups on one thread: it has fetched the next one while it computed this.
    const int64_t groups = first[gemm_.num_outputs];
    const int64_t grain = std::clamp<int64_t>(groups / (8 * pool_.size()), 1, 16);
    pool_.run(ceil_div(groups, grain), [&](int64_t task, int) {
      const int64_t end = std::min(groups, (task + 1) * grain);
      for (int64_t g = task * grain; g < end; ++g) compute_group(g);
    });
  }

  void run_blocks() {
    pool_.run(plan_.blocks * plan_.column_splits, [&](int64_t task, int thread) {
      const int64_t b = task / plan_.column_splits;
      const int64_t split = task % plan_.column_splits;
      Block block;
      cut(block, plan_.block_tile(b), plan_.block_tile(b + 1),
          align64(gemm_.scratch) + thread * plan_.block_tiles * tile_stride());
      alignas(64) char extra[kExtraBytes];
      int64_t used = 0;
      for (int64_t i = 0; i < block.num_tiles; ++i) {
        pack(block, i);
        used += hooks_.pack_extra(kernels_, block.tiles[i], extra + used, kExtraBytes - used);
      }
      for (int o = 0; o < gemm_.num_outputs; ++o) {
        const int64_t panels = panels_of(o);
        const int64_t end = panels * (split + 1) / plan_.column_splits;
        for (int64_t p = panels * split / plan_.column_splits; p < end; ++p)
          compute(block, o, p, 1);
      }
    });
  }

  const LinearKernels& kernels_;
  ThreadPool& pool_;
  const Gemm& gemm_;
  const Hooks& hooks_;
  GemmPlan plan_;
  std::array<TileTerm, kMaxGemmTerms> tile_terms_{};
  std::array<int64_t, kMaxGemmTerms + 1> term_offset_{};
};

template <class Hooks>
void run_gemm(const Context& context, const Gemm& gemm, const Hooks& hooks) {
  GemmRun<Hooks>(context, gemm, hooks).run();
}

}  // namespace mainspring::cpu
