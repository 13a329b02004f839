#include "mainspring/data/data_loader.h"

#include <algorithm>
#include <cstdio>

#include "mainspring/data/activity.h"
#include "mainspring/data/corpus.h"
#include "mainspring/data/prefetcher.h"
#include "mainspring/data/row_parser.h"
#include "mainspring/data/sample_stream.h"

namespace mainspring {
namespace {

/// Reads the first `check_bytes` of each source for malformed rows, so that they show before any
/// work.
Status check_rows(const Corpus& corpus, const RowEncoder& encoder, int64_t check_bytes,
                  const ReadOptions& read_options) {
  for (const Corpus::Source& source : corpus.sources()) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < source.rows->num_rows() && bytes < check_bytes; ++i) {
      MS_ASSIGN_OR_RETURN(const RowList::Row row, source.rows->read(i, read_options));
      MS_RETURN_IF_ERROR(encoder.check(row.text, row.where()));
      bytes += static_cast<int64_t>(row.text.size());
    }
  }
  return {};
}

Status no_usable_row(const Corpus::Source& source, const LeftOut& left_out, int64_t max_tokens) {
  std::string why;
  if (left_out.num_too_long > 0) {
    why += std::to_string(left_out.num_too_long) + " longer than " + std::to_string(max_tokens) +
           " tokens (first " + left_out.first_too_long + ")";
  }
  if (left_out.num_empty_mask > 0) {
    why += std::string(why.empty() ? "" : ", ") + std::to_string(left_out.num_empty_mask) +
           " without a token to learn (first " + left_out.first_empty_mask +
           "; only assistant turns are learned by default)";
  }
  return invalid_argument("data source '" + source.name + "': none of its " +
                          std::to_string(source.num_train()) + " rows can be trained on: " + why);
}

/// Looks for one usable row in each source.
Status probe_rows(const Corpus& corpus, const RowEncoder& encoder,
                  const ReadOptions& read_options) {
  for (size_t s = 0; s < corpus.sources().size(); ++s) {
    const Corpus::Source& source = corpus.sources()[s];
    LeftOut left_out;
    bool found = false;
    for (int64_t cursor = 0; !found && cursor < source.num_train(); ++cursor) {
      ReadRow row;
      MS_ASSIGN_OR_RETURN(
          row.place,
          source.rows->read(corpus.train_row(static_cast<int>(s), cursor), read_options));
      MS_ASSIGN_OR_RETURN(row.row, encoder.encode(row.place.text, row.place.where()));
      row.use = encoder.use_of(row.row);
      found = row.use == RowUse::kUsed;
      if (!found) left_out.add(row, encoder.options().max_tokens);
    }
    if (!found) return no_usable_row(source, left_out, encoder.options().max_tokens);
  }
  return {};
}

void add_to(SourceReport& report, const LeftOut& left_out) {
  report.num_empty_mask += left_out.num_empty_mask;
  report.num_too_long += left_out.num_too_long;
  if (report.first_empty_mask.empty()) report.first_empty_mask = left_out.first_empty_mask;
  if (report.first_too_long.empty()) report.first_too_long = left_out.first_too_long;
}

std::string counted(int64_t n, const std::string& noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

}  // namespace

std::string describe(const SourceReport& report) {
  std::string out = report.name + ": " + counted(report.num_rows, "row");
  if (report.num_held_out > 0) out += " (" + std::to_string(report.num_held_out) + " held out)";
  out += ", " + counted(report.num_used, "sample") + " used";
  const int64_t left_out = report.num_empty_mask + report.num_too_long;
  if (left_out > 0) out += ", " + std::to_string(left_out) + " left out:";
  if (report.num_too_long > 0) {
    out += " " + std::to_string(report.num_too_long) + " too long (first " + report.first_too_long +
           ")";
  }
  if (report.num_empty_mask > 0) {
    out += std::string(report.num_too_long > 0 ? "," : "") + " " +
           std::to_string(report.num_empty_mask) + " without a token to learn (first " +
           report.first_empty_mask + ")";
  }
  return out;
}

class DataLoader::Impl {
 public:
  DataOptions options;
  std::shared_ptr<const RowEncoder> encoder;
  std::shared_ptr<const Corpus> corpus;
  DataState state;
  std::vector<SourceReport> reports;
  std::unique_ptr<Prefetcher> prefetcher;

  ReadOptions read_options() const {
    return {std::make_shared<Activity>(), options.stall_timeout_s, options.before_read,
            row_field_names(), options.on_fetch};
  }
  void start_reports() {
    reports.clear();
    for (size_t s = 0; s < corpus->sources().size(); ++s) {
      const Corpus::Source& source = corpus->sources()[s];
      SourceReport report;
      report.name = source.name;
      report.num_rows = source.rows->num_rows();
      report.num_held_out = source.num_held_out;
      report.share = corpus->share(static_cast<int>(s));
      reports.push_back(std::move(report));
    }
  }
};

DataLoader::DataLoader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DataLoader::~DataLoader() = default;

Result<std::unique_ptr<DataLoader>> DataLoader::open(DataOptions options,
                                                     std::shared_ptr<const RowEncoder> encoder) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->encoder = std::move(encoder);
  const ReadOptions read_options = impl->read_options();
  // The thread may be left behind in a read, so it owns all that it touches.
  struct Opened {
    DataOptions options;
    std::shared_ptr<const RowEncoder> encoder;
    std::shared_ptr<const Corpus> corpus;
  };
  auto opened = std::make_shared<Opened>(Opened{impl->options, impl->encoder, nullptr});
  MS_RETURN_IF_ERROR(run_with_deadline(
      read_options.activity, impl->options.stall_timeout_s, [opened, read_options]() -> Status {
        MS_ASSIGN_OR_RETURN(opened->corpus, Corpus::open(opened->options, read_options));
        MS_RETURN_IF_ERROR(check_rows(*opened->corpus, *opened->encoder,
                                      opened->options.check_bytes, read_options));
        return probe_rows(*opened->corpus, *opened->encoder, read_options);
      }));
  impl->corpus = opened->corpus;
  impl->state = impl->corpus->start();
  impl->start_reports();
  return std::unique_ptr<DataLoader>(new DataLoader(std::move(impl)));
}

Result<std::vector<Datum>> DataLoader::next(int64_t n) {
  MS_CHECK(n >= 0, "a count of samples");
  if (impl_->prefetcher == nullptr) {
    const ReadOptions read_options = impl_->read_options();
    impl_->prefetcher = std::make_unique<Prefetcher>(
        Prefetcher::Setup{impl_->corpus, impl_->encoder, read_options,
                          impl_->options.prefetch_samples, impl_->options.stall_timeout_s},
        impl_->state);
  }
  MS_ASSIGN_OR_RETURN(std::vector<Sample> samples, impl_->prefetcher->take(n));
  std::vector<Datum> datums;
  datums.reserve(samples.size());
  for (Sample& sample : samples) {
    SourceReport& report = impl_->reports[sample.source];
    ++report.num_used;
    add_to(report, sample.left_out);
    for (Datum& datum : sample.datums) datums.push_back(std::move(datum));
    impl_->state = std::move(sample.state);
  }
  return datums;
}

DataState DataLoader::state() const { return impl_->state; }

Status DataLoader::restore(const DataState& state) {
  MS_ASSIGN_OR_RETURN(DataState next, continued(state, impl_->state, impl_->corpus->names()));
  impl_->prefetcher.reset();
  impl_->state = std::move(next);
  impl_->start_reports();
  return {};
}

Result<DataLoader::HeldOut> DataLoader::held_out(int64_t max_rows) const {
  const ReadOptions read_options = impl_->read_options();
  auto out = std::make_shared<HeldOut>();
  MS_RETURN_IF_ERROR(run_with_deadline(
      read_options.activity, impl_->options.stall_timeout_s,
      [out, read_options, max_rows, corpus = impl_->corpus, encoder = impl_->encoder]() -> Status {
        int64_t num_used = 0;
        for (size_t s = 0; s < corpus->sources().size(); ++s) {
          const Corpus::Source& source = corpus->sources()[s];
          for (int64_t i = 0; i < source.num_held_out; ++i) {
            if (max_rows > 0 && num_used >= max_rows) return {};
            const int64_t index = corpus->held_out_row(static_cast<int>(s), i);
            MS_ASSIGN_OR_RETURN(const RowList::Row place, source.rows->read(index, read_options));
            MS_ASSIGN_OR_RETURN(const EncodedRow row, encoder->encode(place.text, place.where()));
            if (encoder->use_of(row) != RowUse::kUsed) {
              ++out->num_left_out;
              continue;
            }
            append_datums(row, static_cast<uint64_t>(num_used++), 0, out->datums);
          }
        }
        return {};
      }));
  return std::move(*out);
}

Result<std::vector<DescribedRow>> DataLoader::describe_next(int64_t n) const {
  const ReadOptions read_options = impl_->read_options();
  auto out = std::make_shared<std::vector<DescribedRow>>();
  MS_RETURN_IF_ERROR(
      run_with_deadline(read_options.activity, impl_->options.stall_timeout_s,
                        [out, read_options, n, state = impl_->state, corpus = impl_->corpus,
                         encoder = impl_->encoder]() -> Status {
                          SampleStream stream(corpus, encoder, read_options);
                          stream.set_state(state);
                          for (int64_t i = 0; i < n; ++i) {
                            MS_ASSIGN_OR_RETURN(ReadRow row, stream.next_row());
                            DescribedRow described;
                            described.source = corpus->sources()[row.source].name;
                            described.file = row.place.file;
                            described.line = row.place.line;
                            described.use = row.use;
                            described.pieces = encoder->pieces(row.row.tokens);
                            described.rejected_pieces = encoder->pieces(row.row.rejected);
                            described.row = std::move(row.row);
                            out->push_back(std::move(described));
                          }
                          return {};
                        }));
  return std::move(*out);
}

Result<DataLoader::Survey> DataLoader::survey() const {
  const ReadOptions read_options = impl_->read_options();
  auto out = std::make_shared<Survey>();
  out->sources = impl_->reports;
  for (SourceReport& report : out->sources) {
    report.num_used = report.num_empty_mask = report.num_too_long = 0;
    report.first_empty_mask.clear();
    report.first_too_long.clear();
  }
  MS_RETURN_IF_ERROR(run_with_deadline(
      read_options.activity, impl_->options.stall_timeout_s,
      [out, read_options, corpus = impl_->corpus, encoder = impl_->encoder]() -> Status {
        for (size_t s = 0; s < corpus->sources().size(); ++s) {
          const RowList& rows = *corpus->sources()[s].rows;
          LeftOut left_out;
          for (int64_t i = 0; i < rows.num_rows(); ++i) {
            ReadRow row;
            MS_ASSIGN_OR_RETURN(row.place, rows.read(i, read_options));
            MS_ASSIGN_OR_RETURN(row.row, encoder->encode(row.place.text, row.place.where()));
            row.use = encoder->use_of(row.row);
            const size_t longest = std::max(row.row.tokens.size(), row.row.rejected.size());
            out->longest_tokens = std::max(out->longest_tokens, static_cast<int64_t>(longest));
            if (row.use != RowUse::kUsed) {
              left_out.add(row, encoder->options().max_tokens);
              continue;
            }
            ++out->sources[s].num_used;
            out->num_tokens +=
                static_cast<int64_t>(row.row.tokens.size() + row.row.rejected.size());
            // The first token is never predicted.
            for (const std::vector<uint8_t>* mask : {&row.row.mask, &row.row.rejected_mask}) {
              for (size_t t = 1; t < mask->size(); ++t) out->num_learned += (*mask)[t] != 0;
            }
          }
          add_to(out->sources[s], left_out);
        }
        return {};
      }));
  return std::move(*out);
}

std::vector<SourceReport> DataLoader::report() const {
  std::vector<SourceReport> out = impl_->reports;
  for (size_t s = 0; s < out.size(); ++s) {
    out[s].epoch = static_cast<double>(impl_->state.cursors[s]) /
                   static_cast<double>(impl_->corpus->sources()[s].num_train());
  }
  return out;
}

int64_t DataLoader::num_rows() const {
  int64_t n = 0;
  for (const Corpus::Source& source : impl_->corpus->sources()) n += source.num_train();
  return n;
}

Result<DataLoader::HeldOut> read_rows(const std::vector<std::string>& files,
                                      std::shared_ptr<const RowEncoder> encoder, int64_t max_rows,
                                      double stall_timeout_s, OnFetch on_fetch) {
  const ReadOptions read_options{
      std::make_shared<Activity>(), stall_timeout_s, {}, row_field_names(), std::move(on_fetch)};
  auto out = std::make_shared<DataLoader::HeldOut>();
  MS_RETURN_IF_ERROR(run_with_deadline(
      read_options.activity, stall_timeout_s,
      [out, read_options, max_rows, files, encoder = std::move(encoder)]() -> Status {
        MS_ASSIGN_OR_RETURN(const std::shared_ptr<const RowList> rows,
                            RowList::open(files, read_options));
        int64_t num_used = 0;
        for (int64_t i = 0; i < rows->num_rows(); ++i) {
          if (max_rows > 0 && num_used >= max_rows) break;
          MS_ASSIGN_OR_RETURN(const RowList::Row place, rows->read(i, read_options));
          MS_ASSIGN_OR_RETURN(const EncodedRow row, encoder->encode(place.text, place.where()));
          if (encoder->use_of(row) != RowUse::kUsed) {
            ++out->num_left_out;
            continue;
          }
          append_datums(row, static_cast<uint64_t>(num_used++), 0, out->datums);
        }
        return {};
      }));
  if (out->datums.empty()) {
    return invalid_argument(files[0] +
                            ": none of its rows can be evaluated: they are too long or have no "
                            "token to learn");
  }
  return std::move(*out);
}

}  // namespace mainspring
