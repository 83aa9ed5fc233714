#pragma once

#include <adaptiveload/adaln/backward_rows.cuh>
#include <adaptiveload/adaln/row.cuh>
#include <adaptiveload/adaln/row_groups.cuh>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// The backward in one pass over its inputs, by tiles of a few rows in shared memory: warps sum up
/// a tile's rows; then threads, each of them with the same features of every row, make dx and add
/// to the sums of dscale, dshift and dgate that they keep in registers (the "D-tile" of Guo et al.
/// 2026, as wide as the row).
namespace adaptiveload::detail {

/// The tiles that a block takes, counted from its team's first row: of each group in turn, one at
/// `offset` rows from where it begins or goes on, and every so many rows another.
struct tile_walk {
  int group, row, end;  ///< the next tile's first row; the end of its group or of the team's rows

  /// From row `start` of the team on, where group `of` begins or goes on.
  __device__ tile_walk(const row_groups& groups, int of, int first, int start, int team_rows,
                       int offset)
      : group(of), row(start + offset) {
    const int group_end = static_cast<int>(groups.begin(of + 1)) - first;
    end = group_end < team_rows ? group_end : team_rows;
  }

  /// Goes on to the groups behind while the one at hand has no tile left.
  __device__ void skip_finished(const row_groups& groups, int first, int team_rows, int offset) {
    while (row >= end && end < team_rows) {
      *this = tile_walk(groups, group + 1, first, end, team_rows, offset);
    }
  }
};

/// What a block of `backward_tiles` is made of, and its shared memory.
struct tile_block {
  int features = 0, threads = 0;
  int packs = 0;          ///< of a row
  int row_groups = 0;     ///< threads that have the same features take every so many rows of a tile
  int rows = 0;           ///< of a tile
  int slices = 0;         ///< of a row, one a warp, whose sums are made apart
  int slots = 0;          ///< tiles in shared memory: one at hand, 1 or 2 under way
  int row_bytes = 0;      ///< of all inputs
  bool has_gate = false;  ///< in shared memory, as 1 + scale is

  __host__ __device__ int tile_bytes() const { return rows * row_bytes; }
  /// 1 + scale, and in their place, when a group has ended, the row groups' sums; the gate.
  __host__ __device__ int vector_floats() const {
    return (row_groups + (has_gate ? 1 : 0)) * features;
  }
  __host__ __device__ int slots_offset() const {
    return vector_floats() * static_cast<int>(sizeof(float));
  }
  /// Of two tiles, one being made while the other is in use: 4 sums a slice of each row; each row's
  /// mean and rstd.
  __host__ __device__ int sums_offset() const { return slots_offset() + slots * tile_bytes(); }
  __host__ __device__ int statistics_offset() const {
    return sums_offset() + 2 * rows * slices * 4 * static_cast<int>(sizeof(float));
  }
  __host__ __device__ int barriers_offset() const {
    return statistics_offset() + 2 * rows * 2 * static_cast<int>(sizeof(float));
  }
  __host__ __device__ std::size_t shared_bytes() const {
    return static_cast<std::size_t>(barriers_offset()) +
           static_cast<std::size_t>(slots) * sizeof(device::transfer_barrier);
  }
};

/// The largest block whose threads keep the sums of `Vectors` packs.
template <bool Gated, int Vectors>
inline constexpr int tile_block_threads = !Gated         ? (Vectors <= 2 ? 640 : 512)
                                          : Vectors <= 2 ? 512
                                                         : 384;

/// `Vectors`: packs that a thread adds to its sums of. `Slices`: as in `block`, or 0 where it isn't
/// known at compile time.
template <class Normalized, class X, class M, class Y, bool Gated, int Width, int Vectors,
          int Slices>
__global__ void __launch_bounds__(tile_block_threads<Gated, Vectors>, 1)
    backward_tiles(backward_arguments<Normalized, X, M, Y> args, row_groups groups, row_deal deal,
                   tile_block block, block_sums partial, bool bulk) {
  const int features = block.features, rank = static_cast<int>(threadIdx.x);
  const int lane = rank % device::warp_size, warp = rank / device::warp_size;
  const int row_team = static_cast<int>(blockIdx.x) / deal.members;
  const int first = static_cast<int>(deal.first(row_team));
  const int team_rows = static_cast<int>(deal.first(row_team + 1)) - first;
  const int step = deal.members * block.rows;
  const int offset = (static_cast<int>(blockIdx.x) - row_team * deal.members) * block.rows;

  // Only the last pack of a thread may lie beyond the row, if it has several.
  const int row_group = Vectors == 1 ? rank / block.packs : 0;
  const int first_row = row_group < block.row_groups ? row_group : block.rows;
  const auto in_row = [&](int v) {
    return v + 1 < Vectors || Vectors == 1 || v * block.threads + rank < block.packs;
  };
  const auto pack_of = [&](int v) {
    if constexpr (Vectors == 1) return rank - row_group * block.packs;
    return in_row(v) ? v * block.threads + rank : rank;
  };

  std::byte* const shared = device::shared_memory();
  float* const multiplier = reinterpret_cast<float*>(shared);
  float* const group_sums = multiplier;  // when a group has ended
  [[maybe_unused]] float* const gate = multiplier + block.row_groups * features;
  float* const slice_sums = reinterpret_cast<float*>(shared + block.sums_offset());
  float* const statistics = reinterpret_cast<float*>(shared + block.statistics_offset());
  auto* const arrived =
      reinterpret_cast<device::transfer_barrier*>(shared + block.barriers_offset());
  // The inputs of a slot's tile.
  const int tile_features = block.rows * features;
  const auto r_of = [&](int slot) {
    return reinterpret_cast<Normalized*>(shared + block.slots_offset() + slot * block.tile_bytes());
  };
  const auto dy_of = [&](int slot) { return reinterpret_cast<Y*>(r_of(slot) + tile_features); };
  const auto dr_of = [&](int slot) { return dy_of(slot) + tile_features; };
  const auto branch_of = [&](int slot) {
    return reinterpret_cast<X*>(dr_of(slot) + tile_features);
  };

  tile_walk ahead(groups, static_cast<int>(groups.first_from<true>(first)), first, 0, team_rows,
                  offset);
  ahead.skip_finished(groups, first, team_rows, offset);
  const auto fill = [&](int slot) {
    if (bulk && rank > 0) return;
    if (ahead.row < ahead.end) {
      const int left = ahead.end - ahead.row, count = left < block.rows ? left : block.rows;
      const std::int64_t from = std::int64_t{first + ahead.row} * features;
      if (bulk) {
        device::expect_bytes(arrived + slot, static_cast<std::uint32_t>(count * block.row_bytes));
      }
      const auto copy = [&](auto* to, const auto* of) {
        const int bytes = count * features * static_cast<int>(sizeof(*to));
        if (bulk) {
          device::copy_bulk(to, of + from, static_cast<std::uint32_t>(bytes), arrived + slot);
          return;
        }
        for (int at = rank * 16; at < bytes; at += block.threads * 16) {
          device::copy_async(reinterpret_cast<std::byte*>(to) + at,
                             reinterpret_cast<const std::byte*>(of + from) + at);
        }
      };
      copy(r_of(slot), args.r);
      copy(dy_of(slot), args.dy);
      if constexpr (Gated) {
        copy(dr_of(slot), args.dr);
        copy(branch_of(slot), args.branch);
      }
      ahead.row += step;
      ahead.skip_finished(groups, first, team_rows, offset);
    }
    if (!bulk) device::end_copy_group();
  };

  if (bulk && rank == 0) {
#pragma unroll 1
    for (int slot = 0; slot < block.slots; ++slot) device::init_barrier(arrived + slot);
  }
  device::sync_block();
#pragma unroll 1
  for (int slot = 0; slot + 1 < block.slots; ++slot) fill(slot);
  device::let_next_kernel_start();

  // Vectors lie by quarters of a pack: neighbouring threads' reads of 16 bytes are neighbours.
  const auto read_vector = [&](const float* vector, int pack, float(&values)[Width]) {
#pragma unroll
    for (int part = 0; part < Width / 4; ++part) {
      const auto quarter = load_pack<4>(vector + (part * block.packs + pack) * 4);
#pragma unroll
      for (int k = 0; k < 4; ++k) values[part * 4 + k] = quarter[k];
    }
  };
  const auto write_vector = [&](const modulation<M>& from, std::int64_t group, float plus,
                                float* vector) {
    const M* const data = groups.vector<true>(from, group);
#pragma unroll 1
    for (int pack = rank; pack < block.packs; pack += block.threads) {
      float values[Width];
      read_modulation(from, data, pack * Width, values);
#pragma unroll
      for (int part = 0; part < Width / 4; ++part) {
        float quarter[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) quarter[k] = plus + values[part * 4 + k];
        store_pack(vector + (part * block.packs + pack) * 4, quarter);
      }
    }
  };

  clear_totals<Gated>(args, partial, block.threads);
  int slot = 0, half = 0;
  std::uint32_t parity = 0;
  int group = static_cast<int>(groups.first_from<true>(first));
  // The last team goes on to groups that begin behind all rows, and have none.
  const int least_end = row_team + 1 == deal.teams ? static_cast<int>(groups.count) : 0;
  for (int start = 0; start < team_rows || group < least_end; ++group) {
    const tile_walk mine(groups, group, first, start, team_rows, offset);
    constexpr bool holds = Vectors == 1;  // the vectors, in registers
    float m[Width];
    [[maybe_unused]] float g[Width];
    write_vector(args.scale, group, args.form == modulate::one_plus_scale ? 1 : 0, multiplier);
    if constexpr (Gated && holds) {
      read_modulation(args.gate, groups.vector<true>(args.gate, group), pack_of(0) * Width, g);
    } else if constexpr (Gated) {
      write_vector(args.gate, group, 0, gate);
    }
    float dscale[Vectors][Width] = {}, dshift[Vectors][Width] = {};
    [[maybe_unused]] float dgate[Vectors][Width] = {};
    // Of the row that the warp sums up in a tile.
    const int slices = Slices > 0 ? Slices : block.slices;
    const int warp_row = warp / slices, slice = warp - warp_row * slices;
    float next_mean = 0, next_rstd = 0;
    const auto read_statistics = [&](int row) {
      if (warp_row >= block.rows || row + warp_row >= mine.end) return;
      if (args.kind == norm::layer) next_mean = args.mean[first + row + warp_row];
      next_rstd = args.rstd[first + row + warp_row];
    };
    read_statistics(mine.row);
    device::sync_block();
    if constexpr (holds) read_vector(multiplier, pack_of(0), m);

    for (int row = mine.row; row < mine.end; row += step) {
      const int count = mine.end - row < block.rows ? mine.end - row : block.rows;
      if (bulk) {
        device::wait_for_bytes(arrived + slot, parity);
      } else {
        if (block.slots == 2) {
          device::wait_for_copy_groups<0>();
        } else {
          device::wait_for_copy_groups<1>();
        }
        device::sync_block();
      }
      const float mean = next_mean, rstd = next_rstd;
      read_statistics(row + step);
      if (warp_row < count) {
        const Normalized* const r = r_of(slot) + warp_row * features;
        const Y* const dy = dy_of(slot) + warp_row * features;
        float sum[4] = {};
        const auto add_pack = [&](int pack, bool counts) {
          const auto r_v = load_pack<Width>(r + pack * Width);
          const auto dy_v = load_pack<Width>(dy + pack * Width);
          float by[Width], of_pack[3] = {};
          read_vector(multiplier, pack, by);
#pragma unroll
          for (int k = 0; k < Width; ++k) {
            const float difference = r_v[k] - mean, gradient = dy_v[k] * by[k];
            of_pack[0] += difference;
            of_pack[1] += gradient;
            of_pack[2] = fmaf(gradient, difference, of_pack[2]);
          }
#pragma unroll
          for (int k = 0; k < 3; ++k) sum[k] += counts ? of_pack[k] : 0;
        };
        const int stride = slices * device::warp_size;
        // Packs beyond the row are its first ones again, left out: branches would keep reads from
        // starting.
        const auto add_packs = [&](auto of_lane) {
#pragma unroll
          for (int i = 0; i < decltype(of_lane)::value; ++i) {
            const int pack = i * stride + slice * device::warp_size + lane;
            const bool counts = pack < block.packs;
            add_pack(counts ? pack : lane, counts);
          }
        };
        if (Slices > 0 && block.packs <= 2 * stride) {
          add_packs(std::integral_constant<int, 2>{});
        } else if ((Slices > 0 && Slices < 4) || (Slices > 0 && block.packs <= 3 * stride)) {
          add_packs(std::integral_constant<int, 3>{});
        } else {
#pragma unroll(Slices == 0 ? 2 : 3)
          for (int pack = slice * device::warp_size + lane; pack < block.packs; pack += stride) {
            add_pack(pack, true);
          }
        }
        const int row_of_both = half * block.rows + warp_row;
        const float total = warp_sum_transposed(sum);
        if (lane % 8 == 0) {
          slice_sums[(row_of_both * slices + slice) * 4 + lane / 8] = total;
        }
        if (slice == 0 && lane == 0) {
          statistics[row_of_both * 2] = mean;
          statistics[row_of_both * 2 + 1] = rstd;
        }
      }
      device::sync_block();
      // Now all threads are done with the tile before.
      fill(slot == 0 ? block.slots - 1 : slot - 1);

#pragma unroll(Gated || !holds ? 1 : 2)
      for (int i = first_row; i < count; i += block.row_groups) {
        const int row_of_both = half * block.rows + i;
        sums<3> sum{};
#pragma unroll(Slices > 0 ? Slices : 1)
        for (int s = 0; s < slices; ++s) {
          const auto part = load_pack<4>(slice_sums + (row_of_both * slices + s) * 4);
#pragma unroll
          for (int k = 0; k < 3; ++k) sum.value[k] += part[k];
        }
        const row_gradient result(args.kind, statistics[row_of_both * 2],
                                  statistics[row_of_both * 2 + 1], sum,
                                  1 / static_cast<float>(features));
        const std::int64_t out = std::int64_t{first + row + i} * features;
#pragma unroll
        for (int v = 0; v < Vectors; ++v) {
          const int feature = pack_of(v) * Width, at = i * features + feature;
          const auto r_v = load_pack<Width>(r_of(slot) + at);
          const auto dy_v = load_pack<Width>(dy_of(slot) + at);
          if constexpr (!holds) read_vector(multiplier, pack_of(v), m);
          float dx[Width];
#pragma unroll
          for (int k = 0; k < Width; ++k) {
            const float normal = result.normal(r_v[k]);
            dscale[v][k] = fmaf(dy_v[k], normal, dscale[v][k]);
            dshift[v][k] += dy_v[k];
            dx[k] = result.dx(normal, dy_v[k] * m[k]);
          }
          if constexpr (Gated) {
            const auto dr_v = load_pack<Width>(dr_of(slot) + at);
            const auto branch_v = load_pack<Width>(branch_of(slot) + at);
            if constexpr (!holds) read_vector(gate, pack_of(v), g);
            float dbranch[Width];
#pragma unroll
            for (int k = 0; k < Width; ++k) {
              dx[k] += dr_v[k];
              dgate[v][k] = fmaf(branch_v[k], dx[k], dgate[v][k]);
              dbranch[k] = g[k] * dx[k];
            }
            if (in_row(v)) store_pack(args.dbranch + out + feature, dbranch);
          }
          if (in_row(v)) store_pack(args.dresidual + out + feature, dx);
        }
      }
      if (bulk) device::show_to_copies();
      half ^= 1;
      if (++slot == block.slots) {
        slot = 0;
        parity ^= 1;
      }
    }

    // Adds the row groups' sums in their order, and writes them out.
    const bool began_here = groups.begin(group) >= first;
#pragma unroll 1
    for (int gradient = 0; gradient < gradient_count<Gated>; ++gradient) {
      const auto& to = args.gradients[gradient];
      if (to.data == nullptr && to.total == nullptr) continue;
      device::sync_block();
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        float sums[Width];
#pragma unroll
        for (int k = 0; k < Width; ++k) {
          sums[k] = gradient == 0 ? dscale[v][k] : dshift[v][k];
          if constexpr (Gated) sums[k] = gradient == 2 ? dgate[v][k] : sums[k];
        }
        if (row_group < block.row_groups && in_row(v)) {
          store_pack(group_sums + row_group * features + pack_of(v) * Width, sums);
        }
      }
      device::sync_block();
      float* const of_group = partial.of_group(groups, deal, group, began_here, to, gradient);
      float* const total = to.total == nullptr ? nullptr : partial.total(blockIdx.x, gradient);
#pragma unroll 1
      for (int i = rank; i < features; i += block.threads) {
        float value = group_sums[i];
        for (int of = 1; of < block.row_groups; ++of) value += group_sums[of * features + i];
        if (of_group != nullptr) of_group[i] = value;
        if (total != nullptr) total[i] += value;
      }
    }
    device::sync_block();  // before the vectors are written again
    start = mine.end;
  }
}

}  // namespace adaptiveload::detail
