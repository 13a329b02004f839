// Linear kernels against the measured FMA peak, against oneDNN's matmul of the same shape, and
// against the same tiles in one chunk: what rule 5's tree costs. (Weight gradients have no chunks.)
//
// Usage: exec_cpu_linear_bench [threads] [rounds] [models | rows]; MS_ISA chooses the path.
// Contestants alternate in every round; the table has the best and the median rate, and percents of
// the best peak round. "models": the shapes of SmolLM2-135M and GPT-2 at 1,024 and 256 rows;
// "rows": few rows too.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/cpu/linear_gemm.h"
#include "mainspring/exec/cpu/ops.h"
#include "mainspring/exec/cpu/peak_chains.h"

#if MS_HAVE_DNNL
#include <dnnl.hpp>
#endif

namespace mainspring::cpu {
namespace {

struct Contestant {
  std::string name;
  double flops = 0.0;
  double bytes = 0.0;  // of weights read
  std::function<void()> run;
  std::vector<double> seconds;
};

/// One thread is charged its own processor time, which other load on the machine does not stretch.
double timed(const std::function<void()>& run, int threads) {
  const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
  timespec start{}, end{};
  clock_gettime(clock, &start);
  run();
  clock_gettime(clock, &end);
  return static_cast<double>(end.tv_sec - start.tv_sec) +
         static_cast<double>(end.tv_nsec - start.tv_nsec) * 1e-9;
}

/// Seconds of a run, after enough others that the threads of the contestant before sleep and this
/// one's have found their cores.
double warm_time(const std::function<void()>& run, int threads) {
  for (double spent = 0.0; spent < 15e-3;) spent += timed(run, threads);
  double seconds = 0.0;
  int count = 0;
  for (; count == 0 || seconds < 4e-3; ++count) seconds += timed(run, threads);
  return seconds / count;
}

/// The path's multiply-add, nothing else.
Contestant peak(ThreadPool& pool, Isa isa) {
  constexpr int64_t kCount = 400000;
  const PeakChains chains = peak_chains(isa);
  Contestant out;
  out.name = chains.name;
  out.flops = static_cast<double>(kCount) * chains.flops * pool.size();
  out.run = [&pool, chains] { run_chains(pool, chains, kCount); };
  return out;
}

struct Shape {
  int64_t rows, in, out;
};

std::vector<char> filled(size_t bytes, DType dtype) {
  std::vector<char> out(bytes + 64);
  for (size_t i = 0; i + 4 <= out.size(); i += dtype == DType::kBF16 ? 2 : 4) {
    const float x = static_cast<float>(i % 257) / 128.0f - 1.0f;
    const bf16 b = to_bf16(x);
    std::memcpy(out.data() + i, dtype == DType::kBF16 ? static_cast<const void*>(&b) : &x,
                dtype == DType::kBF16 ? 2 : 4);
  }
  return out;
}

/// Buffers of one shape and dtype, big enough for all three products.
struct Buffers {
  Buffers(const Context& context, const Shape& s)
      : context(context),
        shape(s),
        x(filled(bytes(s.rows * s.in), context.compute)),
        y(filled(bytes(s.rows * s.out), context.compute)),
        w(filled(bytes(s.out * s.in), context.compute)),
        dx(bytes(s.rows * s.in)),
        grad(static_cast<size_t>(s.out * s.in)),
        forward(packed_forward_bytes(context, s.out, s.in) + 64),
        input_grad(packed_input_grad_bytes(context, s.out, s.in) + 64),
        scratch(64 + std::max({linear_forward_scratch_bytes(context, s.rows, s.in),
                               linear_input_grad_scratch_bytes(context, s.rows, s.in, s.out),
                               linear_weight_grad_scratch_bytes(context, s.rows, s.out, s.in)})) {
    const WeightView view{context.compute, w.data(), s.out, s.in, nullptr};
    pack_forward(context, view, forward.data());
    pack_input_grad(context, view, input_grad.data());
    segment.num_rows = static_cast<int32_t>(s.rows);
    table.num_rows = segment.num_rows;
    table.segments = {&segment, 1};
  }
  size_t bytes(int64_t n) const { return static_cast<size_t>(dtype_bytes(context.compute, n)); }

  Context context;
  Shape shape;
  std::vector<char> x, y, w, dx;
  std::vector<float> grad;
  std::vector<char> forward, input_grad, scratch;
  Segment segment;
  RowTable table;
};

/// Stores whole tiles and knows no adapters, biases or slots.
struct BareHooks : GemmHooks {
  char* y = nullptr;
  int64_t width = 0;

  bool is_plain(const LinearKernels& kernels, const GemmTile& tile, TileArgs& args) const {
    char* place = y + (tile.row * width + tile.column) * kernels.element_bytes;
    for (int r = 0; r < tile.rows; ++r) {
      __builtin_prefetch(place + r * width * kernels.element_bytes, 1);
    }
    args.y = place;
    args.y_stride = width;
    return true;
  }
  void finish(const LinearKernels&, const GemmTile&) const {}
};

/// y (rows, n) = x (rows, k) times packed panels over n, the whole of k in one chunk.
void product_in_one_chunk(Buffers& b, const char* x, int64_t k, const char* packed, char* y,
                          int64_t n) {
  const LinearKernels& kernels = linear_kernels(b.context);
  Gemm gemm;
  gemm.rows = b.shape.rows;
  gemm.num_terms = 1;
  gemm.terms[0] = {x, k};
  gemm.num_outputs = 1;
  gemm.outputs[0].columns = n;
  gemm.outputs[0].b[0] = packed;
  gemm.outputs[0].panel_bytes[0] = panel_bytes(kernels, k);
  gemm.scratch = b.scratch.data();
  BareHooks hooks;
  hooks.y = y;
  hooks.width = n;
  run_gemm(b.context, gemm, hooks);
}

void add_free_order(std::vector<Contestant>& out, Buffers& b) {
  const Shape s = b.shape;
  const LinearKernels& kernels = linear_kernels(b.context);
  if (s.rows < 64 || s.out % kernels.panel_columns != 0 || s.in % kernels.panel_columns != 0)
    return;
  const std::string dtype(dtype_name(b.context.compute));
  const double flops = 2.0 * static_cast<double>(s.rows * s.in * s.out);
  out.push_back(
      {"one chunk forward " + dtype,
       flops,
       0.0,
       [&b, s] { product_in_one_chunk(b, b.x.data(), s.in, b.forward.data(), b.y.data(), s.out); },
       {}});
  out.push_back({"one chunk input grad " + dtype,
                 flops,
                 0.0,
                 [&b, s] {
                   product_in_one_chunk(b, b.y.data(), s.out, b.input_grad.data(), b.dx.data(),
                                        s.in);
                 },
                 {}});
}

void add_ours(std::vector<Contestant>& out, Buffers& b) {
  const Shape s = b.shape;
  const std::string dtype(dtype_name(b.context.compute));
  const double flops = 2.0 * static_cast<double>(s.rows * s.in * s.out);
  const auto weight_bytes = static_cast<double>(b.bytes(s.in * s.out));
  out.push_back({"forward " + dtype,
                 flops,
                 weight_bytes,
                 [&b, s] {
                   LinearOutput output;
                   output.weight = {s.out, s.in, b.forward.data(), nullptr};
                   output.y = b.y.data();
                   linear_forward(b.context, s.rows, s.in, b.x.data(), {&output, 1}, &b.table,
                                  b.scratch.data());
                 },
                 {}});
  if (s.rows < 64) return;
  out.push_back({"input grad " + dtype,
                 flops,
                 weight_bytes,
                 [&b, s] {
                   const LinearInputGradTerm term{b.y.data(),
                                                  {s.out, s.in, nullptr, b.input_grad.data()}};
                   linear_input_grad(b.context, s.rows, s.in, {&term, 1}, {}, b.dx.data(), b.table,
                                     b.scratch.data());
                 },
                 {}});
  out.push_back({"weight grad " + dtype,
                 flops,
                 0.0,
                 [&b, s] {
                   WeightGrad grad;
                   grad.dy = b.y.data();
                   grad.out = s.out;
                   grad.x = b.x.data();
                   grad.in = s.in;
                   grad.acc = b.grad.data();
                   linear_weight_grad(b.context, s.rows, grad, b.table, b.scratch.data());
                 },
                 {}});
}

#if MS_HAVE_DNNL
/// c (m, n) = or += a (m, k) b (k, n), b in the layout that oneDNN prefers if it may choose;
/// nothing if it lacks the type here.
struct DnnlProduct {
  int64_t m, k, n;
  dnnl::memory::format_tag a_layout, b_layout;
  bool b_is_packed = false;
  bool accumulates_f32 = false;
};

void add_dnnl(std::vector<Contestant>& out, const std::string& name, DType dtype,
              const DnnlProduct& p, void* a_data, void* b_data, void* c_data) {
  using dnnl::memory;
  const auto type = dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
  const std::string title = "oneDNN " + name + " " + std::string(dtype_name(dtype));
  try {
    static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    static dnnl::stream stream(engine);
    const memory::desc a({p.m, p.k}, type, p.a_layout);
    const memory::desc b({p.k, p.n}, type, p.b_is_packed ? memory::format_tag::any : p.b_layout);
    const memory::desc c({p.m, p.n}, p.accumulates_f32 ? memory::data_type::f32 : type,
                         memory::format_tag::ab);
    dnnl::primitive_attr attr;
    if (p.accumulates_f32) {
      dnnl::post_ops sum;
      sum.append_sum();
      attr.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attr, engine);
    memory stored({{p.k, p.n}, type, p.b_layout}, engine, b_data);
    memory used = stored;
    if (p.b_is_packed) {
      used = memory(desc.weights_desc(), engine);
      dnnl::reorder(stored, used).execute(stream, stored, used);
      stream.wait();
    }
    const dnnl::matmul matmul(desc);
    memory ma(a, engine, a_data), mc(c, engine, c_data);
    out.push_back({title,
                   2.0 * static_cast<double>(p.m * p.k * p.n),
                   static_cast<double>(dtype_bytes(dtype, p.k * p.n)),
                   [matmul, ma, used, mc] {
                     matmul.execute(
                         stream,
                         {{DNNL_ARG_SRC, ma}, {DNNL_ARG_WEIGHTS, used}, {DNNL_ARG_DST, mc}});
                     stream.wait();
                   },
                   {}});
  } catch (const dnnl::error&) {
    std::printf("  %s: not there on this processor\n", title.c_str());
  }
}

void add_dnnl(std::vector<Contestant>& out, Buffers& b) {
  using Tag = dnnl::memory::format_tag;
  const Shape s = b.shape;
  const DType dtype = b.context.compute;
  add_dnnl(out, "forward", dtype, {s.rows, s.in, s.out, Tag::ab, Tag::ba, true}, b.x.data(),
           b.w.data(), b.y.data());
  if (s.rows < 64) return;
  add_dnnl(out, "input grad", dtype, {s.rows, s.out, s.in, Tag::ab, Tag::ab, true}, b.y.data(),
           b.w.data(), b.dx.data());
  add_dnnl(out, "weight grad", dtype, {s.out, s.rows, s.in, Tag::ba, Tag::ab, false, true},
           b.y.data(), b.x.data(), b.grad.data());
}
#endif

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print_ratio(const std::vector<Contestant>& contestants, const Contestant& c,
                 const std::string& rival) {
  for (const Contestant& other : contestants) {
    if (other.name != rival + " " + c.name) continue;
    std::vector<double> ratios;
    for (size_t i = 0; i < c.seconds.size(); ++i) {
      ratios.push_back(other.seconds[i] / c.seconds[i]);
    }
    const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("  %.2fx %s [%.2f, %.2f]", median(ratios), rival.c_str(), *least, *most);
  }
}

/// Rates, and the ratios to the contestants of the same product, round by round.
void print(const std::vector<Contestant>& contestants) {
  const auto rate = [](const Contestant& c, double seconds) { return c.flops / seconds * 1e-9; };
  const auto best = [](const Contestant& c) {
    return *std::min_element(c.seconds.begin(), c.seconds.end());
  };
  const double best_peak = rate(contestants[0], best(contestants[0]));
  for (const Contestant& c : contestants) {
    std::printf("  %-26s best %7.1f median %7.1f GFLOP/s  %5.1f %% of peak  %6.1f GB/s of weights",
                c.name.c_str(), rate(c, best(c)), rate(c, median(c.seconds)),
                100.0 * rate(c, best(c)) / best_peak, c.bytes / best(c) * 1e-9);
    for (const char* rival : {"oneDNN", "one chunk"}) print_ratio(contestants, c, rival);
    std::printf("\n");
  }
}

std::vector<Shape> shapes_of(const std::string& which) {
  if (which == "models") {
    std::vector<Shape> shapes;
    for (int64_t rows : {1024, 256}) {
      for (const auto& [in, out] : {std::pair<int64_t, int64_t>{576, 1536},
                                    {1536, 576},
                                    {576, 576},
                                    {576, 192},
                                    {768, 3072},
                                    {3072, 768},
                                    {768, 768},
                                    {768, 2304}}) {
        shapes.push_back({rows, in, out});
      }
    }
    return shapes;
  }
  return {{1024, 576, 1536}, {1024, 1536, 576}, {1024, 576, 576}, {256, 576, 1536},
          {16, 576, 49152},  {4, 576, 49152},   {1, 576, 49152}};
}

int bench(int threads, int rounds, const std::string& which) {
  const auto choice = choose_isa("");
  if (!choice.ok()) {
    std::printf("%s\n", choice.status().to_string().c_str());
    return 1;
  }
  ThreadPool pool(threads);
  for (const Shape& shape : shapes_of(which)) {
    std::printf("%s, %d threads, %lld x %lld x %lld\n", std::string(isa_name(choice->isa)).c_str(),
                threads, static_cast<long long>(shape.rows), static_cast<long long>(shape.in),
                static_cast<long long>(shape.out));
    Buffers narrow(make_context(choice->isa, pool, DType::kBF16), shape);
    Buffers full(make_context(choice->isa, pool, DType::kF32), shape);
    std::vector<Contestant> contestants{peak(pool, choice->isa)};
    add_ours(contestants, narrow);
    add_free_order(contestants, narrow);
    if (which != "models") add_ours(contestants, full);
#if MS_HAVE_DNNL
    add_dnnl(contestants, narrow);
    if (which != "models") add_dnnl(contestants, full);
#endif
    for (Contestant& c : contestants) c.run();
    for (int round = 0; round < rounds; ++round) {
      for (Contestant& c : contestants) {
        c.seconds.push_back(warm_time(c.run, threads));
      }
    }
    print(contestants);
  }
  return 0;
}

}  // namespace
}  // namespace mainspring::cpu

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 15;
  setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 0);
  return mainspring::cpu::bench(threads, rounds, argc > 3 ? argv[3] : "rows");
}
