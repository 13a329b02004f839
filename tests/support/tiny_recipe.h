// The files of a run on a tiny model: pre-tokenised rows and a recipe that reads them.
#pragma once

#include <fstream>
#include <string>

#include "tests/support/golden_files.h"

namespace mainspring::test {

/// Writes rows.jsonl and recipe.toml into `dir`; `rest`: the recipe from [tune] on.
inline void write_tiny_recipe(const std::string& dir, const std::string& rest) {
  std::ofstream rows(dir + "/rows.jsonl");
  for (int i = 0; i < 24; ++i) {
    rows << "{\"tokens\": [";
    for (int t = 0; t < 12 + i % 5; ++t) rows << (t > 0 ? ", " : "") << (7 * t + i % 3) % 200;
    rows << "]}\n";
  }
  std::ofstream(dir + "/recipe.toml")
      << "seed = 3\n[model]\npath = \"" << source_path("tests/golden/tiny/llama_gqa")
      << "\"\n[data]\nfiles = [\"" << dir
      << "/rows.jsonl\"]\nmax_tokens = 64\nformat = \"tokens\"\nheld_out = 0.2\n"
      << rest;
}

}  // namespace mainspring::test
