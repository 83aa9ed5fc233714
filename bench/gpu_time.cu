#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <tuple>

#include "gpu_time.hpp"

double median_seconds(const enqueue& call) {
  constexpr int calls = 10, launches = 15;
  cudaStream_t stream{};
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  call(stream);  // what is set up at the first call stays out of the graph
  check(cudaStreamSynchronize(stream), "the call");

  cudaGraph_t graph{};
  cudaGraphExec_t executable{};
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  for (int i = 0; i < calls; ++i) call(stream);
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");

  std::array<cudaEvent_t, launches + 1> events{};
  for (cudaEvent_t& event : events) check(cudaEventCreate(&event), "cudaEventCreate");
  for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  check(cudaEventRecord(events[0], stream), "cudaEventRecord");
  for (int i = 0; i < launches; ++i) {
    check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
    check(cudaEventRecord(events[i + 1], stream), "cudaEventRecord");
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");

  std::array<float, launches> ms{};
  for (int i = 0; i < launches; ++i) {
    check(cudaEventElapsedTime(&ms[i], events[i], events[i + 1]), "cudaEventElapsedTime");
  }
  std::nth_element(ms.begin(), ms.begin() + launches / 2, ms.end());
  for (const cudaEvent_t event : events) cudaEventDestroy(event);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return 1e-3 * ms[launches / 2] / calls;
}

namespace {

constexpr int threads = 256, max_arrays = 8;

struct arrays {
  uint4* data[max_arrays];
};

/// Each thread combines `PerThread` times 16 bytes of every array that is read, and writes that to
/// every one that is written.
template <int Reads, int Writes, int PerThread, bool Streaming>
__global__ void __launch_bounds__(threads) stream(arrays from, arrays to, std::int64_t size) {
  const std::int64_t first = blockIdx.x * std::int64_t{threads} * PerThread + threadIdx.x;
  uint4 value[PerThread][Reads];
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const std::int64_t at = first + i * threads;
#pragma unroll
    for (int r = 0; r < Reads; ++r) {
      if (at < size) value[i][r] = Streaming ? __ldcs(from.data[r] + at) : from.data[r][at];
    }
  }
#pragma unroll
  for (int i = 0; i < PerThread; ++i) {
    const std::int64_t at = first + i * threads;
    uint4 all = value[i][0];
#pragma unroll
    for (int r = 1; r < Reads; ++r) {
      const uint4 v = value[i][r];
      all = {all.x ^ v.x, all.y ^ v.y, all.z ^ v.z, all.w ^ v.w};
    }
#pragma unroll
    for (int w = 0; w < Writes; ++w) {
      if (at >= size) continue;
      if (Streaming) {
        __stcs(to.data[w] + at, all);
      } else {
        to.data[w][at] = all;
      }
    }
  }
}

template <int Reads, int Writes, int PerThread, bool Streaming>
double stream_seconds(const arrays& from, const arrays& to, std::int64_t size) {
  const auto blocks =
      static_cast<unsigned>((size + threads * PerThread - 1) / (threads * PerThread));
  return median_seconds([=](cudaStream_t on) {
    stream<Reads, Writes, PerThread, Streaming><<<blocks, threads, 0, on>>>(from, to, size);
    check(cudaGetLastError(), "stream");
  });
}

template <int Reads, int Writes>
double best_stream_seconds(std::int64_t elements) {
  const std::int64_t size = elements * 2 / static_cast<std::int64_t>(sizeof(uint4));
  std::vector<device_array<__nv_bfloat16>> memory;
  arrays from{}, to{};
  const auto allocate = [&](int count, arrays& into) {
    for (int i = 0; i < count; ++i) {
      memory.push_back(random_activation(elements));
      into.data[i] = reinterpret_cast<uint4*>(memory.back().data());
    }
  };
  allocate(Reads, from);
  allocate(Writes, to);
  return std::min({stream_seconds<Reads, Writes, 1, false>(from, to, size),
                   stream_seconds<Reads, Writes, 1, true>(from, to, size),
                   stream_seconds<Reads, Writes, 2, false>(from, to, size),
                   stream_seconds<Reads, Writes, 2, true>(from, to, size),
                   stream_seconds<Reads, Writes, 4, false>(from, to, size),
                   stream_seconds<Reads, Writes, 4, true>(from, to, size)});
}

constexpr struct {
  int reads, writes;
  double (*seconds)(std::int64_t);
} streams[] = {{1, 1, best_stream_seconds<1, 1>}, {2, 1, best_stream_seconds<2, 1>},
               {2, 2, best_stream_seconds<2, 2>}, {4, 2, best_stream_seconds<4, 2>},
               {5, 1, best_stream_seconds<5, 1>}, {4, 5, best_stream_seconds<4, 5>},
               {8, 2, best_stream_seconds<8, 2>}, {8, 8, best_stream_seconds<8, 8>}};

}  // namespace

traffic traffic_of(const operation& what, const adaptiveload::activation_shape& shape) {
  if (shape.groups < shape.tokens) return {what.reads, what.writes};
  return {what.reads + 2 * what.vectors_read, what.writes + 2 * what.vectors_written};
}

double roof_seconds(const traffic& moved, std::int64_t elements) {
  static std::map<std::tuple<int, int, std::int64_t>, double> measured;
  const auto [entry, is_new] = measured.try_emplace({moved.reads, moved.writes, elements});
  if (!is_new) return entry->second;
  for (const auto& known : streams) {
    if (known.reads == moved.reads && known.writes == moved.writes) {
      return entry->second = known.seconds(elements);
    }
  }
  throw std::logic_error("no stream of " + std::to_string(moved.reads) + " reads and " +
                         std::to_string(moved.writes) + " writes");
}
