#pragma once
namespace mainspring::cpu::MS_ISA_NAMESPACE {
template <class M>
size_t attention_grad_scratch_bytes(int64_t, int64_t) { return 0; }
template <class M>
void attention_grad_rows(const AttentionGradTask&) {}
template <class M>
void attention_grad_combine(int64_t, int64_t, int64_t, float, const float*, const float*, int64_t, void*, void*, int64_t) {}
}
