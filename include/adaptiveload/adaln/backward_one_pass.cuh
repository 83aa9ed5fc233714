#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/adaln/backward_rows.cuh>
#include <adaptiveload/adaln/row.cuh>
#include <cstddef>
#include <cstdint>

/// The backward in one pass over x and dy: dx by rows, while the threads that make it keep the sums
/// of dscale and dshift for their features in registers (the "D-tile" of Guo et al. 2026, as wide
/// as the row).
namespace adaptiveload::detail {

/// How the rows are dealt to the blocks: block b takes [first(b), first(b + 1)).
struct row_deal {
  std::int64_t rows, blocks;

  __host__ __device__ std::int64_t first(std::int64_t block) const { return rows * block / blocks; }
  /// The block that takes a row.
  __host__ __device__ std::int64_t owner(std::int64_t row) const {
    return ((row + 1) * blocks - 1) / rows;
  }
};

/// The rows that one of a block's units takes, counted from the block's first: of each sample in
/// turn, every `units`-th.
struct unit_rows {
  int row, end;  ///< the next row, and the end of its sample or of the block's rows

  /// From row `start` of the block on, `to_end` rows before the end of a sample.
  __device__ unit_rows(int start, std::int64_t to_end, int block_rows, int unit)
      : row(start + unit),
        end(to_end < block_rows - start ? start + static_cast<int>(to_end) : block_rows) {}

  /// Goes on to the samples behind while the one at hand has no row left for the unit.
  __device__ void skip_finished(std::int64_t tokens, int block_rows, int unit) {
    while (row >= end && end < block_rows) *this = unit_rows(end, tokens, block_rows, unit);
  }
};

/// What a block of `backward_one_pass` is made of, and its shared memory.
///
/// `units` of `warps` warps each take a row at a time, and wait for nobody but each other. A unit's
/// ring of `stages` rows of x and dy is filled ahead. 72 KB of rows under way keep an H200's memory
/// busy, more slow it down.
struct one_pass_block {
  int features = 0, warps = 0, units = 0, stages = 0;
  int row_bytes = 0;  ///< of x and dy

  __host__ __device__ int threads() const { return 32 * warps * units; }
  __host__ __device__ std::size_t vector_bytes() const {
    return static_cast<std::size_t>(features) * sizeof(float);
  }
  /// 1 + scale; the units' sums where there are several; the rings; for each of their rows
  /// 4 sums a warp, and a barrier.
  __host__ __device__ std::size_t ring_offset() const {
    return vector_bytes() * (units > 1 ? 2 : 1);
  }
  __host__ __device__ std::size_t sums_offset() const {
    return ring_offset() + static_cast<std::size_t>(units * stages * row_bytes);
  }
  __host__ __device__ std::size_t barriers_offset() const {
    return sums_offset() + static_cast<std::size_t>(units * stages * warps) * 4 * sizeof(float);
  }
  __host__ __device__ std::size_t shared_bytes() const {
    return barriers_offset() +
           static_cast<std::size_t>(units * stages) * sizeof(device::transfer_barrier);
  }
};

/// Waits until at most `groups` (0, 1 or more) of the calling thread's groups of copies are
/// unfinished.
__device__ inline void wait_for_all_groups_but(int groups) {
  if (groups == 0) {
    device::wait_for_copy_groups<0>();
  } else if (groups == 1) {
    device::wait_for_copy_groups<1>();
  } else {
    device::wait_for_copy_groups<2>();
  }
}

/// The largest block: leaves each thread 168 registers, or 255 for the sums of 8 packs.
template <int Vectors>
inline constexpr int one_pass_threads = Vectors <= 5 ? 384 : 256;

inline constexpr int one_pass_copy_stages = 4;  // of a ring that is not filled by bulk copies

/// The sums of a sample that began in an earlier block go to `partial` [blocks, 2, features], for
/// `backward_fold_blocks`; all others to dscale and dshift.
///
/// `Warps`: as in `block`, or 0 where it isn't known at compile time.
template <class X, class M, class Y, int Width, int Vectors, int Warps>
__global__ void __launch_bounds__(one_pass_threads<Vectors>, 1)
    backward_one_pass(layernorm_modulate_backward_args<X, M, Y> args, row_deal deal,
                      one_pass_block block, float* partial, bool bulk) {
  const int features = block.features, tokens_apart = block.units;
  const int warps = Warps > 0 ? Warps : block.warps;
  const int team = device::warp_size * warps;
  const int unit = static_cast<int>(threadIdx.x) / team;
  const int thread = static_cast<int>(threadIdx.x) % team;
  const std::int64_t tokens = args.shape.tokens;
  const std::int64_t first = deal.first(blockIdx.x);
  const int block_rows = static_cast<int>(deal.first(blockIdx.x + 1) - first);

  // Only the last pack of a thread may lie beyond the row. Then it is the row's last one again, its
  // sums and outputs left out: branches around the work on a pack would keep the work on others
  // from starting.
  const int beyond = ((Vectors - 1) * team + thread) * Width;
  const bool last_in_row = beyond < features;
  const auto feature = [&](int v) {
    if (v + 1 == Vectors) return last_in_row ? beyond : features - Width;
    return (v * team + thread) * Width;
  };
  const auto in_row = [&](int v) { return v + 1 < Vectors || last_in_row; };
  const auto sync_unit = [&] {
    if (warps == 1) {
      device::sync_warp();
    } else {
      device::sync_named(1 + unit, team);
    }
  };

  std::byte* const shared = device::shared_memory();
  float* const multiplier = reinterpret_cast<float*>(shared);
  float* const unit_sums = multiplier + features;
  std::byte* const ring = shared + block.ring_offset() + unit * block.stages * block.row_bytes;
  float* const row_sums =
      reinterpret_cast<float*>(shared + block.sums_offset()) + unit * block.stages * warps * 4;
  auto* const arrived =
      reinterpret_cast<device::transfer_barrier*>(shared + block.barriers_offset()) +
      unit * block.stages;
  const auto x_of = [&](int stage) { return reinterpret_cast<X*>(ring + stage * block.row_bytes); };
  const auto dy_of = [&](int stage) { return reinterpret_cast<Y*>(x_of(stage) + features); };

  unit_rows ahead(0, tokens - first % tokens, block_rows, unit);
  ahead.skip_finished(tokens, block_rows, unit);
  const auto fill = [&](int stage) {
    if (ahead.row < ahead.end) {
      const X* const x = args.x + (first + ahead.row) * features;
      const Y* const dy = args.dy + (first + ahead.row) * features;
      if (bulk) {
        if (thread == 0) {
          const auto count = static_cast<std::uint32_t>(features);
          device::expect_bytes(arrived + stage, static_cast<std::uint32_t>(block.row_bytes));
          device::copy_bulk(x_of(stage), x, count * sizeof(X), arrived + stage);
          device::copy_bulk(dy_of(stage), dy, count * sizeof(Y), arrived + stage);
        }
      } else {  // each thread its packs of the row
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          if (in_row(v)) {
            copy_pack<Width>(x_of(stage) + feature(v), x + feature(v));
            copy_pack<Width>(dy_of(stage) + feature(v), dy + feature(v));
          }
        }
      }
      ahead.row += tokens_apart;
      ahead.skip_finished(tokens, block_rows, unit);
    }
    if (!bulk) device::end_copy_group();
  };

  if (bulk && thread == 0) {
    for (int stage = 0; stage < block.stages; ++stage) device::init_barrier(arrived + stage);
  }
  device::sync_block();
  for (int stage = 0; stage + 1 < block.stages; ++stage) fill(stage);
  device::let_next_kernel_start();

  int stage = 0;
  std::uint32_t parity = 0;

  // 1 + scale lies in shared memory by quarters of a pack: neighbouring threads' reads of 16 bytes
  // are neighbours.
  const int quarter_stride = features / Width * 4;
  const auto read_multiplier = [&](int v, float(&m)[Width]) {
#pragma unroll
    for (int part = 0; part < Width / 4; ++part) {
      const auto quarter =
          load_pack<4>(multiplier + part * quarter_stride + feature(v) / Width * 4);
#pragma unroll
      for (int k = 0; k < 4; ++k) m[part * 4 + k] = quarter[k];
    }
  };

  std::int64_t sample = first / tokens;
  for (int start = 0; start < block_rows; ++sample) {
    const unit_rows mine(start, (sample + 1) * tokens - first - start, block_rows, unit);
    const M* const scale = args.scale.data + sample * args.scale.batch_stride;
    for (int i = static_cast<int>(threadIdx.x); i < features; i += block.threads()) {
      const int place = i % Width / 4 * quarter_stride + i / Width * 4 + i % 4;
      multiplier[place] = 1 + to_float(scale[i]);
    }
    float dscale[Vectors][Width] = {}, dshift[Vectors][Width] = {};
    float next_mean = 0, next_rstd = 0;
    const auto read_statistics = [&](int row) {
      if (row >= mine.end) return;
      next_mean = args.mean[first + row];
      next_rstd = args.rstd[first + row];
    };
    read_statistics(mine.row);
    device::sync_block();

    for (int row = mine.row; row < mine.end; row += tokens_apart) {
      if (bulk) {
        device::wait_for_bytes(arrived + stage, parity);
      } else {
        wait_for_all_groups_but(block.stages - 2);
        sync_unit();
      }
      const X* const x = x_of(stage);
      const Y* const dy = dy_of(stage);
      const float mean = next_mean, rstd = next_rstd;
      read_statistics(row + tokens_apart);

      float sum[4] = {};
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        const auto x_v = load_pack<Width>(x + feature(v));
        const auto dy_v = load_pack<Width>(dy + feature(v));
        float m[Width], of_pack[3] = {};
        read_multiplier(v, m);
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          const float difference = x_v[k] - mean, gradient = dy_v[k] * m[k];
          of_pack[0] += difference;
          of_pack[1] += gradient;
          of_pack[2] = fmaf(gradient, difference, of_pack[2]);
        }
#pragma unroll
        for (int k = 0; k < 3; ++k) sum[k] += in_row(v) ? of_pack[k] : 0;
      }
      sum_over_warps(sum, warps, thread / device::warp_size, row_sums + stage * warps * 4,
                     sync_unit);
      // Now all threads of the unit are done with the row before.
      if (warps == 1) sync_unit();
      fill(stage == 0 ? block.stages - 1 : stage - 1);

      const row_gradient result(mean, rstd, {{sum[0], sum[1], sum[2]}},
                                1 / static_cast<float>(features));
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        const auto x_v = load_pack<Width>(x + feature(v));
        const auto dy_v = load_pack<Width>(dy + feature(v));
        float m[Width], dx[Width];
        read_multiplier(v, m);
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          const float normal = result.normal(x_v[k]);
          dscale[v][k] = fmaf(dy_v[k], normal, dscale[v][k]);
          dshift[v][k] += dy_v[k];
          dx[k] = result.dx(normal, dy_v[k] * m[k]);
        }
        if (in_row(v)) store_pack(args.dx + (first + row) * features + feature(v), dx);
      }
      if (bulk) device::show_to_copies();
      if (++stage == block.stages) {
        stage = 0;
        parity ^= 1;
      }
    }

    // Adds the units' sums in their order; the last one has them all.
    const bool began_here = sample * tokens >= first;
    float* const slot = partial + std::int64_t{blockIdx.x} * 2 * features;
    const auto add_units = [&](const float(&sums)[Vectors][Width], float* to) {
      for (int u = 0; u < block.units; ++u) {
        device::sync_block();
        if (u != unit) continue;
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          if (in_row(v)) {
            float* const before = unit_sums + feature(v);
            float* const out = u + 1 < block.units ? before : to + feature(v);
#pragma unroll
            for (int k = 0; k < Width; ++k) out[k] = u > 0 ? before[k] + sums[v][k] : sums[v][k];
          }
        }
      }
    };
    add_units(dscale, began_here ? args.dscale.data + sample * args.dscale.batch_stride : slot);
    add_units(dshift,
              began_here ? args.dshift.data + sample * args.dshift.batch_stride : slot + features);
    start = mine.end;
  }
}

/// Adds the partial sums of samples that lie in several blocks to dscale (output 0) and dshift (1).
/// Piece (i, output, tile): `by_sample` sample i, else the sample that block i + 1 goes on with, if
/// it began in block i; 128 columns. Four warps add every fourth block's part.
template <class X, class M, class Y>
__global__ void __launch_bounds__(128)
    backward_fold_blocks(layernorm_modulate_backward_args<X, M, Y> args, row_deal deal,
                         const float* partial, bool by_sample, std::int64_t pieces) {
  constexpr int columns = 128, warps = 4;
  device::wait_for_previous_kernel();
  const std::int64_t tokens = args.shape.tokens, features = args.shape.features;
  const std::int64_t tiles = (features + columns - 1) / columns;
  const int warp = static_cast<int>(threadIdx.x) / device::warp_size;
  float* const storage = reinterpret_cast<float*>(device::shared_memory());  // [warps, columns]

  for (std::int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
    const std::int64_t tile = piece % tiles, output = piece / tiles % 2, i = piece / tiles / 2;
    const std::int64_t sample = by_sample ? i : deal.first(i + 1) / tokens;
    const std::int64_t first = deal.owner(sample * tokens);
    const std::int64_t last = deal.owner(sample * tokens + tokens - 1);
    if (first == last || (!by_sample && first != i)) continue;

    const std::int64_t column = tile * columns + device::lane() * 4;
    float sum[4] = {};
    if (column < features) {
#pragma unroll 8
      for (std::int64_t block = first + 1 + warp; block <= last; block += warps) {
        const auto part = load_pack<4>(partial + (block * 2 + output) * features + column);
#pragma unroll
        for (int k = 0; k < 4; ++k) sum[k] += part[k];
      }
    }
    store_pack(storage + threadIdx.x * 4, sum);
    device::sync_block();
    const std::int64_t own = tile * columns + threadIdx.x;
    if (own < features) {
      const auto& gradient = output == 0 ? args.dscale : args.dshift;
      float* const total = gradient.data + sample * gradient.batch_stride + own;
      float value = *total;
#pragma unroll
      for (int w = 0; w < warps; ++w) value += storage[w * columns + static_cast<int>(threadIdx.x)];
      *total = value;
    }
    device::sync_block();  // before `storage` is written again
  }
}

}  // namespace adaptiveload::detail
