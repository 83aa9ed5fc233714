#include <adaptiveload/column_reduce.cuh>

namespace al = adaptiveload;

template void al::column_reduce(const al::column_reduce_args<__nv_bfloat16>&, cudaStream_t);
template void al::column_reduce(const al::column_reduce_args<__half>&, cudaStream_t);
template void al::column_reduce(const al::column_reduce_args<float>&, cudaStream_t);
