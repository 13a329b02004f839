// sweep_page: a sweep as one self-contained HTML page: the metric over each axis, the loss curves
// over each other, the table.
#pragma once

#include <string>

#include "mainspring/run/sweep_record.h"

namespace mainspring {

/// The whole page. Links lead to the points' own pages below it. Any text is safe in it.
std::string sweep_page(const SweepRecord& sweep);

}  // namespace mainspring
