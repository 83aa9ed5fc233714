#pragma once

#include <adaptiveload/schedule.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json_field.hpp"

namespace adaptiveload::cli {

/// What a plan's file says of a bucket beyond its batch size.
struct corpus_bucket {
  video_shape shape;
  std::int64_t samples = 0;   ///< in one pass over the corpus
  bool extrapolated = false;  ///< a full micro-batch lies outside what was measured

  friend bool operator==(const corpus_bucket&, const corpus_bucket&) = default;
};

/// A plan together with the corpus that it is for.
struct corpus_plan {
  bucket_plan plan;
  std::vector<corpus_bucket> corpus;  ///< one for each of the plan's buckets

  /// The plan's epochs: what a trainer runs.
  [[nodiscard]] epoch_plan epoch(std::int64_t index = 0) const {
    std::vector<std::int64_t> counts;
    for (const corpus_bucket& b : corpus) counts.push_back(b.samples);
    return plan_epoch(plan.buckets, counts, plan.epoch, index);
  }
};

inline nlohmann::ordered_json to_json(const load_report& r) {
  return {{"epoch_ms", r.epoch_ms},
          {"steps", r.steps},
          {"samples", r.samples},
          {"tokens", r.tokens},
          {"peak_tokens", r.peak_tokens},
          {"bubble", r.bubble},
          {"step_cv", r.step_cv},
          {"compute_cv", r.compute_cv},
          {"tokens_per_second_per_rank", r.tokens_per_second_per_rank},
          {"samples_per_second_per_rank", r.samples_per_second_per_rank}};
}

inline nlohmann::ordered_json to_json(const epoch_options& o) {
  return {{"world_size", o.world_size},
          {"micro_batches", o.micro_batches},
          {"ranks_wait", name_of(o.ranks_wait)},
          {"lookahead", o.lookahead},
          {"step_ms", o.step_ms},
          {"dealing", name_of(o.dealing)},
          {"mean_over", name_of(o.mean_over)},
          {"keep_partial", o.keep_partial},
          {"seed", o.seed}};
}

/// A plan as JSON, in the schema that README.md describes.
inline nlohmann::ordered_json to_json(const corpus_plan& planned) {
  const bucket_plan& plan = planned.plan;
  nlohmann::ordered_json document{{"version", 1},
                                  {"strategy", name_of(plan.strategy)},
                                  {"reason", plan.reason},
                                  {"max_tokens", plan.limits.max_tokens}};
  if (plan.limits.max_compute < std::numeric_limits<double>::infinity()) {
    document["max_compute"] = plan.limits.max_compute;
    document["exponent"] = plan.limits.exponent;
  }
  if (plan.target_ms > 0) document["target_ms"] = plan.target_ms;
  document["epoch"] = to_json(plan.epoch);
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const bucket& b = plan.buckets[i];
    const corpus_bucket& c = planned.corpus[i];
    document["buckets"].push_back({{"frames", c.shape.frames},
                                   {"height", c.shape.height},
                                   {"width", c.shape.width},
                                   {"samples", c.samples},
                                   {"sequence_length", b.sequence_length},
                                   {"batch_size", b.batch_size},
                                   {"bound", name_of(b.bound)},
                                   {"predicted_ms", b.step_ms},
                                   {"single_sample_ms", b.single_ms},
                                   {"extrapolated", c.extrapolated}});
  }
  document["speedup"] = plan.speedup;
  document["expected"] = to_json(plan.expected);
  return document;
}

/// What `to_json` wrote of a report.
inline load_report read_report(const json_field& field) {
  return {.steps = field["steps"].integer(0),
          .samples = field["samples"].integer(0),
          .tokens = field["tokens"].integer(0),
          .peak_tokens = field["peak_tokens"].integer(0),
          .epoch_ms = field["epoch_ms"].number(0),
          .bubble = field["bubble"].number(0, 1),
          .compute_cv = field["compute_cv"].number(0),
          .step_cv = field["step_cv"].number(0),
          .tokens_per_second_per_rank = field["tokens_per_second_per_rank"].number(0),
          .samples_per_second_per_rank = field["samples_per_second_per_rank"].number(0)};
}

inline epoch_options read_epoch_options(const json_field& field) {
  return {.world_size = field["world_size"].integer(1),
          .micro_batches = field["micro_batches"].integer(1),
          .seed = field["seed"].unsigned_integer(),
          .ranks_wait = field["ranks_wait"].one_of<ranks_wait>(),
          .lookahead = field["lookahead"].integer(1),
          .step_ms = field["step_ms"].number(0),
          .mean_over = field["mean_over"].one_of<gradient_mean>(),
          .keep_partial = field["keep_partial"].boolean(),
          .dealing = field["dealing"].one_of<dealing>()};
}

/// The plan that `to_json` wrote; members that it does not write are passed over.
///
/// Whatever it returns, `plan_epoch` takes. Throws `std::invalid_argument` that says where the text
/// is not JSON, by line and column, or names the member that is not what it must be.
inline corpus_plan plan_from_json(std::string_view text) {
  const nlohmann::json document = parse_json(text);
  const json_field field(document, "");
  (void)field["version"].integer(1, 1);
  corpus_plan planned;
  bucket_plan& plan = planned.plan;
  plan.strategy = field["strategy"].one_of<strategy>();
  plan.reason = field["reason"].text();
  plan.limits.max_tokens = field["max_tokens"].integer(1);
  if (const auto max_compute = field.find("max_compute")) {
    plan.limits.max_compute = max_compute->positive();
    plan.limits.exponent = field["exponent"].number(0, 3);
  }
  if (const auto target_ms = field.find("target_ms")) plan.target_ms = target_ms->positive();
  plan.epoch = read_epoch_options(field["epoch"]);
  for (const json_field& each : field["buckets"].elements()) {
    plan.buckets.push_back({.sequence_length = each["sequence_length"].integer(1, longest_sequence),
                            .batch_size = each["batch_size"].integer(1, std::int64_t{1} << 31),
                            .step_ms = each["predicted_ms"].positive(),
                            .single_ms = each["single_sample_ms"].positive(),
                            .bound = each["bound"].one_of<batch_bound>()});
    planned.corpus.push_back({.shape = {.frames = each["frames"].integer(1),
                                        .height = each["height"].integer(1),
                                        .width = each["width"].integer(1)},
                              .samples = each["samples"].integer(0, std::int64_t{1} << 40),
                              .extrapolated = each["extrapolated"].boolean()});
  }
  plan.speedup = field["speedup"].positive();
  plan.expected = read_report(field["expected"]);
  (void)planned.epoch();  // throws what no single member shows
  return planned;
}

}  // namespace adaptiveload::cli
