#include <gtest/gtest.h>

#include <adaptiveload/schedule/tokens.hpp>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace al = adaptiveload;

namespace {

static_assert(al::wan21.tokens({.frames = 81, .height = 480, .width = 832}) == 32760);
static_assert(al::wan21.tokens({.frames = 81, .height = 720, .width = 1280}) == 75600);
static_assert(al::wan21.tokens({.frames = 1, .height = 512, .width = 512}) == 1024);
static_assert(al::open_sora.tokens({.frames = 129, .height = 256, .width = 256}) == 33 * 256);

TEST(Tokens, WithoutALoneFirstFrameTimeIsDividedAsSpaceIs) {
  constexpr al::tokenizer tokenizer{.temporal_stride = 4,
                                    .spatial_stride = 8,
                                    .patch_frames = 2,
                                    .patch_height = 2,
                                    .patch_width = 1};
  EXPECT_EQ(tokenizer.tokens({.frames = 16, .height = 64, .width = 32}), 2 * 4 * 4);
}

TEST(Tokens, SidesOfAPatchCountEachOnItsOwn) {
  constexpr al::tokenizer tokenizer{.spatial_stride = 8, .patch_height = 4, .patch_width = 1};
  EXPECT_EQ(tokenizer.tokens({.height = 64, .width = 24}), 2 * 3);
}

std::string message(const al::tokenizer& tokenizer, al::video_shape shape) {
  try {
    (void)tokenizer.tokens(shape);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Tokens, SizesThatDoNotDivideAreNamed) {
  EXPECT_EQ(message(al::wan21, {.frames = 80, .height = 480, .width = 832}),
            "frames is 80; allowed: one more than a multiple of the temporal stride");
  EXPECT_EQ(message(al::wan21, {.frames = 81, .height = 481, .width = 832}),
            "height is 481; allowed: a multiple of the spatial stride times the patch");
  EXPECT_EQ(message(al::wan21, {.frames = 81, .height = 480, .width = 840}),
            "width is 840; allowed: a multiple of the spatial stride times the patch");
  const al::tokenizer pairs{.temporal_stride = 2, .patch_frames = 2};
  EXPECT_EQ(message(pairs, {.frames = 3, .height = 1, .width = 1}),
            "frames is 3; allowed: a multiple of the temporal stride");
  EXPECT_EQ(message(pairs, {.frames = 6, .height = 1, .width = 1}),
            "frames is 6; allowed: latent frames that are a multiple of patch_frames");
}

TEST(Tokens, SizesAndStridesMustBePositive) {
  EXPECT_EQ(message(al::wan21, {.frames = 0, .height = 16, .width = 16}),
            "frames is 0; allowed: 1 or more");
  EXPECT_EQ(message(al::wan21, {.frames = 1, .height = -16, .width = 16}),
            "height is -16; allowed: 1 or more");
  EXPECT_EQ(message(al::wan21, {.frames = 1, .height = 16}), "width is 0; allowed: 1 or more");
  for (auto member :
       {&al::tokenizer::temporal_stride, &al::tokenizer::spatial_stride,
        &al::tokenizer::patch_frames, &al::tokenizer::patch_height, &al::tokenizer::patch_width}) {
    al::tokenizer tokenizer = al::wan21;
    tokenizer.*member = 0;
    EXPECT_THROW((void)tokenizer.tokens({.height = 16, .width = 16}), std::invalid_argument);
  }
}

TEST(Tokens, MoreThanAnIntegerHoldsIsAnError) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr al::tokenizer pixels;
  EXPECT_EQ(pixels.tokens({.frames = 1, .height = 1, .width = most}), most);
  EXPECT_THROW((void)pixels.tokens({.frames = 1, .height = 2, .width = most}),
               std::invalid_argument);
  EXPECT_THROW((void)pixels.tokens({.frames = 3, .height = 1LL << 31, .width = 1LL << 31}),
               std::invalid_argument);
}

}  // namespace
