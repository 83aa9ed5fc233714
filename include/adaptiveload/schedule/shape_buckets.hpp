#pragma once

#include <adaptiveload/schedule/tokens.hpp>
#include <adaptiveload/support/error.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaptiveload {

/// Which bucket a sample belongs to: the nearest shape that is not larger.
///
/// A sample is cut to the bucket's frames, scaled until it just covers the bucket's picture, and
/// cropped. A bucket may have neither more frames nor a larger area than the sample; one of its
/// sides may be longer, and then the sample is scaled up. Of those, the most frames win, then the
/// most of the picture: the bucket's area times the share of the sample that the crop keeps, which
/// only depends on the two aspect ratios. Equals go to the first.
class shape_buckets {
 public:
  /// Buckets are numbered as given. Throws `std::invalid_argument` on no shapes, on a side or
  /// number of frames outside 1 to 2^20, and on a shape that is given twice.
  explicit shape_buckets(std::span<const video_shape> shapes)
      : shapes_(shapes.begin(), shapes.end()) {
    detail::require(!shapes_.empty(), "shapes", "empty", "at least one shape");
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const std::string name = "shapes[" + std::to_string(i) + "]";
      check(shapes_[i], name + ": ");
      const auto twin = std::find(shapes_.begin(), shapes_.begin() + index(i), shapes_[i]);
      detail::require(twin == shapes_.begin() + index(i), name, text(shapes_[i]),
                      "a shape that is not given before");
      most_frames_first_.push_back(i);
    }
    std::stable_sort(
        most_frames_first_.begin(), most_frames_first_.end(),
        [this](std::size_t a, std::size_t b) { return shapes_[a].frames > shapes_[b].frames; });
  }

  [[nodiscard]] const std::vector<video_shape>& shapes() const { return shapes_; }

  /// The sample's bucket, or none where every bucket is larger. Throws as the constructor does.
  [[nodiscard]] std::optional<std::size_t> find(video_shape sample) const {
    check(sample, "sample: ");
    std::optional<std::size_t> best;
    double most = 0;
    for (const std::size_t i : most_frames_first_) {
      const video_shape& bucket = shapes_[i];
      if (best && bucket.frames < shapes_[*best].frames) break;
      if (bucket.frames > sample.frames || area(bucket) > area(sample)) continue;
      const double kept = picture_kept(bucket, sample);
      if (kept > most || (kept == most && best && i < *best)) {
        best = i;
        most = kept;
      }
    }
    return best;
  }

  /// As `find`; throws `std::invalid_argument` naming a sample that fits no bucket.
  [[nodiscard]] std::size_t at(video_shape sample) const {
    const auto found = find(sample);
    if (!found) {
      detail::throw_invalid("sample", text(sample),
                            "at least the frames and the area of one of the buckets");
    }
    return *found;
  }

 private:
  static std::ptrdiff_t index(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  static void check(const video_shape& shape, std::string_view whose) {
    constexpr std::int64_t most = 1 << 20;
    for (const auto& [name, value] :
         {std::pair{"frames", shape.frames}, {"height", shape.height}, {"width", shape.width}}) {
      if (value < 1 || value > most)
        detail::throw_invalid(std::string(whose) + name, value, "1 to 2^20");
    }
  }

  static std::string text(const video_shape& s) {
    return std::to_string(s.frames) + " x " + std::to_string(s.height) + " x " +
           std::to_string(s.width);
  }

  static std::int64_t area(const video_shape& s) { return s.height * s.width; }

  static double picture_kept(const video_shape& bucket, const video_shape& sample) {
    const auto a = static_cast<double>(bucket.height * sample.width);
    const auto b = static_cast<double>(bucket.width * sample.height);
    return static_cast<double>(area(bucket)) * std::min(a, b) / std::max(a, b);
  }

  std::vector<video_shape> shapes_;
  std::vector<std::size_t> most_frames_first_;
};

/// How many samples of a corpus fell into each bucket, and how many into none.
struct bucket_counts {
  std::vector<std::int64_t> counts = {};  ///< one for each bucket
  std::int64_t remainder = 0;             ///< samples that every bucket is too large for
};

/// What to do with a sample that fits no bucket.
enum class unfit_samples {
  are_errors,    ///< throw, naming it
  are_remainder  ///< count it in `bucket_counts::remainder`
};

/// Counts samples one by one, as a manifest is read:
///
///     sample_counter counter(buckets, unfit_samples::are_remainder);
///     read_manifest("corpus.csv", [&](video_shape s) { counter.add(s); });
class sample_counter {
 public:
  sample_counter(shape_buckets buckets, unfit_samples unfit)
      : buckets_(std::move(buckets)), unfit_(unfit) {
    counted_.counts.resize(buckets_.shapes().size());
  }

  /// Counts a sample and returns its bucket, none for the remainder.
  std::optional<std::size_t> add(video_shape sample) {
    const auto bucket =
        unfit_ == unfit_samples::are_errors ? buckets_.at(sample) : buckets_.find(sample);
    ++(bucket ? counted_.counts[*bucket] : counted_.remainder);
    return bucket;
  }

  [[nodiscard]] const bucket_counts& counts() const { return counted_; }

 private:
  shape_buckets buckets_;
  unfit_samples unfit_;
  bucket_counts counted_;
};

}  // namespace adaptiveload
