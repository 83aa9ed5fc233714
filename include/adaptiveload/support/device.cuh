#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

/// The only door from the kernels to the hardware: warp shuffles, barriers, shared memory and
/// memory accesses. A second implementation of this header, for the host, runs the same kernels
/// in the tests.
namespace adaptiveload::device {

inline constexpr int warp_size = 32;
inline constexpr unsigned full_mask = 0xffffffffu;

/// Index of the calling thread in its block, x fastest.
__device__ inline int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

__device__ inline int lane() {
  return thread_rank() % warp_size;
}

/// The value of lane `lane ^ lane_mask`; both lanes must be in `mask`.
__device__ inline std::uint32_t shuffle_xor(unsigned mask, std::uint32_t value, int lane_mask) {
  return __shfl_xor_sync(mask, value, lane_mask);
}

/// The value of lane `source` of the calling lane's aligned part of `width` lanes.
__device__ inline std::uint32_t shuffle(unsigned mask, std::uint32_t value, int source,
                                        int width = warp_size) {
  return __shfl_sync(mask, value, source, width);
}

__device__ inline void sync_warp(unsigned mask = full_mask) {
  __syncwarp(mask);
}

__device__ inline void sync_block() {
  __syncthreads();
}

/// Waits until `threads` threads (whole warps) of the block have come to barrier `id` (1 to 15).
__device__ inline void sync_named(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// The block's dynamic shared memory, aligned to 128 bytes.
__device__ inline std::byte* shared_memory() {
  extern __shared__ __align__(128) std::byte adaptiveload_shared_memory[];
  return adaptiveload_shared_memory;
}

/// Reads an object of 1, 2, 4, 8 or 16 bytes, aligned to its size, that will be read again soon.
template <class T>
__device__ T load(const T* address) {
  if constexpr (sizeof(T) == 16) {
    return __builtin_bit_cast(T, *reinterpret_cast<const uint4*>(address));
  } else if constexpr (sizeof(T) == 8) {
    return __builtin_bit_cast(T, *reinterpret_cast<const uint2*>(address));
  } else {
    return *address;
  }
}

/// As `load`, for data that is not worth keeping in L1.
template <class T>
__device__ T load_streaming(const T* address) {
  if constexpr (sizeof(T) == 16) {
    uint4 bits;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
                 : "l"(address));
    return __builtin_bit_cast(T, bits);
  } else if constexpr (sizeof(T) == 8) {
    uint2 bits;
    asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
                 : "=r"(bits.x), "=r"(bits.y)
                 : "l"(address));
    return __builtin_bit_cast(T, bits);
  } else {
    return *address;
  }
}

/// Writes an object of 1, 2, 4, 8 or 16 bytes, aligned to its size.
template <class T>
__device__ void store(T* address, const T& value) {
  if constexpr (sizeof(T) == 16) {
    *reinterpret_cast<uint4*>(address) = __builtin_bit_cast(uint4, value);
  } else if constexpr (sizeof(T) == 8) {
    *reinterpret_cast<uint2*>(address) = __builtin_bit_cast(uint2, value);
  } else {
    *address = value;
  }
}

/// As `store`, for data that nobody reads soon: it leaves the caches first. Copies whose threads
/// write several times reach the speed of memory only so (on an H200: 4.2 TB/s instead of 4.0).
template <class T>
__device__ void store_streaming(T* address, const T& value) {
  if constexpr (sizeof(T) == 16) {
    __stcs(reinterpret_cast<uint4*>(address), __builtin_bit_cast(uint4, value));
  } else if constexpr (sizeof(T) == 8) {
    __stcs(reinterpret_cast<uint2*>(address), __builtin_bit_cast(uint2, value));
  } else {
    *address = value;
  }
}

/// An mbarrier in shared memory: phases end when the expected bytes have come.
using transfer_barrier = std::uint64_t;

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Whether the code at hand is compiled for a device with `copy_bulk` (sm_90 and later).
__device__ constexpr bool has_bulk_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return true;
#else
  return false;
#endif
}

/// Makes `barrier` ready, for one `expect_bytes` a phase. By one thread; `sync_block` must follow.
__device__ inline void init_barrier(transfer_barrier* barrier) {
  if constexpr (has_bulk_copies()) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier))
                 : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
}

/// Says how many bytes the current phase of `barrier` waits for. By one thread, before copying.
__device__ inline void expect_bytes(transfer_barrier* barrier, std::uint32_t bytes) {
  if constexpr (has_bulk_copies()) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
        "r"(bytes)
        : "memory");
  }
}

/// Starts a copy of `bytes` from global to shared memory, both aligned to 16 bytes and `bytes` a
/// multiple of 16, that `barrier` counts. By one thread, once the block is done with what lay
/// there.
__device__ inline void copy_bulk(void* shared, const void* global, std::uint32_t bytes,
                                 transfer_barrier* barrier) {
  if constexpr (has_bulk_copies()) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(shared)),
        "l"(global), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
  }
}

/// Lets bulk copies into shared memory come after what the calling thread has read and written
/// there: by every such thread, before the barrier that the copying one waits at.
__device__ inline void show_to_copies() {
  if constexpr (has_bulk_copies()) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Waits for the end of the phase of `barrier` whose number has the given parity.
__device__ inline void wait_for_bytes(transfer_barrier* barrier, std::uint32_t parity) {
  if constexpr (has_bulk_copies()) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
  }
}

/// Starts a copy of 8 or 16 bytes from global to shared memory, into the calling thread's current
/// group of copies.
template <int Bytes = 16>
__device__ void copy_async(void* shared, const void* global) {
  static_assert(Bytes == 8 || Bytes == 16);
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
                 "l"(global)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(shared)),
                 "l"(global)
                 : "memory");
  }
}

/// Ends the calling thread's current group of copies.
__device__ inline void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until at most `Pending` of the calling thread's latest groups of copies are unfinished.
template <int Pending>
__device__ void wait_for_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Lets a kernel that was launched to overlap this one start as soon as blocks end.
__device__ inline void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// In a kernel that was launched to overlap those before: waits until they have ended, and all
/// that they wrote can be read.
__device__ inline void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace adaptiveload::device
