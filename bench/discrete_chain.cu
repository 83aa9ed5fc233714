#include <memory>

#include "contender.hpp"

// What a framework does without fusion: a kernel an operation, every intermediate written to memory
// in the data's type. Each is a good kernel of its kind: 16-byte accesses, sums in float.

namespace {

using bfloat16 = __nv_bfloat16;
constexpr int threads = 256, width = 8;

struct alignas(16) pack {
  bfloat16 values[width];
};

/// Calls `f(row, column)` for every 8 neighbouring elements of [rows, features].
template <class F>
__global__ void __launch_bounds__(threads)
    for_each_pack(std::int64_t rows, std::int64_t features, F f) {
  const std::int64_t i = (blockIdx.x * std::int64_t{threads} + threadIdx.x) * width;
  if (i < rows * features) f(i / features, i % features);
}

template <class F>
void elementwise(std::int64_t rows, std::int64_t features, cudaStream_t stream, F f) {
  const std::int64_t packs = rows * features / width;
  const auto blocks = static_cast<unsigned>((packs + threads - 1) / threads);
  for_each_pack<<<blocks, threads, 0, stream>>>(rows, features, f);
  check(cudaGetLastError(), "elementwise");
}

/// out = f(in, k) of an element's input and its place k among 8.
template <class F>
__device__ void map(bfloat16* out, const bfloat16* in, F f) {
  const pack from = *reinterpret_cast<const pack*>(in);
  pack to;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    to.values[k] = __float2bfloat16_rn(f(__bfloat162float(from.values[k]), k));
  }
  *reinterpret_cast<pack*>(out) = to;
}

/// A warp a row: emit(row, sum of term(row, column) over its columns).
template <class Term, class Emit>
__global__ void __launch_bounds__(threads)
    sum_rows(std::int64_t rows, std::int64_t features, Term term, Emit emit) {
  const std::int64_t row = blockIdx.x * std::int64_t{threads / 32} + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = 0;
  for (std::int64_t column = lane * width; column < features; column += 32 * width) {
    sum += term(row, column);
  }
  sum = adaptiveload::warp_reduce(sum, adaptiveload::plus{});
  if (lane == 0) emit(row, sum);
}

template <class Term, class Emit>
void by_rows(std::int64_t rows, std::int64_t features, cudaStream_t stream, Term term, Emit emit) {
  const auto blocks = static_cast<unsigned>((rows + threads / 32 - 1) / (threads / 32));
  sum_rows<<<blocks, threads, 0, stream>>>(rows, features, term, emit);
  check(cudaGetLastError(), "sum_rows");
}

constexpr std::int64_t rows_per_tile = 512, tile_columns = 32 * width;

/// Sums of columns over a run of a sample's rows, to partial [samples, tiles, features].
__global__ void __launch_bounds__(threads)
    sum_columns(const bfloat16* in, float* partial, std::int64_t tokens, std::int64_t features) {
  __shared__ float storage[threads / 32 * tile_columns];
  const std::int64_t column_tiles = (features + tile_columns - 1) / tile_columns;
  const std::int64_t tiles = (tokens + rows_per_tile - 1) / rows_per_tile;
  const std::int64_t left = blockIdx.x % column_tiles * tile_columns;
  const std::int64_t run = blockIdx.x / column_tiles, sample = run / tiles;
  const std::int64_t first = run % tiles * rows_per_tile;
  adaptiveload::column_tile_sum<width, 1>(
      sample * tokens + first, sample * tokens + min(first + rows_per_tile, tokens), storage,
      [&](float(&sums)[1][width], int column, std::int64_t row) {
        if (left + column >= features) return;
        const pack values = *reinterpret_cast<const pack*>(in + row * features + left + column);
#pragma unroll
        for (int k = 0; k < width; ++k) sums[0][k] += __bfloat162float(values.values[k]);
      },
      [&](int, int column, float value) {
        if (left + column < features) partial[run * features + left + column] = value;
      });
}

__global__ void __launch_bounds__(threads)
    fold_columns(const float* partial, float* out, std::int64_t samples, std::int64_t tiles,
                 std::int64_t features) {
  const std::int64_t i = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  if (i >= samples * features) return;
  float sum = 0;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    sum += partial[(i / features * tiles + tile) * features + i % features];
  }
  out[i] = sum;
}

std::int64_t tiles_of(const adaptiveload::activation_shape& shape) {
  return (shape.tokens + rows_per_tile - 1) / rows_per_tile;
}

void by_columns(const bfloat16* in, float* partial, float* out,
                const adaptiveload::activation_shape& shape, cudaStream_t stream) {
  const std::int64_t column_tiles = (shape.features + tile_columns - 1) / tile_columns;
  const std::int64_t tiles = tiles_of(shape);
  sum_columns<<<static_cast<unsigned>(shape.batch * tiles * column_tiles), threads, 0, stream>>>(
      in, partial, shape.tokens, shape.features);
  const std::int64_t outputs = shape.batch * shape.features;
  fold_columns<<<static_cast<unsigned>((outputs + threads - 1) / threads), threads, 0, stream>>>(
      partial, out, shape.batch, tiles, shape.features);
  check(cudaGetLastError(), "sum of columns");
}

/// What the chain keeps beside its inputs and outputs.
struct intermediates {
  explicit intermediates(const tensors& t)
      : normal(t.elements),
        a(t.elements),
        b(t.elements),
        sums(t.rows),
        projections(t.rows),
        partial(t.shape.batch * tiles_of(t.shape) * t.shape.features) {}

  device_array<bfloat16> normal, a, b;
  device_array<float> sums, projections, partial;
};

struct add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct multiply {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct scale {
  __device__ float operator()(float x, float by) const { return x * (1 + by); }
};

struct operators {
  std::int64_t rows, D, tokens;
  cudaStream_t stream;

  /// sum over each row of term(in, row)
  template <class Term, class Emit>
  void row_sums(const bfloat16* in, Term term, Emit emit) const {
    by_rows(
        rows, D, stream,
        [in, term, D = D] __device__(std::int64_t row, std::int64_t column) {
          const pack values = *reinterpret_cast<const pack*>(in + row * D + column);
          float sum = 0;
#pragma unroll
          for (int k = 0; k < width; ++k) sum += term(__bfloat162float(values.values[k]), row);
          return sum;
        },
        emit);
  }

  /// out = (in - mean) * rstd
  void normalise(bfloat16* out, const bfloat16* in, const float* mean, const float* rstd) const {
    elementwise(rows, D, stream, [=, D = D] __device__(std::int64_t row, std::int64_t column) {
      const float m = mean[row], r = rstd[row];
      map(out + row * D + column, in + row * D + column, [=](float v, int) { return (v - m) * r; });
    });
  }

  /// out = f(in, vector of the sample)
  template <class F>
  void with_vector(bfloat16* out, const bfloat16* in, adaptiveload::modulation<float> of,
                   F f) const {
    elementwise(rows, D, stream,
                [=, D = D, S = tokens] __device__(std::int64_t row, std::int64_t column) {
                  const float* const v = of.data + row / S * of.batch_stride + column;
                  map(out + row * D + column, in + row * D + column,
                      [=](float x, int k) { return f(x, v[k]); });
                });
  }

  /// out = f(a, b)
  template <class F>
  void with_activation(bfloat16* out, const bfloat16* a, const bfloat16* b, F f) const {
    elementwise(rows, D, stream, [=, D = D] __device__(std::int64_t row, std::int64_t column) {
      const pack of_b = *reinterpret_cast<const pack*>(b + row * D + column);
      map(out + row * D + column, a + row * D + column,
          [&](float v, int k) { return f(v, __bfloat162float(of_b.values[k])); });
    });
  }

  /// out = rstd * (g - sum / D - normal * projection / D)
  void layer_norm_gradient(bfloat16* out, const bfloat16* g, const bfloat16* normal,
                           const float* rstd, const float* sum, const float* projection) const {
    elementwise(rows, D, stream, [=, D = D] __device__(std::int64_t row, std::int64_t column) {
      const pack n = *reinterpret_cast<const pack*>(normal + row * D + column);
      const float r = rstd[row], s = sum[row] / static_cast<float>(D);
      const float p = projection[row] / static_cast<float>(D);
      map(out + row * D + column, g + row * D + column,
          [&](float v, int k) { return r * (v - s - __bfloat162float(n.values[k]) * p); });
    });
  }
};

void forward(const adaptiveload::layernorm_modulate_args<bfloat16>& args, const intermediates& keep,
             cudaStream_t stream) {
  const auto& shape = args.shape;
  const operators run{shape.batch * shape.tokens, shape.features, shape.tokens, stream};
  float *const mean = args.mean, *const rstd = args.rstd;
  const auto D = static_cast<float>(shape.features), epsilon = static_cast<float>(args.epsilon);
  run.row_sums(
      args.x, [] __device__(float x, std::int64_t) { return x; },
      [=] __device__(std::int64_t row, float sum) { mean[row] = sum / D; });
  run.row_sums(
      args.x,
      [=] __device__(float x, std::int64_t row) { return (x - mean[row]) * (x - mean[row]); },
      [=] __device__(std::int64_t row, float sum) { rstd[row] = rsqrtf(sum / D + epsilon); });
  run.normalise(keep.normal.data(), args.x, mean, rstd);
  run.with_vector(keep.a.data(), keep.normal.data(), args.scale, scale{});
  run.with_vector(args.y, keep.a.data(), args.shift, add{});
}

/// `keep.normal` is as the forward left it.
void backward(const adaptiveload::layernorm_modulate_backward_args<bfloat16>& args,
              const intermediates& keep, cudaStream_t stream) {
  const auto& shape = args.shape;
  const operators run{shape.batch * shape.tokens, shape.features, shape.tokens, stream};
  bfloat16 *const normal = keep.normal.data(), *const a = keep.a.data(), *const g = keep.b.data();
  float *const sums = keep.sums.data(), *const projections = keep.projections.data();
  by_columns(args.dy, keep.partial.data(), args.dshift.data, shape, stream);
  run.with_activation(a, args.dy, normal, multiply{});
  by_columns(a, keep.partial.data(), args.dscale.data, shape, stream);
  run.with_vector(g, args.dy, args.scale, scale{});
  run.row_sums(
      g, [] __device__(float v, std::int64_t) { return v; },
      [=] __device__(std::int64_t row, float sum) { sums[row] = sum; });
  run.with_activation(a, g, normal, multiply{});
  run.row_sums(
      a, [] __device__(float v, std::int64_t) { return v; },
      [=] __device__(std::int64_t row, float sum) { projections[row] = sum; });
  run.layer_norm_gradient(args.dx, g, normal, args.rstd, sums, projections);
}

void forward(const adaptiveload::gate_residual_layernorm_modulate_args<bfloat16>& args,
             const intermediates& keep, cudaStream_t stream) {
  const auto& shape = args.shape;
  const operators run{shape.batch * shape.tokens, shape.features, shape.tokens, stream};
  run.with_vector(keep.a.data(), args.branch, args.gate, multiply{});
  run.with_activation(args.r, args.residual, keep.a.data(), add{});
  forward({.shape = shape,
           .x = args.r,
           .scale = args.scale,
           .shift = args.shift,
           .y = args.y,
           .mean = args.mean,
           .rstd = args.rstd},
          keep, stream);
}

/// `keep.normal` is that of r.
void backward(const adaptiveload::gate_residual_layernorm_modulate_backward_args<bfloat16>& args,
              const intermediates& keep, cudaStream_t stream) {
  const auto& shape = args.shape;
  const operators run{shape.batch * shape.tokens, shape.features, shape.tokens, stream};
  bfloat16* const a = keep.a.data();
  backward({.shape = shape,
            .x = args.r,
            .mean = args.mean,
            .rstd = args.rstd,
            .scale = args.scale,
            .dy = args.dy,
            .dx = a,
            .dscale = args.dscale,
            .dshift = args.dshift},
           keep, stream);
  run.with_activation(args.dresidual, args.dr, a, add{});
  run.with_vector(args.dbranch, args.dresidual, args.gate, multiply{});
  run.with_activation(a, args.dresidual, args.branch, multiply{});
  by_columns(a, keep.partial.data(), args.dgate.data, shape, stream);
}

/// A forward's, or a backward's, of the arguments that a member of `tensors` gives.
template <class Arguments>
auto prepare_forward(Arguments arguments) {
  return [=](const tensors& t) -> enqueue {
    return [args = (t.*arguments)(), keep = std::make_shared<intermediates>(t)](
               cudaStream_t stream) { forward(args, *keep, stream); };
  };
}

template <class Arguments>
auto prepare_backward(Arguments arguments) {
  return [=](const tensors& t) -> enqueue {
    const auto keep = std::make_shared<intermediates>(t);
    forward(t.forward(), *keep, nullptr);  // of x, which is the gated operation's r
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    return [args = (t.*arguments)(), keep](cudaStream_t stream) { backward(args, *keep, stream); };
  };
}

}  // namespace

std::vector<contender> discrete_chain() {
  constexpr double tolerance = 1.5e-2;  // every intermediate is rounded
  return {{"discrete_chain", modulate_forward, tolerance, prepare_forward(&tensors::forward)},
          {"discrete_chain", modulate_backward, tolerance, prepare_backward(&tensors::backward)},
          {"discrete_chain", gate_forward, tolerance, prepare_forward(&tensors::gated_forward)},
          {"discrete_chain", gate_backward, tolerance, prepare_backward(&tensors::gated_backward)}};
}
