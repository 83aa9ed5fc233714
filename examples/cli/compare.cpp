#include <adaptiveload/schedule.hpp>
#include <cstddef>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "output.hpp"
#include "plan_json.hpp"
#include "planning.hpp"
#include "text.hpp"

namespace adaptiveload::cli {
namespace {

struct named_plan {
  std::string name;
  bucket_plan plan;
};

std::vector<named_plan> compare_all(const planning_problem& problem) {
  // The names of what compare_strategies returns, in its order.
  std::vector<named_plan> all{{"equal tokens as drawn", {}},
                              {"equal tokens", {}},
                              {"dual constraint", {}},
                              {"equal time", {}}};
  const std::vector<sample_source> sources{{.counts = problem.corpus.samples}};
  std::vector<bucket_plan> plans = compare_strategies(problem.corpus.sequence_lengths, sources,
                                                      problem.fitted.cost, problem.options);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].plan = std::move(plans.at(i));
  return all;
}

nlohmann::ordered_json to_json(const std::vector<named_plan>& all,
                               const planning_problem& problem) {
  nlohmann::ordered_json document;
  for (const auto& [name, plan] : all) {
    const load_report& r = plan.expected;
    document["strategies"].push_back({{"name", name},
                                      {"speedup", plan.speedup},
                                      {"bubble", r.bubble},
                                      {"step_cv", r.step_cv},
                                      {"compute_cv", r.compute_cv},
                                      {"tokens_per_second_per_rank", r.tokens_per_second_per_rank},
                                      {"epoch_seconds", r.epoch_ms / 1e3},
                                      {"plan", to_json(with_corpus(plan, problem))}});
  }
  return document;
}

void print_comparison(const std::vector<named_plan>& all,
                      const std::optional<memory_model>& memory) {
  std::vector<std::string> heads{"",
                                 "speedup",
                                 "bubble",
                                 "CV of step time",
                                 "CV of ranks' work",
                                 "tokens/s and rank",
                                 "epoch, s",
                                 "peak tokens"};
  if (memory) heads.push_back("peak GB, at most");
  text_table table("l" + std::string(heads.size() - 1, 'r'), heads);
  for (const auto& [name, plan] : all) {
    const load_report& r = plan.expected;
    std::vector<std::string> row{name,
                                 fixed(plan.speedup, 2),
                                 percent(r.bubble),
                                 percent(r.step_cv),
                                 percent(r.compute_cv),
                                 fixed(r.tokens_per_second_per_rank, 0),
                                 fixed(r.epoch_ms / 1e3, 1),
                                 grouped(r.peak_tokens)};
    if (memory) row.push_back(fixed(r.peak_bytes(*memory) / 1e9, 1));
    table.add(row);
  }
  std::cout << table << '\n';
  for (const auto& [name, plan] : all) std::cout << name << ": " << plan.reason << '\n';
}

void compare(const planning_options& options) {
  const planning_problem problem = read_problem(options);
  const std::vector<named_plan> all = compare_all(problem);
  if (!options.json.empty()) write_file(options.json, to_json(all, problem).dump(2) + '\n');
  print_corpus(std::cout, problem);
  std::cout << '\n';
  print_comparison(all, problem.fitted.memory);
}

}  // namespace

void add_compare(CLI::App& app) {
  const auto options = std::make_shared<planning_options>();
  CLI::App& command = *app.add_subcommand("compare", "Plans by every strategy, side by side");
  add_planning_options(command, *options, "As of plan, and passed over: all are compared");
  command.footer(
      "Example:\n"
      "  adaptiveload compare --shapes data/wan_mix.csv \\\n"
      "    --measurements data/wan2.1_1.3b_h200_steps.csv --max-tokens 302400 \\\n"
      "    --ranks 16 --micro-batches 4 --ranks-wait step\n");
  command.callback([options] { compare(*options); });
}

}  // namespace adaptiveload::cli
