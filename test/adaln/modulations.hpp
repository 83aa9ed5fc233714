#pragma once

#include <adaptiveload/adaln/arguments.hpp>
#include <algorithm>
#include <cstdint>

#include "tensor.hpp"

/// How the vectors of a modulation, or of its gradient, lie in a tensor.
enum class layout {
  dense,              ///< [batch, groups, features]
  six_chunks,         ///< one of the chunks of [batch, groups, 6, features]
  odd_stride,         ///< features + 1 apart, so that most are misaligned
  last_first,         ///< negative strides
  groups_first,       ///< [groups, batch, features]
  shared_by_groups,   ///< [batch, features], group stride 0; a gradient lies dense
  shared_by_samples,  ///< [groups, features], batch stride 0; a gradient lies dense
  shared_by_all       ///< [features], strides 0; a gradient lies dense
};

inline constexpr layout layouts[] = {layout::dense,
                                     layout::six_chunks,
                                     layout::odd_stride,
                                     layout::last_first,
                                     layout::groups_first,
                                     layout::shared_by_groups,
                                     layout::shared_by_samples,
                                     layout::shared_by_all};

constexpr layout layout_of_gradient(layout of) {
  return of >= layout::shared_by_groups ? layout::dense : of;
}

/// A vector of `features` numbers for every group of every sample.
template <class T>
class vectors {
 public:
  vectors(const adaptiveload::activation_shape& shape, layout how, std::int64_t chunk,
          std::int64_t offset)
      : shape_(shape), place_(place_of(shape, how, chunk)), all_(place_.size, offset) {}

  std::int64_t batch_stride() const { return place_.batch_stride; }
  std::int64_t group_stride() const { return place_.group_stride; }

  T* on_device() { return all_.on_device() + place_.first; }
  /// Of a group, which is counted through all samples.
  T* on_host(std::int64_t group) { return all_.host.data() + index(group); }
  const T* on_host(std::int64_t group) const { return all_.host.data() + index(group); }

  tensor<T>& all() { return all_; }
  const tensor<T>& all() const { return all_; }

  /// Of vectors that lie apart: how many elements that are in none hold anything but poison.
  std::int64_t written_between() const {
    std::int64_t written = std::count_if(all_.host.begin(), all_.host.end(), tensor<T>::is_written);
    for (std::int64_t group = 0; group < shape_.batch * shape_.groups; ++group) {
      const T* const vector = on_host(group);
      written -= std::count_if(vector, vector + shape_.features, tensor<T>::is_written);
    }
    return written;
  }

 private:
  struct place {
    std::int64_t batch_stride, group_stride, first, size;
  };

  static place place_of(const adaptiveload::activation_shape& shape, layout how,
                        std::int64_t chunk) {
    const std::int64_t groups = shape.groups, features = shape.features;
    const std::int64_t count = shape.batch * groups;
    const auto evenly = [&](std::int64_t stride, std::int64_t first, std::int64_t size) {
      return place{groups * stride, stride, first, size};
    };
    switch (how) {
      case layout::dense:
        break;
      case layout::six_chunks:
        return evenly(6 * features, chunk * features, count * 6 * features);
      case layout::odd_stride:
        return evenly(features + 1, 0, count * (features + 1));
      case layout::last_first:
        return evenly(-features, std::max<std::int64_t>(count - 1, 0) * features, count * features);
      case layout::groups_first:
        return {features, shape.batch * features, 0, count * features};
      case layout::shared_by_groups:
        return {features, 0, 0, shape.batch * features};
      case layout::shared_by_samples:
        return {0, features, 0, groups * features};
      case layout::shared_by_all:
        return {0, 0, 0, features};
    }
    return evenly(features, 0, count * features);
  }

  std::int64_t index(std::int64_t group) const {
    return place_.first + group / shape_.groups * place_.batch_stride +
           group % shape_.groups * place_.group_stride;
  }

  adaptiveload::activation_shape shape_;
  place place_;
  tensor<T> all_;
};

/// A modulation's vectors, and its table if it has one.
template <class M>
struct modulation_tensor {
  vectors<M> each;
  tensor<float> table;  ///< of no elements, if there is none

  void upload() {
    each.all().upload();
    table.upload();
  }

  adaptiveload::modulation<M> on_device() {
    return {each.on_device(), each.batch_stride(), each.group_stride(),
            table.host.empty() ? nullptr : table.on_device()};
  }
  /// For one group.
  adaptiveload::modulation<M> on_host(std::int64_t group) const {
    return {each.on_host(group), 0, 0, table.host.empty() ? nullptr : table.host.data()};
  }
};

/// What of a modulation's gradient is asked for.
enum class wanted { each, total, both, nothing };

/// Where a modulation's gradient goes.
struct gradient_tensor {
  vectors<float> each;
  tensor<float> total;
  wanted what;

  bool has_each() const { return what == wanted::each || what == wanted::both; }
  bool has_total() const { return what == wanted::total || what == wanted::both; }

  void poison() {
    each.all().poison();
    total.poison();
  }
  /// How many elements beside it were written.
  std::int64_t download() {
    return each.all().download() + each.written_between() + total.download();
  }

  adaptiveload::modulation_gradient<float> on_device() {
    return {has_each() ? each.on_device() : nullptr, each.batch_stride(), each.group_stride(),
            has_total() ? total.on_device() : nullptr};
  }
};
