#include "mainspring/train/batch_stream.h"

#include <algorithm>
#include <sstream>

namespace mainspring {

std::string origin_text(const BatchOrigin& origin) {
  std::string text = std::to_string(origin.step) + " " + std::to_string(origin.samples.begin) +
                     " " + std::to_string(origin.samples.end) + " " +
                     std::to_string(origin.data.next_sample);
  for (int64_t cursor : origin.data.cursors) text += " " + std::to_string(cursor);
  return text;
}

BatchOrigin parse_origin(const std::string& text, const DataState& data) {
  std::istringstream in(text);
  BatchOrigin origin{.data = data};
  in >> origin.step >> origin.samples.begin >> origin.samples.end >> origin.data.next_sample;
  origin.data.cursors.clear();
  for (int64_t cursor = 0; in >> cursor;) origin.data.cursors.push_back(cursor);
  origin.data.cursors.resize(data.cursors.size(), 0);  // sources that came later
  return origin;
}

Result<DrawnBatch> BatchStream::next(int64_t step) {
  DrawnBatch batch;
  while (true) {
    BatchOrigin& origin = batch.origin;
    origin.step = step;
    origin.data = source_.state();
    origin.samples.begin = origin.data.next_sample;
    MS_ASSIGN_OR_RETURN(batch.datums, draw(step));
    origin.samples.end = source_.state().next_sample;
    const auto is_it = [&](const SampleRange& range) {
      return range.begin == origin.samples.begin;
    };
    if (std::none_of(left_out_.begin(), left_out_.end(), is_it)) return batch;
    batch.follows_left_out = true;
  }
}

Result<std::vector<Datum>> BatchStream::again(const BatchOrigin& origin) {
  const DataState now = source_.state();
  MS_RETURN_IF_ERROR(source_.restore(origin.data));
  MS_ASSIGN_OR_RETURN(std::vector<Datum> datums, draw(origin.step));
  MS_RETURN_IF_ERROR(source_.restore(now));
  return datums;
}

void BatchStream::leave_out(SampleRange range) { left_out_.push_back(range); }

std::string BatchStream::left_out_text() const {
  std::string text;
  for (const SampleRange& range : left_out_) {
    text += std::to_string(range.begin) + " " + std::to_string(range.end) + " ";
  }
  return text;
}

void BatchStream::add_left_out(const std::string& text) {
  std::istringstream in(text);
  for (SampleRange range; in >> range.begin >> range.end;) {
    const auto same = [&](const SampleRange& other) { return other.begin == range.begin; };
    if (std::none_of(left_out_.begin(), left_out_.end(), same)) left_out_.push_back(range);
  }
}

Result<std::vector<Datum>> BatchStream::draw(int64_t step) {
  const int64_t size = sizes_.size(step);
  if (!sizes_.in_tokens) return source_.next(size);
  std::vector<Datum> datums;
  int64_t tokens = 0;
  while (tokens < size) {
    MS_ASSIGN_OR_RETURN(std::vector<Datum> one, source_.next(1));
    for (Datum& datum : one) {
      tokens += static_cast<int64_t>(datum.tokens.size());
      datums.push_back(std::move(datum));
    }
  }
  return datums;
}

}  // namespace mainspring
