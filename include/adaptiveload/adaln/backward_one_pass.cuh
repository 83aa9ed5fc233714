#pragma once

#include <adaptiveload/adaln/backward_rows.cuh>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/adaln/row_groups.cuh>
#include <cstddef>
#include <cstdint>

/// The backward in one pass over its inputs: dx by rows, while the threads that make it keep the
/// sums of dscale, dshift and dgate for their features in registers (the "D-tile" of Guo et al.
/// 2026, as wide as the row).
namespace adaptiveload::detail {

/// The rows that one of the units of a team's blocks takes, counted from the team's first: of each
/// group in turn, every n-th of n units.
struct unit_rows {
  int group, row, end;  ///< the next row, and the end of its group or of the team's rows

  /// From row `start` of the team on, where group `of` begins or goes on.
  __device__ unit_rows(const row_groups& groups, int of, int first, int start, int team_rows,
                       int unit)
      : group(of), row(start + unit) {
    const int group_end = static_cast<int>(groups.begin(of + 1)) - first;
    end = group_end < team_rows ? group_end : team_rows;
  }

  /// Goes on to the groups behind while the one at hand has no row left for the unit.
  __device__ void skip_finished(const row_groups& groups, int first, int team_rows, int unit) {
    while (row >= end && end < team_rows) {
      *this = unit_rows(groups, group + 1, first, end, team_rows, unit);
    }
  }
};

/// What a block of `backward_one_pass` is made of, and its shared memory.
///
/// `units` of `warps` warps each take a row at a time, and wait for nobody but each other. A unit's
/// ring of `stages` rows of all inputs is filled ahead.
struct one_pass_block {
  int features = 0, warps = 0, units = 0, stages = 0;
  int row_bytes = 0;  ///< of all inputs
  int vectors = 0;    ///< of modulations, in float: those that threads don't hold in registers

  __host__ __device__ int threads() const { return 32 * warps * units; }
  __host__ __device__ std::size_t vector_bytes() const {
    return static_cast<std::size_t>(features) * sizeof(float);
  }
  /// The vectors; the units' sums; the rings; for each of their rows 4 sums a warp, and a barrier.
  __host__ __device__ std::size_t ring_offset() const {
    return vector_bytes() * static_cast<std::size_t>(vectors);
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

/// Warps of the largest block: as many as the registers allow that the sums of `Vectors` packs
/// take. Units wait for their own warps and for memory, so more of them are faster.
template <bool Gated, int Vectors>
inline constexpr int one_pass_warps = Vectors == 8   ? 8
                                      : Gated        ? 12
                                      : Vectors <= 2 ? 15
                                                     : 16;

/// Whether threads hold the modulations of their features, and a row's packs between its sums and
/// its gradients, in registers, in a block of 12 warps. Done where 12 warps are as many units
/// as 15. Else both are read twice from shared memory.
template <bool Gated, int Vectors, int Warps>
inline constexpr bool one_pass_holds = !Gated && Vectors <= 2 && (Warps == 4 || Warps == 6);

template <bool Gated, int Vectors, int Warps>
inline constexpr int one_pass_threads = 32 * (one_pass_holds<Gated, Vectors, Warps>
                                                  ? 12
                                                  : one_pass_warps<Gated, Vectors>);

inline constexpr int one_pass_copy_stages = 4;  // of a ring that is not filled by bulk copies

/// `Warps`: as in `block`, or 0 where it isn't known at compile time.
template <class Normalized, class X, class M, class Y, bool Gated, int Width, int Vectors,
          int Warps>
__global__ void __launch_bounds__(one_pass_threads<Gated, Vectors, Warps>, 1)
    backward_one_pass(backward_arguments<Normalized, X, M, Y> args, row_groups groups,
                      row_deal deal, one_pass_block block, block_sums partial, bool bulk) {
  const int features = block.features;
  const int warps = Warps > 0 ? Warps : block.warps;
  const int team = device::warp_size * warps;
  const int unit = static_cast<int>(threadIdx.x) / team;
  const int thread = static_cast<int>(threadIdx.x) % team;
  const int row_team = static_cast<int>(blockIdx.x) / deal.members;
  const int first = static_cast<int>(deal.first(row_team));
  const int team_rows = static_cast<int>(deal.first(row_team + 1)) - first;
  // Of the team's units: neighbours are in different blocks.
  const int team_unit =
      unit * deal.members + static_cast<int>(blockIdx.x) - row_team * deal.members;

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
  [[maybe_unused]] float* const gate = multiplier + features;
  float* const unit_sums = multiplier;  // when a group has ended
  std::byte* const ring = shared + block.ring_offset() + unit * block.stages * block.row_bytes;
  float* const row_sums =
      reinterpret_cast<float*>(shared + block.sums_offset()) + unit * block.stages * warps * 4;
  auto* const arrived =
      reinterpret_cast<device::transfer_barrier*>(shared + block.barriers_offset()) +
      unit * block.stages;
  // A row's inputs in the ring.
  const auto r_of = [&](int stage) {
    return reinterpret_cast<Normalized*>(ring + stage * block.row_bytes);
  };
  const auto dy_of = [&](int stage) { return reinterpret_cast<Y*>(r_of(stage) + features); };
  const auto dr_of = [&](int stage) { return dy_of(stage) + features; };
  const auto branch_of = [&](int stage) { return reinterpret_cast<X*>(dr_of(stage) + features); };

  unit_rows ahead(groups, static_cast<int>(groups.first_from<true>(first)), first, 0, team_rows,
                  team_unit);
  ahead.skip_finished(groups, first, team_rows, team_unit);
  const auto fill = [&](int stage) {
    if (ahead.row < ahead.end) {
      const std::int64_t row = std::int64_t{first + ahead.row} * features;
      if (bulk) {
        if (thread == 0) {
          device::expect_bytes(arrived + stage, static_cast<std::uint32_t>(block.row_bytes));
          const auto copy = [&](auto* to, const auto* from) {
            device::copy_bulk(
                to, from,
                static_cast<std::uint32_t>(features) * static_cast<std::uint32_t>(sizeof(*to)),
                arrived + stage);
          };
          copy(r_of(stage), args.r + row);
          copy(dy_of(stage), args.dy + row);
          if constexpr (Gated) {
            copy(dr_of(stage), args.dr + row);
            copy(branch_of(stage), args.branch + row);
          }
        }
      } else {  // each thread its packs of the row
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          if (!in_row(v)) break;
          copy_pack<Width>(r_of(stage) + feature(v), args.r + row + feature(v));
          copy_pack<Width>(dy_of(stage) + feature(v), args.dy + row + feature(v));
          if constexpr (Gated) {
            copy_pack<Width>(dr_of(stage) + feature(v), args.dr + row + feature(v));
            copy_pack<Width>(branch_of(stage) + feature(v), args.branch + row + feature(v));
          }
        }
      }
      ahead.row += block.units * deal.members;
      ahead.skip_finished(groups, first, team_rows, team_unit);
    }
    if (!bulk) device::end_copy_group();
  };

  if (bulk && thread == 0) {
#pragma unroll 1
    for (int stage = 0; stage < block.stages; ++stage) device::init_barrier(arrived + stage);
  }
  device::sync_block();
  for (int stage = 0; stage + 1 < block.stages; ++stage) fill(stage);
  device::let_next_kernel_start();

  int stage = 0;
  std::uint32_t parity = 0;

  constexpr bool Holds = one_pass_holds<Gated, Vectors, Warps>;
  constexpr int Held = Holds ? Vectors : 1;
  // In shared memory vectors lie by quarters of a pack: neighbouring threads' reads of 16 bytes are
  // neighbours.
  const int quarter_stride = features / Width * 4;
  const auto read_vector = [&](const float* vector, int v, float(&values)[Held][Width]) {
    if constexpr (!Holds) {
#pragma unroll
      for (int part = 0; part < Width / 4; ++part) {
        const auto quarter = load_pack<4>(vector + part * quarter_stride + feature(v) / Width * 4);
#pragma unroll
        for (int k = 0; k < 4; ++k) values[0][part * 4 + k] = quarter[k];
      }
    }
  };
  // Makes plus + a group's vector ready for `read_vector`: in `held` or, after a barrier, in
  // `vector`.
  const auto take_vector = [&](const modulation<M>& from, std::int64_t group, float plus,
                               float(&held)[Held][Width], float* vector) {
    const M* const data = groups.vector<true>(from, group);
    if constexpr (Holds) {
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        read_modulation(from, data, feature(v), held[v]);
#pragma unroll
        for (int k = 0; k < Width; ++k) held[v][k] += plus;
      }
    } else {
      for (int i = static_cast<int>(threadIdx.x); i < features; i += block.threads()) {
        float value[1];
        read_modulation(from, data, i, value);
        vector[i % Width / 4 * quarter_stride + i / Width * 4 + i % 4] = plus + value[0];
      }
    }
  };

  for (int gradient = 0; gradient < gradient_count<Gated>; ++gradient) {
    if (args.gradients[gradient].total == nullptr) continue;
    for (int i = static_cast<int>(threadIdx.x); i < features; i += block.threads()) {
      partial.total(blockIdx.x, gradient)[i] = 0;
    }
  }

  int group = static_cast<int>(groups.first_from<true>(first));
  for (int start = 0; start < team_rows || (row_team + 1 == deal.teams && group < groups.count);
       ++group) {
    const unit_rows mine(groups, group, first, start, team_rows, team_unit);
    float m[Held][Width];
    [[maybe_unused]] float g[Held][Width];
    take_vector(args.scale, group, args.form == modulate::one_plus_scale ? 1 : 0, m, multiplier);
    if constexpr (Gated) take_vector(args.gate, group, 0, g, gate);
    float dscale[Vectors][Width] = {}, dshift[Vectors][Width] = {};
    [[maybe_unused]] float dgate[Vectors][Width] = {};
    float next_mean = 0, next_rstd = 0;
    const auto read_statistics = [&](int row) {
      if (row >= mine.end) return;
      if (args.kind == norm::layer) next_mean = args.mean[first + row];
      next_rstd = args.rstd[first + row];
    };
    read_statistics(mine.row);
    device::sync_block();

    for (int row = mine.row; row < mine.end; row += block.units * deal.members) {
      if (bulk) {
        device::wait_for_bytes(arrived + stage, parity);
      } else {
        wait_for_all_groups_but(block.stages - 2);
        sync_unit();
      }
      const float mean = next_mean, rstd = next_rstd;
      read_statistics(row + block.units * deal.members);

      float difference[Held][Width], dy[Held][Width];
      const auto read_row = [&](int v, int h) {
        const auto r_v = load_pack<Width>(r_of(stage) + feature(v));
        const auto dy_v = load_pack<Width>(dy_of(stage) + feature(v));
        read_vector(multiplier, v, m);
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          difference[h][k] = r_v[k] - mean;
          dy[h][k] = dy_v[k];
        }
      };
      float sum[4] = {};
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        const int h = Holds ? v : 0;
        read_row(v, h);
        float of_pack[3] = {};
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          const float gradient = dy[h][k] * m[h][k];
          of_pack[0] += difference[h][k];
          of_pack[1] += gradient;
          of_pack[2] = fmaf(gradient, difference[h][k], of_pack[2]);
        }
#pragma unroll
        for (int k = 0; k < 3; ++k) sum[k] += in_row(v) ? of_pack[k] : 0;
      }
      sum_over_warps<Warps>(sum, warps, thread / device::warp_size, row_sums + stage * warps * 4,
                            sync_unit);
      // Now all threads of the unit are done with the row before.
      if (warps == 1) sync_unit();
      fill(stage == 0 ? block.stages - 1 : stage - 1);

      const row_gradient result(args.kind, mean, rstd, {{sum[0], sum[1], sum[2]}},
                                1 / static_cast<float>(features));
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        const int h = Holds ? v : 0;
        if constexpr (!Holds) read_row(v, h);
        float dx[Width];
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          const float normal = result.normal_of(difference[h][k]);
          dscale[v][k] = fmaf(dy[h][k], normal, dscale[v][k]);
          dshift[v][k] += dy[h][k];
          dx[k] = result.dx(normal, dy[h][k] * m[h][k]);
        }
        const std::int64_t at = std::int64_t{first + row} * features + feature(v);
        if constexpr (Gated) {
          const auto dr_v = load_pack<Width>(dr_of(stage) + feature(v));
          const auto branch_v = load_pack<Width>(branch_of(stage) + feature(v));
          float dbranch[Width];
          read_vector(gate, v, g);
#pragma unroll
          for (int k = 0; k < Width; ++k) {
            dx[k] += dr_v[k];
            dgate[v][k] = fmaf(branch_v[k], dx[k], dgate[v][k]);
            dbranch[k] = g[h][k] * dx[k];
          }
          if (in_row(v)) store_pack(args.dbranch + at, dbranch);
        }
        if (in_row(v)) store_pack(args.dresidual + at, dx);
      }
      if (bulk) device::show_to_copies();
      if (++stage == block.stages) {
        stage = 0;
        parity ^= 1;
      }
    }

    // Adds the units' sums in their order, and writes them out.
    const bool began_here = groups.begin(group) >= first;
    const auto add_units = [&](int gradient, const float(&sums)[Vectors][Width]) {
      const auto& to = args.gradients[gradient];
      if (to.data == nullptr && to.total == nullptr) return;
#pragma unroll 1
      for (int u = 0; u < block.units; ++u) {
        device::sync_block();
        if (u != unit) continue;
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          if (!in_row(v)) break;
          float* const at = unit_sums + feature(v);
#pragma unroll
          for (int k = 0; k < Width; ++k) at[k] = u > 0 ? at[k] + sums[v][k] : sums[v][k];
        }
      }
      device::sync_block();
      float* const of_group = to.data == nullptr ? nullptr
                              : !began_here      ? partial.going_on(blockIdx.x, gradient)
                              : deal.members > 1 ? partial.beginning(blockIdx.x, gradient)
                                                 : groups.vector<true>(to, group);
      float* const total = to.total == nullptr ? nullptr : partial.total(blockIdx.x, gradient);
#pragma unroll 1
      for (int i = static_cast<int>(threadIdx.x); i < features; i += block.threads()) {
        const float value = unit_sums[i];
        if (of_group != nullptr) of_group[i] = value;
        if (total != nullptr) total[i] += value;
      }
    };
    add_units(0, dscale);
    add_units(1, dshift);
    if constexpr (Gated) add_units(2, dgate);
    device::sync_block();  // before the vectors are written again
    start = mine.end;
  }
}

}  // namespace adaptiveload::detail
