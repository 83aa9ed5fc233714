#include <adaptiveload/adaln_host.hpp>
#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "result_check.hpp"

namespace al = adaptiveload;

namespace {

template <class T>
std::vector<double> download(const device_array<T>& from, std::int64_t first, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  check(cudaMemcpy(values.data(), from.data() + first, values.size() * sizeof(T),
                   cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return {values.begin(), values.end()};
}

class comparison {
 public:
  explicit comparison(double tolerance) : tolerance_(tolerance) {}

  /// Both relative to the norm of what is expected.
  void add(const char* name, const std::vector<double>& got, const std::vector<double>& expected) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += (got[i] - expected[i]) * (got[i] - expected[i]);
      size += expected[i] * expected[i];
    }
    const double error = std::sqrt(difference / size);
    if (!(error <= tolerance_)) problems_ << name << " is off by " << error << "; ";
  }
  std::string problems() const { return problems_.str(); }

 private:
  double tolerance_;
  std::ostringstream problems_;
};

template <class F>
std::vector<double> values(std::int64_t first, std::int64_t count, F value) {
  std::vector<double> result(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    result[static_cast<std::size_t>(i)] = static_cast<float>(value(first + i));
  }
  return result;
}

/// The group of a row, numbered through all samples, and the first row of a group.
std::int64_t group_of(const tensors& t, std::int64_t row) {
  const auto& positions = t.positions;
  if (positions.empty()) return row / (t.rows / t.groups);
  return std::upper_bound(positions.begin(), positions.end(), row) - positions.begin() - 1;
}
std::int64_t first_row(const tensors& t, std::int64_t group) {
  return t.positions.empty() ? group * (t.rows / t.groups)
                             : t.positions[static_cast<std::size_t>(group)];
}

/// The activations that are written of a row, in double; r rounded, as it is kept.
void check_row(const contender& who, const tensors& t, std::int64_t row, comparison& compare) {
  const std::int64_t D = t.shape.features, at = row * D, group = group_of(t, row);
  const al::activation_shape shape{1, 1, D};
  const auto modulations = values(group * 6 * D, 3 * D, modulation_value);
  const al::modulation<double> shift{modulations.data()}, scale{shift.data + D},
      gate{scale.data + D};
  const auto x = values(at, D, [D](std::int64_t i) { return x_value(i, D); });
  const auto branch = values(at, D, branch_value);
  std::vector<double> out(x.size()), other(x.size());
  double mean = 0, rstd = 0;
  if (who.what == gate_forward) {
    std::vector<__nv_bfloat16> r(x.size()), y(x.size());
    al::host::gate_residual_layernorm_modulate_forward<double, double, __nv_bfloat16>(
        {.shape = shape,
         .residual = x.data(),
         .branch = branch.data(),
         .gate = gate,
         .scale = scale,
         .shift = shift,
         .r = r.data(),
         .y = y.data()});
    compare.add("r", download(t.r, at, D), {r.begin(), r.end()});
    compare.add("y", download(t.y, at, D), {y.begin(), y.end()});
    return;
  }
  al::host::layernorm_modulate_forward<double, double, double>({.shape = shape,
                                                                .x = x.data(),
                                                                .scale = scale,
                                                                .shift = shift,
                                                                .y = out.data(),
                                                                .mean = &mean,
                                                                .rstd = &rstd});
  if (who.what == modulate_forward) {
    compare.add("y", download(t.y, at, D), out);
    return;
  }
  const auto dy = values(at, D, dy_value), dr = values(at, D, dr_value);
  if (who.what == modulate_backward) {
    al::host::layernorm_modulate_backward<double, double, double>({.shape = shape,
                                                                   .x = x.data(),
                                                                   .mean = &mean,
                                                                   .rstd = &rstd,
                                                                   .scale = scale,
                                                                   .dy = dy.data(),
                                                                   .dx = out.data()});
    compare.add("dx", download(t.dx, at, D), out);
    return;
  }
  al::host::gate_residual_layernorm_modulate_backward<double, double, double>(
      {.shape = shape,
       .r = x.data(),
       .branch = branch.data(),
       .mean = &mean,
       .rstd = &rstd,
       .gate = gate,
       .scale = scale,
       .dy = dy.data(),
       .dr = dr.data(),
       .dresidual = out.data(),
       .dbranch = other.data()});
  compare.add("dresidual", download(t.dx, at, D), out);
  compare.add("dbranch", download(t.dbranch, at, D), other);
}

/// out [rows, count of columns]: every `step`th column of rows of `features`.
__global__ void gather(const __nv_bfloat16* rows, std::int64_t features, std::int64_t step,
                       __nv_bfloat16* out) {
  const std::int64_t count = (features + step - 1) / step;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    out[blockIdx.x * count + i] = rows[blockIdx.x * features + i * step];
  }
}

/// The modulations' gradients at some features of a group. Of the GPU are the mean and rstd of its
/// rows and, with a gate, dresidual; `check_row` checks those.
void check_columns(const contender& who, const tensors& t, std::int64_t group,
                   comparison& compare) {
  const std::int64_t D = t.shape.features, step = std::max<std::int64_t>(1, D / 16);
  const std::int64_t first = first_row(t, group), count = (D + step - 1) / step;
  const std::int64_t rows = (group + 1 < t.groups ? first_row(t, group + 1) : t.rows) - first;
  const auto mean = download(t.mean, first, rows), rstd = download(t.rstd, first, rows);
  const bool gated = who.what == gate_backward;
  std::vector<double> dresidual;
  if (gated) {
    const device_array<__nv_bfloat16> gathered(rows * count);
    gather<<<static_cast<unsigned>(rows), 32>>>(t.dx.data() + first * D, D, step, gathered.data());
    check(cudaGetLastError(), "gather");
    dresidual = download(gathered, 0, rows * count);
  }
  const auto written = [&](const device_array<float>& gradient) {
    const auto all = download(gradient, group * D, D);
    std::vector<double> some;
    for (std::int64_t column = 0; column < D; column += step) {
      some.push_back(all[static_cast<std::size_t>(column)]);
    }
    return some;
  };
  std::vector<double> dscale, dshift, dgate;
  for (std::int64_t column = 0; column < D; column += step) {
    double sum = 0, projection = 0, gate_sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = (first + row) * D + column;
      const auto k = static_cast<std::size_t>(row);
      const double dy = static_cast<float>(dy_value(at));
      sum += dy;
      projection += dy * (static_cast<float>(x_value(at, D)) - mean[k]) * rstd[k];
      if (gated) {
        gate_sum += static_cast<float>(branch_value(at)) *
                    dresidual[k * static_cast<std::size_t>(count) + dgate.size()];
      }
    }
    dscale.push_back(projection);
    dshift.push_back(sum);
    dgate.push_back(gate_sum);
  }
  compare.add("dscale", written(t.dscale), dscale);
  compare.add("dshift", written(t.dshift), dshift);
  if (gated) compare.add("dgate", written(t.dgate), dgate);
}

template <class T>
void poison(const device_array<T>& array, std::int64_t size) {
  check(cudaMemset(array.data(), 0xff, static_cast<std::size_t>(size) * sizeof(T)), "cudaMemset");
}

}  // namespace

std::string check_results(const contender& who, const tensors& t, const enqueue& call) {
  for (const auto* activation : {&t.y, &t.r, &t.dx, &t.dbranch}) poison(*activation, t.elements);
  for (const auto* gradient : {&t.dscale, &t.dshift, &t.dgate}) {
    poison(*gradient, t.groups * t.shape.features);
  }
  call(nullptr);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  comparison compare(who.tolerance);
  for (std::int64_t row = 0; row < t.rows; row += std::max<std::int64_t>(1, t.rows / 7)) {
    check_row(who, t, row, compare);
  }
  check_row(who, t, t.rows - 1, compare);
  if (who.what == modulate_backward || who.what == gate_backward) {
    for (const std::int64_t group : std::set{std::int64_t{0}, t.groups / 2, t.groups - 1}) {
      check_columns(who, t, group, compare);
    }
  }
  return compare.problems();
}
