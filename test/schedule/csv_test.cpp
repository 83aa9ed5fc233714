#include <gtest/gtest.h>

#include <adaptiveload/schedule/csv.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

std::vector<al::measurement> measurements(const std::string& text) {
  std::istringstream in(text);
  return al::read_measurements(in, "steps.csv");
}

template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const al::csv_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Csv, ColumnsComeInAnyOrderAndOthersArePassedOver) {
  const auto steps = measurements(
      "note,step_ms,sequence_length,peak_memory_bytes,batch_size\n"
      "\"warm, mostly\",12.5,256,1000,4\n,7,512,,1\n");
  EXPECT_EQ(steps, (std::vector<al::measurement>{{4, 256, 12.5, 1000}, {1, 512, 7, std::nullopt}}));
}

TEST(Csv, StepsThatRanOutOfMemoryAreKeptApart) {
  std::istringstream in("batch_size,sequence_length,step_ms\n1,256,5\n64,256,out_of_memory\n");
  const al::measured_steps steps = al::read_measured_steps(in, "steps.csv");
  EXPECT_EQ(steps.measurements, (std::vector<al::measurement>{{1, 256, 5}}));
  EXPECT_EQ(steps.out_of_memory, (std::vector<al::step_shape>{{64, 256}}));
}

TEST(Csv, AMeasurementThatCannotBeIsPlaced) {
  const auto row = [](const std::string& text) {
    return error_of([&] { measurements("batch_size,sequence_length,step_ms\n1,2,3\n" + text); });
  };
  EXPECT_EQ(row("0,256,5"), "steps.csv:3:1: batch_size is \"0\"; allowed: above 0");
  EXPECT_EQ(row("1,-256,5"), "steps.csv:3:3: sequence_length is \"-256\"; allowed: above 0");
  EXPECT_EQ(row("1,256,nan"), "steps.csv:3:7: step_ms is \"nan\"; allowed: a finite number");
  EXPECT_EQ(row("4294967296,4294967296,5"),
            "steps.csv:3:1: batch_size is \"4294967296\"; allowed: fewer than 2^63 tokens");
  EXPECT_EQ(error_of([] { measurements("batch_size,step_ms\n"); }),
            "steps.csv:1:1: no column \"sequence_length\"; the columns are \"batch_size\" "
            "\"step_ms\"");
}

TEST(Csv, ShapesHaveAWeightOrWeighOne) {
  std::istringstream weighted("weight,frames,height,width\n0.25,81,480,832\n");
  EXPECT_EQ(al::read_shapes(weighted, "s"),
            (std::vector<al::weighted_shape>{{{81, 480, 832}, 0.25}}));
  std::istringstream plain("frames,height,width,hand_tuned_batch_size\n1,256,256,45\n");
  EXPECT_EQ(al::read_shapes(plain, "s"), (std::vector<al::weighted_shape>{{{1, 256, 256}, 1}}));
}

TEST(Csv, AManifestGoesByRowByRow) {
  std::string text = "path,frames,height,width\n";
  for (int i = 0; i < 50000; ++i) text += "clips/" + std::to_string(i) + ".mp4,81,480,832\n";
  std::istringstream in(text);
  std::int64_t rows = 0;
  al::read_manifest(in, "m", [&](al::video_shape shape) {
    ASSERT_EQ(shape, (al::video_shape{81, 480, 832}));
    ++rows;
  });
  EXPECT_EQ(rows, 50000);
}

TEST(Csv, AFileThatIsNotThereSaysWhy) {
  EXPECT_EQ(error_of([] { (void)al::read_measurements("no/such.csv"); }),
            "no/such.csv: cannot be opened: No such file or directory");
}

TEST(Csv, AFolderIsNotAFile) {
  EXPECT_NE(error_of([] { (void)al::read_measurements("."); }), "no error");
}

TEST(Csv, ReadsTheMeasuredData) {
  const auto steps = al::read_measurements(ADAPTIVELOAD_DATA "/wan2.1_1.3b_h200_steps.csv");
  ASSERT_EQ(steps.size(), 45u);
  EXPECT_EQ(steps.front(), (al::measurement{1, 256, 231.342, 11262409728}));
  EXPECT_EQ(steps.back(), (al::measurement{1, 75600, 10584.298, 25362669568}));
}

}  // namespace
