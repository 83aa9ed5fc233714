#pragma once

/// Reductions for use inside kernels: over a warp or an aligned part of one, over a block, of
/// moments, and down the columns of a matrix.
#include <adaptiveload/reduce/block.cuh>
#include <adaptiveload/reduce/column_tile.cuh>
#include <adaptiveload/reduce/moments.cuh>
#include <adaptiveload/reduce/warp.cuh>
