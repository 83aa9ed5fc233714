#include <gtest/gtest.h>

#include <adaptiveload/schedule/recorded_run.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

TEST(RecordedRun, PlansAreReadByTheNameOfTheRun) {
  std::istringstream in(
      "run,step,rank,position,batch_size,sequence_length\n"
      "a,0,0,0,4,32400\nb,0,0,0,1,256\na,0,1,0,8,7800\n");
  const auto plans = al::read_recorded_plans(in, "plans.csv");
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans.at("a"),
            (std::vector<al::recorded_micro_batch>{{0, 0, 0, 4, 32400}, {0, 1, 0, 8, 7800}}));
}

TEST(RecordedRun, RunsSayWhereRanksWaited) {
  std::istringstream in("epoch_ms,run,ranks_wait\n10.5,a,every step\n20,b,every micro-batch\n");
  const auto runs = al::read_recorded_runs(in, "runs.csv");
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "a");
  EXPECT_EQ(runs[0].epoch_ms, 10.5);
  EXPECT_EQ(runs[0].ranks_wait, al::ranks_wait::every_step);
  EXPECT_EQ(runs[1].ranks_wait, al::ranks_wait::every_micro_batch);
}

std::string plan_error(const std::string& row) {
  std::istringstream in("run,step,rank,position,batch_size,sequence_length\n" + row);
  try {
    (void)al::read_recorded_plans(in, "p.csv");
  } catch (const al::csv_error& error) {
    return std::string(error.what()).substr(0, 9);
  }
  return "no error";
}

TEST(RecordedRun, ErrorsNameFileLineAndColumn) {
  EXPECT_EQ(plan_error("a,-1,0,0,1,1"), "p.csv:2:3");
  EXPECT_EQ(plan_error("a,0,9999999,0,1,1"), "p.csv:2:5");
  EXPECT_EQ(plan_error("a,0,0,x,1,1"), "p.csv:2:7");
  EXPECT_EQ(plan_error("a,0,0,0,0,1"), "p.csv:2:9");
  EXPECT_EQ(plan_error("a,0,0,0,1,1\na,0,0,0,2,1\n"), "p.csv:3:7");
  EXPECT_EQ(plan_error("a,0,0,1,1,1\n"), "p.csv:2:7");
  EXPECT_EQ(plan_error("a,0,0,0,1,1\na,0,0,3,2,1\na,0,0,1,2,1\nb,0,0,2,1,1\n"), "p.csv:3:7");
  EXPECT_EQ(plan_error("a,0,0,2,1,1\na,0,0,0,2,1\na,0,0,1,2,1\n"), "no error");  // in any order
  std::istringstream in("run,ranks_wait,epoch_ms\na,never,1\n");
  EXPECT_THROW((void)al::read_recorded_runs(in, "r.csv"), al::csv_error);
  EXPECT_THROW((void)al::read_recorded_runs("no such file"), al::csv_error);
}

}  // namespace
