#!/usr/bin/env python3
"""Draws the README's figure of the AdaLN kernels and prints its tables, from the results of
adaln_bench and torch_adaln.py, all of one GPU. Needs matplotlib for the figure.

    python3 bench/plot.py --figure bench/results/adaln.svg bench/results/*_h200.json
"""

import argparse
import collections
import json
import re
import sys

# In the order of the figure's bars: name in the results, name for people, colour.
CONTENDERS = [
    ("adaptiveload", "AdaptiveLoad", "#1b6ca8"),
    ("no_bulk_copies", "AdaptiveLoad, no bulk copies", "#4f94c4"),
    ("torch_compile", "torch.compile", "#e08e45"),
    ("cudnn", "cuDNN", "#76b041"),
    ("two_pass", "two-pass backward", "#8fb8d8"),
    ("cub_textbook", "textbook (CUB)", "#b0a8b9"),
    ("discrete_chain", "a kernel per operation", "#9a9a9a"),
    ("torch_eager", "PyTorch eager", "#c8553d"),
]
NAME = re.compile(r"(?P<operation>\w+)/(?P<who>\w+)/B:(?P<B>\d+)/S:(?P<S>\d+)/D:(?P<D>\d+)"
                  r"(?:/groups:(?P<groups>\d+))?(?P<packed>/packed)?")
FIGURE_ROWS = 65536


class Shape(collections.namedtuple("Shape", "batch tokens features groups packed")):
    """Of which a sample is in `groups`, or all are packed."""

    def is_in_figure(self):
        return self.batch * self.tokens == FIGURE_ROWS and self.groups == 1 and not self.packed

    def __str__(self):
        if self.packed:
            return f"[{self.tokens:,}, {self.features:,}], {self.batch:,} packed"
        sizes = f"[{self.batch:,}, {self.tokens:,}, {self.features:,}]"
        if self.groups == self.tokens:
            return f"{sizes}, a group per token"
        return sizes if self.groups == 1 else f"{sizes}, {self.groups:,} groups each"


def read(files):
    """{operation: {Shape: {who: (microseconds, fraction of roof)}}}, and the machine."""
    results, contexts = {}, []
    for file in files:
        with open(file) as opened:
            content = json.load(opened)
        contexts.append(content["context"])
        for row in content["benchmarks"]:
            match = NAME.match(row["name"])
            if not match or row.get("error_occurred"):
                print(f"left out: {row['name']}: {row.get('error_message', 'another benchmark')}",
                      file=sys.stderr)
                continue
            shape = Shape(int(match["B"]), int(match["S"]), int(match["D"]),
                          int(match["groups"] or 1), bool(match["packed"]))
            of_shape = results.setdefault(match["operation"], {}).setdefault(shape, {})
            of_shape[match["who"]] = row["real_time"], row["fraction_of_roof"]
    gpus = {context["gpu"] for context in contexts}
    if len(gpus) != 1:
        sys.exit(f"plot.py: results of {len(gpus)} kinds of GPU: {', '.join(sorted(gpus))}")
    return results, contexts


def print_tables(results, contexts):
    for context in contexts:
        versions = ", ".join(f"{k} {context[k]}" for k in ("driver", "cuda", "torch") if k in context)
        print(f"{context['gpu']}, {versions}, {context['date']}")
    for operation, shapes in results.items():
        here = [c for c in CONTENDERS if any(c[0] in of_shape for of_shape in shapes.values())]
        print(f"\n`{operation}`, microseconds (fraction of roof):\n")
        print("| [B, S, D] | " + " | ".join(label for _, label, _ in here) + " |")
        print("| --- |" + " ---: |" * len(here))
        for shape, of_shape in shapes.items():
            cells = [f"{of_shape[who][0]:,.1f} ({of_shape[who][1]:.2f})" if who in of_shape else ""
                     for who, _, _ in here]
            print(f"| {shape} | " + " | ".join(cells) + " |")


def draw(results, contexts, file):
    try:
        import matplotlib
    except ImportError as error:
        sys.exit(f"plot.py: {error}; without --figure the tables are printed alone")
    matplotlib.use("svg" if file.endswith(".svg") else "agg")
    matplotlib.rcParams["svg.hashsalt"] = "adaptiveload"
    from matplotlib import pyplot

    large = {operation: {s: r for s, r in shapes.items() if s.is_in_figure()}
             for operation, shapes in results.items()}
    large = {operation: shapes for operation, shapes in large.items()
             if any("adaptiveload" in of_shape for of_shape in shapes.values())}
    if not large:
        sys.exit(f"plot.py: no result of AdaptiveLoad at {FIGURE_ROWS:,} rows")
    figure, axes = pyplot.subplots(len(large), 1, figsize=(9, 2.6 * len(large) + 0.6), squeeze=False,
                                   sharey=True)
    for axis, (operation, shapes) in zip(axes[:, 0], large.items()):
        here = [c for c in CONTENDERS if any(c[0] in of_shape for of_shape in shapes.values())]
        width = 0.85 / len(here)
        for i, (who, label, colour) in enumerate(here):
            points = [(k, r[who][1]) for k, r in enumerate(shapes.values()) if who in r]
            bars = axis.bar([k + (i + 0.5) * width - 0.425 for k, _ in points],
                            [fraction for _, fraction in points], width * 0.92, label=label,
                            color=colour)
            axis.bar_label(bars, fmt="%.2f", fontsize=6, padding=1)
        axis.axhline(1, color="black", linewidth=0.8, linestyle=":")
        axis.set_xticks(range(len(shapes)), [str(shape) for shape in shapes])
        axis.set_ylim(0, 1.12)
        axis.set_title(operation, fontsize=10, loc="left", family="monospace")
        axis.spines[["top", "right"]].set_visible(False)
    handles = {}
    for axis in axes[:, 0]:
        handles.update((label, bars) for bars, label in zip(*axis.get_legend_handles_labels()))
    labels = [label for _, label, _ in CONTENDERS if label in handles]
    figure.legend([handles[label] for label in labels], labels, fontsize=8, ncol=len(labels),
                  frameon=False, loc="lower center")
    figure.supylabel("fraction of a kernel that only moves the data", fontsize=9)
    figure.suptitle(f"AdaLN on an {contexts[0]['gpu']}: higher is faster", fontsize=11)
    figure.tight_layout(rect=(0, 0.3 / figure.get_figheight(), 1, 1))
    figure.savefig(file, metadata={"Date": None} if file.endswith(".svg") else None, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("files", nargs="+", metavar="RESULTS.json")
    parser.add_argument("--figure", metavar="FILE", help="an .svg or .png to draw")
    arguments = parser.parse_args()
    try:
        results, contexts = read(arguments.files)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"plot.py: {error}")
    print_tables(results, contexts)
    if arguments.figure:
        draw(results, contexts, arguments.figure)


if __name__ == "__main__":
    main()
