#pragma once

#include <gtest/gtest.h>

#include <adaptiveload/adaln/arguments.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "../case_size.hpp"
#include "problem.hpp"

inline const bool large_cases = runs_large_cases();

/// Tests of every operation.
class AdaLn : public testing::TestWithParam<operation> {};

inline std::string text_of(const adaptiveload::activation_shape& shape,
                           const problem_options& options = {}) {
  std::ostringstream text;
  text << '[' << shape.batch << ", " << shape.tokens << ", " << shape.features << ']';
  if (shape.groups != 1) text << " in " << shape.groups << " groups";
  if (!options.lengths.empty() && options.lengths.size() < 100) {
    text << " packed of";
    for (const std::int64_t length : options.lengths) text << ' ' << length;
  }
  if (options.kind == adaptiveload::norm::root_mean_square) text << ", root mean square";
  if (options.form == adaptiveload::modulate::scale) text << ", n * scale";
  text << ", layouts " << static_cast<int>(options.gate) << static_cast<int>(options.scale)
       << static_cast<int>(options.shift) << ", wanted " << static_cast<int>(options.dgate)
       << static_cast<int>(options.dscale) << static_cast<int>(options.dshift);
  if (!options.has_shift) text << ", no shift";
  if (!options.table.empty()) text << ", table: " << options.table;
  if (!options.shifted.empty()) text << ", shifted: " << options.shifted;
  if (options.in_place) text << ", in place";
  return text.str();
}

inline void expect_accurate(const operation& op, const adaptiveload::activation_shape& shape,
                            const problem_options& options = {}) {
  SCOPED_TRACE(text_of(shape, options));
  const auto p = op.make(shape, options);
  p->run();
  p->expect_accurate();
}

/// The shape of packed samples of `options.lengths`.
inline adaptiveload::activation_shape packed_shape(const problem_options& options,
                                                   std::int64_t features) {
  const auto& lengths = options.lengths;
  return {static_cast<std::int64_t>(lengths.size()),
          std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), features};
}

inline std::vector<std::vector<std::byte>> copy_of_outputs(const problem& p) {
  std::vector<std::vector<std::byte>> copies;
  for (const problem::output& output : p.outputs()) {
    copies.emplace_back(output.bytes.begin(), output.bytes.end());
  }
  return copies;
}
