// What cross-folder tests share: where golden files are, tensors of a safetensors file, distances.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "mainspring/exec/cpu/cpu_executor.h"
#include "mainspring/io/json.h"
#include "mainspring/io/mapped_file.h"
#include "mainspring/io/safetensors.h"

namespace mainspring::test {

/// The repository's root: tests run there, or are told.
inline std::string source_path(const std::string& path) {
  const char* root = std::getenv("MS_SOURCE_DIR");
  return (root != nullptr ? std::string(root) : std::string(".")) + "/" + path;
}

inline Json read_json(const std::string& path) {
  return parse_json(read_text_file(source_path(path)).value(), path).value();
}

inline std::unique_ptr<Executor> make_executor(int threads = 2, const std::string& isa = "") {
  return cpu::make_cpu_executor({.num_threads = threads, .isa = isa}).value();
}

/// max |a - b| / max |b|: how golden files define the distance of two tensors.
inline double distance(const float* a, const float* b, size_t n) {
  double difference = 0;
  double scale = 0;
  for (size_t i = 0; i < n; ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    difference = std::isnan(d) ? INFINITY : std::max(difference, d);
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return scale > 0 ? difference / scale : difference;
}

}  // namespace mainspring::test
