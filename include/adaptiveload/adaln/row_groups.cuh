#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/reduce/warp.cuh>
#include <adaptiveload/support/pack.cuh>
#include <cstdint>

/// Which rows share their modulations.
namespace adaptiveload::detail {

/// Of numbers of 31 bits where `Narrow`: a 64-bit division is a long subroutine, whose code alone
/// costs a kernel of few rows a tenth of its time.
template <bool Narrow>
__device__ std::int64_t divide(std::int64_t a, std::int64_t b) {
  if (Narrow || (a | b) >> 32 == 0) {
    return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  }
  return a / b;
}

/// The groups of an activation's rows, numbered through all samples. There is one at least.
/// `Narrow`: rows and groups are known to be fewer than 2^31.
struct row_groups {
  std::int64_t rows, count;
  std::int64_t tokens;             ///< of a group, unless packed
  std::int64_t per_sample;         ///< groups of a sample
  const std::int32_t* cu_seqlens;  ///< null unless packed

  /// The first row of a group, or of what follows the last one.
  __device__ std::int64_t begin(std::int64_t group) const {
    return cu_seqlens == nullptr ? group * tokens : cu_seqlens[group];
  }

  /// The group of a row. `Together`: all lanes of the warp ask for the same one.
  template <bool Together, bool Narrow = false>
  __device__ std::int64_t of(std::int64_t row) const {
    return cu_seqlens == nullptr ? divide<Narrow>(row, tokens)
                                 : first_beginning_after<Together>(row) - 1;
  }

  /// The first group that has to do with the rows from `row` on: that of the row before if it goes
  /// on, or the first that begins here, even if it has no rows.
  template <bool Narrow = false>
  __device__ std::int64_t first_from(std::int64_t row) const {
    if (cu_seqlens == nullptr) return divide<Narrow>(row, tokens);
    const std::int64_t beginning_here = first_beginning_after<false>(row - 1);
    return beginning_here < count && begin(beginning_here) == row ? beginning_here
                                                                  : beginning_here - 1;
  }

  /// The vector of a group, of a `modulation` or a `modulation_gradient`.
  template <bool Narrow = false, class Vectors>
  __device__ auto* vector(const Vectors& of, std::int64_t group) const {
    if (per_sample == 1) return of.data + group * of.batch_stride;
    const std::int64_t sample = divide<Narrow>(group, per_sample);
    return of.data + sample * of.batch_stride + (group - sample * per_sample) * of.group_stride;
  }

 private:
  template <bool Together>
  __device__ std::int64_t first_beginning_after(std::int64_t row) const {
    std::int64_t low = 0, high = count;
    while (low < high) {
      if constexpr (Together) {  // reads of memory, one after the other, are what takes time
        constexpr int each = 4;
        const std::int64_t step = (high - low - 1) / (each * device::warp_size) + 1;
        int not_after = 0;
#pragma unroll
        for (int i = 0; i < each; ++i) {
          const std::int64_t at = low + (i * device::warp_size + device::lane()) * step;
          not_after += at < high && cu_seqlens[at] <= row ? 1 : 0;
        }
        not_after = warp_reduce(not_after, plus{});
        if (not_after == 0) return low;
        const std::int64_t next = low + not_after * step;
        low = next - step + 1;
        high = next < high ? next : high;
      } else {
        const std::int64_t middle = (low + high) / 2;
        if (cu_seqlens[middle] > row) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
    }
    return low;
  }
};

/// Reads `Width` numbers of `vector`, which is a group's of the modulation, the table's added.
template <class M, int Width>
__device__ void read_modulation(const modulation<M>& of, const M* vector, std::int64_t feature,
                                float (&values)[Width]) {
  read_pack(vector + feature, values);
  if (of.table != nullptr) add_pack(of.table + feature, values);
}

inline bool is_narrow(const row_groups& groups) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  return groups.rows < limit && groups.count < limit;
}

/// The groups of a checked shape that has rows. Where all `vectors` (modulations and gradients) lie
/// in one stride, they are made to lie so by samples, which saves a division a group.
template <class... Vectors>
row_groups groups_of(const activation_shape& shape, Vectors&... vectors) {
  const bool packed = shape.cu_seqlens != nullptr;
  row_groups groups{.rows = packed ? shape.tokens : shape.batch * shape.tokens,
                    .count = shape.batch * shape.groups,
                    .tokens = shape.tokens / shape.groups,
                    .per_sample = shape.groups,
                    .cu_seqlens = shape.cu_seqlens};
  const bool one_stride =
      ((shape.batch == 1 || vectors.batch_stride == shape.groups * vectors.group_stride) && ...);
  if (groups.per_sample > 1 && one_stride) {
    groups.per_sample = 1;
    ((vectors.batch_stride = vectors.group_stride), ...);
  }
  return groups;
}

/// How rows are dealt to blocks: team t, of `members` blocks, takes [first(t), first(t + 1)), its
/// blocks every `members`-th row. What blocks of a team read and write at a time lies together, as
/// DRAM likes it: one team of all blocks is 5 % faster on an H200 than teams of one.
struct row_deal {
  std::int64_t rows, teams;
  int members;

  __host__ __device__ std::int64_t blocks() const { return teams * members; }
  __host__ __device__ std::int64_t first(std::int64_t team) const { return rows * team / teams; }
  /// The team that takes a row.
  __host__ __device__ std::int64_t owner(std::int64_t row) const {
    return ((row + 1) * teams - 1) / rows;
  }
};

/// Deals rows to at most `blocks` blocks. Teams of several only if no group begins and ends within
/// one: a block then has to do with two groups at most, and with one where teams that take a group
/// each leave few blocks without work: to end a group's sums takes longer than a few rows.
inline row_deal deal_rows(const row_groups& groups, std::int64_t blocks) {
  row_deal deal{.rows = groups.rows, .teams = blocks, .members = 1};
  if (groups.cu_seqlens != nullptr || groups.count >= blocks) return deal;
  deal.teams = groups.count;
  const std::int64_t idle = blocks % deal.teams;
  if (idle > blocks / 16) {
    while (blocks % deal.teams != 0) ++deal.teams;
  }
  deal.members = static_cast<int>(blocks / deal.teams);
  return deal;
}

}  // namespace adaptiveload::detail
