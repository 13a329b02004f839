// Peer for the linear kernels: oneDNN's matmul, y[M, N] = x[M, K] * w[N, K]^T, in f32 and (where
// the processor lets it) bf16.
//
//   g++ -O2 -std=c++20 bench/peers/onednn_matmul.cc -ldnnl -o onednn_matmul
//   OMP_NUM_THREADS=2 ./onednn_matmul [M K N]...      (default: the shapes of SmolLM2's linears at
//   256 and 1,024 rows)
//
// Weights are reordered once into the layout that oneDNN prefers, outside the timed part: the most
// favourable case for it. Several rounds, each of about 0.2 s; the best and the median GFLOP/s are
// printed with the implementation's own name.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

namespace {

using Clock = std::chrono::steady_clock;

struct Shape {
  long rows, inner, outer;
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void fill(const dnnl::memory& to, const dnnl::engine& engine, dnnl::stream& stream,
          const dnnl::memory::dims& dims, unsigned seed) {
  const dnnl::memory::desc plain(dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  dnnl::memory source(plain, engine);
  auto* values = static_cast<float*>(source.get_data_handle());
  unsigned state = seed;
  for (long i = 0; i < dims[0] * dims[1]; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  dnnl::reorder(source, to).execute(stream, source, const_cast<dnnl::memory&>(to));
  stream.wait();
}

void measure(const Shape& s, dnnl::memory::data_type type, const char* name) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto any = dnnl::memory::format_tag::any;
  const auto ab = dnnl::memory::format_tag::ab;
  const dnnl::memory::desc x_desc({s.rows, s.inner}, type, ab),
      w_desc({s.inner, s.outer}, type, any), y_desc({s.rows, s.outer}, type, ab);
  dnnl::matmul::primitive_desc plan;
  try {
    plan = dnnl::matmul::primitive_desc(dnnl::matmul::desc(x_desc, w_desc, y_desc), engine);
  } catch (const dnnl::error& e) {
    std::printf("%-4s %5ld x %5ld x %5ld  not supported here: %s\n", name, s.rows, s.inner, s.outer,
                e.what());
    return;
  }
  dnnl::memory x(plan.src_desc(), engine), w(plan.weights_desc(), engine),
      y(plan.dst_desc(), engine);
  fill(x, engine, stream, {s.rows, s.inner}, 1);
  fill(w, engine, stream, {s.inner, s.outer}, 2);
  const dnnl::matmul run(plan);
  const std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
  const double flops = 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.inner) *
                       static_cast<double>(s.outer);
  run.execute(stream, arguments);
  stream.wait();
  std::vector<double> rates;
  for (int round = 0; round < 7; ++round) {
    const auto start = Clock::now();
    int times = 0;
    do {
      run.execute(stream, arguments);
      stream.wait();
      ++times;
    } while (seconds_since(start) < 0.2);
    rates.push_back(flops * times / seconds_since(start) * 1e-9);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%-4s %5ld x %5ld x %5ld  best %7.1f  median %7.1f  worst %7.1f GFLOP/s  %s\n", name,
              s.rows, s.inner, s.outer, rates.back(), rates[rates.size() / 2], rates.front(),
              plan.impl_info_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Shape> shapes;
  for (int i = 1; i + 2 < argc; i += 3) {
    shapes.push_back({std::atol(argv[i]), std::atol(argv[i + 1]), std::atol(argv[i + 2])});
  }
  if (shapes.empty()) {
    for (const long rows : {256L, 1024L}) {
      shapes.insert(shapes.end(), {{rows, 576, 576},
                                   {rows, 576, 192},
                                   {rows, 576, 1536},
                                   {rows, 1536, 576},
                                   {rows, 576, 49152}});
    }
  }
  for (const Shape& s : shapes) {
    measure(s, dnnl::memory::data_type::f32, "f32");
    measure(s, dnnl::memory::data_type::bf16, "bf16");
  }
}
