// LoRA adapters against peft in f32: loss and every gradient of A and B; and the folder written
// back.
#include <gtest/gtest.h>

#include "mainspring/engine/engine.h"
#include "mainspring/io/test_dir.h"
#include "mainspring/models/adapter.h"
#include "mainspring/models/file_layout.h"
#include "mainspring/weights/dequantise.h"
#include "tests/support/golden_files.h"

namespace mainspring {
namespace {

using test::distance;

struct Golden {
  std::string folder;
  std::shared_ptr<const LoadedModel> model;
  Adapter adapter;
  Json json;
  Safetensors tensors;
  std::vector<Datum> datums;
};

Golden load_golden(const std::string& name) {
  Golden golden;
  golden.folder = test::source_path("tests/golden/peft/" + name);
  golden.json = test::read_json("tests/golden/peft/" + name + "/golden.json");
  golden.model = load_model(golden.folder + "/" + golden.json["base"].get<std::string>()).value();
  golden.adapter = load_peft(golden.folder, golden.model->config).value();
  golden.tensors = open_safetensors(golden.folder + "/golden.safetensors").value();
  for (const Json& sequence : golden.json["sequences"]) {
    const auto tokens = sequence["tokens"].get<std::vector<int32_t>>();
    golden.datums.push_back(make_next_token_datum(tokens, std::vector<uint8_t>(tokens.size(), 1)));
  }
  return golden;
}

/// Gradients of the pairs that the file has: parts of a fused linear share its A, where their
/// gradients add, and have B's rows in order.
std::map<std::string, std::vector<float>> gradients_by_file(const ModelConfig& config,
                                                            const TensorSet& gradients) {
  std::map<std::string, std::vector<float>> out;
  for (const FileTensor& file : file_tensors(config)) {
    for (const ParameterSpec& part : file.parts) {
      for (const std::string ending : {".lora_A.weight", ".lora_B.weight"}) {
        const auto own = gradients.find(module_of_weight(part.name) + ending);
        if (own == gradients.end()) continue;
        const std::vector<float> values = read_f32(own->second);
        std::vector<float>& sum = out[module_of_weight(file.name) + ending];
        if (ending == ".lora_B.weight" || sum.empty()) {
          sum.insert(sum.end(), values.begin(), values.end());
        } else {
          for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
        }
      }
    }
  }
  return out;
}

class PeftAdapter : public testing::TestWithParam<const char*> {};

TEST_P(PeftAdapter, LossAndEveryGradientEqualPeft) {
  const Golden golden = load_golden(GetParam());
  const auto executor = test::make_executor();
  auto engine =
      Engine::create(golden.model, *executor, {.compute = DType::kF32, .max_sequence_tokens = 128})
          .value();
  const ModelId id = engine->add_adapter(golden.adapter, 0).value();
  const auto result = engine->forward_backward(id, golden.datums, "cross_entropy").value();
  const double expected = golden.json["loss_sum"].get<double>();
  EXPECT_NEAR(result.loss_sum, expected, 1e-4 * expected);
  const TensorSet gradients = engine->gradients(id).value();
  ASSERT_EQ(gradients.size(), golden.adapter.tensors.size());
  const std::map<std::string, std::vector<float>> by_file =
      gradients_by_file(golden.model->config, gradients);
  EXPECT_EQ(by_file.size() + golden.datums.size(), golden.tensors.tensors.size());  // and logits
  for (const auto& [name, gradient] : by_file) {
    const auto want = golden.tensors.tensors.find("grad." + peft_tensor_name(name));
    ASSERT_NE(want, golden.tensors.tensors.end()) << name;
    ASSERT_EQ(want->second.size_bytes, static_cast<int64_t>(gradient.size() * sizeof(float)));
    EXPECT_LT(distance(gradient.data(), reinterpret_cast<const float*>(want->second.data),
                       gradient.size()),
              1e-4)
        << name;
  }
}

TEST_P(PeftAdapter, AWrittenFolderGivesTheSameBits) {
  const Golden golden = load_golden(GetParam());
  const TestDir dir;
  const std::string folder = dir.file("adapter");
  ASSERT_TRUE(export_peft(golden.adapter, golden.model->config, "base", folder).ok());
  const Adapter back = load_peft(folder, golden.model->config).value();
  const auto executor = test::make_executor();
  auto engine =
      Engine::create(golden.model, *executor, {.compute = DType::kF32, .max_sequence_tokens = 128})
          .value();
  const ModelId a = engine->add_adapter(golden.adapter, 0).value();
  const ModelId b = engine->add_adapter(back, 0).value();
  EXPECT_EQ(engine->forward(a, golden.datums, "cross_entropy").value().logprobs,
            engine->forward(b, golden.datums, "cross_entropy").value().logprobs);
}

INSTANTIATE_TEST_SUITE_P(AllAdapters, PeftAdapter,
                         testing::Values("lora", "lora_pattern", "lora_rslora", "lora_qwen2",
                                         "lora_phi3", "lora_gpt2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mainspring
