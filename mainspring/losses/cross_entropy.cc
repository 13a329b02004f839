#include "mainspring/losses/losses.h"

namespace mainspring {

Tensor cross_entropy(const LossInputs& inputs) {
  return mul(scale(inputs.logprob, -1.0f), inputs.inputs[0]);
}

Tensor cross_entropy_z(const LossInputs& inputs) {
  const Tensor squares = mul(inputs.lse, inputs.lse);
  return add({cross_entropy(inputs), mul(squares, inputs.inputs[1])});
}

}  // namespace mainspring
