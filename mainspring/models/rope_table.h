// The rotary table: cosine and sine of position times frequency, what kRope reads.
//
// The one idea: frequencies and angles are rounded to f32 where Hugging Face's modules round them,
// so the table is the one the weights were trained with; the functions behind it are our own (rule
// 1 of docs/exactness.md), so it is the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/models/config.h"

namespace mainspring {

/// Frequencies f_i = theta^(-2i/c) for i < c/2, stretched by `scaling`; f32 arithmetic, pow in f64.
std::vector<float> rope_frequencies(float theta, const RopeScaling& scaling, int64_t c);

/// Errors: resource exhausted if a table of so many positions would take more than 1 GiB.
Status check_rope_table_size(int64_t c, int64_t max_position);

/// Whether the model can have so many positions. Errors: as above; invalid argument if it has
/// learned fewer.
Status check_positions(const ModelConfig& config, int64_t max_position);

/// (max_position, c/2, 2) f32: cos and sin of round(position * f_i).
std::vector<float> make_rope_table(float theta, const RopeScaling& scaling, int64_t c,
                                   int64_t max_position);

/// Tables of a model: one, or with a local theta a second one for its windowed layers.
int64_t num_rope_tables(const ModelConfig& config);
/// Which of them a layer reads.
int64_t layer_rope_table(const ModelConfig& config, int64_t layer);

/// The tables that a model's graph reads, one after another, and their shape (tables *
/// max_position, rotary / 2, 2).
std::vector<float> make_rope_table(const ModelConfig& config, int64_t max_position);
std::vector<int64_t> rope_table_shape(const ModelConfig& config, int64_t max_position);

}  // namespace mainspring
