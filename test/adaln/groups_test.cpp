#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "../random_values.hpp"
#include "cases.hpp"

namespace al = adaptiveload;

/// Which tokens share modulations, how those lie, and what of their gradients is asked for.
namespace {

TEST_P(AdaLn, TakesModulationsWhereTheyLie) {
  for (const layout how : layouts) {
    for (const al::activation_shape& shape : {al::activation_shape{3, 2, 7},
                                              {3, 2, 64},
                                              {2, 1, 1536},
                                              {1, 5, 64},
                                              {2, 6, 64, 3},
                                              {2, 2, 1536, 2}}) {
      expect_accurate(GetParam(), shape, {.gate = how, .scale = how, .shift = how});
    }
    for (const layout other : {layout::dense, layout::odd_stride, layout::shared_by_all}) {
      const al::activation_shape shape{2, 2, 64, 2};
      expect_accurate(GetParam(), shape, {.gate = how, .scale = other});
      expect_accurate(GetParam(), shape, {.scale = how, .shift = other});
      expect_accurate(GetParam(), shape, {.gate = other, .shift = how});
    }
  }
}

TEST_P(AdaLn, TakesModulationsOfFrames) {
  for (const std::int64_t features : {7, 64, 100, 1536}) {
    for (const al::activation_shape& shape :
         {al::activation_shape{2, 12, features, 3}, {3, 8, features, 4}}) {
      expect_accurate(GetParam(), shape, {.scale = layout::six_chunks});
    }
  }
  for (const al::activation_shape& shape : {al::activation_shape{1, 66, 100, 2},
                                            {1, 50, 64, 25},
                                            {1, 600, 64, 2},
                                            {1, 6, 5120, 2},
                                            {1, 4, 16384, 2}}) {
    expect_accurate(GetParam(), shape);
  }
  if (!large_cases) return;
  for (const std::int64_t features : {64, 1536, 5120}) {
    expect_accurate(GetParam(), {1, 21 * 390, features, 21});
    expect_accurate(GetParam(), {4, 21 * 64, features, 21}, {.scale = layout::six_chunks});
    expect_accurate(GetParam(), {64, 99, features, 33});
  }
}

TEST_P(AdaLn, TakesModulationsOfTokens) {
  for (const std::int64_t features : {1, 7, 64, 100, 1536, 5120}) {
    expect_accurate(GetParam(), {1, 4, features, 4});
    expect_accurate(GetParam(), {3, 5, features, 5},
                    {.gate = layout::six_chunks, .scale = layout::six_chunks});
  }
  expect_accurate(GetParam(), {1, 300, 64, 300});
  if (!large_cases) return;
  for (const std::int64_t features : {64, 1536, 5120}) {
    expect_accurate(GetParam(), {1, 8192, features, 8192});
    expect_accurate(GetParam(), {3, 1000, features, 1000});
  }
}

TEST_P(AdaLn, TakesPackedSamples) {
  std::vector<std::vector<std::int64_t>> packs{
      {1},          {0, 1, 0}, {150, 1, 2, 0, 5, 1, 3, 0, 0, 4, 2, 1}, {0, 0, 3, 1, 0, 33, 5, 0, 0},
      {50, 90, 30}, {0, 0}};
  packs.emplace_back();
  for (std::int64_t sample = 0; sample < 60; ++sample) packs.back().push_back(sample % 6);
  for (const std::vector<std::int64_t>& lengths : packs) {
    const problem_options options{.lengths = lengths};
    expect_accurate(GetParam(), packed_shape(options, 64), options);
  }
  problem_options longer;  // than one round of the search by warps
  for (std::int64_t sample = 0; sample < 259; ++sample) {
    longer.lengths.push_back((sample + 1) % 3);
  }
  for (const std::int64_t features : {7, 264}) {
    expect_accurate(GetParam(), packed_shape(longer, features), longer);
  }
  problem_options few{.lengths = {3, 0, 1, 2, 0}};
  for (const std::int64_t features : {1, 7, 100, 1536, 5120, 16384}) {
    expect_accurate(GetParam(), packed_shape(few, features), few);
  }
  few.lengths.front() = 17;
  expect_accurate(GetParam(), packed_shape(few, 1536), few);
  few.shifted = "cu_seqlens";
  few.scale = few.gate = layout::six_chunks;
  expect_accurate(GetParam(), packed_shape(few, 64), few);
  if (!large_cases) return;
  problem_options many{.lengths = {7560}};
  many.lengths.insert(many.lengths.end(), 2000, 25);
  for (const std::int64_t features : {64, 1536}) {
    expect_accurate(GetParam(), packed_shape(many, features), many);
  }
  many.lengths.assign(70000, 1);
  many.lengths.insert(many.lengths.begin() + 3, 1000, 0);
  many.lengths.push_back(75600);
  expect_accurate(GetParam(), packed_shape(many, 64), many);
}

TEST_P(AdaLn, AddsTables) {
  std::vector<std::string> tables = GetParam().modulations;
  tables.push_back("all");
  for (const std::string& table : tables) {
    for (const std::int64_t features : {1, 7, 64, 100, 1536}) {
      expect_accurate(GetParam(), {2, 2, features}, {.table = table});
    }
    expect_accurate(GetParam(), {2, 6, 64, 3}, {.table = table});
    expect_accurate(GetParam(), {2, 2, 1536, 2}, {.table = table});
  }
  expect_accurate(GetParam(), {2, 1, 16384}, {.table = "all"});
}

TEST_P(AdaLn, GivesTheGradientsThatAreWanted) {
  constexpr wanted some[] = {wanted::total, wanted::both, wanted::nothing};
  std::vector<problem_options> all;
  for (const wanted what : some) {
    all.push_back({.dgate = what, .dscale = what, .dshift = what});
    if (GetParam().modulations.front() == "gate") all.push_back({.dgate = what});
    all.push_back({.dscale = what});
    all.push_back({.dshift = what});
  }
  for (problem_options& options : all) {
    for (const al::activation_shape& shape :
         {al::activation_shape{3, 5, 7}, {3, 25, 64}, {2, 6, 64, 3}, {2, 5, 64, 5}, {2, 1, 1536}}) {
      expect_accurate(GetParam(), shape, options);
    }
    if (options.dscale == options.dshift) expect_accurate(GetParam(), {1, 2, 16384}, options);
    options.lengths = {0, 40, 1, 3, 0};
    expect_accurate(GetParam(), packed_shape(options, 64), options);
  }
}

TEST_P(AdaLn, SumsTheGradientOfWhatAllShare) {
  for (const wanted what : {wanted::total, wanted::both}) {
    problem_options options{.gate = layout::shared_by_all,
                            .scale = layout::shared_by_all,
                            .shift = layout::shared_by_all,
                            .dgate = what,
                            .dscale = what,
                            .dshift = what};
    for (const std::int64_t features : {1, 7, 64, 1536}) {
      expect_accurate(GetParam(), {3, 4, features}, options);
      expect_accurate(GetParam(), {2, 6, features, 3}, options);
      expect_accurate(GetParam(), {2, 3, features, 3}, options);
    }
    for (const al::activation_shape& shape :
         {al::activation_shape{150, 1, 64}, {1, 150, 64}, {1, 150, 64, 150}, {2, 1, 16384}}) {
      expect_accurate(GetParam(), shape, options);
    }
    if (large_cases) {
      for (const al::activation_shape& shape : {al::activation_shape{1, 70000, 64},
                                                {70000, 1, 64},
                                                {16, 512, 3072},
                                                {1, 8192, 1536, 8192}}) {
        expect_accurate(GetParam(), shape, options);
      }
    }
    options.lengths = {0, 40, 1, 100, 0};
    expect_accurate(GetParam(), packed_shape(options, 64), options);
  }
}

/// Choices at random, the same for a seed.
class choices {
 public:
  template <class T>
  T of(std::initializer_list<T> all) {
    return all.begin()[random_bits(test_seed() + 20, count_++) % all.size()];
  }

 private:
  std::uint64_t count_ = 0;
};

TEST_P(AdaLn, TakesAllOfThisTogether) {
  choices random;
  const auto one_of = [&] {
    return layouts[static_cast<std::size_t>(random.of({0, 1, 2, 3, 4, 5, 6, 7}))];
  };
  const auto what = [&] {
    return random.of({wanted::each, wanted::total, wanted::both, wanted::nothing});
  };
  for (int i = 0; i < (large_cases ? 500 : 12); ++i) {
    const std::int64_t features = random.of<std::int64_t>({1, 7, 8, 64, 100, 264, 1536, 1600});
    const std::int64_t frames = random.of<std::int64_t>({1, 1, 3, 7});
    const std::int64_t length = random.of<std::int64_t>({1, 1, 2, 5, 17, large_cases ? 1000 : 40});
    al::activation_shape shape{random.of<std::int64_t>({1, 2, 3}), frames * length, features,
                               frames};
    problem_options options{
        .kind = random.of({al::norm::layer, al::norm::root_mean_square}),
        .form = random.of({al::modulate::one_plus_scale, al::modulate::scale}),
        .gate = one_of(),
        .scale = one_of(),
        .shift = one_of(),
        .table = random.of<std::string_view>({"", "", "scale", "gate", "shift", "all"}),
        .has_shift = random.of({true, true, false}),
        .dgate = what(),
        .dscale = what(),
        .dshift = what(),
        .shifted = random.of<std::string_view>({"", "", "", "scale", "dscale", "y", "all"}),
        .in_place = random.of({false, true}),
        .mean = random.of({0.f, 1.f, 100.f})};
    if (random.of({0, 0, 1}) == 1) {
      options.lengths = {random.of<std::int64_t>({0, 1, 3}), length, 1, 2, 0, 5, frames};
      shape = packed_shape(options, features);
    }
    expect_accurate(GetParam(), shape, options);
  }
}

}  // namespace
