// Coordinate check: how large a model's values are, and how far training moves them, by width.
//
// The one idea: under muP a step moves every value by as much in a wide model as in a narrow one;
// under the standard parametrisation some grow with width, and with them the best learning rate
// shrinks. Growth is the exponent a of change ~ width^a. Who measures is train/mup_check.h.
// Source: Yang et al. 2022, arXiv:2203.03466, appendix D.1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mainspring/io/json_fwd.h"

namespace mainspring {

/// Values of one kind in one model.
struct CoordinateSeries {
  std::string name;            // "embedding", "attention", "mlp", "residual", "logits"
  std::vector<double> size;    // mean |x| after 0, 1, ... steps
  std::vector<double> change;  // mean |x - x before training|
};

/// One model.
struct CoordinateRun {
  int64_t width = 0;
  std::vector<CoordinateSeries> series;  // the same kinds in every run
  std::vector<double> losses;            // per learned token, of each step before its update
};

struct CoordinateTable {
  std::string parametrisation;      // "muP" or "standard"
  std::vector<CoordinateRun> runs;  // by increasing width
};

/// Changes of a kind may grow no faster than width to this, else it is said to grow: standard
/// parametrisation has 0.5 to 1, and the fit over a few narrow widths is good to some 0.1.
inline constexpr double kMostGrowth = 0.25;

/// The exponent of change after `step` steps over the widths, by least squares of logarithms; 0 if
/// nothing changes. Precondition: two runs or more.
double change_growth(const CoordinateTable& table, size_t series, size_t step);

/// The kinds whose change grows with width after the last step.
std::vector<std::string> growing_series(const CoordinateTable& table);

/// Tables for a terminal: size and change, one line per kind and step, one column per width.
std::string coordinates_text(const CoordinateTable& table);
Json coordinates_json(const std::vector<CoordinateTable>& tables);

/// One page that loads nothing: change against width for each kind, a line per step, and the
/// tables. `title` and `command` are shown as they are.
std::string coordinates_page(const std::vector<CoordinateTable>& tables, const std::string& title,
                             const std::string& command);

}  // namespace mainspring
