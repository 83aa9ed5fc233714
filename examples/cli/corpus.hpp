#pragma once

#include <adaptiveload/schedule.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "measured_cost.hpp"

namespace adaptiveload::cli {

/// The buckets of a corpus, and how many samples each has.
struct corpus {
  std::vector<video_shape> shapes = {};
  std::vector<std::int64_t> sequence_lengths = {};  ///< tokens of a sample
  std::vector<std::int64_t> samples = {};
  std::int64_t remainder = 0;  ///< samples that fit no bucket
};

/// The tokens of a sample; throws `std::invalid_argument` where there may be no such sample.
using token_count = std::function<std::int64_t(const video_shape&)>;

/// Makes each new shape a bucket, in the order of appearance.
class shape_index {
 public:
  explicit shape_index(token_count tokens) : tokens_(std::move(tokens)) {}

  /// The shape's bucket.
  std::size_t operator()(const video_shape& shape) {
    if (!buckets_.shapes.empty() && buckets_.shapes[last_] == shape) return last_;
    const std::tuple key{shape.frames, shape.height, shape.width};
    const auto known = numbers_.find(key);
    if (known != numbers_.end()) return last_ = known->second;
    detail::require(buckets_.shapes.size() < most, "different shapes", buckets_.shapes.size() + 1,
                    "4096 or fewer; name buckets for them");
    buckets_.sequence_lengths.push_back(tokens_(shape));
    buckets_.shapes.push_back(shape);
    buckets_.samples.push_back(0);
    return last_ = numbers_[key] = buckets_.shapes.size() - 1;
  }

  [[nodiscard]] corpus& buckets() { return buckets_; }

 private:
  static constexpr std::size_t most = 4096;

  token_count tokens_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::size_t> numbers_;
  corpus buckets_;
  std::size_t last_ = 0;
};

/// Shapes and their shares (`weight`; 1 where the file has no such column) as a corpus of so many
/// samples. A shape that is given twice has both shares.
inline corpus read_shares(const std::filesystem::path& file, const token_count& tokens,
                          std::int64_t samples) {
  std::ifstream in = detail::open_csv(file);
  csv_reader rows(in, file.string());
  const std::array sides{rows.column("frames"), rows.column("height"), rows.column("width")};
  const auto weight = rows.find_column("weight");
  shape_index index(tokens);
  std::vector<double> weights;
  double total = 0;
  while (rows.next()) {
    const auto side = [&](std::size_t i) { return rows.positive<std::int64_t>(sides[i]); };
    const video_shape shape{side(0), side(1), side(2)};
    const double share = weight ? rows.positive<double>(*weight) : 1.0;
    total += share;
    if (!std::isfinite(total)) rows.reject(*weight, "a sum of weights below 1e308");
    try {
      const std::size_t bucket = index(shape);
      weights.resize(index.buckets().shapes.size());
      weights[bucket] += share;
    } catch (const std::invalid_argument& error) {
      throw csv_error(file.string() + ":" + std::to_string(rows.line()) + ":1: " + error.what());
    }
  }
  detail::require(!weights.empty(), file.string(), "without a row", "at least one shape");

  // The rounded sums' differences: each share within one sample, all of them exactly.
  double sum = 0;
  std::int64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    const double until = i + 1 < weights.size() ? sum / total : 1.0;
    const std::int64_t end = std::llround(until * static_cast<double>(samples));
    index.buckets().samples[i] = end - given;
    given = end;
  }
  return index.buckets();
}

/// A manifest whose every shape is a bucket.
inline corpus read_samples(const std::filesystem::path& file, const token_count& tokens) {
  shape_index index(tokens);
  read_manifest(file, [&index](const video_shape& s) { ++index.buckets().samples[index(s)]; });
  detail::require(!index.buckets().shapes.empty(), file.string(), "without a row",
                  "at least one sample");
  return index.buckets();
}

/// A manifest whose samples go to the nearest bucket that is not larger.
inline corpus read_samples(const std::filesystem::path& file, corpus buckets, unfit_samples unfit) {
  sample_counter counter(shape_buckets(buckets.shapes), unfit);
  read_manifest(file, [&counter](const video_shape& s) { counter.add(s); });
  const bucket_counts& counted = counter.counts();
  const std::string fit = counted.remainder > 0 ? "a sample that fits a bucket" : "a row";
  detail::require(std::any_of(counted.counts.begin(), counted.counts.end(),
                              [](std::int64_t count) { return count > 0; }),
                  file.string(), "without " + fit, "at least one");
  buckets.samples = counted.counts;
  buckets.remainder = counted.remainder;
  return buckets;
}

}  // namespace adaptiveload::cli
