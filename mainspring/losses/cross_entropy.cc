#include "mainspring/losses/losses.h"

namespace mainspring {

Tensor cross_entropy(const LossInputs& inputs) {
  return mul(scale(inputs.logprob, -1.0f), inputs.inputs[0]);
}

}  // namespace mainspring
