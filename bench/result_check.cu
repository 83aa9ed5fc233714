#include <adaptiveload/adaln_host.hpp>
#include <algorithm>
#include <cmath>
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

/// y and dx of a row, in double.
void check_row(const contender& who, const tensors& t, std::int64_t row, comparison& compare) {
  const std::int64_t D = t.shape.features, at = row * D, sample = row / t.shape.tokens;
  const auto x = values(at, D, [D](std::int64_t i) { return x_value(i, D); });
  const auto modulations = values(sample * 6 * D, 2 * D, modulation_value);
  std::vector<double> out(x.size()), dscale(x.size()), dshift(x.size());
  double mean = 0, rstd = 0;
  al::host::layernorm_modulate_forward<double, double, double>({.shape = {1, 1, D},
                                                                .x = x.data(),
                                                                .scale = {modulations.data() + D},
                                                                .shift = {modulations.data()},
                                                                .y = out.data(),
                                                                .mean = &mean,
                                                                .rstd = &rstd});
  if (who.what.name == modulate_forward.name) {
    compare.add("y", download(t.y, at, D), out);
    return;
  }
  const auto dy = values(at, D, dy_value);
  al::layernorm_modulate_backward_args<double, double, double> backward;
  backward.shape = {1, 1, D};
  backward.x = x.data();
  backward.mean = &mean;
  backward.rstd = &rstd;
  backward.scale = {modulations.data() + D};
  backward.dy = dy.data();
  backward.dx = out.data();
  backward.dscale = {dscale.data()};
  backward.dshift = {dshift.data()};
  al::host::layernorm_modulate_backward(backward);
  compare.add("dx", download(t.dx, at, D), out);
}

/// dscale and dshift of some features of a sample. Mean and rstd of its rows are those of the GPU.
void check_columns(const tensors& t, std::int64_t sample, comparison& compare) {
  const std::int64_t D = t.shape.features, tokens = t.shape.tokens, first = sample * tokens;
  const auto mean = download(t.mean, first, tokens), rstd = download(t.rstd, first, tokens);
  const auto got_dscale = download(t.dscale, sample * D, D);
  const auto got_dshift = download(t.dshift, sample * D, D);
  std::vector<double> dscale, dshift, exact_dscale, exact_dshift;
  for (std::int64_t column = 0; column < D; column += std::max<std::int64_t>(1, D / 16)) {
    double sum = 0, projection = 0;
    for (std::int64_t token = 0; token < tokens; ++token) {
      const std::int64_t at = (first + token) * D + column;
      const auto k = static_cast<std::size_t>(token);
      const double dy = static_cast<float>(dy_value(at));
      sum += dy;
      projection += dy * (static_cast<float>(x_value(at, D)) - mean[k]) * rstd[k];
    }
    dscale.push_back(got_dscale[static_cast<std::size_t>(column)]);
    dshift.push_back(got_dshift[static_cast<std::size_t>(column)]);
    exact_dscale.push_back(projection);
    exact_dshift.push_back(sum);
  }
  compare.add("dscale", dscale, exact_dscale);
  compare.add("dshift", dshift, exact_dshift);
}

template <class T>
void poison(const device_array<T>& array, std::int64_t size) {
  check(cudaMemset(array.data(), 0xff, static_cast<std::size_t>(size) * sizeof(T)), "cudaMemset");
}

}  // namespace

std::string check_results(const contender& who, const tensors& t, const enqueue& call) {
  poison(t.y, t.elements);
  poison(t.dx, t.elements);
  poison(t.dscale, t.shape.batch * t.shape.features);
  poison(t.dshift, t.shape.batch * t.shape.features);
  call(nullptr);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  comparison compare(who.tolerance);
  for (std::int64_t row = 0; row < t.rows; row += std::max<std::int64_t>(1, t.rows / 7)) {
    check_row(who, t, row, compare);
  }
  check_row(who, t, t.rows - 1, compare);
  if (who.what.name == modulate_backward.name) {
    check_columns(t, 0, compare);
    check_columns(t, t.shape.batch - 1, compare);
  }
  return compare.problems();
}
