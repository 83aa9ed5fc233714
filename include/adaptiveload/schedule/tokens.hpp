#pragma once

#include <adaptiveload/support/error.hpp>
#include <cstdint>
#include <limits>

namespace adaptiveload {

/// The size of an image or clip in pixels; an image has one frame.
struct video_shape {
  std::int64_t frames = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;

  friend constexpr bool operator==(const video_shape&, const video_shape&) = default;
};

/// How a video autoencoder and the patch embedding behind it turn pixels into tokens.
///
/// The autoencoder shrinks time by `temporal_stride` and both sides by `spatial_stride`; a token is
/// then a patch of `patch_frames` x `patch_height` x `patch_width` latents. A causal autoencoder
/// (`first_frame_alone`) keeps the first frame by itself: F frames become (F - 1) / stride + 1.
struct tokenizer {
  std::int64_t temporal_stride = 1;
  std::int64_t spatial_stride = 1;
  std::int64_t patch_frames = 1;
  std::int64_t patch_height = 1;
  std::int64_t patch_width = 1;
  bool first_frame_alone = false;

  /// Tokens of one sample of this shape.
  ///
  /// Sizes must divide exactly: a frame or a row of pixels that no token holds is an error
  /// (`std::invalid_argument` that names the argument), never rounded away.
  [[nodiscard]] constexpr std::int64_t tokens(video_shape shape) const {
    detail::require(temporal_stride > 0, "temporal_stride", temporal_stride, "1 or more");
    detail::require(spatial_stride > 0, "spatial_stride", spatial_stride, "1 or more");
    detail::require(patch_frames > 0, "patch_frames", patch_frames, "1 or more");
    detail::require(patch_height > 0, "patch_height", patch_height, "1 or more");
    detail::require(patch_width > 0, "patch_width", patch_width, "1 or more");
    detail::require(shape.frames > 0, "frames", shape.frames, "1 or more");
    detail::require(shape.height > 0, "height", shape.height, "1 or more");
    detail::require(shape.width > 0, "width", shape.width, "1 or more");

    const std::int64_t alone = first_frame_alone ? 1 : 0;
    detail::require((shape.frames - alone) % temporal_stride == 0, "frames", shape.frames,
                    first_frame_alone ? "one more than a multiple of the temporal stride"
                                      : "a multiple of the temporal stride");
    const std::int64_t latent_frames = (shape.frames - alone) / temporal_stride + alone;
    detail::require(latent_frames % patch_frames == 0, "frames", shape.frames,
                    "latent frames that are a multiple of patch_frames");
    const std::int64_t rows = patches(shape.height, patch_height, "height");
    const std::int64_t columns = patches(shape.width, patch_width, "width");

    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    detail::require(rows <= most / columns, "height", shape.height, "fewer than 2^63 tokens");
    detail::require(latent_frames / patch_frames <= most / (rows * columns), "frames", shape.frames,
                    "fewer than 2^63 tokens");
    return latent_frames / patch_frames * rows * columns;
  }

 private:
  [[nodiscard]] constexpr std::int64_t patches(std::int64_t pixels, std::int64_t patch,
                                               std::string_view argument) const {
    detail::require(pixels % spatial_stride == 0 && pixels / spatial_stride % patch == 0, argument,
                    pixels, "a multiple of the spatial stride times the patch");
    return pixels / spatial_stride / patch;
  }
};

/// Wan 2.1: an autoencoder of stride 4 x 8 x 8 whose first frame stands alone, patches of 1 x 2
/// x 2.
inline constexpr tokenizer wan21{.temporal_stride = 4,
                                 .spatial_stride = 8,
                                 .patch_frames = 1,
                                 .patch_height = 2,
                                 .patch_width = 2,
                                 .first_frame_alone = true};

/// Open-Sora 2.0: the same strides and patches as Wan 2.1 (HunyuanVideo's autoencoder).
inline constexpr tokenizer open_sora = wan21;

}  // namespace adaptiveload
