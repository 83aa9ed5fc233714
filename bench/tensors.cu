#include "contender.hpp"

namespace {

struct of_x {
  std::int64_t features;
  __device__ __nv_bfloat16 operator()(std::int64_t i) const { return x_value(i, features); }
};
struct of_dy {
  __device__ __nv_bfloat16 operator()(std::int64_t i) const { return dy_value(i); }
};
struct of_modulations {
  __device__ float operator()(std::int64_t i) const { return modulation_value(i); }
};

template <class T, class F>
__global__ void fill(T* data, std::int64_t size, F value) {
  const std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (i < size) data[i] = value(i);
}

template <class T, class F>
device_array<T> filled(std::int64_t size, F value) {
  device_array<T> array(size);
  fill<<<static_cast<unsigned>((size + 255) / 256), 256>>>(array.data(), size, value);
  check(cudaGetLastError(), "fill");
  return array;
}

}  // namespace

device_array<__nv_bfloat16> random_activation(std::int64_t elements) {
  return filled<__nv_bfloat16>(elements, of_dy{});
}

tensors::tensors(const adaptiveload::activation_shape& of)
    : shape(of),
      rows(of.batch * of.tokens),
      elements(rows * of.features),
      x(filled<__nv_bfloat16>(elements, of_x{of.features})),
      dy(random_activation(elements)),
      y(elements),
      dx(elements),
      modulations(filled<float>(of.batch * 6 * of.features, of_modulations{})),
      mean(rows),
      rstd(rows),
      dscale(of.batch * of.features),
      dshift(of.batch * of.features) {}
