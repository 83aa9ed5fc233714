#include <cub/block/block_reduce.cuh>

#include "contender.hpp"

namespace {

constexpr int threads = 256;
using reduce = cub::BlockReduce<float, threads>;

/// The block's sum in every thread.
__device__ float block_sum(float value) {
  __shared__ typename reduce::TempStorage storage;
  __shared__ float result;
  __syncthreads();  // the sum before has been read
  const float sum = reduce(storage).Sum(value);
  if (threadIdx.x == 0) result = sum;
  __syncthreads();
  return result;
}

/// A block a row, which it reads three times, the second and third time from cache.
__global__ void __launch_bounds__(threads)
    forward(adaptiveload::layernorm_modulate_args<__nv_bfloat16> args) {
  const std::int64_t row = blockIdx.x, sample = row / args.shape.tokens, D = args.shape.features;
  const __nv_bfloat16* const x = args.x + row * D;
  const float* const scale = args.scale.data + sample * args.scale.batch_stride;
  const float* const shift = args.shift.data + sample * args.shift.batch_stride;

  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < D; i += threads) sum += __bfloat162float(x[i]);
  const float mean = block_sum(sum) / static_cast<float>(D);
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < D; i += threads) {
    const float difference = __bfloat162float(x[i]) - mean;
    squares += difference * difference;
  }
  const float variance = block_sum(squares) / static_cast<float>(D);
  const float rstd = rsqrtf(variance + static_cast<float>(args.epsilon));
  for (std::int64_t i = threadIdx.x; i < D; i += threads) {
    const float normal = (__bfloat162float(x[i]) - mean) * rstd;
    args.y[row * D + i] = __float2bfloat16_rn(normal * (1 + scale[i]) + shift[i]);
  }
  if (threadIdx.x == 0) {
    args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
}

__global__ void __launch_bounds__(threads)
    backward_rows(adaptiveload::layernorm_modulate_backward_args<__nv_bfloat16> args) {
  const std::int64_t row = blockIdx.x, sample = row / args.shape.tokens, D = args.shape.features;
  const __nv_bfloat16 *const x = args.x + row * D, *const dy = args.dy + row * D;
  const float* const scale = args.scale.data + sample * args.scale.batch_stride;
  const float mean = args.mean[row], rstd = args.rstd[row];

  float sum = 0, projection = 0;
  for (std::int64_t i = threadIdx.x; i < D; i += threads) {
    const float g = __bfloat162float(dy[i]) * (1 + scale[i]);
    sum += g;
    projection += g * (__bfloat162float(x[i]) - mean) * rstd;
  }
  sum = block_sum(sum) / static_cast<float>(D);
  projection = block_sum(projection) / static_cast<float>(D);
  for (std::int64_t i = threadIdx.x; i < D; i += threads) {
    const float normal = (__bfloat162float(x[i]) - mean) * rstd;
    const float g = __bfloat162float(dy[i]) * (1 + scale[i]);
    args.dx[row * D + i] = __float2bfloat16_rn(rstd * (g - sum - normal * projection));
  }
}

constexpr std::int64_t rows_per_block = 128;

/// A thread a column, over a run of a sample's rows; sums by atomics.
__global__ void __launch_bounds__(threads)
    backward_columns(adaptiveload::layernorm_modulate_backward_args<__nv_bfloat16> args) {
  const std::int64_t D = args.shape.features, tokens = args.shape.tokens;
  const std::int64_t column = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  const std::int64_t sample = blockIdx.z, first = blockIdx.y * rows_per_block;
  if (column >= D) return;
  float dscale = 0, dshift = 0;
  for (std::int64_t token = first; token < min(first + rows_per_block, tokens); ++token) {
    const std::int64_t row = sample * tokens + token;
    const float dy = __bfloat162float(args.dy[row * D + column]);
    dshift += dy;
    dscale += dy * (__bfloat162float(args.x[row * D + column]) - args.mean[row]) * args.rstd[row];
  }
  atomicAdd(args.dscale.data + sample * args.dscale.batch_stride + column, dscale);
  atomicAdd(args.dshift.data + sample * args.dshift.batch_stride + column, dshift);
}

}  // namespace

std::vector<contender> textbook() {
  const auto prepare_forward = [](const tensors& t) -> enqueue {
    return [args = t.forward(), rows = static_cast<unsigned>(t.rows)](cudaStream_t stream) {
      forward<<<rows, threads, 0, stream>>>(args);
      check(cudaGetLastError(), "textbook forward");
    };
  };
  const auto prepare_backward = [](const tensors& t) -> enqueue {
    return [args = t.backward(), rows = static_cast<unsigned>(t.rows)](cudaStream_t stream) {
      const auto& shape = args.shape;
      const std::size_t bytes =
          sizeof(float) * static_cast<std::size_t>(shape.batch * shape.features);
      check(cudaMemsetAsync(args.dscale.data, 0, bytes, stream), "cudaMemsetAsync");
      check(cudaMemsetAsync(args.dshift.data, 0, bytes, stream), "cudaMemsetAsync");
      backward_rows<<<rows, threads, 0, stream>>>(args);
      const dim3 grid(static_cast<unsigned>((shape.features + threads - 1) / threads),
                      static_cast<unsigned>((shape.tokens + rows_per_block - 1) / rows_per_block),
                      static_cast<unsigned>(shape.batch));
      backward_columns<<<grid, threads, 0, stream>>>(args);
      check(cudaGetLastError(), "textbook backward");
    };
  };
  return {{"cub_textbook", modulate_forward, 4e-3, prepare_forward},
          {"cub_textbook", modulate_backward, 4e-3, prepare_backward}};
}
