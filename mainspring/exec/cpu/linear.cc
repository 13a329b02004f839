// linear_forward and linear_input_grad: the products of activations with weights (rules 4, 5, 6,
// 16).
#include <algorithm>

#include "mainspring/exec/cpu/dropout.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"

namespace mainspring::cpu {
namespace {

/// An adapter's part in a product: u (rows, rank) times panels of b, on the rows of its slot.
struct AdapterPart {
  int32_t slot = 0;
  int64_t rank = 0;
  const void* u = nullptr;
  const void* b = nullptr;
};
AdapterPart part_of(const LoraUp& up) { return {up.slot, up.rank, up.u, up.b.forward}; }
AdapterPart part_of(const LoraInputGradTerm& down) {
  return {down.slot, down.rank, down.du, down.a.input_grad};
}

/// The tile's rows of u: null outside the adapter's slot.
void adapter_rows(const LinearKernels& kernels, const AdapterPart& part, const GemmTile& tile,
                  uint32_t mask, const void** rows) {
  for (int r = 0; r < tile.rows; ++r) {
    const int64_t offset = (tile.row + r) * part.rank * kernels.element_bytes;
    rows[r] = (mask >> r) & 1u ? static_cast<const char*>(part.u) + offset : nullptr;
  }
}

int64_t packed_adapter_bytes(const LinearKernels& kernels, const AdapterPart& part) {
  return tile_bytes(kernels, num_pairs(part.rank));
}

/// Packs the tile's rows of every adapter of an output that has any, one after another, and notes
/// where; nothing if they need more room. Returns the bytes used.
template <class Adapter>
int64_t pack_adapters(const LinearKernels& kernels, std::span<const Adapter> adapters,
                      size_t output, GemmTile& tile, char* packed, int64_t room) {
  int64_t used = 0;
  for (const Adapter& adapter : adapters) {
    const AdapterPart part = part_of(adapter);
    const uint32_t mask = tile.mask_of(part.slot);
    if (mask == 0) continue;
    const int64_t bytes = packed_adapter_bytes(kernels, part);
    if (used + bytes > room) return 0;
    const void* rows[kMaxTileRows];
    adapter_rows(kernels, part, tile, mask, rows);
    kernels.pack_a_rows(rows, tile.rows, part.rank, packed + used);
    used += bytes;
  }
  if (used > 0) tile.extra[output] = packed;
  return used;
}

/// Fills `product` for the tile's rows in the adapter's slot, whose mask is not 0. `packed` is the
/// adapter's place in the tile's extra, or null.
void adapter_product(const LinearKernels& kernels, const AdapterPart& part, const GemmTile& tile,
                     uint32_t mask, const char* packed, float* product) {
  const int64_t bytes = panel_bytes(kernels, part.rank);
  const void* b = static_cast<const char*>(part.b) + tile.column / kernels.panel_columns * bytes;
  if (packed != nullptr) {
    fold_packed(kernels, packed, tile.rows, num_pairs(part.rank), b, bytes, tile.panels, product,
                tile.c_stride);
    return;
  }
  const void* rows[kMaxTileRows];
  adapter_rows(kernels, part, tile, mask, rows);
  fold_rows(kernels, rows, tile.rows, part.rank, b, bytes, tile.panels, product, tile.c_stride);
}

/// The tile's place in a matrix of `width` columns, its lines fetched to be written.
char* place_of(const GemmTile& tile, void* y, int64_t width, int64_t element_bytes) {
  char* place = static_cast<char*>(y) + (tile.row * width + tile.column) * element_bytes;
  for (int r = 0; r < tile.rows; ++r) __builtin_prefetch(place + r * width * element_bytes, 1);
  return place;
}

/// Whether the tile is whole and no adapter adds to it.
template <class Adapter>
bool is_bare(const LinearKernels& kernels, std::span<const Adapter> adapters,
             const GemmTile& tile) {
  if (tile.columns != tile.panels * kernels.panel_columns) return false;
  if (tile.live_mask() != tile.all_rows()) return false;
  for (const Adapter& adapter : adapters) {
    if (tile.mask_of(part_of(adapter).slot) != 0) return false;
  }
  return true;
}

/// Computes the product of every adapter of the tile's output that has rows in the tile, in order,
/// and hands it to `use` with the mask of those rows.
template <class Adapter, class Use>
void for_each_product(const LinearKernels& kernels, std::span<const Adapter> adapters,
                      const GemmTile& tile, const Use& use) {
  alignas(64) float product[kMaxTileFloats];
  const char* packed = tile.extra[static_cast<size_t>(tile.output)];
  for (const Adapter& adapter : adapters) {
    const AdapterPart part = part_of(adapter);
    const uint32_t mask = tile.mask_of(part.slot);
    if (mask == 0) continue;
    adapter_product(kernels, part, tile, mask, packed, product);
    if (packed != nullptr) packed += packed_adapter_bytes(kernels, part);
    use(adapter, mask, product);
    kernels.add_tile(product, tile.c_stride, tile.rows, tile.columns, mask, tile.c, tile.c_stride);
  }
}

struct ForwardHooks : GemmHooks {
  std::span<const LinearOutput> outputs;

  int64_t pack_extra(const LinearKernels& kernels, GemmTile& tile, char* packed,
                     int64_t room) const {
    int64_t used = 0;
    for (size_t o = 0; o < outputs.size(); ++o) {
      used += pack_adapters(kernels, outputs[o].adapters, o, tile, packed + used, room - used);
    }
    return used;
  }

  bool is_plain(const LinearKernels& kernels, const GemmTile& tile, TileArgs& args) const {
    const LinearOutput& out = outputs[static_cast<size_t>(tile.output)];
    const int64_t element_bytes = out.y_f32 ? 4 : kernels.element_bytes;
    char* y = place_of(tile, out.y, out.weight.out, element_bytes);
    if (out.bias != nullptr || element_bytes != kernels.element_bytes) return false;
    if (!is_bare(kernels, out.adapters, tile)) return false;
    args.y = y;
    args.y_stride = out.weight.out;
    return true;
  }

  void finish(const LinearKernels& kernels, const GemmTile& tile) const {
    const LinearOutput& out = outputs[static_cast<size_t>(tile.output)];
    const void* bias = nullptr;
    if (out.bias != nullptr) {
      bias = static_cast<const char*>(out.bias) + tile.column * kernels.element_bytes;
    }
    for_each_product(kernels, out.adapters, tile, [&](const LoraUp&, uint32_t, float*) {
      if (bias == nullptr) return;  // it comes before the adapters
      kernels.add_bias(bias, tile.rows, tile.columns, tile.c, tile.c_stride);
      bias = nullptr;
    });
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

  int64_t pack_extra(const LinearKernels& kernels, GemmTile& tile, char* packed,
                     int64_t room) const {
    return pack_adapters(kernels, adapters, 0, tile, packed, room);
  }

  void drop(const LinearKernels& kernels, const LoraInputGradTerm& adapter, const GemmTile& tile,
            uint32_t mask, float* product) const {
    DropoutRows rows(adapter.dropout_key, adapter.dropout);
    for (int r = 0; r < tile.rows; ++r) {
      (mask >> r) & 1u ? rows.add(segment_of(*table, tile.row + r), tile.row + r) : rows.skip();
    }
    rows.apply(kernels, tile.column, tile.columns, product, tile.c_stride);
  }

  bool is_plain(const LinearKernels& kernels, const GemmTile& tile, TileArgs& args) const {
    char* y = place_of(tile, dx, in, kernels.element_bytes);
    if (!is_bare(kernels, adapters, tile)) return false;
    args.y = y;
    args.y_stride = in;
    return true;
  }

  void finish(const LinearKernels& kernels, const GemmTile& tile) const {
    for_each_product(kernels, adapters, tile,
                     [&](const LoraInputGradTerm& adapter, uint32_t mask, float* product) {
                       if (adapter.dropout > 0.0f) drop(kernels, adapter, tile, mask, product);
                     });
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
