#include "mainspring/weights/digest.h"

namespace mainspring {
namespace {

void add_int(Checksum128& sum, int64_t value) { sum.update(&value, sizeof(value)); }

void add_text(Checksum128& sum, std::string_view text) {
  add_int(sum, static_cast<int64_t>(text.size()));
  sum.update(text.data(), text.size());
}

}  // namespace

Digest128 digest_of(const TensorSet& tensors) {
  Checksum128 sum;
  add_int(sum, static_cast<int64_t>(tensors.size()));
  for (const auto& [name, tensor] : tensors) {
    add_text(sum, name);
    add_text(sum, dtype_name(tensor.dtype));
    add_int(sum, static_cast<int64_t>(tensor.shape.size()));
    for (const int64_t dim : tensor.shape) add_int(sum, dim);
    add_int(sum, static_cast<int64_t>(tensor.aux.size()));
    sum.update(tensor.aux.data(), tensor.aux.size() * sizeof(float));
    add_int(sum, tensor.size_bytes);
    sum.update(tensor.data, static_cast<size_t>(tensor.size_bytes));
  }
  return sum.digest();
}

}  // namespace mainspring
