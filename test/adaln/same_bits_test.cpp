#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cases.hpp"

namespace al = adaptiveload;

namespace {

TEST_P(AdaLn, GivesTheSameBitsTwice) {
  const auto expect_same_bits = [](const al::activation_shape& shape,
                                   const problem_options& options) {
    SCOPED_TRACE(text_of(shape, options));
    const auto p = GetParam().make(shape, options);
    p->run();
    const auto first = copy_of_outputs(*p);
    p->run();
    EXPECT_TRUE(copy_of_outputs(*p) == first);
  };
  std::vector<al::activation_shape> shapes{
      {3, 37, 64}, {2, 9, 1536}, {5, 3, 100}, {2, 30, 64, 3}, {2, 5, 1536, 5}};
  if (large_cases) {
    shapes.insert(shapes.end(), {{1, 70000, 1536}, {16, 1024, 5120}, {70000, 1, 64}});
  }
  problem_options options{.dgate = wanted::both, .dscale = wanted::both, .dshift = wanted::both};
  for (const al::activation_shape& shape : shapes) expect_same_bits(shape, options);
  options.lengths = {0, large_cases ? 70000 : 40, 1, 3, 0, 5};
  expect_same_bits(packed_shape(options, 64), options);
}

/// A few rows of a problem give the same bits alone.
void expect_same_bits_alone(const operation& op, const al::activation_shape& shape,
                            const problem_options& options, std::int64_t first,
                            std::int64_t count) {
  SCOPED_TRACE(text_of(shape, options));
  const auto whole = op.make(shape, options);
  whole->run();
  const auto alone = whole->rows_alone(first, count);
  alone->run();
  const auto of_whole = whole->outputs(), of_alone = alone->outputs();
  for (std::size_t i = 0; i < of_whole.size(); ++i) {
    if (!of_whole[i].by_rows) continue;
    const std::span<const std::byte> got = of_alone[i].bytes;
    const std::size_t begin =
        static_cast<std::size_t>(first) * (got.size() / static_cast<std::size_t>(count));
    EXPECT_TRUE(std::ranges::equal(of_whole[i].bytes.subspan(begin, got.size()), got))
        << of_whole[i].name;
  }
}

#ifndef __CUDACC__

TEST_P(AdaLn, GivesARowOfManyTheSameBitsAlone) {
  const simt::device_settings before = simt::settings();
  simt::settings().multiprocessors = 1;  // for which these are many
  for (const std::int64_t features : {64, 264, 1536, 5120}) {
    expect_same_bits_alone(GetParam(), {2, 10, features}, {}, 13, 2);
    expect_same_bits_alone(GetParam(), {1, 150, features}, {}, 77, 3);
  }
  simt::settings() = before;
}

#endif

TEST_P(AdaLn, GivesARowTheSameBitsInAnyBatch) {
  std::vector<al::activation_shape> shapes{{3, 37, 64}, {2, 9, 1536}, {5, 3, 100}, {2, 3, 8192}};
  if (large_cases) {
    shapes.insert(shapes.end(), {{3, 4096, 1536}, {2, 5000, 5120}, {3, 1000, 16384}});
  }
  for (const al::activation_shape& shape : shapes) {
    expect_same_bits_alone(GetParam(), shape, {},
                           (shape.batch - 1) * shape.tokens + shape.tokens / 3,
                           std::min<std::int64_t>(2, shape.tokens - shape.tokens / 3));
  }
  for (const std::int64_t features : {64, 100, 1536}) {
    expect_same_bits_alone(GetParam(), {2, 12, features, 4}, {}, 12 + 3, 6);  // of frames
    expect_same_bits_alone(GetParam(), {2, 5, features, 5}, {}, 5 + 1, 3);    // of tokens
    const problem_options packed{.lengths = {7, 0, 9, 1}};
    expect_same_bits_alone(GetParam(), packed_shape(packed, features), packed, 10, 4);
  }
}

}  // namespace
