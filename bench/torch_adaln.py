#!/usr/bin/env python3
"""PyTorch's AdaLN on a GPU, eager and by torch.compile, measured as adaln_bench measures: calls in a
CUDA graph, the median between events, as a fraction of the best kernel that moves the same
activations. Needs torch with CUDA (and its triton).

    python3 bench/torch_adaln.py --json bench/results/torch_h200.json
"""

import argparse
import datetime
import itertools
import json
import os
import statistics
import sys

SHAPES = [(1, 65536, 1536), (16, 4096, 1536), (1, 65536, 3072), (1, 65536, 5120)]
SMALL_SHAPES = [(1, 256, 1536), (1, 1024, 1536), (1, 8192, 1536), (1, 1 << 20, 128), (1, 8192, 16384)]
CALLS, LAUNCHES = 10, 15


def import_torch():
    try:
        import torch
        import triton  # noqa: F401
    except ImportError as error:
        sys.exit(f"torch_adaln.py: {error}")
    if not torch.cuda.is_available():
        sys.exit("torch_adaln.py: no CUDA device")
    return torch


torch = import_torch()
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from torch._functorch import config as functorch_config  # noqa: E402
from torch.nn.functional import layer_norm  # noqa: E402


def modulate(x, scale, shift):
    normal = layer_norm(x, x.shape[-1:], eps=1e-6)
    return normal * (1 + scale[:, None]) + shift[:, None]


def gate_residual_modulate(residual, branch, gate, scale, shift):
    r = residual + gate[:, None] * branch
    return modulate(r, scale, shift), r


def in_float(function):
    """The same in float whatever the inputs, rounded once: what the fused kernels compute."""

    def wide(*inputs):
        outputs = function(*(i.float() for i in inputs))
        if isinstance(outputs, tuple):
            return tuple(o.to(inputs[0].dtype) for o in outputs)
        return outputs.to(inputs[0].dtype)

    return wide


# name: function, activations in, vectors of a sample in, activations read and written: forward, backward
OPERATIONS = {
    "layernorm_modulate": (modulate, 1, 2, (1, 1), (2, 1)),
    "gate_residual_layernorm_modulate": (gate_residual_modulate, 2, 3, (2, 2), (4, 2)),
}


def median_seconds(call, stream):
    """`stream` is the current one."""
    for _ in range(3):
        call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(CALLS):
            call()
    for _ in range(3):
        graph.replay()
    events = [torch.cuda.Event(enable_timing=True) for _ in range(LAUNCHES + 1)]
    events[0].record()
    for event in events[1:]:
        graph.replay()
        event.record()
    stream.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(events, events[1:])]
    return 1e-3 * statistics.median(times) / CALLS


@triton.jit
def stream_kernel(a, b, c, d, y, z, size, READS: tl.constexpr, WRITES: tl.constexpr,
                  BLOCK: tl.constexpr, EVICTION: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(a + at, mask=inside, eviction_policy=EVICTION)
    if READS > 1:
        value ^= tl.load(b + at, mask=inside, eviction_policy=EVICTION)
    if READS > 2:
        value ^= tl.load(c + at, mask=inside, eviction_policy=EVICTION)
        value ^= tl.load(d + at, mask=inside, eviction_policy=EVICTION)
    tl.store(y + at, value, mask=inside, eviction_policy=EVICTION)
    if WRITES > 1:
        tl.store(z + at, value, mask=inside, eviction_policy=EVICTION)


roofs = {}


def roof_seconds(reads, writes, elements, stream):
    """The best of several kernels that read and write as many activations and do nothing else: 256
    threads, 16 bytes of each activation a thread, once, twice or four times."""
    key = reads, writes, elements
    if key not in roofs:
        words = elements // 2
        arrays = [torch.randint(-2**31, 2**31, (words,), dtype=torch.int32, device="cuda")
                  for _ in range(reads + writes)]
        source = [arrays[min(i, reads - 1)] for i in range(4)]
        target = [arrays[reads + min(i, writes - 1)] for i in range(2)]
        roofs[key] = min(
            median_seconds(lambda: stream_kernel[(triton.cdiv(words, block),)](
                *source, *target, words, reads, writes, block, eviction, num_warps=8), stream)
            for block in (1024, 2048, 4096) for eviction in ("", "evict_first"))
    return roofs[key]


def problem_of(got, expected, tolerance=2e-2):
    """What is wrong; "" if nothing."""
    for i, (g, e) in enumerate(zip(got, expected)):
        error = ((g.double() - e.double()).norm() / e.double().norm()).item()
        if not error <= tolerance:
            return f"wrong results: number {i} is off by {error:.1e}"
    return ""


def measure(operation, shape, stream):
    function, activations, vectors, moved_forward, moved_backward = OPERATIONS[operation]
    batch, tokens, features = shape
    torch.manual_seed(0)
    random = lambda *size, dtype: torch.randn(*size, dtype=dtype, device="cuda", requires_grad=True)  # noqa: E731
    data = [random(batch, tokens, features, dtype=torch.bfloat16) for _ in range(activations)]
    modulations = [random(batch, features, dtype=torch.float32) for _ in range(vectors)]
    exact = in_float(function)

    contenders = {
        # bfloat16 throughout, as a model cast to it computes.
        "torch_eager": (function, [m.detach().bfloat16().requires_grad_() for m in modulations]),
        "torch_compile": (torch.compile(exact, dynamic=False), modulations),
    }
    for who, (call, vectors_in) in contenders.items():
        inputs = [*data, *vectors_in]
        outputs = call(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        gradients = [torch.randn_like(o) for o in outputs]
        backward = lambda: torch.autograd.grad(outputs, inputs, gradients, retain_graph=True)  # noqa: E731

        expected = exact(*data, *modulations)
        expected = expected if isinstance(expected, tuple) else (expected,)
        problem = problem_of(outputs, expected) or problem_of(
            backward(), torch.autograd.grad(expected, [*data, *modulations], gradients))
        del expected

        def forward():
            with torch.no_grad():
                call(*inputs)

        for direction, run, (reads, writes) in (("forward", forward, moved_forward),
                                                ("backward", backward, moved_backward)):
            name = f"{operation}_{direction}/{who}/B:{batch}/S:{tokens}/D:{features}"
            if problem:
                yield {"name": name, "error_occurred": True, "error_message": problem}
                continue
            elements = batch * tokens * features
            seconds = median_seconds(run, stream)
            yield {
                "name": name,
                "real_time": 1e6 * seconds,
                "time_unit": "us",
                "bytes_per_second": (reads + writes) * 2 * elements / seconds,
                "fraction_of_roof": roof_seconds(reads, writes, elements, stream) / seconds,
            }
        del outputs, backward


def driver_version():
    try:
        with open("/sys/module/nvidia/version") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", help="write the results to this file, as adaln_bench does")
    json_file = parser.parse_args().json

    # A backward that may run twice, to be timed.
    functorch_config.donated_buffer = False
    stream = torch.cuda.Stream()
    results = []
    with torch.cuda.stream(stream):  # inputs too are made on it
        for operation, shape in itertools.product(OPERATIONS, SHAPES + SMALL_SHAPES):
            for result in measure(operation, shape, stream):
                results.append(result)
                figures = result.get("error_message") or (
                    f"{result['real_time']:9.1f} us  {result['fraction_of_roof']:.3f} of roof")
                print(f"{result['name']:75} {figures}", flush=True)
            torch.cuda.empty_cache()
            torch.compiler.reset()
    if json_file:
        context = {
            "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
            "gpu": torch.cuda.get_device_name(),
            "driver": driver_version(),
            "cuda": torch.version.cuda,
            "torch": torch.__version__,
        }
        with open(json_file + ".partial", "w") as file:
            json.dump({"context": context, "benchmarks": results}, file, indent=2)
        os.replace(json_file + ".partial", json_file)


if __name__ == "__main__":
    main()
