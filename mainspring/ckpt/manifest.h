// manifest: manifest.json and state.json, to text and back. Internal to ckpt/.
//
// The one idea: the manifest vouches for every other file and, by a checksum of its own text, for
// itself.
#pragma once

#include <string>
#include <string_view>

#include "mainspring/base/status.h"
#include "mainspring/ckpt/checkpoint.h"

namespace mainspring {

inline constexpr int64_t kCheckpointFormat = 1;
inline constexpr std::string_view kManifestName = "manifest.json";
inline constexpr std::string_view kStateName = "state.json";
inline constexpr std::string_view kNextLossName = "next_loss.json";

std::string manifest_text(const Manifest& manifest);
/// Errors: data loss if the text is damaged; invalid argument for another format version.
Result<Manifest> parse_manifest(std::string_view text, const std::string& source);

std::string state_text(const TrainState& state);
/// Errors: data loss names the field.
Result<TrainState> parse_state(std::string_view text, const std::string& source);

/// The step after `step` had this loss sum.
std::string next_loss_text(int64_t step, double loss_sum);
/// Errors: data loss, also if it belongs to another step.
Result<double> parse_next_loss(std::string_view text, int64_t step, const std::string& source);

/// The step of "step-000123"; -1 for another name.
int64_t checkpoint_step(std::string_view name);

}  // namespace mainspring
