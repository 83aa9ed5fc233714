#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/adaln/row_groups.cuh>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The forward of both operations: without a gate, x is `residual`, and there are no branch and r.
namespace adaptiveload::detail {

/// Mean and deviation of a row from the sums of x - pivot and of its square. With a pivot that is
/// the mean of k of the D numbers, the sum of squares exceeds that of deviations from the mean at
/// most D / k-fold (Cauchy-Schwarz), so nothing cancels; and a mean large against the deviation
/// keeps all its digits as pivot + rest, which one float does not. A root-mean-square norm has a
/// pivot of 0, and takes no mean away.
struct row_statistics {
  float pivot, rest, rstd, offset;

  /// `weight`: 1 / features.
  __device__ row_statistics(norm kind, float origin, float sum, float squares, float weight,
                            float epsilon)
      : pivot(origin), rest(kind == norm::layer ? sum * weight : 0) {
    rstd = rsqrtf(fmaxf(fmaf(squares, weight, -rest * rest), 0) + epsilon);
    offset = -rest * rstd;
  }

  __device__ float mean() const { return pivot + rest; }
  __device__ float normal(float x) const { return fmaf(x - pivot, rstd, offset); }
};

template <class X, class M, class Y>
using forward_arguments = gate_residual_layernorm_modulate_args<X, M, Y>;

template <class X, class M, class Y>
__device__ void save_statistics(const forward_arguments<X, M, Y>& args, std::int64_t row,
                                const row_statistics& statistics) {
  if (args.mean != nullptr) args.mean[row] = statistics.mean();
  if (args.rstd != nullptr) args.rstd[row] = statistics.rstd;
}

/// The largest block of `forward_rows`, and how many of them a multiprocessor is to hold: as many
/// as the registers of a thread's packs allow.
template <int Team>
inline constexpr int forward_threads = Team <= device::warp_size ? 128 : Team;
template <bool Gated, int Team, int Width, int Packs>
constexpr int forward_blocks() {
  constexpr bool one_activation = !Gated && (Packs < 8 || Width == 8) && (Packs > 5 || Team > 128);
  constexpr int threads = Packs == 1                     ? 1024
                          : Packs <= 4 || one_activation ? 768
                          : Packs <= 5                   ? 640
                                                         : 512;
  return threads / forward_threads<Team>;
}

/// Forward for rows that fit in the registers of a team of Team threads: a part of a warp, a warp,
/// or a block. It reads its rows at once, and the modulations when it needs them, mostly from L1:
/// so there is little in a thread's registers, and many teams read and write while others wait. It
/// takes `Rows` rows at once, which share the reads. Row length: at most Width * Vectors * Team, a
/// multiple of Width.
template <class X, class M, class Y, bool Gated, int Team, int Width, int Vectors, int Rows>
__global__ void __launch_bounds__(forward_threads<Team>,
                                  forward_blocks<Gated, Team, Width, Rows * Vectors>())
    forward_rows(forward_arguments<X, M, Y> args, row_groups groups) {
  constexpr bool Together = Team >= device::warp_size;  // a warp's lanes have one row
  const int features = static_cast<int>(args.shape.features);
  const int teams = static_cast<int>(blockDim.x) / Team;
  const int thread = static_cast<int>(threadIdx.x) % Team;
  const std::int64_t unbounded =
      (blockIdx.x * std::int64_t{teams} + static_cast<int>(threadIdx.x) / Team) * Rows;
  const std::int64_t first = unbounded < groups.rows ? unbounded : groups.rows - 1;
  const std::int64_t left = groups.rows - unbounded;
  const int mine = left < Rows ? static_cast<int>(left) : Rows;

  // Only the last pack of a thread may lie beyond the row. Then it is the thread's first one again,
  // its sums and outputs left out: branches around the work on a pack would keep the work on others
  // from starting. (It isn't another thread's, which may have written its outputs there.)
  const int beyond = ((Vectors - 1) * Team + thread) * Width;
  const bool last_in_row = beyond < features;
  const auto feature = [&](int v) {
    if (v + 1 == Vectors && !last_in_row) return Vectors > 1 ? thread * Width : 0;
    return (v * Team + thread) * Width;
  };
  const auto in_row = [&](int v) { return v + 1 < Vectors || last_in_row; };
  const auto writes = [&](int r, int v) { return r < mine && in_row(v); };
  const auto position = [&](int r, int v) {
    return (first + (r < mine ? r : 0)) * features + feature(v);
  };

  device::let_next_kernel_start();
  device::wait_for_previous_kernel();
  pack<X, Width> residual[Rows][Vectors] = {};
  [[maybe_unused]] pack<X, Width> branch[Gated ? Rows : 1][Vectors] = {};
  const bool has_rows = Team > device::warp_size || mine > 0;
  if (has_rows && (Vectors > 1 || last_in_row)) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        residual[r][v] = load_pack_streaming<Width>(args.residual + position(r, v));
        if constexpr (Gated) {
          branch[r][v] = load_pack_streaming<Width>(args.branch + position(r, v));
        }
      }
    }
  }

  std::int64_t group[Rows] = {};
  if (groups.count > 1) {
    group[0] = groups.of<Together, true>(first);
#pragma unroll
    for (int r = 1; r < Rows; ++r) {
      group[r] = group[r - 1];
      if (r >= mine) continue;
      while (groups.begin(group[r] + 1) <= first + r) ++group[r];
    }
  }
  struct vectors {
    const M* of[Rows];
  };
  const auto vectors_of = [&](const modulation<M>& from) {
    vectors all;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      all.of[r] =
          r > 0 && group[r] == group[r - 1] ? all.of[r - 1] : groups.vector<true>(from, group[r]);
    }
    return all;
  };
  // Reads a row's pack of a modulation, unless it is that of the row before.
  const auto read = [&](const modulation<M>& from, const vectors& all, int r, int v,
                        float(&values)[Width]) {
    if (r > 0 && all.of[r] == all.of[r - 1]) return;
    read_modulation(from, all.of[r], feature(v), values);
  };

  using normalized = std::conditional_t<Gated, Y, X>;
  pack<normalized, Width> x[Rows][Vectors];
  [[maybe_unused]] const vectors gates = Gated ? vectors_of(args.gate) : vectors{};
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    [[maybe_unused]] float gate[Width];
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      if constexpr (Gated) {
        read(args.gate, gates, r, v, gate);
        float sum[Width];
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          sum[k] = fmaf(gate[k], branch[r][v][k], residual[r][v][k]);
        }
        x[r][v] = round_pack<Y>(sum);
        if (writes(r, v)) write_pack<reuse::late>(args.r + position(r, v), x[r][v]);
      } else {
        x[r][v] = residual[r][v];
      }
    }
  }

  // As in `forward_tiles`, so that a row's bits don't depend on who takes it: deviations from the
  // mean of the row's first pack, their sums in the same order.
  constexpr int warps = Team / device::warp_size;  // of a block that is one team
  float* const storage = reinterpret_cast<float*>(device::shared_memory());
  float pivot[Rows] = {}, sum[2 * Rows] = {};
  if (args.kind == norm::layer) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) pivot[r] = mean_of(x[r][0]);
    if constexpr (Team <= device::warp_size) {
#pragma unroll
      for (float& of_row : pivot) of_row = warp_broadcast<Team>(of_row, 0);
    } else {
      float* const shown = storage + 2 * Rows * warps;
      if (thread == 0) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) shown[r] = pivot[r];
      }
      device::sync_block();
#pragma unroll
      for (int r = 0; r < Rows; ++r) pivot[r] = shown[r];
    }
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      float of_pack = 0, squares = 0;
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        const float deviation = x[r][v][k] - pivot[r];
        of_pack += deviation;
        squares = fmaf(deviation, deviation, squares);
      }
      sum[2 * r] += in_row(v) ? of_pack : 0;
      sum[2 * r + 1] += in_row(v) ? squares : 0;
    }
  }
  if constexpr (Team < device::warp_size) {
#pragma unroll
    for (float& value : sum) value = warp_reduce<Team>(value, plus{});
  } else {
    sum_over_warps<warps>(sum, warps, static_cast<int>(threadIdx.x) / device::warp_size, storage,
                          [] { device::sync_block(); });
  }

  const float one = args.form == modulate::one_plus_scale ? 1 : 0;
  const bool has_shift = args.shift.data != nullptr;
  const vectors scales = vectors_of(args.scale);
  const vectors shifts = has_shift ? vectors_of(args.shift) : vectors{};
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    float scale[Width], shift[Width] = {};
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const row_statistics statistics(args.kind, pivot[r], sum[2 * r], sum[2 * r + 1],
                                      1 / static_cast<float>(features),
                                      static_cast<float>(args.epsilon));
      if (v == 0 && thread == 0 && r < mine) save_statistics(args, first + r, statistics);
      read(args.scale, scales, r, v, scale);
      if (has_shift) read(args.shift, shifts, r, v, shift);
      float y[Width];
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        y[k] = fmaf(statistics.normal(x[r][v][k]), one + scale[k], shift[k]);
      }
      if (writes(r, v)) {
        // As `position`, without a gate in words that keep it out of registers until here.
        const std::int64_t row = (Gated ? first : unbounded) + r;
        store_pack<reuse::late>(args.y + row * features + feature(v), y);
      }
    }
  }
}

/// Forward for any row length and alignment: a block a row, which it reads twice, the second time
/// mostly from cache.
template <class X, class M, class Y, bool Gated, int Width>
__global__ void __launch_bounds__(512)
    forward_streamed(forward_arguments<X, M, Y> args, row_groups groups) {
  const std::int64_t features = args.shape.features;
  const std::int64_t start = std::int64_t{threadIdx.x} * Width;
  const std::int64_t step = std::int64_t{blockDim.x} * Width;
  sums<2>* storage = reinterpret_cast<sums<2>*>(device::shared_memory());

  for (std::int64_t row = blockIdx.x; row < groups.rows; row += gridDim.x) {
    const std::int64_t group = groups.of<true>(row), begin = row * features;
    [[maybe_unused]] const M* const gate_vector = groups.vector(args.gate, group);
    // W elements from the i-th of what is normalized.
    const auto before = [&](auto width, std::int64_t i) {
      constexpr int W = decltype(width)::value;
      if constexpr (Gated) {
        const auto residual = load_pack<W>(args.residual + begin + i);
        const auto branch = load_pack<W>(args.branch + begin + i);
        float gate[W], r[W];
        read_modulation(args.gate, gate_vector, i, gate);
#pragma unroll
        for (int k = 0; k < W; ++k) r[k] = fmaf(gate[k], branch[k], residual[k]);
        return round_pack<Y>(r);
      } else {
        return load_pack<W>(args.residual + begin + i);
      }
    };

    float pivot = 0;
    if (args.kind == norm::layer) {
      const int pivot_count = static_cast<int>(features < 16 ? features : 16);
      for (int i = 0; i < pivot_count; ++i) {
        pivot += before(std::integral_constant<int, 1>{}, i)[0];
      }
      pivot /= static_cast<float>(pivot_count);
      if constexpr (Gated) device::sync_block();  // before r is written, maybe over residual
    }

    sums<2> sum{};
    for (std::int64_t i = start; i < features; i += step) {
      const auto x = before(std::integral_constant<int, Width>{}, i);
      if constexpr (Gated) write_pack(args.r + begin + i, x);
#pragma unroll
      for (int k = 0; k < Width; ++k) {
        const float deviation = x[k] - pivot;
        sum.value[0] += deviation;
        sum.value[1] = fmaf(deviation, deviation, sum.value[1]);
      }
    }
    sum = block_reduce(sum, plus{}, storage);
    const row_statistics statistics(args.kind, pivot, sum.value[0], sum.value[1],
                                    1 / static_cast<float>(features),
                                    static_cast<float>(args.epsilon));

    const M* const scale_vector = groups.vector(args.scale, group);
    const M* const shift_vector = groups.vector(args.shift, group);
    for (std::int64_t i = start; i < features; i += step) {
      float scale[Width], shift[Width] = {}, y[Width];
      read_modulation(args.scale, scale_vector, i, scale);
      if (args.shift.data != nullptr) read_modulation(args.shift, shift_vector, i, shift);
      const auto normalize = [&](const auto& x) {
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          const float by = args.form == modulate::one_plus_scale ? 1 + scale[k] : scale[k];
          y[k] = fmaf(statistics.normal(x[k]), by, shift[k]);
        }
      };
      if constexpr (Gated) {
        normalize(load_pack<Width>(args.r + begin + i));
      } else {
        normalize(load_pack<Width>(args.residual + begin + i));
      }
      store_pack(args.y + begin + i, y);
    }
    if (threadIdx.x == 0) save_statistics(args, row, statistics);
    device::sync_block();  // before `storage` is written again
  }
}

}  // namespace adaptiveload::detail
