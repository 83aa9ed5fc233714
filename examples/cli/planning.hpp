#pragma once

#include <CLI/CLI.hpp>
#include <adaptiveload/schedule.hpp>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>

#include "corpus.hpp"
#include "measured_cost.hpp"
#include "plan_json.hpp"

namespace adaptiveload::cli {

/// What `plan` and `compare` are asked, as it stands on the command line.
struct planning_options {
  std::filesystem::path shapes;
  std::int64_t samples = 60'000;
  std::filesystem::path manifest;
  std::filesystem::path buckets;
  std::string unfit = "error";
  std::string tokenizer = "4x8x8/1x2x2";
  std::filesystem::path measurements;
  std::string memory;
  double margin = 0.05;
  std::string ranks_wait;
  plan_options plan;
  std::filesystem::path json;
};

/// What the library needs to plan it.
struct planning_problem {
  measured_cost fitted;
  cli::corpus corpus;
  plan_options options;
};

/// The options of `plan` and `compare`; `about_strategy` says what --strategy does.
void add_planning_options(CLI::App& command, planning_options& options,
                          const std::string& about_strategy);

/// The corpus beside a plan that was made for it.
corpus_plan with_corpus(bucket_plan plan, const planning_problem& problem);

/// A line on what is planned: samples, those left out, and the tokens of a micro-batch.
void print_corpus(std::ostream& out, const planning_problem& problem);

/// Reads the files. Throws what is wrong with them, or with the options.
planning_problem read_problem(const planning_options& options);

}  // namespace adaptiveload::cli
