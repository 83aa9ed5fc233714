#include <adaptiveload/schedule.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.hpp"
#include "measured_cost.hpp"
#include "output.hpp"
#include "text.hpp"

namespace adaptiveload::cli {
namespace {

using json = nlohmann::ordered_json;

struct fit_options {
  std::filesystem::path measurements;
  std::filesystem::path predict;
  std::filesystem::path json;
};

struct predicted_shape {
  step_shape shape;
  prediction predicted;
};

std::vector<predicted_shape> predict_shapes(const std::filesystem::path& file,
                                            const cost_model& cost) {
  std::ifstream in = detail::open_csv(file);
  csv_reader rows(in, file.string());
  const auto batch_size = rows.column("batch_size");
  const auto sequence_length = rows.column("sequence_length");
  std::vector<predicted_shape> shapes;
  while (rows.next()) {
    const step_shape shape{rows.positive<std::int64_t>(batch_size),
                           rows.positive<std::int64_t>(sequence_length)};
    if (shape.batch_size > std::numeric_limits<std::int64_t>::max() / shape.sequence_length) {
      rows.reject(batch_size, "fewer than 2^63 tokens");
    }
    shapes.push_back({shape, cost.predict(shape.batch_size, shape.sequence_length)});
  }
  return shapes;
}

json to_json(const cost_curve& c) {
  return {{"floor_ms", c.floor_ms}, {"fixed_ms", c.fixed_ms}, {"per_sample", c.per_sample},
          {"slope", c.slope},       {"exponent", c.exponent}, {"quadratic", c.quadratic}};
}

json to_json(const relative_error& e) {
  return {{"mean", e.mean}, {"worst", e.worst}};
}

json to_json(const measured_cost& fitted, const std::vector<predicted_shape>& predictions) {
  const measured_range range = fitted.cost.range();
  json document{{"form", name_of(fitted.cost.form())},
                {"measurements", fitted.steps.measurements.size()},
                {"measured",
                 {{"batch_size", {range.least_batch_size, range.most_batch_size}},
                  {"sequence_length", {range.least_sequence_length, range.most_sequence_length}},
                  {"tokens", {range.least_tokens, range.most_tokens}}}}};
  for (const cost_candidate& c : fitted.cost.candidates()) {
    document["forms"].push_back({{"form", name_of(c.form)},
                                 {"coefficients", to_json(c.curve)},
                                 {"standard_errors", to_json(c.standard_errors)},
                                 {"in_sample", to_json(c.in_sample)},
                                 {"held_out", to_json(c.held_out)}});
  }
  if (fitted.memory) {
    document["memory"] = {{"fixed_bytes", fitted.memory->fixed_bytes},
                          {"bytes_per_token", fitted.memory->bytes_per_token},
                          {"mean_relative_excess", fitted.memory->mean_relative_excess},
                          {"worst_relative_excess", fitted.memory->worst_relative_excess},
                          {"most_tokens", fitted.memory->most_tokens}};
  }
  for (const auto& [shape, predicted] : predictions) {
    document["predictions"].push_back(
        {{"batch_size", shape.batch_size},
         {"sequence_length", shape.sequence_length},
         {"predicted_ms", predicted.step_ms},
         {"extrapolated", predicted.extrapolated},
         {"relative_standard_error", predicted.relative_standard_error}});
  }
  return document;
}

/// The curve as a formula in B and S, in milliseconds.
std::string formula(const cost_candidate& c) {
  if (c.form == cost_form::interpolated) return "the best of these, corrected at measured shapes";
  std::string sample;
  if (detail::has_per_sample(c.form)) sample = general(c.curve.per_sample, 3) + " + ";
  sample += general(c.curve.slope, 3) + " S";
  if (detail::has_exponent(c.form)) {
    sample += "^" + general(c.curve.exponent, 4);
  } else {
    sample += " + " + general(c.curve.quadratic, 3) + " S^2";
  }
  const std::string step = general(c.curve.fixed_ms, 3) + " + B (" + sample + ")";
  return detail::has_floor(c.form) ? "max(" + general(c.curve.floor_ms, 3) + ", " + step + ")"
                                   : step;
}

void print_fit(const measured_cost& fitted) {
  const measured_range range = fitted.cost.range();
  std::cout << fitted.steps.measurements.size() << " measured steps of " << range.least_batch_size
            << " to " << range.most_batch_size << " samples (B) of "
            << grouped(range.least_sequence_length) << " to " << grouped(range.most_sequence_length)
            << " tokens (S), " << grouped(range.least_tokens) << " to "
            << grouped(range.most_tokens) << " tokens a step\n\n";
  text_table errors("lrrrrl",
                    {"form", "error: mean", "worst", "unseen lengths: mean", "worst", ""});
  text_table formulas("ll", {"form", "milliseconds of a step"});
  for (const cost_candidate& c : fitted.cost.candidates()) {
    const std::string form(name_of(c.form));
    errors.add({form, percent(c.in_sample.mean), percent(c.in_sample.worst),
                percent(c.held_out.mean), percent(c.held_out.worst),
                c.form == fitted.cost.form() ? "chosen" : ""});
    formulas.add({form, formula(c)});
  }
  std::cout << errors << '\n' << formulas;
  if (fitted.memory) {
    std::cout << "\npeak memory at most " << fixed(fitted.memory->fixed_bytes / 1e9, 2) << " GB + "
              << fixed(fitted.memory->bytes_per_token / 1e6, 3) << " MB a token; above what was "
              << "measured by " << percent(fitted.memory->mean_relative_excess) << " on average, "
              << percent(fitted.memory->worst_relative_excess) << " at most\n";
  }
}

void print_predictions(const std::vector<predicted_shape>& predictions) {
  std::cout << "batch_size,sequence_length,predicted_ms,extrapolated\n";
  for (const auto& [shape, predicted] : predictions) {
    std::cout << shape.batch_size << ',' << shape.sequence_length << ','
              << general(predicted.step_ms, 7) << ',' << (predicted.extrapolated ? "true" : "false")
              << '\n';
  }
}

void fit(const fit_options& options) {
  const measured_cost fitted = read_measured_cost(options.measurements);
  std::vector<predicted_shape> predictions;
  if (!options.predict.empty()) predictions = predict_shapes(options.predict, fitted.cost);
  if (!options.json.empty()) {
    write_file(options.json, to_json(fitted, predictions).dump(2) + '\n');
  }
  if (options.predict.empty()) {
    print_fit(fitted);
  } else {
    print_predictions(predictions);
  }
}

}  // namespace

void add_fit(CLI::App& app) {
  const auto options = std::make_shared<fit_options>();
  CLI::App& command = *app.add_subcommand(
      "fit", "Fits the time of a step to measured steps and says how well each form predicts");
  command
      .add_option("MEASUREMENTS", options->measurements,
                  "Measured steps: batch_size, sequence_length (tokens of a sample), step_ms")
      ->required()
      ->type_name("FILE");
  command
      .add_option("--predict", options->predict,
                  "Steps to predict: batch_size, sequence_length; prints the predictions as "
                  "CSV, and nothing else")
      ->type_name("FILE");
  command.add_option("--json", options->json, "File for the fit, and the predictions, as JSON")
      ->type_name("FILE");
  command.footer(
      "Example:\n"
      "  adaptiveload fit data/wan2.1_1.3b_h200_steps.csv --predict "
      "data/fsdp2_2xh200_shapes.csv\n");
  command.callback([options] { fit(*options); });
}

}  // namespace adaptiveload::cli
