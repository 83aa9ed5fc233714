#include <adaptiveload/schedule.hpp>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "first_steps.hpp"
#include "output.hpp"
#include "plan_json.hpp"
#include "planning.hpp"
#include "text.hpp"

namespace adaptiveload::cli {
namespace {

corpus_plan make_plan(const planning_problem& problem, const plan_options& options) {
  const std::vector<sample_source> sources{{.counts = problem.corpus.samples}};
  return with_corpus(
      plan_buckets(problem.corpus.sequence_lengths, sources, problem.fitted.cost, options),
      problem);
}

/// What the plan's gain is measured against: equal tokens, dealt as drawn.
corpus_plan make_baseline(const planning_problem& problem) {
  plan_options options = problem.options;
  options.strategy = strategy::equal_tokens;
  options.epoch.dealing = dealing::as_drawn;
  return make_plan(problem, options);
}

/// The plan, and beside it the baseline and the first steps of both, for pictures.
nlohmann::ordered_json illustrated(const corpus_plan& planned, const corpus_plan& baseline) {
  constexpr double drawn_steps = 4;  // of the baseline, on average
  const load_report& before = baseline.plan.expected;
  const double span_ms = drawn_steps * before.epoch_ms / static_cast<double>(before.steps);
  nlohmann::ordered_json document = to_json(planned);
  document["first_steps"] = first_steps(planned.epoch(), span_ms);
  document["baseline"] = to_json(baseline);
  document["baseline"]["first_steps"] = first_steps(baseline.epoch(), span_ms);
  return document;
}

std::string bound_of(const bucket& b, strategy by) {
  if (b.bound != batch_bound::compute) return std::string(name_of(b.bound));
  return by == strategy::equal_time ? "time" : "compute";
}

void print_buckets(const corpus_plan& planned) {
  text_table table("lrrrrrl", {"frames x height x width", "tokens", "samples", "batch size",
                               "predicted ms", "a sample", "set by"});
  bool extrapolated = false;
  for (std::size_t i = 0; i < planned.corpus.size(); ++i) {
    const bucket& b = planned.plan.buckets[i];
    const corpus_bucket& c = planned.corpus[i];
    extrapolated = extrapolated || c.extrapolated;
    table.add({std::to_string(c.shape.frames) + " x " + std::to_string(c.shape.height) + " x " +
                   std::to_string(c.shape.width),
               grouped(b.sequence_length), grouped(c.samples), grouped(b.batch_size),
               fixed(b.step_ms, 1) + (c.extrapolated ? "*" : " "),
               fixed(b.step_ms / static_cast<double>(b.batch_size), 1),
               bound_of(b, planned.plan.strategy)});
  }
  std::cout << table;
  if (extrapolated) std::cout << "* extrapolated: outside what was measured\n";
}

void print_gain(const bucket_plan& before, const bucket_plan& after, const measured_cost& fitted) {
  text_table table("lrr", {"expected of an epoch", "equal tokens", "this plan"});
  const auto row = [&](const char* name, const auto& text) {
    table.add({name, text(before.expected), text(after.expected)});
  };
  row("seconds", [](const load_report& r) { return fixed(r.epoch_ms / 1e3, 1); });
  table.add({"speedup", "1.00", fixed(after.speedup, 2)});
  row("steps", [](const load_report& r) { return grouped(r.steps); });
  row("bubble: time that ranks wait", [](const load_report& r) { return percent(r.bubble); });
  row("CV of ranks' work in a step", [](const load_report& r) { return percent(r.compute_cv); });
  row("CV of step time", [](const load_report& r) { return percent(r.step_cv); });
  row("tokens per second and rank",
      [](const load_report& r) { return fixed(r.tokens_per_second_per_rank, 0); });
  row("most tokens of a micro-batch", [](const load_report& r) { return grouped(r.peak_tokens); });
  if (fitted.memory) {
    row("peak memory, GB, at most",
        [&fitted](const load_report& r) { return fixed(r.peak_bytes(*fitted.memory) / 1e9, 1); });
  }
  std::cout << table;
}

void plan(const planning_options& options) {
  const planning_problem problem = read_problem(options);
  const corpus_plan baseline = make_baseline(problem);
  const corpus_plan planned = make_plan(problem, problem.options);
  if (!options.json.empty()) {
    write_file(options.json, illustrated(planned, baseline).dump(2) + '\n');
  }
  print_corpus(std::cout, problem);
  std::cout << name_of(planned.plan.strategy) << ": " << planned.plan.reason << "\n\n";
  print_buckets(planned);
  std::cout << '\n';
  print_gain(baseline.plan, planned.plan, problem.fitted);
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto options = std::make_shared<planning_options>();
  CLI::App& command =
      *app.add_subcommand("plan", "Gives every bucket a batch size, so that ranks finish together");
  add_planning_options(command, *options, "equal-tokens, dual-constraint or equal-time");
  command.footer(
      "Example:\n"
      "  adaptiveload plan --shapes data/wan_mix.csv \\\n"
      "    --measurements data/wan2.1_1.3b_h200_steps.csv --memory 140GB \\\n"
      "    --ranks 8 --micro-batches 4 --ranks-wait micro-batch\n");
  command.callback([options, &command] {
    if (command.count("--exponent") > 0 && options->plan.strategy != strategy::dual_constraint) {
      throw CLI::ValidationError("--exponent", "is of --strategy dual-constraint");
    }
    plan(*options);
  });
}

}  // namespace adaptiveload::cli
