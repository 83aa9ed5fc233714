#!/usr/bin/env python3
"""Draws a plan of `adaptiveload plan --json`: the predicted step time of each bucket, and the ranks'
first steps in time, before (equal tokens) and after. Needs matplotlib.

    python3 examples/cli/plot_plan.py plan.json plan.png
"""

import argparse
import json
import os
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch

BEFORE, AFTER = "#b3b8c1", "#2364aa"
WAITING = "#f3d9d5"
COLOURS = plt.get_cmap("viridis_r")


def unit_of(longest_ms):
    return ("s", 1e3) if longest_ms > 3e3 else ("ms", 1.0)


def draw_buckets(axes, baseline, plan):
    """A bar for each bucket before and after, shortest samples first; its batch size on top."""
    order = sorted(range(len(plan["buckets"])),
                   key=lambda i: plan["buckets"][i]["sequence_length"])
    few = len(order) <= 16
    unit, scale = unit_of(max(b["predicted_ms"] for b in baseline["buckets"]))
    for which, colour, offset in ((baseline, BEFORE, -0.21), (plan, AFTER, 0.21)):
        buckets = [which["buckets"][i] for i in order]
        bars = axes.bar([x + offset for x in range(len(order))],
                        [b["predicted_ms"] / scale for b in buckets], width=0.4, color=colour)
        if few:
            axes.bar_label(bars, [f"{b['batch_size']:,}" for b in buckets], fontsize=7,
                           color="#555555", padding=1)
    names = [f"{b['frames']}\n{b['height']} × {b['width']}\n{b['sequence_length']:,}"
             if few else f"{b['sequence_length']:,}" for b in (plan["buckets"][i] for i in order)]
    axes.set_xticks(range(len(order)), names, fontsize=7, rotation=0 if few else 90)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, len(order) - 0.4)
    axes.set_ylabel(f"predicted step, {unit}")
    axes.set_title("Time of a full micro-batch of each bucket"
                   + (", and its samples" if few else ""), loc="left")
    axes.set_xlabel("frames, height × width and tokens of a sample" if few
                    else "tokens of a sample")
    axes.legend([Patch(color=BEFORE), Patch(color=AFTER)], ["equal tokens", plan["strategy"]],
                frameon=False, ncols=2, loc="upper left")
    axes.margins(y=0.22)


def draw_ranks(axes, name, plan, span, scale, norm):
    """What each rank runs until `span`, and when it waits."""
    ranks = 1 + max(m["rank"] for step in plan["first_steps"] for m in step["micro_batches"])
    end = min(span, plan["first_steps"][-1]["end_ms"])
    axes.barh(range(ranks), end / scale, height=0.86, color=WAITING)
    for step in plan["first_steps"]:
        for m in step["micro_batches"]:
            length = plan["buckets"][m["bucket"]]["sequence_length"]
            axes.barh(m["rank"], m["ms"] / scale, left=m["begin_ms"] / scale, height=0.86,
                      color=COLOURS(norm(length)), edgecolor="white", linewidth=0.4)
        axes.axvline(step["end_ms"] / scale, color="#333333", linewidth=0.8)
    axes.set_xlim(0, span / scale)
    axes.set_ylim(ranks - 0.5, -0.5)
    axes.set_yticks([0, ranks - 1])
    axes.tick_params(axis="y", length=0)
    world_size = plan["epoch"]["world_size"]
    axes.set_ylabel("rank" if ranks == world_size else f"rank, of {world_size:,}")
    axes.set_title(f"{name}: ranks wait {100 * plan['expected']['bubble']:.1f} % of the time",
                   loc="left")


def draw(plan, picture):
    baseline = plan["baseline"]
    span = baseline["first_steps"][-1]["end_ms"]
    unit, scale = unit_of(span)
    ranks = min(16, plan["epoch"]["world_size"])  # as many as the file draws

    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.spines.top": False,
                         "axes.spines.right": False})
    height = 0.8 + 0.14 * ranks
    figure = plt.figure(figsize=(10, 3.4 + 2 * height), layout="constrained")
    grid = figure.add_gridspec(3, 1, height_ratios=[3, height, height])
    draw_buckets(figure.add_subplot(grid[0]), baseline, plan)

    lengths = sorted({b["sequence_length"] for b in plan["buckets"]})
    norm = LogNorm(lengths[0], max(lengths[-1], lengths[0] + 1))
    before = figure.add_subplot(grid[1])
    after = figure.add_subplot(grid[2], sharex=before)
    draw_ranks(before, "Equal tokens, dealt as drawn", baseline, span, scale, norm)
    draw_ranks(after, f"{plan['strategy'].capitalize()}, {plan['speedup']:.2f} times as fast", plan,
               span, scale, norm)
    before.tick_params(labelbottom=False)
    after.set_xlabel(f"{unit}; a line ends a step; pink: waiting, "
                     f"which ranks do at {plan['epoch']['ranks_wait']}")
    bar = figure.colorbar(plt.cm.ScalarMappable(norm, COLOURS), ax=[before, after], pad=0.01)
    bar.set_label("tokens of a sample")
    shown = lengths[::-(-len(lengths) // 8)]
    bar.set_ticks(shown, labels=[f"{length:,}" for length in shown])
    bar.ax.minorticks_off()

    partial = picture.with_name(picture.name + ".partial")
    figure.savefig(partial, dpi=150, format=picture.suffix.lstrip(".") or "png")
    os.replace(partial, picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=pathlib.Path, help="what `adaptiveload plan` got as --json")
    parser.add_argument("picture", type=pathlib.Path, help="a .png, .svg or .pdf to write")
    arguments = parser.parse_args()
    try:
        draw(json.loads(arguments.plan.read_text()), arguments.picture)
    except KeyError as error:
        sys.exit(f"plot_plan.py: {arguments.plan}: has no {error}")
    except (OSError, ValueError) as error:
        sys.exit(f"plot_plan.py: {arguments.plan}: {error}")


if __name__ == "__main__":
    main()
