// Trajectories for people: as samples of the run's page, and as lines of the terminal.
#pragma once

#include <string>
#include <vector>

#include "mainspring/base/status.h"
#include "mainspring/models/model_text.h"
#include "mainspring/run/run_folder.h"
#include "mainspring/train/rl/trajectory.h"

namespace mainspring {

/// Each token as text; its number and a blank without a tokenizer.
std::vector<std::string> token_texts(const ModelText& text, const std::vector<int32_t>& tokens);

/// The last branch: what was read as one piece, what was sampled token by token. Errors: the
/// tokenizer's.
Result<RunSample> answer_sample(const ModelText& text, const Trajectory& trajectory, int64_t step,
                                const std::string& title);

/// The samples of a group, for the page's view side by side. Errors: as answer_sample.
Result<std::vector<RunSample>> group_samples(const ModelText& text, const RolloutGroup& group,
                                             const std::vector<double>& advantages, int64_t step);

/// "  Which is larger: 3, 4?  ->  4   (reward 1)" of the last turn.
std::string answer_line(const ModelText& text, const Trajectory& trajectory);

}  // namespace mainspring
