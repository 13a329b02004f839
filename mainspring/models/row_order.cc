#include "mainspring/models/row_order.h"

#include <cstring>
#include <memory>
#include <vector>

namespace mainspring {
namespace {

/// Where row `row` of Hugging Face's order stands when pairs are side by side.
int64_t adjacent_place(int64_t row, int64_t head_width) {
  const int64_t half = head_width / 2;
  const int64_t within = row % head_width;
  return row - within + 2 * (within % half) + within / half;
}

StoredTensor reordered(const StoredTensor& tensor, int64_t head_width, bool to_adjacent) {
  const int64_t rows = tensor.shape[0];
  const int64_t row_bytes = tensor.size_bytes / rows;
  auto copy = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(tensor.size_bytes));
  const auto* from = static_cast<const uint8_t*>(tensor.data);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t place = adjacent_place(row, head_width);
    const int64_t source = to_adjacent ? row : place;
    const int64_t target = to_adjacent ? place : row;
    std::memcpy(copy->data() + target * row_bytes, from + source * row_bytes,
                static_cast<size_t>(row_bytes));
  }
  StoredTensor out = tensor;
  out.data = copy->data();
  out.owner = std::move(copy);
  return out;
}

}  // namespace

StoredTensor with_adjacent_pairs(const StoredTensor& tensor, int64_t head_width) {
  return reordered(tensor, head_width, true);
}

StoredTensor with_split_pairs(const StoredTensor& tensor, int64_t head_width) {
  return reordered(tensor, head_width, false);
}

}  // namespace mainspring
