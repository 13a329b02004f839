// linear_forward and linear_input_grad: the products of activations with weights (rules 4, 5, 6,
// 16).
#include <algorithm>

#include "mainspring/exec/cpu/dropout.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {
namespace {

/// Adds an adapter's product to the rows of its slot: u (rows, rank) times panels of b.
struct AdapterPart {
  int32_t slot = 0;
  int64_t rank = 0;
  const void* u = nullptr;
  const void* b = nullptr;
};

/// Returns the mask of the tile's rows in the adapter's slot; if it is not empty, `product` is
/// filled.
uint32_t adapter_product(const LinearKernels& kernels, const AdapterPart& part,
                         const GemmTile& tile, float* product) {
  const uint32_t mask = tile.mask_of(part.slot);
  if (mask == 0) return 0;
  const void* rows[kMaxTileRows];
  for (int r = 0; r < tile.rows; ++r) {
    const int64_t offset = (tile.row + r) * part.rank * kernels.element_bytes;
    rows[r] = (mask >> r) & 1u ? static_cast<const char*>(part.u) + offset : nullptr;
  }
  const int64_t bytes = panel_bytes(kernels, part.rank);
  const void* b = static_cast<const char*>(part.b) + tile.column / kernels.panel_columns * bytes;
  fold_rows(kernels, rows, tile.rows, part.rank, b, bytes, tile.panels, product, tile.c_stride);
  return mask;
}

struct ForwardHooks : GemmHooks {
  std::span<const LinearOutput> outputs;

  void finish(const LinearKernels& kernels, const GemmTile& tile) const {
    const LinearOutput& out = outputs[static_cast<size_t>(tile.output)];
    const void* bias = nullptr;
    if (out.bias != nullptr) {
      bias = static_cast<const char*>(out.bias) + tile.column * kernels.element_bytes;
    }
    alignas(64) float product[kMaxTileFloats];
    for (const LoraUp& adapter : out.adapters) {
      const uint32_t mask = adapter_product(
          kernels, {adapter.slot, adapter.rank, adapter.u, adapter.b.forward}, tile, product);
      if (mask == 0) continue;
      if (bias != nullptr) {
        kernels.add_bias(bias, tile.rows, tile.columns, tile.c, tile.c_stride);
        bias = nullptr;
      }
      kernels.add_tile(product, tile.c_stride, tile.rows, tile.columns, mask, tile.c,
                       tile.c_stride);
    }
    StoreTile store;
    store.tile = tile.c;
    store.tile_stride = tile.c_stride;
    store.rows = tile.rows;
    store.columns = tile.columns;
    store.row_mask = tile.live_mask();
    store.bias = bias;
    const int64_t offset = tile.row * out.weight.out + tile.column;
    store.y = static_cast<char*>(out.y) + offset * (out.y_f32 ? 4 : kernels.element_bytes);
    store.y_stride = out.weight.out;
    store.y_f32 = out.y_f32;
    kernels.store(store);
  }
};

/// Pairs of all terms together: an odd width adds half a pair for each term.
int64_t input_grad_pairs(int64_t summed_out) { return num_pairs(summed_out) + kMaxGemmTerms; }

struct InputGradHooks : GemmHooks {
  std::span<const LoraInputGradTerm> adapters;
  const RowTable* table = nullptr;
  int64_t in = 0;
  void* dx = nullptr;

  void finish(const LinearKernels& kernels, const GemmTile& tile) const {
    alignas(64) float product[kMaxTileFloats];
    for (const LoraInputGradTerm& adapter : adapters) {
      const uint32_t mask = adapter_product(
          kernels, {adapter.slot, adapter.rank, adapter.du, adapter.a.input_grad}, tile, product);
      if (mask == 0) continue;
      if (adapter.dropout > 0.0f) {
        DropoutRows rows(adapter.dropout_key, adapter.dropout);
        for (int r = 0; r < tile.rows; ++r) {
          (mask >> r) & 1u ? rows.add(segment_of(*table, tile.row + r), tile.row + r) : rows.skip();
        }
        rows.apply(kernels, tile.column, tile.columns, product, tile.c_stride);
      }
      kernels.add_tile(product, tile.c_stride, tile.rows, tile.columns, mask, tile.c,
                       tile.c_stride);
    }
    StoreTile store;
    store.tile = tile.c;
    store.tile_stride = tile.c_stride;
    store.rows = tile.rows;
    store.columns = tile.columns;
    store.row_mask = tile.live_mask();
    store.y = static_cast<char*>(dx) + (tile.row * in + tile.column) * kernels.element_bytes;
    store.y_stride = in;
    kernels.store(store);
  }
};

}  // namespace

size_t linear_forward_scratch_bytes(const Context& context, int64_t rows, int64_t in) {
  return gemm_scratch_bytes(context, rows, num_pairs(in));
}

void linear_forward(const Context& context, int64_t rows, int64_t in, const void* x,
                    std::span<const LinearOutput> outputs, const RowTable* table, void* scratch) {
  const LinearKernels& kernels = linear_kernels(context);
  // A product takes a limited number of outputs; more of them only pack x again.
  for (size_t begin = 0; begin < outputs.size(); begin += kMaxGemmOutputs) {
    ForwardHooks hooks;
    hooks.outputs =
        outputs.subspan(begin, std::min<size_t>(kMaxGemmOutputs, outputs.size() - begin));
    Gemm gemm;
    gemm.rows = rows;
    gemm.num_terms = 1;
    gemm.terms[0] = {x, in};
    gemm.num_chunks = num_chunks(in);
    gemm.plan_pairs = num_pairs(in);
    gemm.num_outputs = static_cast<int>(hooks.outputs.size());
    for (size_t i = 0; i < hooks.outputs.size(); ++i) {
      gemm.outputs[i].columns = hooks.outputs[i].weight.out;
      gemm.outputs[i].b[0] = hooks.outputs[i].weight.forward;
      gemm.outputs[i].panel_bytes[0] = panel_bytes(kernels, in);
    }
    gemm.table = table;
    gemm.scratch = scratch;
    run_gemm(context, gemm, hooks);
  }
}

size_t linear_input_grad_scratch_bytes(const Context& context, int64_t rows, int64_t /*in*/,
                                       int64_t summed_out) {
  return gemm_scratch_bytes(context, rows, input_grad_pairs(summed_out));
}

void linear_input_grad(const Context& context, int64_t rows, int64_t in,
                       std::span<const LinearInputGradTerm> terms,
                       std::span<const LoraInputGradTerm> adapters, void* dx, const RowTable& table,
                       void* scratch) {
  const LinearKernels& kernels = linear_kernels(context);
  MS_CHECK(terms.size() <= kMaxGemmTerms, "too many terms in one input gradient");
  Gemm gemm;
  gemm.rows = rows;
  gemm.num_terms = static_cast<int>(terms.size());
  gemm.num_outputs = 1;
  gemm.outputs[0].columns = in;
  int64_t summed = 0;
  for (size_t t = 0; t < terms.size(); ++t) {
    const int64_t out = terms[t].weight.out;
    summed += out;
    gemm.terms[t] = {terms[t].dy, out};
    gemm.outputs[0].b[t] = terms[t].weight.input_grad;
    gemm.outputs[0].panel_bytes[t] = panel_bytes(kernels, out);
  }
  gemm.num_chunks = num_chunks(summed);
  gemm.plan_pairs = input_grad_pairs(summed);
  gemm.table = &table;
  gemm.scratch = scratch;
  InputGradHooks hooks;
  hooks.adapters = adapters;
  hooks.table = &table;
  hooks.in = in;
  hooks.dx = dx;
  run_gemm(context, gemm, hooks);
}

}  // namespace mainspring::cpu
