#include <gtest/gtest.h>

#include <adaptiveload/schedule/csv.hpp>
#include <adaptiveload/schedule/shape_buckets.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace al = adaptiveload;

namespace {

const std::vector<al::video_shape> shapes{{1, 512, 512},  {1, 480, 832},  {1, 832, 480},
                                          {17, 480, 832}, {81, 480, 832}, {17, 720, 1280}};

TEST(ShapeBuckets, ASampleOfABucketsShapeGoesThere) {
  const al::shape_buckets buckets(shapes);
  for (std::size_t i = 0; i < shapes.size(); ++i) EXPECT_EQ(buckets.at(shapes[i]), i);
}

TEST(ShapeBuckets, TheMostFramesThatTheSampleHasComeFirst) {
  const al::shape_buckets buckets(shapes);
  EXPECT_EQ(buckets.at({80, 480, 832}), 3u);
  EXPECT_EQ(buckets.at({500, 480, 832}), 4u);
  EXPECT_EQ(buckets.at({81, 720, 1280}), 4u);  // rather than 17 larger frames
  EXPECT_EQ(buckets.at({17, 720, 1280}), 5u);
  EXPECT_EQ(buckets.at({16, 480, 832}), 1u);
}

TEST(ShapeBuckets, ThenTheMostOfThePicture) {
  const al::shape_buckets buckets(shapes);
  EXPECT_EQ(buckets.at({1, 1080, 1920}), 1u);
  EXPECT_EQ(buckets.at({1, 1920, 1080}), 2u);
  EXPECT_EQ(buckets.at({1, 1000, 1000}), 0u);  // 480 x 832 is larger, but crops a square
  EXPECT_EQ(buckets.at({1, 500, 700}), 0u);    // 480 x 832 has more pixels than the sample
}

TEST(ShapeBuckets, ASampleMayHaveAShorterSideThanItsBucketButNotLessArea) {
  const al::shape_buckets one(std::vector<al::video_shape>{{1, 480, 832}});
  EXPECT_EQ(one.find({1, 400, 1000}), 0u);  // scaled up to 480 x 1200, then cropped
  EXPECT_EQ(one.find({1, 400, 998}), std::nullopt);
}

TEST(ShapeBuckets, ASampleSmallerThanEveryBucketFitsNone) {
  const al::shape_buckets buckets(shapes);
  EXPECT_EQ(buckets.find({1, 256, 256}), std::nullopt);
  EXPECT_EQ(buckets.find({200, 511, 512}), std::nullopt);
  EXPECT_THROW((void)buckets.at({1, 256, 256}), std::invalid_argument);
}

TEST(ShapeBuckets, EverySampleIsCounted) {
  al::sample_counter counter(al::shape_buckets(shapes), al::unfit_samples::are_remainder);
  EXPECT_EQ(counter.add({1, 512, 512}), 0u);
  EXPECT_EQ(counter.add({1, 600, 600}), 0u);
  EXPECT_EQ(counter.add({1, 1, 1}), std::nullopt);
  EXPECT_EQ(counter.add({100, 480, 832}), 4u);
  EXPECT_EQ(counter.counts().counts, (std::vector<std::int64_t>{2, 0, 0, 0, 1, 0}));
  EXPECT_EQ(counter.counts().remainder, 1);
}

TEST(ShapeBuckets, AnUnfitSampleOfAManifestIsAnErrorThatNamesTheRow) {
  al::sample_counter counter(al::shape_buckets(shapes), al::unfit_samples::are_errors);
  std::istringstream manifest("frames,height,width\n1,512,512\n1,100,64\n");
  try {
    al::read_manifest(manifest, "corpus.csv", [&](al::video_shape s) { counter.add(s); });
    FAIL() << "no error";
  } catch (const al::csv_error& error) {
    EXPECT_EQ(std::string(error.what()).find("corpus.csv:3:1: sample is 1 x 100 x 64"), 0u)
        << error.what();
  }
  EXPECT_EQ(counter.counts().counts[0], 1);
}

TEST(ShapeBuckets, BadShapesAreNamed) {
  const std::vector<al::video_shape> none;
  const std::vector<al::video_shape> twice{{1, 512, 512}, {1, 256, 256}, {1, 512, 512}};
  const std::vector<al::video_shape> flat{{1, 0, 512}};
  EXPECT_THROW(al::shape_buckets{none}, std::invalid_argument);
  EXPECT_THROW(al::shape_buckets{twice}, std::invalid_argument);
  EXPECT_THROW(al::shape_buckets{flat}, std::invalid_argument);
  EXPECT_THROW((void)al::shape_buckets(shapes).find({0, 512, 512}), std::invalid_argument);
  EXPECT_THROW((void)al::shape_buckets(shapes).find({1, 512, std::int64_t{1} << 40}),
               std::invalid_argument);
}

}  // namespace
