#include <adaptiveload/adaln.cuh>
#include <cstddef>
#include <cstdint>

namespace al = adaptiveload;
using bfloat16 = __nv_bfloat16;
using forward_args = al::gate_residual_layernorm_modulate_args<bfloat16>;

// x, attention, r and y are [B, S, D]; modulations is the block's [B, 6, D], table its [6, D].
forward_args from_attention_to_feed_forward(std::int64_t B, std::int64_t S, std::int64_t D,
                                            const bfloat16* x, const bfloat16* attention,
                                            const float* modulations, const float* table,
                                            bfloat16* r, bfloat16* y, float* mean, float* rstd,
                                            cudaStream_t stream) {
  const auto chunk = [&](int i) {
    return al::modulation<float>{
        .data = modulations + i * D, .batch_stride = 6 * D, .table = table + i * D};
  };
  const al::gate_residual_layernorm_modulate_args<bfloat16> forward{
      .shape = {.batch = B, .tokens = S, .features = D},
      .residual = x,
      .branch = attention,
      .gate = chunk(2),
      .scale = chunk(4),
      .shift = chunk(3),
      .r = r,
      .y = y,
      .mean = mean,  // mean and rstd, of [B, S], are for the backward
      .rstd = rstd};
  al::gate_residual_layernorm_modulate_forward(forward, stream);
  return forward;
}

// scratch holds gate_residual_layernorm_modulate_backward_scratch_bytes(forward.shape).
void backward_of(const forward_args& forward, const bfloat16* dy, const bfloat16* dr, bfloat16* dx,
                 bfloat16* dattention, float* dmodulations, float* dtable, void* scratch,
                 std::size_t scratch_bytes, cudaStream_t stream) {
  const std::int64_t D = forward.shape.features;

  const auto dchunk = [&](int i) {
    return al::modulation_gradient<float>{
        .data = dmodulations + i * D, .batch_stride = 6 * D, .total = dtable + i * D};
  };
  const al::gate_residual_layernorm_modulate_backward_args<bfloat16> backward{
      .shape = forward.shape,
      .r = forward.r,
      .branch = forward.branch,
      .mean = forward.mean,
      .rstd = forward.rstd,
      .gate = forward.gate,
      .scale = forward.scale,
      .dy = dy,
      .dr = dr,
      .dresidual = dx,
      .dbranch = dattention,
      .dgate = dchunk(2),
      .dscale = dchunk(4),
      .dshift = dchunk(3),
      .scratch = scratch,
      .scratch_bytes = scratch_bytes};
  al::gate_residual_layernorm_modulate_backward(backward, stream);
}

int main() {}
