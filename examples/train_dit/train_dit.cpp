// Trains a small video diffusion transformer on the CPU under several plans, ranks replayed one
// after the other, and compares how well they were used: benchmark, fit, plan, train.

#include <CLI/CLI.hpp>
#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "data.hpp"
#include "flow_matching.hpp"
#include "model.hpp"
#include "optimizer.hpp"
#include "output.hpp"
#include "parallel.hpp"
#include "progress.hpp"
#include "replay.hpp"
#include "report.hpp"

namespace al = adaptiveload;
using namespace train_dit;

namespace {

constexpr std::int64_t ranks = 8;
constexpr std::int64_t max_tokens = 3072;  // of a micro-batch: four of the longest clips
constexpr std::int64_t evaluations = 12;   // of the held-out loss, for each plan

struct demo_options {
  std::filesystem::path output = "train_dit-output";
  int seconds = 105;
  std::int64_t samples = 0;
  std::int64_t seed = 1;
  unsigned threads = default_threads();
};

/// Measures whole steps, on samples that nothing else uses; `record` keeps each result.
std::vector<al::measurement> benchmark(const dit_config& config, const demo_options& options,
                                       const std::filesystem::path& record) {
  dit<float> model(config);
  adamw<float> optimizer(model.parameters());
  const std::vector<std::int64_t> lengths = sequence_lengths();
  flow_batch<float> batch;
  std::pair<std::int64_t, std::int64_t> prepared;
  const auto step = [&](std::int64_t batch_size, std::int64_t sequence_length) {
    // The untimed warm-up of a shape makes its samples.
    if (prepared != std::pair(batch_size, sequence_length)) {
      const auto bucket = static_cast<std::size_t>(
          std::find(lengths.begin(), lengths.end(), sequence_length) - lengths.begin());
      batch =
          make_batch<float>(first_samples(config.seed, data_part::benchmark, bucket, batch_size));
      prepared = {batch_size, sequence_length};
    }
    flow_gradient(model, batch, 1.0);
    optimizer.step(1e-4);
  };
  progress bar("benchmark", "shapes");
  const auto show = [&](const al::benchmark_progress& p) {
    bar.show(p.elapsed_seconds / (p.elapsed_seconds + p.seconds_left),
             static_cast<double>(p.measured));
  };
  const al::measured_steps measured =
      al::benchmark_shapes(step, {.sequence_lengths = lengths,
                                  .budget_seconds = 0.2 * options.seconds,
                                  .max_tokens = max_tokens,
                                  .record = record,
                                  .on_progress = show});
  bar.show(1, static_cast<double>(measured.measurements.size()));
  std::set<std::int64_t> measured_lengths;
  for (const al::measurement& m : measured.measurements) measured_lengths.insert(m.sequence_length);
  if (measured.measurements.size() < 6 || measured_lengths.size() < 3) {
    throw std::runtime_error("this machine measures too few shapes in a fifth of --seconds " +
                             std::to_string(options.seconds) + "; give it more");
  }
  return measured.measurements;
}

/// The usual equal tokens, the published rule, and the library's own.
std::vector<training_run> plan(const al::power_law& law, const al::cost_model& cost,
                               std::uint64_t seed) {
  const std::vector<al::sample_source> sources{sample_counts(10'000)};
  std::vector<training_run> runs;
  for (const al::strategy strategy :
       {al::strategy::equal_tokens, al::strategy::dual_constraint, al::strategy::equal_time}) {
    const al::plan_options how{.strategy = strategy,
                               .max_tokens = max_tokens,
                               .exponent = std::min(law.p, 3.0),
                               .epoch = {.world_size = ranks, .seed = seed}};
    runs.push_back({.name = std::string(al::name_of(strategy)),
                    .plan = al::plan_buckets(sequence_lengths(), sources, cost, how)});
  }
  return runs;
}

/// As many samples as each run trains on if all of them together take `seconds`.
std::int64_t affordable_samples(const std::vector<training_run>& runs, double seconds) {
  double ms_per_sample = 0;
  for (const training_run& run : runs) {
    for (std::size_t i = 0; i < corpus.size(); ++i) {
      const al::bucket& b = run.plan.buckets[i];
      ms_per_sample += corpus[i].weight * b.step_ms / static_cast<double>(b.batch_size);
    }
  }
  constexpr double training = 0.93;  // the rest makes samples and measures the held-out loss
  return std::max(ranks, static_cast<std::int64_t>(1e3 * seconds * training / ms_per_sample));
}

/// Trains under each plan, from the same weights on the same samples.
void train(std::vector<training_run>& runs, const dit_config& config, const al::cost_model& cost,
           std::int64_t samples, std::uint64_t seed) {
  const dit<float> initial(config);
  const al::sample_source source = sample_counts(samples);
  std::vector<std::unique_ptr<replay>> replays;
  for (training_run& run : runs) {
    replays.push_back(std::make_unique<replay>(
        al::plan_epoch(run.plan.buckets, source.counts, run.plan.epoch), initial, seed));
    run.predicted = al::simulate(replays.back()->epoch(), cost);
  }
  std::vector<flow_batch<float>> held_out;
  for (std::size_t bucket = 0; bucket < corpus.size(); ++bucket) {
    held_out.push_back(make_batch<float>(first_samples(seed, data_part::held_out, bucket, 4)));
  }
  const auto held_out_loss = [&](dit<float>& model) {
    double loss = 0;
    for (const flow_batch<float>& batch : held_out) loss += flow_loss(model, batch);
    return loss / static_cast<double>(held_out.size());
  };

  progress bar("training", "samples");
  const std::int64_t all = source.samples();
  for (;;) {
    // Whichever is behind goes on, so that a change in the machine's speed hits all alike.
    const auto behind =
        std::min_element(replays.begin(), replays.end(),
                         [](const auto& a, const auto& b) { return a->samples() < b->samples(); });
    replay& now = **behind;
    if (now.finished()) break;
    training_run& run = runs[static_cast<std::size_t>(behind - replays.begin())];
    const std::int64_t before = now.samples();
    run.steps.push_back(now.step());
    run.held_out_loss.emplace_back();
    if (before * evaluations / all != now.samples() * evaluations / all) {
      run.held_out_loss.back() = held_out_loss(now.model());
    }
    std::int64_t done = 0;
    for (const auto& each : replays) done += each->samples();
    char note[32];
    std::snprintf(note, sizeof note, "loss %.3f", run.steps.back().loss);
    bar.show(static_cast<double>(done) / static_cast<double>(all * std::ssize(runs)),
             static_cast<double>(done), note);
  }
}

void run_demo(const demo_options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  pool(options.threads);
  make_directory(options.output);
  const std::filesystem::path record = options.output / "measurements.csv";
  std::filesystem::remove(partial(record));
  const auto seed = static_cast<std::uint64_t>(options.seed);
  const dit_config config{.patch_features = patch_features, .seed = seed};
  const std::vector<al::measurement> measurements = benchmark(config, options, partial(record));

  const al::power_law law = al::fit_power_law(measurements);
  const al::cost_model cost = al::fit_cost_model(measurements);
  print_fit(law, cost);
  std::vector<training_run> runs = plan(law, cost, seed);
  print_plans(runs);

  const std::int64_t samples =
      options.samples > 0 ? options.samples : affordable_samples(runs, options.seconds - elapsed());
  std::printf("\nTraining on about %jd samples, %jd ranks replayed on this machine\n",
              std::intmax_t{samples}, std::intmax_t{ranks});
  std::fflush(stdout);
  train(runs, config, cost, samples, seed);

  print_results(runs);
  write_file(options.output / "plan.json", to_json(law, cost, runs).dump(2) + '\n');
  write_file(options.output / "loss.csv", loss_csv(runs));
  write_file(options.output / "steps.csv", steps_csv(runs));
  std::filesystem::rename(partial(record), record);
  std::printf("\n%.0f s; measurements.csv, plan.json, loss.csv and steps.csv are in %s\n",
              elapsed(), options.output.string().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  demo_options options;
  CLI::App app{
      "Trains a small video DiT on the CPU with equal tokens and with planned buckets, eight "
      "ranks\n"
      "replayed, and compares how well the ranks were used.\n\n"
      "Example: train_dit --output out/demo && python3 examples/train_dit/plot.py out/demo\n"};
  app.add_option("--output", options.output, "Directory for the results, made if need be")
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "How long all of it may take, about")
      ->check(CLI::Range(5, 86'400))
      ->capture_default_str();
  app.add_option("--samples", options.samples, "Samples to train on; 0: as many as the time allows")
      ->check(CLI::Range(0, 100'000'000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Of the weights, the samples and their order")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads of each rank's step")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    run_demo(options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "train_dit: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "train_dit: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
