// Gradients of weights and biases: folds over tokens (rules 3 and 9).
//
// The one idea: each sequence starts on an even row, so pairs of tokens never straddle sequences
// and the fold over a list of sequences is a fold over their pairs laid end to end. Both operands
// are packed to pairs along tokens, a block of tokens at a time; x once for all, dy by each task
// for its own rows of the gradient, which start from memory and go back to it.
#include <algorithm>
#include <array>
#include <cstring>

#include "mainspring/exec/cpu/dropout.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {
namespace {

constexpr int64_t kCut = 2048;        // rule 9's P
constexpr int64_t kBlockPairs = 512;  // of a block that continues the fold
constexpr int64_t kPackedDyBytes = 256 << 10;
constexpr int64_t kMaskedColumns = 64;  // of x whose dropout masks are made together

/// Consecutive rows of one sequence; an odd count is completed by a zero row.
struct Piece {
  const Segment* segment = nullptr;
  int64_t row = 0;
  int64_t rows = 0;
};

/// Pieces folded in one pass over the gradient.
struct TokenBlock {
  static constexpr int kMaxPieces = 256;
  std::array<Piece, kMaxPieces> pieces;
  int num_pieces = 0;
  int64_t pairs = 0;
  bool from_zero = false;  // a part of a long sequence: folded alone, then added
};

/// Walks the segments of one slot in order.
class BlockCursor {
 public:
  BlockCursor(const RowTable& table, int32_t slot) : table_(table), slot_(slot) {}

  /// Fills the next block; false when no rows are left.
  bool next(TokenBlock& block) {
    block.num_pieces = 0;
    block.pairs = 0;
    block.from_zero = false;
    while (index_ < table_.segments.size()) {
      const Segment& segment = table_.segments[index_];
      if ((slot_ != kAllSlots && segment.adapter_slot != slot_) || done_ >= segment.num_rows) {
        ++index_;
        done_ = 0;
        continue;
      }
      if (segment.position + segment.num_rows > kCut) {
        if (block.num_pieces > 0) return true;
        const int64_t left_in_cut = kCut - (segment.position + done_) % kCut;
        take(segment, std::min<int64_t>(left_in_cut, segment.num_rows - done_), block);
        block.from_zero = true;
        return true;
      }
      const int64_t room = 2 * (kBlockPairs - block.pairs);
      if (room == 0 || block.num_pieces == TokenBlock::kMaxPieces) return true;
      take(segment, std::min<int64_t>(room, segment.num_rows - done_), block);
    }
    return block.num_pieces > 0;
  }

 private:
  void take(const Segment& segment, int64_t rows, TokenBlock& block) {
    block.pieces[static_cast<size_t>(block.num_pieces++)] = {&segment, segment.row_begin + done_,
                                                             rows};
    block.pairs += num_pairs(rows);
    done_ += rows;
  }

  const RowTable& table_;
  int32_t slot_;
  size_t index_ = 0;
  int64_t done_ = 0;  // rows of the current segment already taken
};

int64_t most_pairs(int64_t rows) { return std::min<int64_t>(kCut / 2, num_pairs(rows)); }

size_t packed_x_bytes(const LinearKernels& kernels, int64_t pairs, int64_t in) {
  const int64_t panels = ceil_div(in, kernels.panel_columns);
  return static_cast<size_t>(panels * pairs * kernels.b_pair_bytes * kernels.panel_columns);
}

int64_t packed_dy_bytes(const LinearKernels& kernels, int64_t pairs) {
  return std::max(kPackedDyBytes, tile_bytes(kernels, pairs));
}

/// One block of tokens against the whole gradient.
class BlockFold {
 public:
  BlockFold(const Context& context, const WeightGrad& grad, const TokenBlock& block, char* scratch,
            int64_t scratch_pairs)
      : kernels_(linear_kernels(context)),
        pool_(*context.pool),
        grad_(grad),
        block_(block),
        packed_x_(scratch),
        packed_dy_(scratch + packed_x_bytes(kernels_, scratch_pairs, grad.in)),
        dy_bytes_(packed_dy_bytes(kernels_, scratch_pairs)),
        panel_bytes_(block.pairs * kernels_.b_pair_bytes * kernels_.panel_columns),
        panels_(ceil_div(grad.in, kernels_.panel_columns)) {}

  void run() {
    if (grad_.x_dropout > 0.0f) {
      const int64_t group = kMaskedColumns / kernels_.panel_columns;
      pool_.run(ceil_div(panels_, group), [&](int64_t i, int) {
        pack_masked_x(i * group, std::min(panels_, (i + 1) * group));
      });
    } else {
      pool_.run(panels_, [&](int64_t panel, int) { pack_x(panel); });
    }
    const int64_t tiles = ceil_div(grad_.out, kernels_.tile_rows);
    const int64_t most = std::max<int64_t>(1, kPackedDyBytes / tile_bytes(kernels_, block_.pairs));
    const int64_t threads = pool_.size();
    int64_t groups = ceil_div(tiles, most);
    groups = std::min(tiles, ceil_div(groups, 2 * threads) * 2 * threads);
    const int64_t splits =
        std::min(panels_, groups < 2 * threads ? ceil_div(2 * threads, groups) : 1);
    pool_.run(groups * splits, [&](int64_t task, int thread) {
      const int64_t group = task / splits;
      const int64_t split = task % splits;
      fold_group(tiles, tiles * group / groups, tiles * (group + 1) / groups,
                 panels_ * split / splits, panels_ * (split + 1) / splits,
                 packed_dy_ + thread * dy_bytes_);
    });
  }

 private:
  void pack_x(int64_t panel) const {
    char* packed = packed_x_ + panel * panel_bytes_;
    for (int i = 0; i < block_.num_pieces; ++i) {
      const Piece& piece = block_.pieces[static_cast<size_t>(i)];
      PackTokens tokens;
      tokens.first = static_cast<const char*>(grad_.x) + piece.row * row_bytes();
      tokens.stride = grad_.in;
      tokens.rows = piece.rows;
      tokens.column = panel * kernels_.panel_columns;
      tokens.columns_end = grad_.in;
      tokens.num_columns = kernels_.panel_columns;
      tokens.packed = packed;
      kernels_.pack_b_tokens(tokens);
      packed += packed_bytes(piece.rows);
    }
  }

  /// Panels [first, end), at most kMaskedColumns wide, under the dropout mask, a few rows at a
  /// time.
  void pack_masked_x(int64_t first, int64_t end) const {
    constexpr int kRows = 16;  // even, so that pieces of a sequence keep their pairs
    alignas(64) char buffer[kRows][kMaskedColumns * 4];
    const int64_t column = first * kernels_.panel_columns;
    const int64_t n = std::min(end * kernels_.panel_columns, grad_.in) - column;
    char* packed = packed_x_;
    for (int i = 0; i < block_.num_pieces; ++i) {
      const Piece& piece = block_.pieces[static_cast<size_t>(i)];
      for (int64_t done = 0; done < piece.rows; done += kRows) {
        PackTokens tokens;
        tokens.first = buffer;
        tokens.stride = static_cast<int64_t>(sizeof buffer[0]) / kernels_.element_bytes;
        tokens.rows = std::min<int64_t>(kRows, piece.rows - done);
        tokens.columns_end = n;
        tokens.num_columns = kernels_.panel_columns;
        DropoutRows masks(grad_.dropout_key, grad_.x_dropout);
        const void* rows[kRows];
        for (int64_t r = 0; r < tokens.rows; ++r) {
          const int64_t row = piece.row + done + r;
          rows[r] = static_cast<const char*>(grad_.x) + row * row_bytes();
          masks.add(*piece.segment, row);
        }
        masks.apply_rounded(kernels_, rows, column, n, buffer, sizeof buffer[0]);
        for (int64_t panel = first; panel < end; ++panel) {
          tokens.column = panel * kernels_.panel_columns - column;
          tokens.packed = packed + panel * panel_bytes_;
          kernels_.pack_b_tokens(tokens);
        }
        packed += packed_bytes(tokens.rows);
      }
    }
  }

  int64_t row_bytes() const { return grad_.in * kernels_.element_bytes; }
  int64_t packed_bytes(int64_t rows) const {
    return num_pairs(rows) * kernels_.b_pair_bytes * kernels_.panel_columns;
  }

  /// Tiles [begin, end) of dy's columns, each behind the other. A few rows at a time for all tiles:
  /// these lie in the same cache lines.
  void pack_dy(int64_t tiles, int64_t begin, int64_t end, char* packed) const {
    constexpr int64_t kRows = 16;
    int64_t pairs_done = 0;
    for (int i = 0; i < block_.num_pieces; ++i) {
      const Piece& piece = block_.pieces[static_cast<size_t>(i)];
      for (int64_t row = 0; row < piece.rows; row += kRows) {
        PackTokens tokens;
        tokens.first = static_cast<const char*>(grad_.dy) +
                       (piece.row + row) * grad_.out * kernels_.element_bytes;
        tokens.stride = grad_.out;
        tokens.rows = std::min(kRows, piece.rows - row);
        tokens.columns_end = grad_.out;
        for (int64_t tile = begin; tile < end; ++tile) {
          tokens.column = first_row(tiles, tile);
          tokens.num_columns = static_cast<int>(first_row(tiles, tile + 1) - tokens.column);
          tokens.packed = packed + (tile - begin) * tile_stride() +
                          pairs_done * kernels_.a_pair_bytes * tokens.num_columns;
          kernels_.pack_a_tokens(tokens);
        }
        pairs_done += num_pairs(tokens.rows);
      }
    }
  }

  int64_t first_row(int64_t tiles, int64_t tile) const { return grad_.out * tile / tiles; }
  int64_t tile_stride() const { return tile_bytes(kernels_, block_.pairs); }

  /// Tiles [begin, end) of the gradient's rows against panels [panel_begin, panel_end).
  void fold_group(int64_t tiles, int64_t begin, int64_t end, int64_t panel_begin, int64_t panel_end,
                  char* packed) const {
    pack_dy(tiles, begin, end, packed);
    TileTerm term;
    term.panel_bytes = panel_bytes_;
    term.pairs = block_.pairs;
    term.chunk_pairs = block_.pairs;
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      term.b = packed_x_ + panel * panel_bytes_;
      for (int64_t tile = begin; tile < end; ++tile) {
        term.a = packed + (tile - begin) * tile_stride();
        fetch_sums(tiles, tile + 1 < end ? tile + 1 : begin, tile + 1 < end ? panel : panel + 1);
        fold_tile(term, first_row(tiles, tile), first_row(tiles, tile + 1), panel);
      }
    }
  }

  /// Fetches the sums that fold_tile starts from.
  void fetch_sums(int64_t tiles, int64_t tile, int64_t panel) const {
    const int64_t column = panel * kernels_.panel_columns;
    const int64_t end = std::min<int64_t>(column + kernels_.panel_columns, grad_.in);
    for (int64_t row = first_row(tiles, tile); row < first_row(tiles, tile + 1); ++row) {
      for (int64_t c = column; c < end; c += 16)
        __builtin_prefetch(grad_.acc + row * grad_.in + c, 1);
    }
  }

  void fold_tile(const TileTerm& term, int64_t row, int64_t row_end, int64_t panel) const {
    const int rows = static_cast<int>(row_end - row);
    const int64_t column = panel * kernels_.panel_columns;
    const int64_t columns = std::min<int64_t>(kernels_.panel_columns, grad_.in - column);
    float* acc = grad_.acc + row * grad_.in + column;
    TileArgs args;
    args.terms = &term;
    args.num_terms = 1;
    if (!block_.from_zero && columns == kernels_.panel_columns) {
      args.load_c = true;
      args.c = acc;
      args.c_stride = grad_.in;
      kernels_.tile[rows - 1][0](args);
      return;
    }
    alignas(64) float c[kMaxTileFloats];
    args.c = c;
    args.c_stride = kernels_.panel_columns;
    if (block_.from_zero) {
      kernels_.tile[rows - 1][0](args);
      kernels_.add_tile(c, args.c_stride, rows, columns, ~0u, acc, grad_.in);
      return;
    }
    args.load_c = true;
    std::fill_n(c, rows * args.c_stride, 0.0f);
    for (int r = 0; r < rows; ++r) {
      std::memcpy(c + r * args.c_stride, acc + r * grad_.in,
                  static_cast<size_t>(columns) * sizeof(float));
    }
    kernels_.tile[rows - 1][0](args);
    for (int r = 0; r < rows; ++r) {
      std::memcpy(acc + r * grad_.in, c + r * args.c_stride,
                  static_cast<size_t>(columns) * sizeof(float));
    }
  }

  const LinearKernels& kernels_;
  ThreadPool& pool_;
  const WeightGrad& grad_;
  const TokenBlock& block_;
  char* packed_x_;
  char* packed_dy_;
  int64_t dy_bytes_;
  int64_t panel_bytes_;
  int64_t panels_;
};

}  // namespace

size_t linear_weight_grad_scratch_bytes(const Context& context, int64_t rows, int64_t /*out*/,
                                        int64_t in) {
  const LinearKernels& kernels = linear_kernels(context);
  const int64_t pairs = most_pairs(rows);
  return packed_x_bytes(kernels, pairs, in) +
         static_cast<size_t>(context.pool->size() * packed_dy_bytes(kernels, pairs) + 64);
}

void linear_weight_grad(const Context& context, int64_t rows, const WeightGrad& grad,
                        const RowTable& table, void* scratch) {
  BlockCursor cursor(table, grad.slot);
  TokenBlock block;
  while (cursor.next(block)) {
    BlockFold(context, grad, block, align64(scratch), most_pairs(rows)).run();
  }
}

void bias_grad(const Context& context, int64_t out, const void* dy, float* acc,
               const RowTable& table) {
  const LinearKernels& kernels = linear_kernels(context);
  constexpr int64_t kColumns = 128;
  context.pool->run(ceil_div(out, kColumns), [&](int64_t task, int) {
    const int64_t column = task * kColumns;
    const int64_t n = std::min(kColumns, out - column);
    for (const Segment& segment : table.segments) {
      for (int64_t row = segment.row_begin; row < segment.row_begin + segment.num_rows; ++row) {
        const int64_t offset = (row * out + column) * kernels.element_bytes;
        kernels.add_row(static_cast<const char*>(dy) + offset, n, acc + column);
      }
    }
  });
}

}  // namespace mainspring::cpu
