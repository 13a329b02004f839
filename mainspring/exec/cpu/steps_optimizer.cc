// Steps of the optimizers: scalars are read when the step runs, states are changed in place.
#include <algorithm>
#include <bit>

#include "mainspring/exec/cpu/steps.h"

namespace mainspring::cpu {
namespace {

// The first `count` inputs of the node are states that it has changed.
void mark_states(RunState& run, const std::vector<ValueId>& inputs, size_t count) {
  for (size_t i = 0; i < count; ++i) run.buffers[static_cast<size_t>(inputs[i])]->mark_changed();
}

Step make_sum_of_squares(StepBuilder& b, const Node& node) {
  struct Block {
    ValueId value;
    int64_t rows, columns;
  };
  std::vector<Block> blocks;
  for (ValueId value : node.inputs) {
    const auto& dims = b.type(value).shape.dims;
    const int64_t columns = dims.back();
    const int64_t rows = b.type(value).shape.num_elements({}) / std::max<int64_t>(columns, 1);
    blocks.push_back({value, rows, columns});
    b.want_scratch(sum_of_squares_scratch_bytes(rows));
  }
  const size_t width = std::bit_ceil(blocks.size());
  return [blocks, out = node.outputs, sums = std::vector<float>(width)](RunState& run) mutable {
    ComputeScope scope;
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (size_t i = 0; i < blocks.size(); ++i) {
      sums[i] = sum_of_squares(run.context, blocks[i].rows, blocks[i].columns,
                               run.at<float>(blocks[i].value), run.scratch);
    }
    // Balanced tree over parameters in the order given: neighbours first.
    for (size_t n = sums.size(); n > 1; n /= 2) {
      for (size_t i = 0; i < n / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    }
    run.at<float>(out[0])[0] = sums[0];
  };
}

bool rounds_states(StepBuilder& b, const Node& node) {
  return b.type(node.inputs[0]).dtype == DType::kBF16;
}

uint64_t rounding_key(const Node& node) {
  const auto* a = std::get_if<RoundingAttrs>(&node.attrs);
  return a != nullptr ? a->key : 0;
}

AdamwStep adamw_step(const float* s) {
  return {.lr = s[0],
          .beta1 = s[1],
          .beta2 = s[2],
          .eps = s[3],
          .weight_decay = s[4],
          .bias_correction1 = s[5],
          .bias_correction2_sqrt = s[6],
          .grad_scale = s[7]};
}

Step make_adamw(StepBuilder& b, const Node& node) {
  const int64_t n = b.type(node.inputs[0]).shape.num_elements({});
  if (rounds_states(b, node)) {
    return [in = node.inputs, n, key = rounding_key(node)](RunState& run) {
      adamw_bf16(run.context, n, adamw_step(run.at<float>(in[4])), {key, *run.at<int32_t>(in[5])},
                 run.at<float>(in[3]), run.at<bf16>(in[0]), run.at<bf16>(in[1]),
                 run.at<bf16>(in[2]));
      mark_states(run, in, 3);
    };
  }
  return [in = node.inputs, n](RunState& run) {
    adamw(run.context, n, adamw_step(run.at<float>(in[4])), run.at<float>(in[3]),
          run.at<float>(in[0]), run.at<float>(in[1]), run.at<float>(in[2]));
    mark_states(run, in, 3);
  };
}

Step make_adamw_8bit(StepBuilder& b, const Node& node) {
  return [in = node.inputs, n = b.type(node.inputs[0]).shape.num_elements({}),
          rounds = rounds_states(b, node), key = rounding_key(node)](RunState& run) {
    const AdamwStep step = adamw_step(run.at<float>(in[6]));
    const float* grad = run.at<float>(in[5]);
    const CodedMoment m{run.at<uint8_t>(in[1]), run.at<float>(in[2])};
    const CodedMoment v{run.at<uint8_t>(in[3]), run.at<float>(in[4])};
    if (rounds) {
      adamw_8bit_bf16(run.context, n, step, {key, *run.at<int32_t>(in[7])}, grad,
                      run.at<bf16>(in[0]), m, v);
    } else {
      adamw_8bit(run.context, n, step, grad, run.at<float>(in[0]), m, v);
    }
    mark_states(run, in, 5);
  };
}

Step make_ema(StepBuilder& b, const Node& node) {
  const ValueType param = b.type(node.inputs[1]);
  return [in = node.inputs, param](RunState& run) {
    Context context = run.context;
    context.compute = param.dtype;
    ema(context, param.shape.num_elements({}), *run.at<float>(in[2]), run.at(in[1]),
        run.at<float>(in[0]));
    mark_states(run, in, 1);
  };
}

Step make_lion(StepBuilder& b, const Node& node) {
  return [in = node.inputs, n = b.type(node.inputs[0]).shape.num_elements({}),
          rounds = rounds_states(b, node), key = rounding_key(node)](RunState& run) {
    const float* s = run.at<float>(in[3]);
    const LionStep step{
        .lr = s[0], .beta1 = s[1], .beta2 = s[2], .weight_decay = s[3], .grad_scale = s[4]};
    if (rounds) {
      lion_bf16(run.context, n, step, {key, *run.at<int32_t>(in[4])}, run.at<float>(in[2]),
                run.at<bf16>(in[0]), run.at<bf16>(in[1]));
    } else {
      lion(run.context, n, step, run.at<float>(in[2]), run.at<float>(in[0]), run.at<float>(in[1]));
    }
    mark_states(run, in, 2);
  };
}

Step make_adafactor(StepBuilder& b, const Node& node) {
  const auto& dims = b.type(node.inputs[0]).shape.dims;
  const bool is_matrix = dims.size() == 2;
  const int64_t rows = is_matrix ? dims[0] : 1;
  const int64_t columns = dims.back();
  b.want_scratch(adafactor_scratch_bytes(rows, columns));
  return [in = node.inputs, is_matrix, rows, columns](RunState& run) {
    const size_t states = is_matrix ? 3 : 2;
    const float* s = run.at<float>(in[states + 1]);
    const AdafactorStep step{.lr = s[0],
                             .weight_decay = s[1],
                             .rho = s[2],
                             .rate = s[3],
                             .eps1 = s[4],
                             .eps2 = s[5],
                             .clip = s[6],
                             .grad_scale = s[7]};
    adafactor(run.context, rows, columns, step, run.at<float>(in[states]), run.at<float>(in[0]),
              is_matrix ? run.at<float>(in[1]) : nullptr, run.at<float>(in[states - 1]),
              run.scratch);
    mark_states(run, in, states);
  };
}

Step make_muon(StepBuilder& b, const Node& node) {
  const auto& a = std::get<MuonAttrs>(node.attrs);
  const int64_t rows = b.dim(node.inputs[0], 0);
  const int64_t columns = b.dim(node.inputs[0], 1);
  Context plan = b.context();
  plan.compute = a.products;
  b.want_scratch(muon_scratch_bytes(plan, rows, columns));
  return [in = node.inputs, a, rows, columns](RunState& run) {
    const float* s = run.at<float>(in[3]);
    const MuonStep step{.lr = s[0],
                        .rate = s[0] * a.rate_scale,
                        .weight_decay = s[1],
                        .momentum = s[2],
                        .grad_scale = s[3],
                        .nesterov = a.nesterov};
    Context context = run.context;
    context.compute = a.products;
    muon(context, rows, columns, step, run.at<float>(in[2]), run.at<float>(in[0]),
         run.at<float>(in[1]), run.scratch);
    mark_states(run, in, 2);
  };
}

}  // namespace

Step make_optimizer_step(StepBuilder& b, const Node& node) {
  switch (node.op) {
    case OpKind::kSumOfSquares:
      return make_sum_of_squares(b, node);
    case OpKind::kAdamw:
      return make_adamw(b, node);
    case OpKind::kLion:
      return make_lion(b, node);
    case OpKind::kAdafactor:
      return make_adafactor(b, node);
    case OpKind::kMuon:
      return make_muon(b, node);
    case OpKind::kAdamw8bit:
      return make_adamw_8bit(b, node);
    case OpKind::kEma:
      return make_ema(b, node);
    default:
      return {};
  }
}

}  // namespace mainspring::cpu
