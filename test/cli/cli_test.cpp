#include <gtest/gtest.h>

#include <adaptiveload/schedule.hpp>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "command.hpp"
#include "plan_json.hpp"

namespace al = adaptiveload;
using nlohmann::json;

namespace {

using Fit = CommandLine;
using Plan = CommandLine;
using Compare = CommandLine;
using Replay = CommandLine;
using Help = CommandLine;

const std::string wan_steps = "data/wan2.1_1.3b_h200_steps.csv";
const std::string wan_mix = " --shapes data/wan_mix.csv --measurements " + wan_steps;

std::vector<double> numbers_of(const std::string& csv_line) {
  std::vector<double> numbers;
  std::istringstream in(csv_line);
  for (std::string field; std::getline(in, field, ',');) {
    numbers.push_back(std::strtod(field.c_str(), nullptr));
  }
  return numbers;
}

TEST_F(Fit, PredictionsAreAllOfTheOutput) {
  const std::string shapes = file("shapes.csv", "sequence_length,batch_size\n75600,1\n1560,54\n");
  const result r = adaptiveload("fit " + wan_steps + " --predict " + shapes);
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "");
  const std::vector<std::string> lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "batch_size,sequence_length,predicted_ms,extrapolated");
  const al::cost_model cost =
      al::fit_cost_model(al::read_measurements(std::filesystem::path(PROJECT_FOLDER) / wan_steps));
  EXPECT_NEAR(numbers_of(lines[1])[2], cost.step_ms(1, 75600), 1e-2);
  EXPECT_NEAR(numbers_of(lines[2])[2], cost.step_ms(54, 1560), 1e-2);
}

TEST_F(Fit, SaysWhichPredictionsAreExtrapolated) {
  const std::string shapes =
      file("shapes.csv", "batch_size,sequence_length\n1,75600\n2,75600\n1,255\n");
  const std::vector<std::string> lines =
      lines_of(adaptiveload("fit " + wan_steps + " --predict " + shapes).out);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_TRUE(lines[1].ends_with(",false"));
  EXPECT_TRUE(lines[2].ends_with(",true"));
  EXPECT_TRUE(lines[3].ends_with(",true"));
}

TEST_F(Fit, WritesEveryFormWithItsErrors) {
  const std::string out = (folder / "fit.json").string();
  const result r = adaptiveload("fit " + wan_steps + " --json " + out);
  ASSERT_EQ(r.code, 0) << r.err;
  const json fit = json::parse(contents(out));
  ASSERT_EQ(fit.at("forms").size(), 6u);
  for (const json& form : fit.at("forms")) {
    EXPECT_NE(r.out.find(form.at("form").get<std::string>()), std::string::npos);
    EXPECT_GE(form.at("coefficients").at("slope"), 0.0);
    EXPECT_GE(form.at("held_out").at("worst"), form.at("held_out").at("mean"));
  }
  EXPECT_GT(fit.at("memory").at("bytes_per_token"), 0.0);
}

TEST_F(Plan, WritesWhatPlanFromJsonReads) {
  const std::string out = (folder / "plan.json").string();
  const result r = adaptiveload("plan" + wan_mix +
                                " --memory 140GB --ranks 8 --micro-batches 4"
                                " --ranks-wait micro-batch --seed 7 --json " +
                                out);
  ASSERT_EQ(r.code, 0) << r.err;
  const al::cli::corpus_plan planned = al::cli::plan_from_json(contents(out));
  EXPECT_EQ(planned.plan.epoch.world_size, 8);
  EXPECT_EQ(planned.plan.epoch.micro_batches, 4);
  EXPECT_EQ(planned.plan.epoch.ranks_wait, al::ranks_wait::every_micro_batch);
  EXPECT_EQ(planned.plan.epoch.seed, 7u);
  EXPECT_EQ(planned.epoch().samples(), 60'000);
  ASSERT_EQ(planned.corpus.size(), 11u);
  EXPECT_EQ(planned.corpus.front().shape, (al::video_shape{1, 512, 512}));
  EXPECT_EQ(planned.corpus.front().samples, 13'200);
  for (const al::bucket& b : planned.plan.buckets) {
    EXPECT_LE(b.tokens(), planned.plan.limits.max_tokens);
    EXPECT_NE(r.out.find(std::to_string(b.batch_size)), std::string::npos);
  }

  // Besides the plan, the file has the baseline and the first steps of both.
  json written = json::parse(contents(out));
  EXPECT_GT(written.at("first_steps").size(), written.at("baseline").at("first_steps").size());
  written.erase("baseline");
  written.erase("first_steps");
  EXPECT_EQ(json(al::cli::to_json(planned)), written);
}

TEST_F(Plan, OfAManifestIsThatOfItsShapes) {
  std::string samples = "path,width,height,frames\n";
  for (int i = 0; i < 300; ++i) {
    samples += "\"a, b\"," + std::string(i % 3 == 0 ? "832,480,81\r\n" : "512,512,1\r\n");
  }
  const std::string manifest = file("manifest.csv", samples);
  const std::string shapes =
      file("shapes.csv", "frames,height,width,weight\n81,480,832,1\n1,512,512,2\n");
  const std::string rest =
      " --measurements " + wan_steps + " --max-tokens 302400 --ranks 2 --ranks-wait step --json ";
  const std::string a = (folder / "a.json").string();
  const std::string b = (folder / "b.json").string();
  ASSERT_EQ(adaptiveload("plan --manifest " + manifest + rest + a).code, 0);
  ASSERT_EQ(adaptiveload("plan --samples 300 --shapes " + shapes + rest + b).code, 0);
  EXPECT_EQ(contents(a), contents(b));
}

TEST_F(Plan, SamplesThatFitNoBucketAreErrorsOrCounted) {
  const std::string arguments =
      "plan --manifest " +
      file("manifest.csv", "frames,height,width\n100,481,840\n1,520,512\n1,256,256\n81,720,720\n") +
      " --buckets " + file("buckets.csv", "frames,height,width\n81,480,832\n1,512,512\n") +
      " --measurements " + wan_steps + " --max-tokens 302400 --ranks 1 --ranks-wait step";
  const result strict = adaptiveload(arguments);
  EXPECT_NE(strict.code, 0);
  EXPECT_NE(strict.err.find("manifest.csv:4:1: sample is 1 x 256 x 256"), std::string::npos);
  const result lenient = adaptiveload(arguments + " --unfit remainder");
  EXPECT_EQ(lenient.code, 0) << lenient.err;
  EXPECT_NE(lenient.out.find("3 samples in 2 buckets; 1 fit none"), std::string::npos)
      << lenient.out;
}

TEST_F(Plan, SaysWhatIsExtrapolated) {
  const std::string common = "plan" + wan_mix + " --ranks 8 --ranks-wait step --max-tokens ";
  EXPECT_NE(adaptiveload(common + "302400").out.find("* extrapolated"), std::string::npos);
  EXPECT_EQ(adaptiveload(common + "75600").out.find("* extrapolated"), std::string::npos);
}

TEST_F(Plan, IsByTheStrategyNamed) {
  for (const std::string name : {"equal-tokens", "equal_tokens", "'equal tokens'"}) {
    const result r = adaptiveload(
        "plan" + wan_mix + " --max-tokens 302400 --ranks 8 --ranks-wait step --strategy " + name);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("\nequal tokens: "), std::string::npos) << r.out;
  }
}

TEST_F(Plan, IsDrawn) {
  std::string python;
  for (const std::string each : {"python3", "/usr/bin/python3"}) {
    if (shell(each + " -c 'import matplotlib'").code == 0) python = each;
  }
  if (python.empty()) GTEST_SKIP() << "no Python with matplotlib";
  const std::string plan = (folder / "plan.json").string();
  const std::string picture = (folder / "plan.svg").string();
  ASSERT_EQ(adaptiveload("plan" + wan_mix +
                         " --max-tokens 302400 --ranks 20 --ranks-wait step --json " + plan)
                .code,
            0);
  const std::string draw = python + " examples/cli/plot_plan.py ";
  const result drawn = shell(draw + plan + " " + picture);
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_NE(contents(picture).find("<svg"), std::string::npos);

  const std::string other = file("other.json", "{}");
  const result refused = shell(draw + other + " " + (folder / "other.svg").string());
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(lines_of(refused.err).size(), 1u) << refused.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "other.svg"));
}

TEST_F(Compare, SetsAllStrategiesSideBySide) {
  const std::string out = (folder / "compare.json").string();
  const result r = adaptiveload("compare" + wan_mix +
                                " --max-tokens 302400 --ranks 8 --micro-batches 4"
                                " --ranks-wait micro-batch --json " +
                                out);
  ASSERT_EQ(r.code, 0) << r.err;
  const json all = json::parse(contents(out)).at("strategies");
  std::vector<std::string> names;
  for (const json& each : all) {
    names.push_back(each.at("name"));
    EXPECT_NE(r.out.find(names.back()), std::string::npos);
    for (const char* key : {"speedup", "bubble", "step_cv", "compute_cv",
                            "tokens_per_second_per_rank", "epoch_seconds"}) {
      EXPECT_TRUE(each.at(key).is_number()) << key;
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"equal tokens as drawn", "equal tokens",
                                             "dual constraint", "equal time"}));
  EXPECT_EQ(all.front().at("speedup"), 1.0);
  EXPECT_GE(all.back().at("speedup"), 1.63);
  EXPECT_LE(all.back().at("bubble"), 0.022);
}

TEST_F(Compare, ShowsPeakMemoryWhereItWasMeasured) {
  const std::string rest =
      " --shapes data/wan_mix.csv --max-tokens 302400 --ranks 2"
      " --ranks-wait step --samples 1000 --measurements ";
  const result with = adaptiveload("compare" + rest + wan_steps);
  ASSERT_EQ(with.code, 0) << with.err;
  EXPECT_NE(with.out.find("peak tokens"), std::string::npos);
  EXPECT_NE(with.out.find("peak GB, at most"), std::string::npos);
  const result without = adaptiveload("compare" + rest + "data/fsdp2_2xh200_shapes.csv");
  ASSERT_EQ(without.code, 0) << without.err;
  EXPECT_NE(without.out.find("peak tokens"), std::string::npos);
  EXPECT_EQ(without.out.find("GB"), std::string::npos);
}

TEST_F(Compare, TakesTheArgumentsOfPlan) {
  const std::string arguments =
      wan_mix + " --max-tokens 75600 --ranks 4 --ranks-wait step --strategy ";
  const result plain = adaptiveload("compare" + arguments + "equal-time");
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(adaptiveload("compare" + arguments + "equal-tokens").out, plain.out);
  EXPECT_EQ(adaptiveload("plan" + arguments + "equal-tokens").code, 0);
}

TEST_F(Replay, RecordedRunsWithinThreePercent) {
  const result r = adaptiveload(
      "replay --plans data/fsdp2_2xh200_plans.csv --runs data/fsdp2_2xh200_runs.csv"
      " --measurements data/fsdp2_2xh200_shapes.csv");
  EXPECT_EQ(r.code, 0) << r.err;
  const std::vector<std::string> lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], "run,predicted_ms,recorded_ms");
  EXPECT_TRUE(lines[1].starts_with("equal-tokens-1,"));
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<double> n = numbers_of(lines[i]);
    EXPECT_NEAR(n[1] / n[2], 1, 0.03) << lines[i];
  }
}

TEST_F(Help, EveryExampleRuns) {
  for (const std::string command : {"fit", "plan", "compare", "replay"}) {
    const result help = adaptiveload(command + " --help");
    EXPECT_EQ(help.code, 0);
    const std::size_t example = help.out.find("Example:\n");
    ASSERT_NE(example, std::string::npos) << command;
    const result r = shell(help.out.substr(example + 9));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out, "");
  }
}

TEST_F(Help, NamesEveryCommand) {
  const std::string help = adaptiveload("--help").out;
  for (const char* command : {"fit", "plan", "compare", "replay"}) {
    EXPECT_NE(help.find(std::string("\n  ") + command), std::string::npos);
  }
}

}  // namespace
