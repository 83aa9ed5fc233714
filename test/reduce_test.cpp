#include <gtest/gtest.h>

#include <adaptiveload/reduce.cuh>
#include <adaptiveload/support/launch.cuh>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "device_buffer.hpp"
#include "random_values.hpp"

#ifdef __CUDACC__
#include <cub/block/block_reduce.cuh>
#include <cub/warp/warp_reduce.cuh>
#endif

namespace al = adaptiveload;

namespace {

// Two groups of integer matrices: products are exact, associative, and not commutative, and a lane
// left out, taken twice or out of order shows.

/// [1 a c; 0 1 b; 0 0 1]
template <class Int>
struct unitriangular {
  Int a, b, c;
  bool operator==(const unitriangular&) const = default;
};

/// [a b; c d]
template <class Int>
struct square {
  Int a, b, c, d;
  bool operator==(const square&) const = default;
};

struct product {
  template <class Int>
  __host__ __device__ unitriangular<Int> operator()(const unitriangular<Int>& x,
                                                    const unitriangular<Int>& y) const {
    return {static_cast<Int>(x.a + y.a), static_cast<Int>(x.b + y.b),
            static_cast<Int>(x.c + y.c + x.a * y.b)};
  }
  template <class Int>
  __host__ __device__ square<Int> operator()(const square<Int>& x, const square<Int>& y) const {
    return {static_cast<Int>(x.a * y.a + x.b * y.c), static_cast<Int>(x.a * y.b + x.b * y.d),
            static_cast<Int>(x.c * y.a + x.d * y.c), static_cast<Int>(x.c * y.b + x.d * y.d)};
  }
  __host__ __device__ std::uint8_t operator()(std::uint8_t x, std::uint8_t y) const {
    return static_cast<std::uint8_t>(x + y + 2 * x * y);  // 2 x + 1 as a product
  }
};

template <class T>
std::vector<T> random_objects(std::size_t count) {
  std::vector<T> objects(count);
  auto* const bytes = reinterpret_cast<unsigned char*>(objects.data());
  for (std::size_t i = 0; i < count * sizeof(T); ++i) {
    bytes[i] = static_cast<unsigned char>(random_bits(test_seed(), i) & 0xff);
  }
  return objects;
}

/// The values from `begin` to `end` combined from left to right.
template <class T, class Op>
T fold(const std::vector<T>& values, std::size_t begin, std::size_t end, Op op) {
  T result = values[begin];
  for (std::size_t i = begin + 1; i < end; ++i) result = op(result, values[i]);
  return result;
}

__device__ std::size_t global_rank() {
  const std::size_t block = std::size_t{blockDim.x} * blockDim.y * blockDim.z;
  return blockIdx.x * block + static_cast<std::size_t>(al::device::thread_rank());
}

template <int Width, class T, class Op>
__global__ void reduce_in_warps(const T* in, T* out, Op op) {
  out[global_rank()] = al::warp_reduce<Width>(in[global_rank()], op);
}

template <int Width, class T, class Op>
__global__ void reduce_in_one_part(const T* in, T* out, Op op, int part) {
  const int rank = al::device::thread_rank();
  const unsigned mask = (Width == 32 ? ~0u : (1u << Width % 32) - 1) << part * Width % 32;
  if (rank / Width == part) out[rank] = al::warp_reduce<Width>(in[rank], op, mask);
}

template <int Width, class T>
__global__ void broadcast_in_warps(const T* in, T* out, int source) {
  out[global_rank()] = al::warp_broadcast<Width>(in[global_rank()], source);
}

template <class T, class Op>
__global__ void reduce_in_blocks(const T* in, T* out, Op op) {
  T* const storage = reinterpret_cast<T*>(al::device::shared_memory());
  out[global_rank()] = al::block_reduce(in[global_rank()], op, storage);
}

/// Calls `f` with each width of a part of a warp, as a constant.
template <class F>
void for_each_width(F f) {
  f(std::integral_constant<int, 1>{});
  f(std::integral_constant<int, 2>{});
  f(std::integral_constant<int, 4>{});
  f(std::integral_constant<int, 8>{});
  f(std::integral_constant<int, 16>{});
  f(std::integral_constant<int, 32>{});
}

constexpr std::int64_t blocks = 3;

/// Block shapes of 1 to 32 warps, of one, two and three dimensions.
const std::vector<dim3>& block_shapes() {
  static const std::vector<dim3> shapes{{32},   {64},    {96},     {160},      {256},     {544},
                                        {1024}, {8, 12}, {1, 512}, {2, 2, 16}, {4, 8, 31}};
  return shapes;
}

std::size_t threads_of(dim3 shape) {
  return std::size_t{shape.x} * shape.y * shape.z;
}

std::string text_of(dim3 shape) {
  return "block of " + std::to_string(shape.x) + " x " + std::to_string(shape.y) + " x " +
         std::to_string(shape.z);
}

template <class T>
class Reduction : public testing::Test {};

using objects = testing::Types<std::uint8_t, unitriangular<std::uint8_t>, square<std::uint8_t>,
                               unitriangular<std::uint16_t>, square<std::uint16_t>,
                               unitriangular<std::uint32_t>, square<std::uint32_t>,
                               unitriangular<std::uint64_t>, square<std::uint64_t>>;
struct object_name {
  template <class T>
  static std::string GetName(int) {
    return std::to_string(sizeof(T)) + "_bytes";
  }
};
TYPED_TEST_SUITE(Reduction, objects, object_name);

TYPED_TEST(Reduction, OfAWarpCombinesInTheOrderOfTheLanes) {
  constexpr std::size_t threads = 96, count = blocks * threads;
  const auto values = random_objects<TypeParam>(count);
  for_each_width([&](auto width) {
    const device_buffer<TypeParam> in(values);
    device_buffer<TypeParam> out(count);
    al::device::launch("reduce_in_warps", reduce_in_warps<width, TypeParam, product>, blocks,
                       dim3(threads), 0, nullptr, in.data(), out.data(), product{});
    const auto got = out.download();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t begin = i / width * width;
      EXPECT_TRUE(got[i] == fold(values, begin, begin + width, product{}))
          << "width " << width << ", thread " << i;
    }
  });
}

TYPED_TEST(Reduction, OfAPartOfAWarpNeedsNoOtherLane) {
  const auto values = random_objects<TypeParam>(32);
  for_each_width([&](auto width) {
    const device_buffer<TypeParam> in(values);
    for (int part = 0; part < 32 / width; ++part) {
      device_buffer<TypeParam> out(values);
      al::device::launch("reduce_in_one_part", reduce_in_one_part<width, TypeParam, product>, 1,
                         dim3(32), 0, nullptr, in.data(), out.data(), product{}, part);
      auto expected = values;
      const auto begin = static_cast<std::size_t>(part * width);
      std::fill_n(expected.begin() + part * width, int{width},
                  fold(values, begin, begin + width, product{}));
      EXPECT_TRUE(out.download() == expected) << "width " << width << ", part " << part;
    }
  });
}

TYPED_TEST(Reduction, BroadcastGivesOneLanesValue) {
  const auto values = random_objects<TypeParam>(64);
  for_each_width([&](auto width) {
    const device_buffer<TypeParam> in(values);
    for (const int source : {0, width / 2, width - 1}) {
      device_buffer<TypeParam> out(values.size());
      al::device::launch("broadcast_in_warps", broadcast_in_warps<width, TypeParam>, 1, dim3(64), 0,
                         nullptr, in.data(), out.data(), source);
      const auto got = out.download();
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(got[i] == values[i / width * width + static_cast<std::size_t>(source)])
            << "width " << width << ", source " << source << ", thread " << i;
      }
    }
  });
}

TYPED_TEST(Reduction, OfABlockCombinesInTheOrderOfTheThreads) {
  for (const dim3 shape : block_shapes()) {
    const std::size_t threads = threads_of(shape);
    const auto values = random_objects<TypeParam>(blocks * threads);
    const device_buffer<TypeParam> in(values);
    device_buffer<TypeParam> out(values.size());
    al::device::launch("reduce_in_blocks", reduce_in_blocks<TypeParam, product>, blocks, shape,
                       threads / 32 * sizeof(TypeParam), nullptr, in.data(), out.data(), product{});
    const auto got = out.download();
    for (std::size_t block = 0; block < blocks; ++block) {
      const TypeParam expected = fold(values, block * threads, (block + 1) * threads, product{});
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(block * threads);
      EXPECT_EQ(std::count(begin, begin + static_cast<std::ptrdiff_t>(threads), expected),
                static_cast<std::ptrdiff_t>(threads))
          << text_of(shape) << ", block " << block;
    }
  }
}

TEST(Reduction, OfFloatsIsCloseToDoubleAndTheSameInEveryThread) {
  for (const dim3 shape : block_shapes()) {
    const std::size_t threads = threads_of(shape);
    std::vector<float> values(blocks * threads);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_uniform(test_seed(), i);
    const device_buffer<float> in(values);
    device_buffer<float> out(values.size());
    al::device::launch("reduce_in_blocks", reduce_in_blocks<float, al::plus>, blocks, shape,
                       threads / 32 * sizeof(float), nullptr, in.data(), out.data(), al::plus{});
    const auto got = out.download();
    for (std::size_t block = 0; block < blocks; ++block) {
      double expected = 0;
      for (std::size_t i = 0; i < threads; ++i) expected += values[block * threads + i];
      // One rounding an addition, 5 in the warp and one a warp.
      const double bound = expected * static_cast<double>(5 + threads / 32) * 0x1p-24;
      EXPECT_NEAR(got[block * threads], expected, bound) << text_of(shape);
      for (std::size_t i = 1; i < threads; ++i) {
        ASSERT_EQ(got[block * threads + i], got[block * threads]) << text_of(shape);
      }
    }
  }
}

#ifdef __CUDACC__

template <int Width, class T, class Op>
__global__ void cub_reduce_in_warps(const T* in, T* out, Op op) {
  using reduce = cub::WarpReduce<T, Width>;
  __shared__ typename reduce::TempStorage storage[96 / Width];
  const T result = reduce(storage[threadIdx.x / Width]).Reduce(in[global_rank()], op);
  if (threadIdx.x % Width == 0) out[global_rank() / Width] = result;
}

template <int Threads, class T, class Op>
__global__ void cub_reduce_in_blocks(const T* in, T* out, Op op) {
  using reduce = cub::BlockReduce<T, Threads, cub::BLOCK_REDUCE_RAKING>;
  __shared__ typename reduce::TempStorage storage;
  const T result = reduce(storage).Reduce(in[global_rank()], op);
  if (threadIdx.x == 0) out[blockIdx.x] = result;
}

TYPED_TEST(Reduction, AgreesWithCub) {
  constexpr std::size_t threads = 96, count = blocks * threads;
  const auto values = random_objects<TypeParam>(count);
  const device_buffer<TypeParam> in(values);
  device_buffer<TypeParam> ours(count);
  for_each_width([&](auto width) {
    device_buffer<TypeParam> cubs(count / width);
    al::device::launch("reduce_in_warps", reduce_in_warps<width, TypeParam, product>, blocks,
                       dim3(threads), 0, nullptr, in.data(), ours.data(), product{});
    al::device::launch("cub_reduce_in_warps", cub_reduce_in_warps<width, TypeParam, product>,
                       blocks, dim3(threads), 0, nullptr, in.data(), cubs.data(), product{});
    const auto got = ours.download(), expected = cubs.download();
    for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(got[i] == expected[i / width]) << i;
  });
  device_buffer<TypeParam> cubs(blocks);
  al::device::launch("reduce_in_blocks", reduce_in_blocks<TypeParam, product>, blocks,
                     dim3(threads), threads / 32 * sizeof(TypeParam), nullptr, in.data(),
                     ours.data(), product{});
  al::device::launch("cub_reduce_in_blocks", cub_reduce_in_blocks<threads, TypeParam, product>,
                     blocks, dim3(threads), 0, nullptr, in.data(), cubs.data(), product{});
  const auto got = ours.download(), expected = cubs.download();
  for (std::size_t i = 0; i < count; ++i) EXPECT_TRUE(got[i] == expected[i / threads]) << i;
}

#endif

}  // namespace
