// Parquet files through the bridge's data feature.
#include "mainspring/data/data_feature.h"
#include "mainspring/io/data_bridge.h"
#include "mainspring/io/json.h"

namespace mainspring {
namespace {

constexpr size_t kLinesBytes = size_t{1} << 20;

MsSlice slice_of(std::string_view text) { return {text.data(), text.size()}; }

// The bridge's reason of the call that failed, behind the file: "row 7: why" becomes "name:7: why".
Status failure(const std::string& name) {
  std::string why = ms_bridge_last_error();
  if (why.starts_with("row ")) return data_loss(name + ":" + why.substr(4));
  return data_loss(name + ": " + why);
}

struct FreeText {
  MsText* text;
  ~FreeText() { ms_text_free(text); }
};

class BridgeParquetFile final : public ParquetFile {
 public:
  BridgeParquetFile(std::string name, MsParquetFile* file)
      : ParquetFile(std::move(name)), file_(file) {}
  ~BridgeParquetFile() override { ms_parquet_free(file_); }
  BridgeParquetFile(const BridgeParquetFile&) = delete;
  BridgeParquetFile& operator=(const BridgeParquetFile&) = delete;

  Status read_shape() {
    MsText text{};
    if (ms_parquet_describe(file_, &text) != 0) return failure(name_);
    const FreeText guard{&text};
    MS_ASSIGN_OR_RETURN(const Json shape, parse_json({text.data, text.size}, name_));
    for (const Json& column : shape.at("columns")) {
      columns_.push_back(
          {column.at("name").get<std::string>(), column.at("type").get<std::string>()});
    }
    for (const Json& group : shape.at("groups")) {
      groups_.push_back({group.at("rows").get<int64_t>(), group.at("begin").get<int64_t>()});
    }
    return {};
  }

  Status read_lines(size_t first, size_t end, const std::vector<std::string>& wanted,
                    const UseLines& use) const override {
    std::vector<MsSlice> columns;
    for (const std::string& name : wanted) columns.push_back(slice_of(name));
    const std::unique_ptr<MsParquetRows, decltype(&ms_parquet_rows_free)> rows(
        ms_parquet_rows(file_, first, end, columns.data(), columns.size()), &ms_parquet_rows_free);
    if (rows == nullptr) return failure(name_);
    while (true) {
      MsText lines{};
      if (ms_parquet_next(rows.get(), kLinesBytes, &lines) != 0) return failure(name_);
      const FreeText guard{&lines};
      if (lines.size == 0) return {};
      MS_RETURN_IF_ERROR(use({lines.data, lines.size}));
    }
  }

 private:
  MsParquetFile* file_;
};

}  // namespace

Result<std::shared_ptr<const ParquetFile>> ParquetFile::open(const std::string& path,
                                                             const std::string& name) {
  MsParquetFile* handle = ms_parquet_open(slice_of(path));
  if (handle == nullptr) return failure(name);
  auto file = std::make_shared<BridgeParquetFile>(name, handle);
  MS_RETURN_IF_ERROR(file->read_shape());
  return std::shared_ptr<const ParquetFile>(std::move(file));
}

}  // namespace mainspring
