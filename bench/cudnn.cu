#include <cudnn_frontend.h>

#include <stdexcept>
#include <unordered_map>

#include "contender.hpp"

namespace fe = cudnn_frontend;

namespace {

using graph_tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using bfloat16 = __nv_bfloat16;

void check(fe::error_t error, const char* call) {
  if (error.is_bad()) throw std::runtime_error(std::string(call) + ": " + error.get_message());
}
void check(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(call) + ": " + cudnnGetErrorString(status));
  }
}

/// A graph, the data of its tensors, and its workspace.
class cudnn_graph {
 public:
  cudnn_graph() {
    check(cudnnCreate(&handle_), "cudnnCreate");
    graph.set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }
  cudnn_graph(const cudnn_graph&) = delete;
  ~cudnn_graph() { cudnnDestroy(handle_); }

  fe::graph::Graph graph;

  /// An input of [batch, tokens, features], each of the last two perhaps 1.
  template <class T>
  graph_tensor input(const char* name, std::vector<std::int64_t> dims, T* data) {
    const auto type = std::is_same_v<T, float> ? fe::DataType_t::FLOAT : fe::DataType_t::BFLOAT16;
    const std::int64_t tokens = dims[1], features = dims[2];
    graph_tensor tensor = graph.tensor(fe::graph::Tensor_attributes()
                                           .set_name(name)
                                           .set_dim(std::move(dims))
                                           .set_stride({tokens * features, features, 1})
                                           .set_data_type(type));
    data_[tensor] = data;
    return tensor;
  }
  void output(const graph_tensor& tensor, float* data) {
    tensor->set_output(true).set_data_type(fe::DataType_t::FLOAT);
    data_[tensor] = data;
  }
  void output(const graph_tensor& tensor, bfloat16* data) {
    tensor->set_output(true);
    data_[tensor] = data;
  }

  void build() {
    check(graph.build(handle_, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}), "cuDNN's graph");
    std::int64_t bytes = 0;
    check(graph.get_workspace_size(bytes), "cuDNN's workspace");
    workspace_ = device_array<std::byte>(std::max<std::int64_t>(bytes, 1));
  }

  void execute(cudaStream_t stream) {
    check(cudnnSetStream(handle_, stream), "cudnnSetStream");
    check(graph.execute(handle_, data_, workspace_.data()), "cuDNN's graph");
  }

 private:
  cudnnHandle_t handle_ = nullptr;
  std::unordered_map<graph_tensor, void*> data_;
  device_array<std::byte> workspace_;
};

/// The modulations as cuDNN takes them: 1 + scale and shift, dense.
template <class T>
struct dense_modulations {
  device_array<T> scale, shift;

  explicit dense_modulations(const tensors& t);
};

template <class T>
__global__ void copy_modulations(const float* from, std::int64_t features, T* scale, T* shift) {
  for (std::int64_t i = threadIdx.x; i < features; i += blockDim.x) {
    const float* const of_sample = from + blockIdx.x * 6 * features;
    shift[blockIdx.x * features + i] = static_cast<T>(of_sample[i]);
    scale[blockIdx.x * features + i] = static_cast<T>(1 + of_sample[features + i]);
  }
}

template <class T>
dense_modulations<T>::dense_modulations(const tensors& t)
    : scale(t.shape.batch * t.shape.features), shift(t.shape.batch * t.shape.features) {
  copy_modulations<<<static_cast<unsigned>(t.shape.batch), 256>>>(
      t.modulations.data(), t.shape.features, scale.data(), shift.data());
  check(cudaDeviceSynchronize(), "copy_modulations");
}

/// cuDNN's forward takes modulations of x's type alone.
enqueue prepare_forward(const tensors& t) {
  const std::int64_t B = t.shape.batch, S = t.shape.tokens, D = t.shape.features;
  auto modulations = std::make_shared<dense_modulations<bfloat16>>(t);
  auto g = std::make_shared<cudnn_graph>();
  const auto [y, mean, rstd] = g->graph.adalayernorm(
      g->input("x", {B, S, D}, t.x.data()), g->input("scale", {B, 1, D}, modulations->scale.data()),
      g->input("shift", {B, 1, D}, modulations->shift.data()),
      fe::graph::AdaLayernorm_attributes()
          .set_forward_phase(fe::NormFwdPhase_t::TRAINING)
          .set_epsilon(g->graph.tensor(1e-6f)));
  g->output(y, t.y.data());
  g->output(mean, t.mean.data());
  g->output(rstd, t.rstd.data());
  g->build();
  return [g, modulations](cudaStream_t stream) { g->execute(stream); };
}

enqueue prepare_backward(const tensors& t) {
  const std::int64_t B = t.shape.batch, S = t.shape.tokens, D = t.shape.features;
  auto modulations = std::make_shared<dense_modulations<float>>(t);
  auto g = std::make_shared<cudnn_graph>();
  const auto [dx, dscale, dshift] = g->graph.adalayernorm_backward(
      g->input("dy", {B, S, D}, t.dy.data()), g->input("x", {B, S, D}, t.x.data()),
      g->input("scale", {B, 1, D}, modulations->scale.data()),
      fe::graph::AdaLayernorm_backward_attributes().set_saved_mean_and_inv_variance(
          g->input("mean", {B, S, 1}, t.mean.data()), g->input("rstd", {B, S, 1}, t.rstd.data())));
  g->output(dx, t.dx.data());
  g->output(dscale, t.dscale.data());
  g->output(dshift, t.dshift.data());
  g->build();
  return [g, modulations](cudaStream_t stream) { g->execute(stream); };
}

}  // namespace

std::vector<contender> cudnn() {
  return {{"cudnn", modulate_forward, 1e-2, prepare_forward},
          {"cudnn", modulate_backward, 4e-3, prepare_backward}};
}
