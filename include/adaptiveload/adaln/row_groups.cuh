#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <adaptiveload/reduce/warp.cuh>
#include <adaptiveload/support/pack.cuh>
#include <cstdint>

/// Which rows share their modulations.
namespace adaptiveload::detail {

/// A 64-bit division is a long subroutine.
__device__ inline std::int64_t divide(std::int64_t a, std::int64_t b) {
  if ((a | b) >> 32 == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

/// The groups of an activation's rows, numbered through all samples. There is one at least.
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
  template <bool Together>
  __device__ std::int64_t of(std::int64_t row) const {
    return cu_seqlens == nullptr ? divide(row, tokens) : first_beginning_after<Together>(row) - 1;
  }

  /// The first group that has to do with the rows from `row` on: that of the row before if it goes
  /// on, or the first that begins here, even if it has no rows.
  __device__ std::int64_t first_from(std::int64_t row) const {
    if (cu_seqlens == nullptr) return divide(row, tokens);
    const std::int64_t beginning_here = first_beginning_after<false>(row - 1);
    return beginning_here < count && begin(beginning_here) == row ? beginning_here
                                                                  : beginning_here - 1;
  }

  /// Reads `Width` numbers of a modulation's vector for a group, its table's added.
  template <class M, int Width>
  __device__ void read(const modulation<M>& from, std::int64_t group, std::int64_t feature,
                       float (&values)[Width]) const {
    read_pack(vector(from, group) + feature, values);
    if (from.table != nullptr) add_pack(from.table + feature, values);
  }

  /// The vector of a group, of a `modulation` or a `modulation_gradient`.
  template <class Vectors>
  __device__ auto* vector(const Vectors& of, std::int64_t group) const {
    if (per_sample == 1) return of.data + group * of.batch_stride;
    const std::int64_t sample = divide(group, per_sample);
    return of.data + sample * of.batch_stride + (group - sample * per_sample) * of.group_stride;
  }

 private:
  template <bool Together>
  __device__ std::int64_t first_beginning_after(std::int64_t row) const {
    std::int64_t low = 0, high = count;
    while (low < high) {
      if constexpr (Together) {  // reads of memory, one after the other, are what takes time
        const std::int64_t step = (high - low + device::warp_size - 1) / device::warp_size;
        const std::int64_t at = low + device::lane() * step;
        const int not_after = warp_reduce(at < high && cu_seqlens[at] <= row ? 1 : 0, plus{});
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

/// How rows are dealt to blocks: block b takes [first(b), first(b + 1)).
struct row_deal {
  std::int64_t rows, blocks;

  __host__ __device__ std::int64_t first(std::int64_t block) const { return rows * block / blocks; }
  /// The block that takes a row.
  __host__ __device__ std::int64_t owner(std::int64_t row) const {
    return ((row + 1) * blocks - 1) / rows;
  }
};

}  // namespace adaptiveload::detail
