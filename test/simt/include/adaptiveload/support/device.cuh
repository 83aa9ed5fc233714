#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <simt/executor.hpp>

/// The library's header of this name, for the executor.
namespace adaptiveload::device {

using simt::where;

inline constexpr int warp_size = 32;
inline constexpr unsigned full_mask = 0xffffffffu;

inline int thread_rank() {
  return simt::thread_rank();
}

inline int lane() {
  return thread_rank() % warp_size;
}

inline std::uint32_t shuffle_xor(unsigned mask, std::uint32_t value, int lane_mask,
                                 where place = where::current()) {
  return simt::shuffle(mask, value, lane() ^ lane_mask, place);
}

inline std::uint32_t shuffle(unsigned mask, std::uint32_t value, int source, int width = warp_size,
                             where place = where::current()) {
  return simt::shuffle(mask, value, (lane() & ~(width - 1)) | (source & (width - 1)), place);
}

inline void sync_warp(unsigned mask = full_mask, where place = where::current()) {
  simt::sync_warp(mask, place);
}

inline void sync_block(where place = where::current()) {
  simt::sync_block(place);
}

inline void sync_named(int id, int threads, where place = where::current()) {
  simt::sync_named(id, threads, place);
}

inline std::byte* shared_memory() {
  return simt::shared_memory();
}

template <class T>
inline constexpr std::size_t access_alignment = sizeof(T) == 8 || sizeof(T) == 16 ? sizeof(T)
                                                                                  : alignof(T);

template <class T>
T load(const T* address, where place = where::current()) {
  simt::check_read(address, sizeof(T), access_alignment<T>, place);
  return simt::unchecked_load(address);
}

template <class T>
T load_streaming(const T* address, where place = where::current()) {
  simt::check_streaming_read(address, sizeof(T), access_alignment<T>, place);
  return simt::unchecked_load(address);
}

template <class T>
void store(T* address, const T& value, where place = where::current()) {
  simt::check_write(address, sizeof(T), access_alignment<T>, place);
  simt::unchecked_store(address, value);
}

template <class T>
void store_streaming(T* address, const T& value, where place = where::current()) {
  store(address, value, place);
}

using transfer_barrier = std::uint64_t;

constexpr bool has_bulk_copies() {
  return true;
}

inline void init_barrier(transfer_barrier* barrier, where place = where::current()) {
  simt::init_barrier(barrier, place);
}

inline void expect_bytes(transfer_barrier* barrier, std::uint32_t bytes,
                         where place = where::current()) {
  simt::expect_bytes(barrier, bytes, place);
}

inline void copy_bulk(void* shared, const void* global, std::uint32_t bytes,
                      transfer_barrier* barrier, where place = where::current()) {
  simt::copy_bulk(shared, global, bytes, barrier, place);
}

inline void wait_for_bytes(transfer_barrier* barrier, std::uint32_t parity,
                           where place = where::current()) {
  simt::wait_for_bytes(barrier, parity, place);
}

inline void show_to_copies(where place = where::current()) {
  simt::show_to_copies(place);
}

inline void store_bulk(void* global, const void* shared, std::uint32_t bytes,
                       where place = where::current()) {
  simt::store_bulk(global, shared, bytes, place);
}

inline void commit_bulk_group() {
  simt::commit_bulk_group();
}

template <int Pending>
void wait_for_bulk_reads() {
  simt::wait_for_bulk_reads(Pending);
}

inline void wait_for_previous_kernel() {
  simt::wait_for_previous_kernel();
}

inline void let_next_kernel_start() {}

template <int Bytes = 16>
void copy_async(void* shared, const void* global, where place = where::current()) {
  simt::copy_async(shared, global, Bytes, place);
}

inline void end_copy_group() {
  simt::end_copy_group();
}

template <int Pending>
void wait_for_copy_groups() {
  simt::wait_for_copy_groups(Pending);
}

}  // namespace adaptiveload::device
