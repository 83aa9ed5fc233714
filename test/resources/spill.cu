/// Needs more registers than it may have.
__global__ void __launch_bounds__(1024, 2) spills(const float* in, float* out) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = in[threadIdx.x + i * 1024];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) out[threadIdx.x + i * 1024] = values[i] * values[63 - i];
}
