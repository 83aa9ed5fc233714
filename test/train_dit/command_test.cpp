#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace {

namespace fs = std::filesystem;

struct outcome {
  int status;
  std::string errors;
};

/// Runs the program with its stdout thrown away.
outcome run(const std::string& arguments) {
  FILE* pipe = popen(("'" TRAIN_DIT "' " + arguments + " 2>&1 >/dev/null").c_str(), "r");
  std::string errors;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) errors += static_cast<char>(c);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, errors};
}

fs::path fresh_directory(const std::string& name) {
  const fs::path path = fs::path(testing::TempDir()) / ("train_dit_" + name);
  fs::remove_all(path);
  return path;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(TrainDitCommand, SaysInOneLineWhatIsWrongAndWritesNothing) {
  const fs::path output = fresh_directory("bad_input");
  for (const char* bad :
       {"--seconds 0", "--seconds -3", "--seconds nan", "--seconds 1e99", "--seconds",
        "--samples -1", "--samples 1e30", "--seed -1", "--seed x", "--threads 0", "--threads -2",
        "--threads 1000", "--unknown", "unexpected"}) {
    const outcome result = run("--output '" + output.string() + "' " + bad);
    EXPECT_GT(result.status, 0) << bad;
    EXPECT_TRUE(result.errors.starts_with("train_dit: ")) << bad << ": " << result.errors;
    EXPECT_EQ(result.errors.find('\n'), result.errors.size() - 1) << bad << ": " << result.errors;
    EXPECT_FALSE(fs::exists(output)) << bad;
  }
}

TEST(TrainDitCommand, SaysInOneLineThatTheOutputCannotBeWritten) {
  const fs::path file = fresh_directory("a_file");
  std::ofstream(file) << "kept";
  for (const std::string& output : {file.string(), (file / "below").string(), std::string()}) {
    const outcome result = run("--output '" + output + "'");
    EXPECT_EQ(result.status, 1) << output;
    EXPECT_NE(result.errors.find("'" + output + "'"), std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find('\n'), result.errors.size() - 1) << result.errors;
  }
  EXPECT_EQ(text_of(file), "kept");
}

TEST(TrainDitCommand, WritesMeasurementsPlansAndCurves) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "so slow under sanitizers that a benchmark takes minutes";
#endif
  const fs::path output = fresh_directory("whole");
  fs::create_directories(output);
  std::ofstream(output / "measurements.csv.partial") << "left by a run that was stopped";
  const outcome result = run("--seconds 40 --samples 100 --output '" + output.string() + "'");
  ASSERT_EQ(result.status, 0) << result.errors;
  for (const char* name : {"measurements.csv", "plan.json", "loss.csv", "steps.csv"}) {
    EXPECT_GT(text_of(output / name).size(), 100U) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(output), {}), 4) << "something is left over";
  const std::string losses = text_of(output / "loss.csv");
  for (const char* plan : {"equal tokens", "dual constraint", "equal time"}) {
    EXPECT_NE(losses.find(std::string("\n") + plan + ",0,"), std::string::npos) << plan;
  }
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import matplotlib' 2> /dev/null").c_str()) != 0) continue;
    EXPECT_EQ(std::system((python + " '" PLOT "' '" + output.string() + "'").c_str()), 0);
    EXPECT_TRUE(text_of(output / "train_dit.png").starts_with("\x89PNG"));
    return;
  }
  std::puts("no Python has matplotlib: the picture was not drawn");
}

}  // namespace
