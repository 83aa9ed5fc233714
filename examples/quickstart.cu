// An adaptive layer norm forward and backward on one activation: checked against the CPU, and timed
// against a copy.
#include <adaptiveload/adaln.cuh>
#include <adaptiveload/adaln_host.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>

namespace al = adaptiveload;
using bfloat16 = __nv_bfloat16;

namespace {

constexpr al::activation_shape shape{.batch = 8, .tokens = 4096, .features = 1536};
constexpr std::int64_t rows = shape.batch * shape.tokens, elements = rows * shape.features;

void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw al::cuda_error(code, call);
}

struct cuda_free {
  void operator()(void* memory) const { cudaFree(memory); }
};

/// Memory that the CPU and the GPU both reach, so that this example copies nothing.
template <class T>
std::unique_ptr<T[], cuda_free> allocate(std::int64_t count) {
  T* memory = nullptr;
  check(cudaMallocManaged(&memory, static_cast<std::size_t>(count) * sizeof(T)),
        "cudaMallocManaged");
  return std::unique_ptr<T[], cuda_free>(memory);
}

template <class T>
auto random_numbers(std::int64_t count, float mean) {
  static std::minstd_rand generator;
  std::uniform_real_distribution<float> uniform(mean - 1, mean + 1);
  auto numbers = allocate<T>(count);
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = static_cast<T>(uniform(generator));
  return numbers;
}

/// Microseconds of a call, the mean of 50 after one more.
template <class F>
double time_us(F call) {
  constexpr int repetitions = 50;
  cudaEvent_t begin{}, end{};
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  call();
  check(cudaEventRecord(begin), "cudaEventRecord");
  for (int i = 0; i < repetitions; ++i) call();
  check(cudaEventRecord(end), "cudaEventRecord");
  check(cudaEventSynchronize(end), "cudaEventSynchronize");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 1e3 * ms / repetitions;
}

/// Prints how far a result is from the CPU's, relative in norm; whether that is within the bound.
template <class T>
bool agrees(const char* name, const T* gpu, const T* cpu, std::int64_t count, double bound) {
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double expected = static_cast<float>(cpu[i]), got = static_cast<float>(gpu[i]);
    difference += (got - expected) * (got - expected);
    size += expected * expected;
  }
  const double error = std::sqrt(difference / size);
  std::printf("%-8s differs from the CPU's by %.1e (allowed: %.0e)\n", name, error, bound);
  return error <= bound;
}

int run() {
  int devices = 0, device = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    throw std::runtime_error("no CUDA device");
  }
  check(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp gpu{};
  check(cudaGetDeviceProperties(&gpu, device), "cudaGetDeviceProperties");

  // What a DiT's block has: an activation, its six modulations of each sample, later a gradient.
  constexpr std::int64_t D = shape.features;
  const auto x = random_numbers<bfloat16>(elements, 3), dy = random_numbers<bfloat16>(elements, 0);
  const auto modulations = random_numbers<float>(shape.batch * 6 * D, 0);
  const auto y = allocate<bfloat16>(elements), dx = allocate<bfloat16>(elements);
  const auto mean = allocate<float>(rows), rstd = allocate<float>(rows);
  const auto dscale = allocate<float>(shape.batch * D), dshift = allocate<float>(shape.batch * D);
  const std::size_t scratch_bytes = al::layernorm_modulate_backward_scratch_bytes(shape);
  const auto scratch = allocate<std::byte>(static_cast<std::int64_t>(scratch_bytes));

  al::layernorm_modulate_args<bfloat16> forward{
      .shape = shape,
      .x = x.get(),
      .scale = {.data = modulations.get() + 1 * D, .batch_stride = 6 * D},
      .shift = {.data = modulations.get() + 0 * D, .batch_stride = 6 * D},
      .y = y.get(),
      .mean = mean.get(),
      .rstd = rstd.get()};
  al::layernorm_modulate_backward_args<bfloat16> backward{
      .shape = shape,
      .x = x.get(),
      .mean = mean.get(),
      .rstd = rstd.get(),
      .scale = forward.scale,
      .dy = dy.get(),
      .dx = dx.get(),
      .dscale = {.data = dscale.get(), .batch_stride = D},
      .dshift = {.data = dshift.get(), .batch_stride = D},
      .scratch = scratch.get(),
      .scratch_bytes = scratch_bytes};

  std::printf("%s, bfloat16 [%jd, %jd, %jd]\n", gpu.name, std::intmax_t{shape.batch},
              std::intmax_t{shape.tokens}, std::intmax_t{shape.features});
  al::layernorm_modulate_forward(forward);
  al::layernorm_modulate_backward(backward);

  const double bytes = sizeof(bfloat16) * static_cast<double>(elements);
  const double copy_us = time_us([&] {
    check(cudaMemcpyAsync(dx.get(), x.get(), elements * sizeof(bfloat16), cudaMemcpyDeviceToDevice),
          "cudaMemcpyAsync");
  });
  const auto report = [&](const char* name, double us, int tensors_moved) {
    const double speed = tensors_moved * bytes / us, of_copy = speed / (2 * bytes / copy_us);
    std::printf("%-8s %7.1f us  %5.0f GB/s  %.2f of a copy\n", name, us, 1e-3 * speed, of_copy);
  };
  report("copy", copy_us, 2);
  report("forward", time_us([&] { al::layernorm_modulate_forward(forward); }), 2);
  report("backward", time_us([&] { al::layernorm_modulate_backward(backward); }), 3);
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  // The same structs drive the CPU's implementation.
  const auto cpu_y = allocate<bfloat16>(elements), cpu_dx = allocate<bfloat16>(elements);
  const auto cpu_dscale = allocate<float>(shape.batch * D);
  const auto cpu_dshift = allocate<float>(shape.batch * D);
  forward.y = cpu_y.get();
  backward.dx = cpu_dx.get();
  backward.dscale.data = cpu_dscale.get();
  backward.dshift.data = cpu_dshift.get();
  al::host::layernorm_modulate_forward(forward);
  al::host::layernorm_modulate_backward(backward);
  bool good = agrees("y", y.get(), cpu_y.get(), elements, 4e-3);
  good &= agrees("dx", dx.get(), cpu_dx.get(), elements, 4e-3);
  good &= agrees("dscale", dscale.get(), cpu_dscale.get(), shape.batch * D, 1e-5);
  good &= agrees("dshift", dshift.get(), cpu_dshift.get(), shape.batch * D, 1e-5);
  return good ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "quickstart: %s\n", e.what());
    return 1;
  }
}
