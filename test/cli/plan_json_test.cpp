#include "plan_json.hpp"

#include <gtest/gtest.h>

#include <adaptiveload/schedule.hpp>
#include <array>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace al = adaptiveload;
using al::cli::corpus_plan;
using al::cli::plan_from_json;
using al::cli::to_json;
using nlohmann::json;

namespace {

corpus_plan planned_by(al::strategy strategy) {
  const std::vector<std::int64_t> lengths{1'024, 7'800, 75'600};
  const std::vector<al::sample_source> sources{{.counts = {500, 70, 20}}};
  const auto cost = [](std::int64_t b, std::int64_t s) {
    const auto n = static_cast<double>(s);
    return 100.1 + static_cast<double>(b) * (0.02 * n + 1.3e-6 * n * n);
  };
  const al::plan_options options{.strategy = strategy,
                                 .max_tokens = 302'400,
                                 .epoch = {.world_size = 4,
                                           .micro_batches = 3,
                                           .seed = std::numeric_limits<std::uint64_t>::max(),
                                           .ranks_wait = al::ranks_wait::every_micro_batch,
                                           .lookahead = 2,
                                           .mean_over = al::gradient_mean::tokens}};
  return {al::plan_buckets(lengths, sources, cost, options),
          {{{1, 512, 512}, 500, false}, {{17, 480, 832}, 70, false}, {{81, 720, 1280}, 20, true}}};
}

std::string error_of(const std::string& text) {
  try {
    (void)plan_from_json(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

/// What a plan says after a change to it.
std::string error_after(const std::function<void(json&)>& change) {
  json document(to_json(planned_by(al::strategy::equal_time)));
  change(document);
  return error_of(document.dump());
}

class PlanJson : public testing::TestWithParam<al::strategy> {};

TEST_P(PlanJson, RoundTripsToTheLastBit) {
  const corpus_plan planned = planned_by(GetParam());
  const std::string text = to_json(planned).dump();
  const corpus_plan read = plan_from_json(text);
  EXPECT_EQ(to_json(read).dump(), text);
  EXPECT_EQ(read.plan.buckets, planned.plan.buckets);
  EXPECT_EQ(read.corpus, planned.corpus);
  EXPECT_EQ(read.plan.strategy, planned.plan.strategy);
  EXPECT_EQ(read.plan.reason, planned.plan.reason);
  EXPECT_EQ(read.plan.limits.max_tokens, planned.plan.limits.max_tokens);
  EXPECT_EQ(read.plan.limits.max_compute, planned.plan.limits.max_compute);
  EXPECT_EQ(read.plan.target_ms, planned.plan.target_ms);
  EXPECT_EQ(read.plan.speedup, planned.plan.speedup);
}

TEST_P(PlanJson, GivesTheSameEpochs) {
  const corpus_plan planned = planned_by(GetParam());
  const corpus_plan read = plan_from_json(to_json(planned).dump());
  ASSERT_EQ(read.epoch(3).steps(), planned.epoch(3).steps());
  for (std::int64_t i = 0; i < read.epoch(3).steps(); ++i) {
    const al::training_step a = read.epoch(3).step(i);
    const al::training_step b = planned.epoch(3).step(i);
    EXPECT_EQ(a.micro_batches, b.micro_batches);
    EXPECT_EQ(a.rank_begin, b.rank_begin);
    EXPECT_EQ(a.next, b.next);
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, PlanJson,
                         testing::Values(al::strategy::equal_tokens, al::strategy::dual_constraint,
                                         al::strategy::equal_time));

TEST(PlanJsonErrors, SayWhereTextIsNotJson) {
  EXPECT_EQ(error_of(""), "1:1: is not JSON");
  EXPECT_EQ(error_of("{\n  \"a\": ]\n}"), "2:8: is not JSON");
  EXPECT_EQ(error_of("{} x"), "1:4: is not JSON");
  EXPECT_EQ(error_of("{\"a\": 1e999}"), "has a number that is too large");
  EXPECT_EQ(error_of("\"\xff\""), "1:2: is not JSON");
}

TEST(PlanJsonErrors, NameWhateverIsMissing) {
  const json whole(to_json(planned_by(al::strategy::dual_constraint)));
  const std::vector<std::string> optional{"/max_compute", "/target_ms"};
  const json flat = whole.flatten();
  for (const auto& [path, value] : flat.items()) {
    if (std::find(optional.begin(), optional.end(), path) != optional.end()) continue;
    json document = whole;
    const json::json_pointer at(path);
    document.at(at.parent_pointer()).erase(at.back());
    EXPECT_NE(error_of(document.dump()).find("an object with \"" + at.back() + "\""),
              std::string::npos)
        << path << ": " << error_of(document.dump());
  }
}

TEST(PlanJsonErrors, NameWhateverHasTheWrongType) {
  const json whole(to_json(planned_by(al::strategy::dual_constraint)));
  const json flat = whole.flatten();
  for (const auto& [path, value] : flat.items()) {
    for (const json& wrong : {json(nullptr), json::array(), json::object(), json(-1), json("x")}) {
      if (path == "/reason" && wrong.is_string()) continue;
      json document = whole;
      const json::json_pointer at(path);
      document.at(at) = wrong;
      const std::string error = error_of(document.dump());
      EXPECT_NE(error.find(at.back()), std::string::npos) << path << " " << wrong << ": " << error;
      EXPECT_NE(error.find("allowed"), std::string::npos) << error;
    }
  }
}

TEST(PlanJsonErrors, NameValuesOutOfRange) {
  EXPECT_EQ(error_after([](json& d) { d["version"] = 2; }),
            "version is 2; allowed: a whole number from 1 to 1");
  EXPECT_EQ(error_after([](json& d) { d["buckets"][1]["batch_size"] = 0; }),
            "buckets[1].batch_size is 0; allowed: a whole number from 1 to 2147483648");
  EXPECT_EQ(error_after([](json& d) { d["buckets"][2]["predicted_ms"] = 0; }),
            "buckets[2].predicted_ms is 0; allowed: a number above 0");
  EXPECT_NE(error_after([](json& d) { d["buckets"][0]["samples"] = 1.5; }).find("samples is 1.5"),
            std::string::npos);
  EXPECT_NE(error_after([](json& d) {
              d["max_tokens"] = 18446744073709551615u;
            }).find("max_tokens is 18446744073709551615"),
            std::string::npos);
  EXPECT_EQ(error_after([](json& d) { d["epoch"]["ranks_wait"] = "never"; }),
            "epoch.ranks_wait: ranks_wait is \"never\"; allowed: \"every step\", "
            "\"every micro-batch\"");
  EXPECT_NE(error_after([](json& d) { d["epoch"]["world_size"] = 1 << 30; }).find("world_size"),
            std::string::npos);
  EXPECT_NE(error_after([](json& d) { d["buckets"] = json::array(); }).find("at least one"),
            std::string::npos);
}

TEST(PlanJsonErrors, MembersThatItDoesNotKnowArePassedOver) {
  EXPECT_EQ(error_after([](json& d) { d["note"] = {1, 2, 3}; }), "no error");
}

}  // namespace
