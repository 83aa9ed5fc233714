#pragma once

#include <adaptiveload/schedule/permutation.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace adaptiveload::detail {

/// A random order of [0, size) that spreads small and large indices evenly (stratified sampling):
/// each 128 in a row, from the first on, have one index of every 128th of the range. Any index is
/// as likely as another at any place. Evaluated at any place; stores nothing an index.
///
/// With more strata a step of few would be spread less, with fewer it would be hardly random.
class spread_order {
 public:
  static constexpr std::int64_t strata = 128;

  spread_order() = default;

  spread_order(std::int64_t size, std::uint64_t key)
      : size_(size),
        key_(mix(key, 0)),
        rounds_(size / strata),
        left_(size % strata),
        last_round_(left_, mix(key, 1)),
        rows_{keyed_permutation(rounds_, mix(key, 2)),
              keyed_permutation(rounds_ + 1, mix(key, 3))} {
    if (size > 0) {
      shift_ = static_cast<std::int64_t>(mix(key, 4) % static_cast<std::uint64_t>(size));
    }
    for (std::int64_t j = 0; j < strata; ++j) {
      stratum& each = strata_[static_cast<std::size_t>(j)];
      each.begin = j * rounds_ + j * left_ / strata;
      each.has_one_more = (j + 1) * left_ / strata > j * left_ / strata;
      const std::int64_t indices = rounds_ + (each.has_one_more ? 1 : 0);
      if (indices == 0) continue;
      each.turn = static_cast<std::int64_t>(mix(key_, static_cast<std::uint64_t>(~j)) %
                                            static_cast<std::uint64_t>(indices));
    }
  }

  /// Calls `visit(index)` for `count` places from `first` on.
  template <class Visit>
  void for_each(std::int64_t first, std::int64_t count, Visit visit) const {
    const std::int64_t end = first + count;
    for (std::int64_t at = first; at < end;) {
      const round now = round_at(at / strata);
      const std::int64_t stop = std::min(end, (at / strata + 1) * strata);
      for (; at < stop; ++at) visit(index(now, at % strata));
    }
  }

  /// The index at a place, which must be in [0, size).
  [[nodiscard]] std::int64_t operator()(std::int64_t place) const {
    return index(round_at(place / strata), place % strata);
  }

 private:
  struct stratum {
    std::int64_t begin = 0;
    std::int64_t turn = 0;  // of its indices against the other strata's
    bool has_one_more = false;
  };
  /// What the places of a round have in common.
  struct round {
    std::array<std::int64_t, 2> row;  // of strata without and with one more index
    std::int64_t step, start;         // from one place's stratum to the next one's
    bool last;
  };

  [[nodiscard]] round round_at(std::int64_t r) const {
    const bool last = r == rounds_;
    const std::uint64_t hash = mix(key_, static_cast<std::uint64_t>(r));
    return {{last ? 0 : rows_[0](r), rows_[1](r)},
            static_cast<std::int64_t>(hash % strata) | 1,  // odd: it comes to every stratum once
            static_cast<std::int64_t>((hash >> 32) % strata),
            last};
  }

  [[nodiscard]] std::int64_t index(const round& now, std::int64_t place) const {
    // Only strata with one more index are left for the last round.
    const std::int64_t j = now.last ? ((last_round_(place) + 1) * strata + left_ - 1) / left_ - 1
                                    : (now.start + place * now.step) % strata;
    const stratum& from = strata_[static_cast<std::size_t>(j)];
    const std::int64_t indices = rounds_ + (from.has_one_more ? 1 : 0);
    const std::int64_t turned = now.row[from.has_one_more ? 1 : 0] + from.turn;
    const std::int64_t i = shift_ + from.begin + (turned < indices ? turned : turned - indices);
    return i < size_ ? i : i - size_;
  }

  std::int64_t size_ = 0;
  std::uint64_t key_ = 0;
  std::int64_t shift_ = 0;   // at which the first stratum begins: they are not all of one size
  std::int64_t rounds_ = 0;  // of one index from each stratum
  std::int64_t left_ = 0;    // indices of the last round, which not every stratum has
  keyed_permutation last_round_;
  std::array<keyed_permutation, 2> rows_;
  std::array<stratum, strata> strata_{};
};

}  // namespace adaptiveload::detail
