#include <gtest/gtest.h>

#include <adaptiveload/adaln_host.hpp>
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace al = adaptiveload;

namespace {

using numbers = std::vector<double>;

/// Whatever the strides of gradients are, they throw or keep the vectors apart.
TEST(AdaLnGradientStridesOnHost, KeepTheVectorsApart) {
  constexpr std::int64_t batch = 3, groups = 2, features = 2, middle = 40;
  const numbers x(batch * groups * features, 1.), statistics(batch * groups, 1.);
  numbers dx(x.size());
  int accepted = 0;
  for (std::int64_t by_batch = -9; by_batch <= 9; ++by_batch) {
    for (std::int64_t by_group = -9; by_group <= 9; ++by_group) {
      numbers dshift(2 * middle + features, 0.);
      const auto backward = [&] {
        al::host::layernorm_modulate_backward<double, double, double>(
            {.shape = {batch, groups, features, groups},
             .x = x.data(),
             .mean = statistics.data(),
             .rstd = statistics.data(),
             .scale = {x.data()},
             .dy = x.data(),
             .dx = dx.data(),
             .dscale = {},
             .dshift = {dshift.data() + middle, by_batch, by_group}});
      };
      try {
        backward();
      } catch (const std::invalid_argument&) {
        continue;
      }
      ++accepted;
      EXPECT_EQ(std::count(dshift.begin(), dshift.end(), 1.), batch * groups * features)
          << by_batch << ' ' << by_group;
    }
  }
  // Of batch strides of 4 or more past two groups of 2 to |batch stride| - 2, and of group strides
  // of 6 or more past three samples of 2 to (|group stride| - 2) / 2; each in four signs.
  EXPECT_EQ(accepted, 4 * ((1 + 2 + 3 + 4 + 5 + 6) + (1 + 1 + 2 + 2)));
}

}  // namespace
