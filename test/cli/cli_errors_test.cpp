// Whatever is wrong: one line that says what and where, a code that is not 0, and no output.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "command.hpp"

namespace {

namespace fs = std::filesystem;

class Errors : public CommandLine {
 protected:
  /// Runs a command that must fail with `message` somewhere in its one line.
  void fails(const std::string& arguments, const std::string& message) {
    const result r = adaptiveload(arguments);
    EXPECT_TRUE(r.code == 1 || r.code == 2) << arguments << ": " << r.code;
    EXPECT_EQ(r.out, "") << arguments;
    EXPECT_EQ(lines_of(r.err).size(), 1u) << r.err;
    EXPECT_NE(r.err.find(message), std::string::npos) << arguments << ": " << r.err;
  }

  /// The same of steps that are measured, in a file of this text.
  void steps_fail(const std::string& text, const std::string& message) {
    fails("fit " + file("steps.csv", text), message);
  }

  /// The same of `plan`, some options of a good command line being replaced or added.
  void plan_fails(const std::vector<std::pair<std::string, std::string>>& changes,
                  const std::string& message) {
    std::vector<std::pair<std::string, std::string>> options{
        {"--shapes", "data/wan_mix.csv"},
        {"--measurements", "data/wan2.1_1.3b_h200_steps.csv"},
        {"--max-tokens", "302400"},
        {"--ranks", "8"},
        {"--ranks-wait", "step"}};
    for (const auto& [name, value] : changes) {
      std::erase_if(options, [&](const auto& option) { return option.first == name; });
      if (value != "none") options.emplace_back(name, value);
    }
    std::string arguments = "plan";
    for (const auto& [name, value] : options) arguments += " " + name + " " + value;
    const fs::path json = folder / "plan.json";
    fails(arguments + " --json " + json.string(), message);
    EXPECT_FALSE(fs::exists(json));
  }
};

const std::string header = "batch_size,sequence_length,step_ms\n";

TEST_F(Errors, OfMeasurementsNameFileLineAndColumn) {
  steps_fail("", "steps.csv:1:1: is empty");
  steps_fail("batch_size,step_ms\n1,2\n", "steps.csv:1:1: no column \"sequence_length\"");
  steps_fail(header + "1,256,nan\n", "steps.csv:2:7: step_ms is \"nan\"");
  steps_fail(header + "1,256,1e999\n", "steps.csv:2:7: step_ms is \"1e999\"");
  steps_fail(header + "1,256,5\n1,-3,5\n", "steps.csv:3:3: sequence_length is \"-3\"");
  steps_fail(header + "99999999999999999999,256,5\n", "steps.csv:2:1: batch_size");
  steps_fail(header + "1,256\n", "steps.csv:2:1: has 2 fields");
  steps_fail(header + "1,256,\"5\n", "steps.csv:2:1: has a quote that is not closed");
  steps_fail(header + "1,256,\"5\n6\"\n", "steps.csv:2:7: step_ms is \"5 6\"");
}

TEST_F(Errors, OfTooFewMeasurementsNameTheFile) {
  steps_fail(header, "steps.csv: measurements: distinct shapes is 0");
  steps_fail(header + "1,256,5\n2,256,6\n", "steps.csv: measurements: distinct shapes is 2");
}

TEST_F(Errors, OfFilesThatCannotBeRead) {
  fails("fit no/such.csv", "no/such.csv: cannot be opened: No such file or directory");
  fails("fit data", "data:1:1: could not be read");
  fails("fit data/wan_mix.csv", "wan_mix.csv:1:1: no column \"batch_size\"");
  plan_fails({{"--shapes", "data"}}, "data:1:1: could not be read");
}

TEST_F(Errors, OfShapesNameFileAndLine) {
  const auto shapes = [this](const std::string& rows) {
    return std::pair<std::string, std::string>("--shapes", file("shapes.csv", rows));
  };
  plan_fails({shapes("frames,height,width\n")}, "shapes.csv is without a row");
  plan_fails({shapes("frames,height,width\n1,512,512\n2,512,512\n")},
             "shapes.csv:3:1: frames is 2");
  plan_fails({shapes("frames,height,width\n1,512,511\n")}, "shapes.csv:2:1: width is 511");
  plan_fails({shapes("frames,height,width\n0,512,512\n")}, "shapes.csv:2:1: frames is \"0\"");
  plan_fails({shapes("frames,height,width,weight\n1,512,512,0\n")},
             "shapes.csv:2:11: weight is \"0\"");
  plan_fails({shapes("frames,height,width,weight\n1,512,512,1e308\n1,256,256,1e308\n")},
             "shapes.csv:3:11: weight");
  plan_fails({{"--max-tokens", "75599"}}, "wan_mix.csv:12:1: tokens of a sample is 75600");
}

TEST_F(Errors, OfAManifestNameFileAndLine) {
  const auto manifest = [this](const std::string& rows) {
    return std::pair<std::string, std::string>("--manifest", file("manifest.csv", rows));
  };
  const std::pair<std::string, std::string> no_shapes{"--shapes", "none"};
  plan_fails({no_shapes, manifest("frames,height,width\n")}, "manifest.csv is without a row");
  plan_fails({no_shapes, manifest("frames,height,width\n1,512,512\n1,512,x\n")},
             "manifest.csv:3:7: width is \"x\"");
  plan_fails({no_shapes, manifest("frames,height,width\n1,512,512\n1,512,8\n")},
             "manifest.csv:3:1: width is 8");
  const std::pair<std::string, std::string> wan_buckets{"--buckets", "data/wan_mix.csv"};
  plan_fails({no_shapes, manifest("frames,height,width\n"), wan_buckets},
             "manifest.csv is without a row");
  plan_fails({no_shapes,
              manifest("frames,height,width\n1,64,64\n"),
              wan_buckets,
              {"--unfit", "remainder"}},
             "manifest.csv is without a sample that fits a bucket");
  std::string many = "frames,height,width\n";
  for (int i = 1; i <= 4097; ++i) many += "1,16," + std::to_string(16 * i) + "\n";
  plan_fails({no_shapes, manifest(many)}, "manifest.csv:4098:1: different shapes is 4097");
}

TEST_F(Errors, OfOptionsNameTheOption) {
  plan_fails({{"--ranks", "0"}}, "--ranks");
  plan_fails({{"--ranks", "-8"}}, "--ranks");
  plan_fails({{"--ranks", "8.5"}}, "--ranks");
  plan_fails({{"--ranks", "99999999999999999999"}}, "--ranks");
  plan_fails({{"--ranks", "none"}}, "--ranks");
  plan_fails({{"--ranks-wait", "never"}}, "--ranks-wait");
  plan_fails({{"--ranks-wait", "none"}}, "--ranks-wait");
  plan_fails({{"--micro-batches", "0"}}, "--micro-batches");
  plan_fails({{"--lookahead", "0"}}, "--lookahead");
  plan_fails({{"--lookahead", "1048576"}, {"--micro-batches", "1048576"}}, "lookahead");
  plan_fails({{"--seed", "-1"}}, "--seed");
  plan_fails({{"--samples", "0"}}, "--samples");
  plan_fails({{"--max-tokens", "0"}}, "--max-tokens");
  plan_fails({{"--max-tokens", "none"}}, "--max-tokens or --memory");
  plan_fails({{"--strategy", "fastest"}}, "--strategy");
  plan_fails({{"--exponent", "nan"}}, "exponent");
  plan_fails({{"--exponent", "4"}}, "--exponent");
  plan_fails({{"--tokenizer", "4x8x8"}}, "--tokenizer");
  plan_fails({{"--tokenizer", "4x8x16/1x2x2"}}, "--tokenizer");
  plan_fails({{"--tokenizer", "0x8x8/1x2x2"}}, "--tokenizer");
  plan_fails({{"--no-such-option", ""}}, "--no-such-option");
  fails("", "subcommand");
  fails("nonsense", "subcommand");
}

TEST_F(Errors, OfOptionsThatContradict) {
  plan_fails({{"--memory", "140GB"}}, "--memory");
  plan_fails({{"--manifest", "data/wan_mix.csv"}}, "--manifest");
  plan_fails({{"--shapes", "none"}}, "--shapes or --manifest");
  plan_fails({{"--buckets", "data/wan_mix.csv"}}, "--buckets");
  plan_fails({{"--unfit", "remainder"}}, "--unfit");
  plan_fails({{"--margin", "0.1"}}, "--margin");
  plan_fails({{"--ranks", "8 --ranks 16"}}, "--ranks");
  plan_fails({{"--strategy", "equal-time"}, {"--exponent", "2"}}, "--exponent");
}

TEST_F(Errors, OfTheMemory) {
  const std::pair<std::string, std::string> no_tokens{"--max-tokens", "none"};
  for (const char* memory : {"140XB", "GB", "-140GB", "0", "nan", "inf", "1e30TB", "140GB,"}) {
    plan_fails({no_tokens, {"--memory", memory}}, std::string("memory is \"") + memory);
  }
  plan_fails({no_tokens, {"--memory", "1GB"}}, "budget_bytes is 1000000000");
  plan_fails({no_tokens, {"--memory", "20GB"}}, "wan_mix.csv:");
  plan_fails({no_tokens, {"--memory", "140GB"}, {"--margin", "1"}}, "margin");
  plan_fails({no_tokens, {"--memory", "140GB"}, {"--margin", "nan"}}, "margin");
  plan_fails({no_tokens, {"--memory", "140GB"}, {"--measurements", "data/fsdp2_2xh200_shapes.csv"}},
             "fsdp2_2xh200_shapes.csv: peak_memory_bytes is missing");
}

TEST_F(Errors, OfRecordedRuns) {
  const std::string measured = " --measurements data/fsdp2_2xh200_shapes.csv";
  const std::string plan_header = "run,step,rank,position,batch_size,sequence_length\n";
  const auto replay = [&](const std::string& plans, const std::string& runs) {
    return "replay --plans " + file("plans.csv", plan_header + plans) + " --runs " +
           file("runs.csv", "run,ranks_wait,epoch_ms\n" + runs) + measured;
  };
  fails(replay("a,0,0,0,1,256\n", "a,every step,5\nb,every step,5\n"),
        "runs.csv:3:1: run is \"b\"");
  fails(replay("a,0,0,0,1,256\n", "a,sometimes,5\n"), "runs.csv:2:3: ranks_wait");
  fails(replay("a,0,0,1,1,256\n", "a,every step,5\n"), "plans.csv:2:7: position is \"1\"");
  fails(replay("a,0,0,0,1,256\na,0,1,0,1,256\na,0,1,1,1,256\n", "a,every micro-batch,5\n"),
        "plans.csv: run \"a\": step 0: micro-batches of rank 1");
}

TEST_F(Errors, OfOutputsLeaveWhatWasThere) {
  const std::string fit = "fit data/wan2.1_1.3b_h200_steps.csv --json ";
  fails(fit + folder.string(), folder.string() + ": cannot be written: is a directory");
  fails(fit + (folder / "none" / "fit.json").string(), "cannot be written: No such file");
  fails(fit + "/dev/full", "/dev/full: cannot be written: No space left");
  const result full = shell("adaptiveload fit data/wan2.1_1.3b_h200_steps.csv > /dev/full");
  EXPECT_NE(full.code, 0);
  EXPECT_NE(full.err.find("standard output: cannot be written"), std::string::npos);

  const std::string kept = file("kept.json", "as it was");
  fails("fit data/wan_mix.csv --json " + kept, "no column");
  EXPECT_EQ(contents(kept), "as it was");
}

TEST_F(Errors, OutputsGoThroughLinksAndDevices) {
  const std::string target = file("target.json", "old");
  fs::create_symlink(target, folder / "link.json");
  const std::string fit = "fit data/wan2.1_1.3b_h200_steps.csv --json ";
  EXPECT_EQ(adaptiveload(fit + (folder / "link.json").string()).code, 0);
  EXPECT_TRUE(fs::is_symlink(folder / "link.json"));
  EXPECT_EQ(contents(target).front(), '{');
  EXPECT_EQ(adaptiveload(fit + "/dev/null").code, 0);
  EXPECT_FALSE(fs::is_regular_file("/dev/null"));
  for (const auto& each : fs::directory_iterator(folder)) {
    EXPECT_EQ(each.path().string().find(".partial"), std::string::npos) << each.path();
  }
}

}  // namespace
