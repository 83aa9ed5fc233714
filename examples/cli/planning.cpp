#include "planning.hpp"

#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>

#include "byte_count.hpp"
#include "text.hpp"

namespace adaptiveload::cli {
namespace {

/// "4x8x8/1x2x2": the autoencoder's strides in time, height and width, and the patch.
tokenizer read_tokenizer(const std::string& text) {
  std::array<std::intmax_t, 6> n{};
  int end = -1;
  std::sscanf(text.c_str(), "%jdx%jdx%jd/%jdx%jdx%jd%n", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
              &end);
  bool valid = end == static_cast<int>(text.size()) && n[1] == n[2];
  for (const std::intmax_t each : n) valid = valid && each >= 1 && each <= 4096;
  detail::require(valid, "--tokenizer", '"' + text + '"',
                  "strides and patch, each time x height x width, as in 4x8x8/1x2x2; the strides "
                  "of height and width must be equal");
  return {.temporal_stride = n[0],
          .spatial_stride = n[1],
          .patch_frames = n[3],
          .patch_height = n[4],
          .patch_width = n[5],
          .first_frame_alone = true};
}

std::int64_t max_tokens(const planning_options& options, const measured_cost& fitted) {
  if (options.memory.empty()) return options.plan.max_tokens;
  return naming(options.measurements.string(), [&] {
    detail::require(fitted.memory.has_value(), "peak_memory_bytes", "missing",
                    "steps of two or more sizes, to plan for --memory");
    return fitted.memory->max_tokens(byte_count(options.memory), options.margin);
  });
}

corpus read_corpus(const planning_options& options, const token_count& tokens) {
  if (!options.shapes.empty()) return read_shares(options.shapes, tokens, options.samples);
  if (options.buckets.empty()) return read_samples(options.manifest, tokens);
  const corpus buckets = read_shares(options.buckets, tokens, 0);
  const bool is_error = options.unfit == "error";
  return read_samples(options.manifest, buckets,
                      is_error ? unfit_samples::are_errors : unfit_samples::are_remainder);
}

}  // namespace

void add_planning_options(CLI::App& command, planning_options& options,
                          const std::string& about_strategy) {
  constexpr std::int64_t least = 1;
  const auto up_to = [](std::int64_t most) { return CLI::Range(least, most); };
  epoch_options& epoch = options.plan.epoch;

  CLI::Option* shapes =
      command
          .add_option(
              "--shapes", options.shapes,
              "The corpus as shapes: frames, height, width and weight (else they are equal)")
          ->type_name("FILE");
  command.add_option("--samples", options.samples, "Samples of an epoch, shared out by weight")
      ->needs(shapes)
      ->check(up_to(std::int64_t{1} << 40))
      ->capture_default_str();
  CLI::Option* manifest =
      command
          .add_option("--manifest", options.manifest,
                      "Instead of --shapes: the samples, one a row: frames, height, width")
          ->excludes(shapes)
          ->type_name("FILE");
  CLI::Option* buckets = command
                             .add_option("--buckets", options.buckets,
                                         "Shapes that the manifest's samples are cut to, each to "
                                         "the nearest that is not larger")
                             ->needs(manifest)
                             ->type_name("FILE");
  command.add_option("--unfit", options.unfit, "What a sample is that fits no bucket")
      ->needs(buckets)
      ->check(CLI::IsMember({"error", "remainder"}))
      ->capture_default_str();
  command
      .add_option("--tokenizer", options.tokenizer,
                  "Strides of the autoencoder and patch, each time x height x width")
      ->capture_default_str();
  command
      .add_option("--measurements", options.measurements,
                  "Measured steps: batch_size, sequence_length, step_ms and, for --memory, "
                  "peak_memory_bytes")
      ->required()
      ->type_name("FILE");

  CLI::Option* tokens =
      command.add_option("--max-tokens", options.plan.max_tokens, "Tokens of a micro-batch")
          ->check(up_to(longest_sequence));
  CLI::Option* memory = command
                            .add_option("--memory", options.memory,
                                        "Instead of --max-tokens: the GPU's memory, as in 140GB")
                            ->excludes(tokens);
  command.add_option("--margin", options.margin, "Share of the memory to leave free")
      ->needs(memory)
      ->capture_default_str();
  command.add_option("--ranks", epoch.world_size, "Ranks that see different samples")
      ->required()
      ->check(up_to(1 << 20));
  command.add_option("--micro-batches", epoch.micro_batches, "Of each rank in a step")
      ->check(up_to(1 << 20))
      ->capture_default_str();
  command
      .add_option("--ranks-wait", options.ranks_wait,
                  "Where ranks wait for each other: at every step (DDP, ZeRO-1 and 2) or at every "
                  "micro-batch (FSDP, ZeRO-3)")
      ->required()
      ->check(CLI::IsMember({"step", "micro-batch"}));
  command.add_option("--lookahead", epoch.lookahead, "Steps drawn and dealt together")
      ->check(up_to(1 << 20))
      ->capture_default_str();
  command.add_option("--seed", epoch.seed, "Of the order of the samples")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 63))
      ->capture_default_str();
  command
      .add_option("--exponent", options.plan.exponent,
                  "p of the dual constraint, B S^p <= a limit that is chosen")
      ->check(CLI::Range(0.0, 3.0))
      ->capture_default_str();
  const auto by_name = [&options](std::string name) {
    const auto is_dash = [](char c) { return c == '-' || c == '_'; };
    std::replace_if(name.begin(), name.end(), is_dash, ' ');
    try {
      options.plan.strategy = named<strategy>(name);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError("--strategy", error.what());
    }
  };
  command.add_option_function<std::string>("--strategy", by_name, about_strategy)
      ->type_name("NAME")
      ->default_str("equal-time");
  command.add_option("--json", options.json, "File for the result as JSON")->type_name("FILE");
}

planning_problem read_problem(const planning_options& options) {
  if (options.shapes.empty() && options.manifest.empty()) {
    throw CLI::RequiredError("--shapes or --manifest");
  }
  if (options.plan.max_tokens == 0 && options.memory.empty()) {
    throw CLI::RequiredError("--max-tokens or --memory");
  }
  const tokenizer tokenizer = read_tokenizer(options.tokenizer);
  measured_cost fitted = read_measured_cost(options.measurements);
  plan_options plan = options.plan;
  plan.max_tokens = max_tokens(options, fitted);
  plan.epoch.ranks_wait =
      options.ranks_wait == "step" ? ranks_wait::every_step : ranks_wait::every_micro_batch;
  const auto tokens = [&](const video_shape& shape) {
    const std::int64_t count = tokenizer.tokens(shape);
    detail::require(count <= plan.max_tokens, "tokens of a sample", count,
                    "at most the " + std::to_string(plan.max_tokens) + " of a micro-batch");
    return count;
  };
  corpus corpus = read_corpus(options, tokens);
  return {std::move(fitted), std::move(corpus), plan};
}

corpus_plan with_corpus(bucket_plan plan, const planning_problem& problem) {
  corpus_plan planned{.plan = std::move(plan), .corpus = {}};
  for (std::size_t i = 0; i < planned.plan.buckets.size(); ++i) {
    const bucket& b = planned.plan.buckets[i];
    planned.corpus.push_back(
        {problem.corpus.shapes[i], problem.corpus.samples[i],
         problem.fitted.cost.predict(b.batch_size, b.sequence_length).extrapolated});
  }
  return planned;
}

void print_corpus(std::ostream& out, const planning_problem& problem) {
  const std::int64_t samples = std::accumulate(problem.corpus.samples.begin(),
                                               problem.corpus.samples.end(), std::int64_t{0});
  out << grouped(samples) << " samples in " << problem.corpus.shapes.size() << " buckets";
  if (problem.corpus.remainder > 0) {
    out << "; " << grouped(problem.corpus.remainder) << " fit none and are left out";
  }
  out << "; at most " << grouped(problem.options.max_tokens) << " tokens a micro-batch";
  const auto& memory = problem.fitted.memory;
  if (memory && problem.options.max_tokens > memory->most_tokens) {
    out << " (memory was measured up to " << grouped(memory->most_tokens) << ")";
  }
  out << '\n';
}

}  // namespace adaptiveload::cli
