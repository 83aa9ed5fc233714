#include "contender.hpp"

namespace {

struct of_x {
  std::int64_t features;
  __device__ __nv_bfloat16 operator()(std::int64_t i) const { return x_value(i, features); }
};
struct of_dy {
  __device__ __nv_bfloat16 operator()(std::int64_t i) const { return dy_value(i); }
};
struct of_branch {
  __device__ __nv_bfloat16 operator()(std::int64_t i) const { return branch_value(i); }
};
struct of_dr {
  __device__ __nv_bfloat16 operator()(std::int64_t i) const { return dr_value(i); }
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

tensors::tensors(const adaptiveload::activation_shape& of, std::vector<std::int32_t> positions_of)
    : shape(of),
      positions(std::move(positions_of)),
      rows(positions.empty() ? of.batch * of.tokens : of.tokens),
      groups(of.batch * of.groups),
      elements(rows * of.features),
      cu_seqlens(static_cast<std::int64_t>(positions.size())),
      x(filled<__nv_bfloat16>(elements, of_x{of.features})),
      branch(filled<__nv_bfloat16>(elements, of_branch{})),
      dy(random_activation(elements)),
      dr(filled<__nv_bfloat16>(elements, of_dr{})),
      y(elements),
      r(elements),
      dx(elements),
      dbranch(elements),
      modulations(filled<float>(groups * 6 * of.features, of_modulations{})),
      mean(rows),
      rstd(rows),
      dscale(groups * of.features),
      dshift(groups * of.features),
      dgate(groups * of.features) {
  if (positions.empty()) return;
  check(cudaMemcpy(cu_seqlens.data(), positions.data(), positions.size() * sizeof(std::int32_t),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");
  shape.cu_seqlens = cu_seqlens.data();
}
