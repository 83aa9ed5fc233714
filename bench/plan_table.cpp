// What plans gain, as the Markdown of bench/results/plans.md: on the corpus of data/wan_mix.csv
// with the cost of measured steps, beside Open-Sora's hand-tuned batch sizes, and on recorded runs.
//
//   plan_table [DATA_DIRECTORY] > bench/results/plans.md
#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

struct corpus {
  std::vector<std::int64_t> lengths;
  std::vector<al::sample_source> sources{{}};
};

void print_row(const char* buckets, const char* dealing, const al::bucket_plan& plan) {
  std::printf("| %s | %s | %.1f %% | %.3f | %.3f | %.3f | %.0f |\n", buckets, dealing,
              100 * plan.expected.bubble, plan.expected.compute_cv, plan.expected.step_cv,
              plan.speedup, plan.expected.tokens_per_second_per_rank);
}

/// How far the luck of the draw, of the baseline's above all, moves the speedup.
void print_seeds(const corpus& mix, const al::cost_model& cost, al::plan_options options) {
  constexpr std::uint64_t seeds = 8;
  double least = std::numeric_limits<double>::infinity(), most = 0, sum = 0;
  for (options.epoch.seed = 1; options.epoch.seed <= seeds; ++options.epoch.seed) {
    const double speedup = al::plan_buckets(mix.lengths, mix.sources, cost, options).speedup;
    least = std::min(least, speedup);
    most = std::max(most, speedup);
    sum += speedup;
  }
  std::printf("\nEqual time with seeds 1 to %ju: %.3f to %.3f times as fast, %.4f on average.\n",
              std::uintmax_t{seeds}, least, most, sum / seeds);
}

void compare(const corpus& mix, const al::cost_model& cost, const al::plan_options& options) {
  const al::epoch_options& o = options.epoch;
  std::printf(
      "\n### %jd tokens, %jd ranks that wait at %s, %jd micro-batch%s each, look-ahead %jd\n\n",
      std::intmax_t{options.max_tokens}, std::intmax_t{o.world_size},
      std::string(al::name_of(o.ranks_wait)).c_str(), std::intmax_t{o.micro_batches},
      o.micro_batches == 1 ? "" : "es", std::intmax_t{o.lookahead});
  std::puts("| buckets | dealing | bubble | CV of work | CV of step | speedup | tokens/s/rank |");
  std::puts("| --- | --- | --- | --- | --- | --- | --- |");
  const auto plans = al::compare_strategies(mix.lengths, mix.sources, cost, options);
  al::plan_options published = options;
  published.strategy = al::strategy::dual_constraint;
  published.epoch.dealing = al::dealing::as_drawn;
  print_row("equal tokens", "as drawn", plans[0]);
  print_row("published rule, best M_comp", "as drawn",
            al::plan_buckets(mix.lengths, mix.sources, cost, published));
  print_row("equal tokens", "balanced", plans[1]);
  print_row("published rule, best M_comp", "balanced", plans[2]);
  print_row("equal time", "balanced", plans[3]);
  print_seeds(mix, cost, options);
}

void compare_on_mix(const std::string& data, const al::cost_model& cost) {
  corpus mix;
  for (const auto& [shape, weight] : al::read_shapes(data + "/wan_mix.csv")) {
    mix.lengths.push_back(al::wan21.tokens(shape));
    mix.sources[0].counts.push_back(std::llround(60'000 * weight));
  }
  std::puts(
      "\n## 60,000 samples of wan_mix.csv, cost fitted to wan2.1_1.3b_h200_steps.csv\n\n"
      "What bounds equal time: batch sizes are whole samples and memory ends those of images, "
      "so at 302,400 tokens buckets take 8.6 to 10.6 s. With one micro-batch a step nothing "
      "evens that out; where ranks wait at each of several, rounds that hold two buckets wait "
      "for the longer. At 75,600 tokens a sample of the longest fills a micro-batch, and where "
      "ranks wait at each, equal tokens can only be dealt better. The baseline's luck moves "
      "speedups from seed to seed; under each table is how far.");
  using enum al::ranks_wait;
  const al::plan_options cases[] = {
      {.max_tokens = 302'400, .epoch = {.micro_batches = 1, .ranks_wait = every_step}},
      {.max_tokens = 302'400, .epoch = {.micro_batches = 4, .ranks_wait = every_step}},
      {.max_tokens = 302'400, .epoch = {.micro_batches = 4, .ranks_wait = every_micro_batch}},
      {.max_tokens = 302'400, .epoch = {.micro_batches = 8, .ranks_wait = every_micro_batch}},
      {.max_tokens = 75'600, .epoch = {.micro_batches = 4, .ranks_wait = every_step}},
      {.max_tokens = 75'600,
       .epoch = {.micro_batches = 1, .ranks_wait = every_micro_batch, .lookahead = 8}},
      {.max_tokens = 75'600, .epoch = {.micro_batches = 8, .ranks_wait = every_micro_batch}}};
  for (al::plan_options options : cases) {
    options.epoch.seed = 1;
    for (const std::int64_t ranks : {8, 16}) {
      options.epoch.world_size = ranks;
      compare(mix, cost, options);
    }
  }
}

double variation(const std::vector<al::bucket>& buckets) {
  double mean = 0, square = 0;
  const auto count = static_cast<double>(buckets.size());
  for (const al::bucket& b : buckets) mean += b.step_ms / count;
  for (const al::bucket& b : buckets) square += (b.step_ms - mean) * (b.step_ms - mean) / count;
  return std::sqrt(square) / mean;
}

void compare_with_hand_tuned(const std::string& data, const al::cost_model& cost) {
  const std::string file = data + "/opensora2_stage1_buckets.csv";
  const auto shapes = al::read_shapes(file);
  std::ifstream in(file, std::ios::binary);
  al::csv_reader rows(in, file);
  const auto batch_size = rows.column("hand_tuned_batch_size");
  corpus mix;
  std::vector<al::bucket> hand_tuned;
  std::int64_t max_tokens = 0;
  for (const al::weighted_shape& w : shapes) {
    mix.lengths.push_back(al::open_sora.tokens(w.shape));
    mix.sources[0].counts.push_back(2'000);
    if (!rows.next()) break;
    al::bucket b{.sequence_length = mix.lengths.back(),
                 .batch_size = rows.positive<std::int64_t>(batch_size)};
    b.step_ms = cost.step_ms(b.batch_size, b.sequence_length);
    b.single_ms = cost.step_ms(1, b.sequence_length);
    max_tokens = std::max(max_tokens, b.tokens());
    hand_tuned.push_back(b);
  }
  const al::epoch_options epoch{.world_size = 8, .seed = 1};
  const auto plan =
      al::plan_buckets(mix.lengths, mix.sources, cost, {.max_tokens = max_tokens, .epoch = epoch});
  std::printf("\n## Open-Sora 2.0, stage 1: %s beside the hand-tuned batch sizes\n\n",
              std::string(al::name_of(plan.strategy)).c_str());
  std::printf("The same cost; at most the tokens of the largest hand-tuned micro-batch, %jd.\n\n",
              std::intmax_t{max_tokens});
  std::puts("| shape | tokens | by hand: B | ms | planned: B | ms |");
  std::puts("| --- | --- | --- | --- | --- | --- |");
  for (std::size_t i = 0; i < hand_tuned.size(); ++i) {
    const al::video_shape& s = shapes[i].shape;
    const al::bucket& hand = hand_tuned[i];
    const al::bucket& ours = plan.buckets[i];
    std::printf("| %jd x %jd x %jd | %jd | %jd | %.0f | %jd | %.0f |\n", std::intmax_t{s.frames},
                std::intmax_t{s.height}, std::intmax_t{s.width},
                std::intmax_t{hand.sequence_length}, std::intmax_t{hand.batch_size}, hand.step_ms,
                std::intmax_t{ours.batch_size}, ours.step_ms);
  }
  std::printf("| CV | | | %.3f | | %.3f |\n", variation(hand_tuned), variation(plan.buckets));
  al::epoch_options drawn = epoch;
  drawn.dealing = al::dealing::as_drawn;
  const auto by_hand = al::simulate(al::plan_epoch(hand_tuned, mix.sources, drawn), cost);
  const auto planned = al::simulate(al::plan_epoch(plan.buckets, mix.sources, drawn), cost);
  std::printf(
      "\nAs many samples of each shape, 8 ranks, one micro-batch a step, dealt as drawn: "
      "bubble %.1f %% by hand, %.1f %% planned; %.2f times as fast.\n",
      100 * by_hand.bubble, 100 * planned.bubble, by_hand.epoch_ms / planned.epoch_ms);
}

void replay_recorded(const std::string& data) {
  const std::string run = data + "/fsdp2_2xh200_";
  const auto cost = al::fit_cost_model(al::read_measurements(run + "shapes.csv"));
  const auto plans = al::read_recorded_plans(run + "plans.csv");
  std::puts("\n## Recorded runs: FSDP2 on two H200s, cost fitted to fsdp2_2xh200_shapes.csv\n");
  std::puts("| run | recorded | predicted | error |\n| --- | --- | --- | --- |");
  for (const al::recorded_run& r : al::read_recorded_runs(run + "runs.csv")) {
    const double ms = al::replay(plans.at(r.name), r.ranks_wait, cost).epoch_ms;
    std::printf("| %s | %.2f s | %.2f s | %+.1f %% |\n", r.name.c_str(), r.epoch_ms / 1e3, ms / 1e3,
                100 * (ms / r.epoch_ms - 1));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string data = argc > 1 ? argv[1] : ADAPTIVELOAD_DATA;
  const auto cost = al::fit_cost_model(al::read_measurements(data + "/wan2.1_1.3b_h200_steps.csv"));
  std::puts(
      "# What plans gain\n\n"
      "Printed by `bench/plan_table`. Simulated on fitted step times, seed 1, partial "
      "micro-batches kept; speedup is over equal tokens dealt as drawn. CV of work: between the "
      "ranks of a step, the mean over steps. Balanced, each 128 micro-batches in a row have quick "
      "and slow ones in their shares; as drawn, they are a uniform draw. Where a rule would be "
      "slower than equal tokens, those are "
      "kept.");
  compare_on_mix(data, cost);
  compare_with_hand_tuned(data, cost);
  replay_recorded(data);
} catch (const std::exception& error) {
  std::fprintf(stderr, "plan_table: %s\n", error.what());
  return 1;
}
