#!/usr/bin/env python3
"""Draws what train_dit wrote: losses, step times, and a few steps of every rank."""

import argparse
import csv
import json
import os
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LogNorm

COLOURS = ["#8a8f98", "#d9822b", "#2364aa"]
WAITING = "#f3d9d5"


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def draw_losses(axes, plans, rows):
    for plan, colour in zip(plans, COLOURS):
        mine = [row for row in rows if row["plan"] == plan]
        axes.plot([float(row["seconds"]) for row in mine], [float(row["loss"]) for row in mine],
                  color=colour, alpha=0.25, linewidth=1)
        measured = [row for row in mine if row["held_out_loss"]]
        axes.plot([float(row["seconds"]) for row in measured],
                  [float(row["held_out_loss"]) for row in measured],
                  color=colour, marker="o", markersize=3.5, label=plan)
    axes.set_title("Loss: held out (dots), and of each step")
    axes.set_xlabel("training time of the ranks, s")
    axes.set_ylabel("flow-matching loss")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def draw_rank_times(axes, plans, steps):
    """How long ranks work in a step: spread means waiting."""
    shares = []
    for plan in plans:
        ranks = {}
        for row in steps:
            if row["plan"] == plan:
                key = row["step"], row["rank"]
                ranks[key] = ranks.get(key, 0) + float(row["micro_batch_ms"])
        shares.append(list(ranks.values()))
    parts = axes.violinplot(shares, vert=False, showextrema=False, widths=0.85)
    for body, colour in zip(parts["bodies"], COLOURS):
        body.set(facecolor=colour, alpha=0.8)
    axes.set_yticks(range(1, len(plans) + 1), plans)
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_title("Time of each rank's work in a step")
    axes.set_xlabel("ms")


def draw_ranks(axes, plan, report, steps, span, norm, colour_map):
    """Each rank's micro-batches, and how long it waits for the slowest, over the first `span` ms."""
    begin = 0.0
    ends = []
    mine = [row for row in steps if row["plan"] == plan]
    for step in sorted({int(row["step"]) for row in mine}):
        if begin >= span:
            break
        rows = [row for row in mine if int(row["step"]) == step]
        length = float(rows[0]["step_ms"])
        at = {}
        for row in rows:
            rank, ms = int(row["rank"]), float(row["micro_batch_ms"])
            axes.barh(rank, ms, left=begin + at.get(rank, 0.0), height=0.86,
                      color=colour_map(norm(int(row["sequence_length"]))))
            at[rank] = at.get(rank, 0.0) + ms
        for rank, ms in at.items():
            axes.barh(rank, length - ms, left=begin + ms, height=0.86, color=WAITING)
        begin += length
        ends.append(begin)
    for end in ends:
        axes.axvline(end, color="white", linewidth=1.5)
    axes.set_xlim(0, span)
    axes.set_yticks([0, max(int(row["rank"]) for row in mine)])
    axes.invert_yaxis()
    axes.set_ylabel("rank")
    axes.set_title(f"{plan}: ranks wait {100 * report['bubble']:.0f} % of the time", loc="left")


def draw(directory):
    plans = json.loads((directory / "plan.json").read_text())["plans"]
    names = [plan["name"] for plan in plans]
    steps = read(directory / "steps.csv")

    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.spines.top": False,
                         "axes.spines.right": False})
    figure = plt.figure(figsize=(10, 3 + 1.5 * len(plans)), layout="constrained")
    grid = figure.add_gridspec(1 + len(plans), 2, height_ratios=[2.2] + [1] * len(plans))
    draw_losses(figure.add_subplot(grid[0, 0]), names, read(directory / "loss.csv"))
    draw_rank_times(figure.add_subplot(grid[0, 1]), names, steps)

    lengths = [int(row["sequence_length"]) for row in steps]
    norm = LogNorm(min(lengths), max(lengths))
    colour_map = plt.get_cmap("viridis_r")
    first_plan = {int(row["step"]): float(row["step_ms"]) for row in steps
                  if row["plan"] == names[0]}
    span = sum(first_plan[step] for step in sorted(first_plan)[:8])
    timelines = []
    for i, plan in enumerate(plans):
        axes = figure.add_subplot(grid[1 + i, :], sharex=timelines[0] if timelines else None)
        draw_ranks(axes, plan["name"], plan["measured"], steps, span, norm, colour_map)
        axes.tick_params(labelbottom=i + 1 == len(plans))
        timelines.append(axes)
    timelines[-1].set_xlabel("ms; pink: waiting for the slowest rank")
    bar = figure.colorbar(plt.cm.ScalarMappable(norm, colour_map), ax=timelines, pad=0.01)
    bar.set_label("tokens per sample")
    ticks = sorted(set(lengths))[::2]
    bar.set_ticks(ticks, labels=ticks)
    bar.ax.minorticks_off()

    picture = directory / "train_dit.png"
    partial = directory / "train_dit.png.partial"
    figure.savefig(partial, dpi=150, format="png")
    os.replace(partial, picture)
    print(f"{picture}: losses, step times and timelines")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=pathlib.Path, help="what train_dit got as --output")
    directory = parser.parse_args().directory
    try:
        draw(directory)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"plot.py: {directory}: {error}")


if __name__ == "__main__":
    main()
