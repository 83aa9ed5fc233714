#include <adaptiveload/reduce.cuh>

__global__ void sum_over_warps(float* x) {
  x[threadIdx.x] = adaptiveload::warp_reduce(x[threadIdx.x], adaptiveload::plus{});
}

int main() {
  return 0;
}
