/// Needs more registers than it may have.
__global__ void __launch_bounds__(1024, 2) spills(const float* in, float* out) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = in[threadIdx.x + i * 1024];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) out[threadIdx.x + i * 1024] = values[i] * values[63 - i];
}

/// Reads elements of an array that are not known at compile time, of more than ptxas would select
/// from.
__global__ void indexes(const float* in, const int* which, float* out) {
  float values[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) values[i] = in[threadIdx.x + i * blockDim.x];
  for (int i = 0; i < 64; ++i) out[threadIdx.x + i * blockDim.x] = values[which[i]];
}

__global__ void uses_registers_alone(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x];
}
