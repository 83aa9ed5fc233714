#pragma once

#include <adaptiveload/schedule.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "replay.hpp"

/// What the demo prints and writes.
namespace train_dit {

/// Training under one plan, as it was run.
struct training_run {
  std::string name;
  adaptiveload::bucket_plan plan;
  adaptiveload::load_report predicted{};
  std::vector<step_run> steps{};
  std::vector<std::optional<double>> held_out_loss{};  ///< after each step, where it was measured

  [[nodiscard]] adaptiveload::load_report measured() const {
    adaptiveload::load_recorder recorder(plan.epoch.world_size);
    for (const step_run& s : steps) recorder.add_step(s.rank_ms, s.ms(), s.samples, s.tokens);
    return recorder.report();
  }

  /// Over the last tenth of the samples.
  [[nodiscard]] double final_training_loss() const {
    std::int64_t all = 0;
    for (const step_run& s : steps) all += s.samples;
    double loss = 0, samples = 0;
    for (auto s = steps.rbegin(); s != steps.rend() && 10 * samples < static_cast<double>(all);
         ++s) {
      loss += s->loss * static_cast<double>(s->samples);
      samples += static_cast<double>(s->samples);
    }
    return loss / samples;
  }
};

inline void print_fit(const adaptiveload::power_law& law, const adaptiveload::cost_model& cost) {
  std::printf(
      "\nStep time fitted as a + b B S^p: a = %.3g ms, b = %.3g ms, p = %.3f; R2 = %.4f, "
      "error %.1f %% mean, %.1f %% worst\n",
      law.a, law.b, law.p, law.r_squared, 100 * law.mean_relative_error,
      100 * law.worst_relative_error);
  std::printf("%-20s %16s %16s\n", "form", "error, in sample", "unseen lengths");
  for (const adaptiveload::cost_candidate& c : cost.candidates()) {
    std::printf("%-20s %14.1f %% %14.1f %%%s\n", adaptiveload::name_of(c.form).data(),
                100 * c.in_sample.mean, 100 * c.held_out.mean,
                c.form == cost.form() ? "  <- chosen" : "");
  }
}

inline void print_plans(const std::vector<training_run>& runs) {
  std::printf("\nSamples in a micro-batch, and its predicted milliseconds\n%-8s %8s", "shape",
              "tokens");
  for (const training_run& run : runs) std::printf(" %20s", run.name.c_str());
  for (std::size_t i = 0; i < corpus.size(); ++i) {
    const adaptiveload::video_shape& s = corpus[i].shape;
    std::printf("\n%jdx%jdx%-3jd %8jd", std::intmax_t{s.frames}, std::intmax_t{s.height},
                std::intmax_t{s.width}, std::intmax_t{tokenizer.tokens(s)});
    for (const training_run& run : runs) {
      const adaptiveload::bucket& b = run.plan.buckets[i];
      std::printf(" %8jd %8.1f ms", std::intmax_t{b.batch_size}, b.step_ms);
    }
  }
  std::printf("\n\n");
  for (const training_run& run : runs) {
    std::printf("%s: ", run.name.c_str());
    const adaptiveload::batch_limits& limits = run.plan.limits;
    if (std::isfinite(limits.max_compute)) {
      std::printf("B S^%.2f <= %.3g, ", limits.exponent, limits.max_compute);
    }
    if (run.plan.target_ms > 0) std::printf("at most %.1f ms, ", run.plan.target_ms);
    std::printf("%s\n", run.plan.reason.c_str());
  }
}

/// The plans side by side.
inline void print_results(const std::vector<training_run>& runs) {
  const auto row = [&](const char* name, const char* format, auto value) {
    std::printf("%-34s", name);
    for (const training_run& run : runs) {
      char text[32];
      std::snprintf(text, sizeof text, format, value(run));
      std::printf(" %16s", text);
    }
    std::printf("\n");
  };
  std::printf("\n%-34s", "");
  for (const training_run& run : runs) std::printf(" %16s", run.name.c_str());
  std::printf("\n");
  row("samples", "%.0f", [](auto& r) { return static_cast<double>(r.measured().samples); });
  row("steps", "%.0f", [](auto& r) { return static_cast<double>(r.measured().steps); });
  row("training time, s", "%.1f", [](auto& r) { return r.measured().epoch_ms / 1e3; });
  row("  speed, equal tokens = 1", "%.2f",
      [&](auto& r) { return runs.front().measured().epoch_ms / r.measured().epoch_ms; });
  row("  predicted, s", "%.1f", [](auto& r) { return r.predicted.epoch_ms / 1e3; });
  row("bubble, %", "%.1f", [](auto& r) { return 100 * r.measured().bubble; });
  row("  predicted, %", "%.1f", [](auto& r) { return 100 * r.predicted.bubble; });
  row("CV of step time", "%.3f", [](auto& r) { return r.measured().step_cv; });
  row("CV of ranks' work in a step", "%.3f", [](auto& r) { return r.measured().compute_cv; });
  row("tokens per second and rank", "%.0f",
      [](auto& r) { return r.measured().tokens_per_second_per_rank; });
  row("final loss, training", "%.4f", [](auto& r) { return r.final_training_loss(); });
  row("final loss, held out", "%.4f", [](auto& r) { return r.held_out_loss.back().value(); });
}

inline nlohmann::json to_json(const adaptiveload::load_report& r) {
  return {
      {"steps", r.steps},           {"samples", r.samples},
      {"tokens", r.tokens},         {"epoch_ms", r.epoch_ms},
      {"bubble", r.bubble},         {"step_cv", r.step_cv},
      {"compute_cv", r.compute_cv}, {"tokens_per_second_per_rank", r.tokens_per_second_per_rank}};
}

/// The fit, and of each plan its limits, its buckets, and its report as predicted and measured.
inline nlohmann::json to_json(const adaptiveload::power_law& law,
                              const adaptiveload::cost_model& cost,
                              const std::vector<training_run>& runs) {
  nlohmann::json document;
  document["power_law"] = {{"a", law.a},
                           {"b", law.b},
                           {"p", law.p},
                           {"r_squared", law.r_squared},
                           {"mean_relative_error", law.mean_relative_error},
                           {"worst_relative_error", law.worst_relative_error}};
  document["cost_form"] = adaptiveload::name_of(cost.form());
  for (const training_run& run : runs) {
    nlohmann::json plan{{"name", run.name},
                        {"reason", run.plan.reason},
                        {"world_size", run.plan.epoch.world_size},
                        {"seed", run.plan.epoch.seed},
                        {"max_tokens", run.plan.limits.max_tokens},
                        {"predicted", to_json(run.predicted)},
                        {"measured", to_json(run.measured())},
                        {"final_training_loss", run.final_training_loss()},
                        {"final_held_out_loss", run.held_out_loss.back().value()}};
    if (std::isfinite(run.plan.limits.max_compute)) {
      plan["max_compute"] = run.plan.limits.max_compute;
      plan["exponent"] = run.plan.limits.exponent;
    }
    if (run.plan.target_ms > 0) plan["target_ms"] = run.plan.target_ms;
    for (std::size_t i = 0; i < corpus.size(); ++i) {
      const adaptiveload::bucket& b = run.plan.buckets[i];
      plan["buckets"].push_back({{"frames", corpus[i].shape.frames},
                                 {"height", corpus[i].shape.height},
                                 {"width", corpus[i].shape.width},
                                 {"sequence_length", b.sequence_length},
                                 {"batch_size", b.batch_size},
                                 {"predicted_ms", b.step_ms}});
    }
    document["plans"].push_back(plan);
  }
  return document;
}

/// One row a step: `held_out_loss` is empty where it was not measured.
inline std::string loss_csv(const std::vector<training_run>& runs) {
  std::ostringstream out;
  out << "plan,step,samples,seconds,loss,held_out_loss\n";
  for (const training_run& run : runs) {
    std::int64_t samples = 0;
    double seconds = 0;
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      samples += run.steps[i].samples;
      seconds += run.steps[i].ms() / 1e3;
      out << run.name << ',' << i << ',' << samples << ',' << seconds << ',' << run.steps[i].loss
          << ',';
      if (run.held_out_loss[i]) out << *run.held_out_loss[i];
      out << '\n';
    }
  }
  return out.str();
}

/// One row a micro-batch, with the time of its step.
inline std::string steps_csv(const std::vector<training_run>& runs) {
  std::ostringstream out;
  out << "plan,step,rank,batch_size,sequence_length,micro_batch_ms,step_ms\n";
  for (const training_run& run : runs) {
    for (std::size_t i = 0; i < run.steps.size(); ++i) {
      for (const micro_batch_run& m : run.steps[i].micro_batches) {
        out << run.name << ',' << i << ',' << m.rank << ',' << m.batch_size << ','
            << m.sequence_length << ',' << m.ms << ',' << run.steps[i].ms() << '\n';
      }
    }
  }
  return out.str();
}

}  // namespace train_dit
