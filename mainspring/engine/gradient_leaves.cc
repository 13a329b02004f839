#include "mainspring/engine/gradient_leaves.h"

#include <cstring>
#include <string>

#include "mainspring/tensor/tensor.h"

namespace mainspring {
namespace {

void set_to_zero(Buffer& buffer) {
  std::memset(buffer.data(), 0, static_cast<size_t>(buffer.size_bytes()));
}

bool is_first_use(const std::string& name) { return name.find('#') == std::string::npos; }

/// One buffer that others are added to.
struct Sum {
  std::string name;
  std::vector<std::string> terms;
};

Result<std::unique_ptr<Executable>> compile_sums(Executor& executor, const std::vector<Sum>& sums,
                                                 const std::map<std::string, Buffer*>& buffers) {
  Tracer tracer(DType::kF32);
  const auto state = [&](const std::string& name) {
    return tracer.state(name, {DType::kF32, {buffers.at(name)->shape()}});
  };
  for (const Sum& sum : sums) {
    std::vector<Tensor> inputs{state(sum.name)};
    for (const std::string& term : sum.terms) inputs.push_back(state(term));
    tracer.node(OpKind::kAccumulate, inputs, NoAttrs{});
  }
  MS_ASSIGN_OR_RETURN(auto program, executor.compile(tracer.release(), {}));
  for (const Sum& sum : sums) {
    MS_RETURN_IF_ERROR(program->bind(sum.name, buffers.at(sum.name)));
    for (const std::string& term : sum.terms) {
      MS_RETURN_IF_ERROR(program->bind(term, buffers.at(term)));
    }
  }
  return program;
}

}  // namespace

// Rule 11: uses are added in their order when the leaf ends.
Status GradientLeaves::add_uses() {
  if (add_uses_ == nullptr) {
    std::vector<Sum> sums;
    std::map<std::string, Buffer*> buffers;
    for (const auto& [name, buffer] : grads_) {
      buffers[name] = buffer.get();
      if (!is_first_use(name)) continue;
      Sum sum{name, {}};
      for (int use = 1;; ++use) {
        const std::string other = name + "#" + std::to_string(use);
        if (grads_.count(other) == 0) break;
        sum.terms.push_back(other);
      }
      if (!sum.terms.empty()) sums.push_back(std::move(sum));
    }
    if (sums.empty()) return {};
    MS_ASSIGN_OR_RETURN(add_uses_, compile_sums(executor_, sums, buffers));
  }
  add_uses_->run({});
  for (const auto& [name, buffer] : grads_) {
    if (!is_first_use(name)) set_to_zero(*buffer);
  }
  return {};
}

Status GradientLeaves::add_level(Level& level) {
  if (level.add_to_grads == nullptr) {
    std::vector<Sum> sums;
    std::map<std::string, Buffer*> buffers;
    for (const auto& [name, sum] : level.sums) {
      buffers[name] = grads_.at(name).get();
      buffers["leaves/" + name] = sum.get();
      sums.push_back({name, {"leaves/" + name}});
    }
    MS_ASSIGN_OR_RETURN(level.add_to_grads, compile_sums(executor_, sums, buffers));
  }
  level.add_to_grads->run({});
  level.is_occupied = false;
  return {};
}

Result<GradientLeaves::Level*> GradientLeaves::level(size_t index) {
  if (index == levels_.size()) {
    auto level = std::make_unique<Level>();
    for (const auto& [name, buffer] : grads_) {
      if (is_first_use(name)) {
        level->sums[name] = executor_.allocate(DType::kF32, buffer->shape());
      }
    }
    levels_.push_back(std::move(level));
  }
  return levels_[index].get();
}

Status GradientLeaves::close() {
  MS_RETURN_IF_ERROR(add_uses());
  size_t index = 0;
  for (; index < levels_.size() && levels_[index]->is_occupied; ++index) {
    MS_RETURN_IF_ERROR(add_level(*levels_[index]));
  }
  MS_ASSIGN_OR_RETURN(Level * free, level(index));
  for (auto& [name, sum] : free->sums) {
    Buffer& grad = *grads_.at(name);
    std::memcpy(sum->data(), std::as_const(grad).data(), static_cast<size_t>(grad.size_bytes()));
    set_to_zero(grad);
  }
  free->is_occupied = true;
  datums_ = 0;
  return {};
}

Status GradientLeaves::collect() {
  bool is_one_leaf = true;
  for (const auto& level : levels_) is_one_leaf = is_one_leaf && !level->is_occupied;
  if (is_one_leaf) return {};
  MS_RETURN_IF_ERROR(add_uses());
  for (const auto& level : levels_) {
    if (level->is_occupied) MS_RETURN_IF_ERROR(add_level(*level));
  }
  return {};
}

void GradientLeaves::add_closed_leaves(const std::string& name, std::vector<float>& sum) const {
  for (const auto& level : levels_) {
    if (!level->is_occupied) continue;
    const auto* values = static_cast<const float*>(std::as_const(*level->sums.at(name)).data());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
}

void GradientLeaves::clear() {
  for (const auto& level : levels_) level->is_occupied = false;
  datums_ = 0;
}

}  // namespace mainspring
