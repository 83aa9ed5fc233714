#include <adaptiveload/schedule.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "commands.hpp"
#include "measured_cost.hpp"
#include "text.hpp"

namespace adaptiveload::cli {
namespace {

struct replay_options {
  std::filesystem::path plans;
  std::filesystem::path runs;
  std::filesystem::path measurements;
};

/// Throws where a file of runs names one that `plans` lack.
template <class Plans>
void check_planned(std::istream& in, const replay_options& options, const Plans& plans) {
  csv_reader rows(in, options.runs.string());
  const auto run = rows.column("run");
  while (rows.next()) {
    if (plans.contains(std::string(rows.text(run)))) continue;
    rows.reject(run, "a run that " + options.plans.string() + " has");
  }
}

void replay_all(const replay_options& options) {
  const measured_cost fitted = read_measured_cost(options.measurements);
  const auto plans = read_recorded_plans(options.plans);
  std::stringstream runs;
  runs << detail::open_csv(options.runs).rdbuf();
  check_planned(runs, options, plans);
  runs.clear();
  runs.seekg(0);
  std::ostringstream out;
  out << "run,predicted_ms,recorded_ms\n";
  for (const recorded_run& run : read_recorded_runs(runs, options.runs.string())) {
    const double ms = naming(options.plans.string() + ": run \"" + run.name + "\"", [&] {
      return replay(plans.at(run.name), run.ranks_wait, fitted.cost).epoch_ms;
    });
    out << csv_field(run.name) << ',' << general(ms, 7) << ',' << general(run.epoch_ms, 7) << '\n';
  }
  std::cout << out.str();
}

}  // namespace

void add_replay(CLI::App& app) {
  const auto options = std::make_shared<replay_options>();
  CLI::App& command = *app.add_subcommand(
      "replay", "Predicts recorded runs: prints run,predicted_ms,recorded_ms as CSV");
  command
      .add_option("--plans", options->plans,
                  "What ranks ran: run, step, rank, position, batch_size, sequence_length")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--runs", options->runs,
                  "What it took: run, ranks_wait (every step, every micro-batch), epoch_ms")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--measurements", options->measurements,
                  "Measured steps: batch_size, sequence_length, step_ms")
      ->required()
      ->type_name("FILE");
  command.footer(
      "Example:\n"
      "  adaptiveload replay --plans data/fsdp2_2xh200_plans.csv \\\n"
      "    --runs data/fsdp2_2xh200_runs.csv --measurements data/fsdp2_2xh200_shapes.csv\n");
  command.callback([options] { replay_all(*options); });
}

}  // namespace adaptiveload::cli
