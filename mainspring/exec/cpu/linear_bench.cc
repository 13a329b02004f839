// Linear kernels against the measured FMA peak and against oneDNN's matmul of the same shape.
//
// Usage: exec_cpu_linear_bench [threads] [rounds]; MS_ISA chooses the path. Contestants alternate
// in every round; the table has the best and the median rate, and percents of the best peak round.
#include <immintrin.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "mainspring/exec/cpu/isa.h"
#include "mainspring/exec/cpu/ops.h"

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

// Twelve independent chains of 8-lane FMAs: two a cycle on every processor with two FMA units.
__attribute__((target("avx2,fma"))) void fma_chains(int64_t count, float* out) {
  __m256 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (int64_t n = 0; n < count; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_ps(acc[i], a, b);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm256_add_ps(acc[0], acc[i]);
  _mm256_storeu_ps(out, acc[0]);
}
__attribute__((target("avx512f"))) void fma_chains_512(int64_t count, float* out) {
  __m512 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (int64_t n = 0; n < count; ++n) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_fmadd_ps(acc[i], a, b);
  }
  for (int i = 1; i < 12; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  _mm512_storeu_ps(out, acc[0]);
}

Contestant peak(ThreadPool& pool, bool wide) {
  constexpr int64_t kCount = 400000;
  Contestant out;
  out.name = wide ? "fma peak, 16 lanes" : "fma peak, 8 lanes";
  out.flops = static_cast<double>(kCount) * 12 * (wide ? 16 : 8) * 2 * pool.size();
  out.run = [&pool, wide] {
    pool.run(pool.size(), [&](int64_t, int) {
      alignas(64) float sink[16];
      wide ? fma_chains_512(kCount, sink) : fma_chains(kCount, sink);
      asm volatile("" : : "r"(sink) : "memory");
    });
  };
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
/// y = x W^T by oneDNN with weights in the layout it prefers; nothing if it lacks the type here.
void add_dnnl(std::vector<Contestant>& out, Buffers& b) {
  using dnnl::memory;
  const Shape s = b.shape;
  const auto type =
      b.context.compute == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
  try {
    static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    static dnnl::stream stream(engine);
    const memory::desc x({s.rows, s.in}, type, memory::format_tag::ab);
    const memory::desc w({s.in, s.out}, type, memory::format_tag::any);
    const memory::desc y({s.rows, s.out}, type, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(x, w, y), engine);
    memory stored({{s.in, s.out}, type, memory::format_tag::ba}, engine, b.w.data());
    memory packed(desc.weights_desc(), engine);
    dnnl::reorder(stored, packed).execute(stream, stored, packed);
    stream.wait();
    const dnnl::matmul matmul(desc);
    memory mx(x, engine, b.x.data()), my(y, engine, b.y.data());
    out.push_back({"oneDNN " + std::string(dtype_name(b.context.compute)),
                   2.0 * static_cast<double>(s.rows * s.in * s.out),
                   static_cast<double>(b.bytes(s.in * s.out)),
                   [matmul, mx, packed, my] {
                     matmul.execute(
                         stream,
                         {{DNNL_ARG_SRC, mx}, {DNNL_ARG_WEIGHTS, packed}, {DNNL_ARG_DST, my}});
                     stream.wait();
                   },
                   {}});
  } catch (const dnnl::error&) {
    std::printf("  oneDNN has no %s matmul here\n",
                std::string(dtype_name(b.context.compute)).c_str());
  }
}
#endif

void print(std::vector<Contestant>& contestants) {
  double best_peak = 0.0;
  for (Contestant& c : contestants) {
    std::sort(c.seconds.begin(), c.seconds.end());
    if (c.name.starts_with("fma peak"))
      best_peak = std::max(best_peak, c.flops / c.seconds[0] * 1e-9);
  }
  for (const Contestant& c : contestants) {
    const double best = c.flops / c.seconds[0] * 1e-9;
    const double median = c.flops / c.seconds[c.seconds.size() / 2] * 1e-9;
    std::printf(
        "  %-20s best %7.1f median %7.1f GFLOP/s  %5.1f %% of peak  %6.1f GB/s of weights\n",
        c.name.c_str(), best, median, 100.0 * best / best_peak, c.bytes / c.seconds[0] * 1e-9);
  }
}

int bench(int threads, int rounds) {
  const auto choice = choose_isa("");
  if (!choice.ok()) {
    std::printf("%s\n", choice.status().to_string().c_str());
    return 1;
  }
  ThreadPool pool(threads);
  const bool wide = choice->isa == Isa::kAvx512 || choice->isa == Isa::kAvx512Bf16;
  for (const Shape& shape :
       {Shape{1024, 576, 1536}, Shape{1024, 1536, 576}, Shape{1024, 576, 576},
        Shape{256, 576, 1536}, Shape{16, 576, 49152}, Shape{4, 576, 49152}, Shape{1, 576, 49152}}) {
    std::printf("%s, %d threads, %lld x %lld x %lld\n", std::string(isa_name(choice->isa)).c_str(),
                threads, static_cast<long long>(shape.rows), static_cast<long long>(shape.in),
                static_cast<long long>(shape.out));
    Buffers narrow(make_context(choice->isa, pool, DType::kBF16), shape);
    Buffers full(make_context(choice->isa, pool, DType::kF32), shape);
    std::vector<Contestant> contestants{peak(pool, wide)};
    add_ours(contestants, narrow);
    add_ours(contestants, full);
#if MS_HAVE_DNNL
    add_dnnl(contestants, narrow);
    add_dnnl(contestants, full);
#endif
    for (Contestant& c : contestants) c.run();
    for (int round = 0; round < rounds; ++round) {
      for (Contestant& c : contestants) c.seconds.push_back(timed(c.run, threads));
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
  return mainspring::cpu::bench(threads, rounds);
}
