"""Trains the policy of connect four on games of a teacher, exports it as a decoder over moves, and checks both."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from . import byhand, checks, convert, exporters
from .checks import Report
from .connect_four import (
    CELLS, Games, by_column, cell_ids, playable_cells, random_cell, sensible_cells, teacher_games, winning_cells,
)
from .convert import Storage
from .exporters import Ports
from .modules import SmallTransformer
from .runtime import CachedLoop

OPSET = 18
LIMIT_BYTES = 1_000_000
START = CELLS        # ids 0 to 41 are moves: column + 7 * row
RESULTS = CELLS + 1  # their logits are the value for the player to move: win, draw, loss; never an input
VOCAB = CELLS + 4
CONTEXT = CELLS + 1  # the start and a full board
WIDTH, HEADS, LAYERS = 128, 4, 2  # wide: one row holds the board, 42 cells of two colors
BATCH = 128


def to_tensors(games: Games) -> tuple[torch.Tensor, ...]:
    """Input ids [G, 42] (the start, then all moves but the last), policy, value, and which turns exist."""
    ids = np.concatenate([np.full((len(games.cells), 1), START), games.cells[:, :-1]], 1)
    return tuple(map(torch.from_numpy, (np.maximum(ids, 0), games.policy, games.value, games.cells >= 0)))


def losses(logits: torch.Tensor, policy, value, exists) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross entropies of moves and results, minus the teacher's own entropy: 0 is a perfect copy."""
    def divergence(part: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.kl_div(part.log_softmax(-1), target, reduction="none").sum(-1)[exists].mean()

    return divergence(logits[..., :CELLS], policy), divergence(logits[..., RESULTS:], value)


def batches(lengths: torch.Tensor, n_passes: int, seed: int) -> list[torch.Tensor]:
    """Indices of games of similar length, so that little is computed after their ends; in random order."""
    generator, found = torch.Generator().manual_seed(seed), []
    for _ in range(n_passes):
        order = torch.randperm(len(lengths), generator=generator)
        parts = order[lengths[order].argsort(stable=True)].split(BATCH)
        found += [parts[i] for i in torch.randperm(len(parts), generator=generator)]
    return found


def train(model: SmallTransformer, games: Games, n_passes: int, seed: int) -> None:
    data = [torch.cat(pair) for pair in zip(to_tensors(games), to_tensors(games.mirrored()))]
    lengths = data[-1].sum(1)
    steps = batches(lengths, n_passes, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, len(steps), pct_start=0.05)
    for step, picked in enumerate(steps):
        ids, *targets = (part[picked, :lengths[picked].max()] for part in data)
        policy, value = losses(model(ids, *model.empty_past(len(picked)))[0], *targets)
        optimizer.zero_grad()
        (policy + value).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step} of {len(steps)}: moves {policy.item():.3f}, results {value.item():.3f}", flush=True)


@torch.no_grad()
def share_of_wins(model: SmallTransformer, n_games: int, rng: np.random.Generator) -> float:
    """Of the likeliest legal moves against a player who takes wins, stops fours and else moves at random; draws count half."""
    is_first = np.arange(n_games) % 2 == 0
    ids, points = np.full((n_games, 1), START), np.full(n_games, 0.5)
    mine, taken, running = np.zeros(n_games, np.uint64), np.zeros(n_games, np.uint64), np.arange(n_games)
    for turn in range(CELLS):
        is_policy = is_first[running] == (turn % 2 == 0)
        playable = by_column(playable_cells(taken))
        logits = model(torch.from_numpy(ids[running]), *model.empty_past(len(running)))[0][:, -1].numpy()
        likelihood = np.where(playable != 0, np.take_along_axis(logits, cell_ids(np.maximum(playable, np.uint64(1))), 1), -np.inf)
        liked = playable[np.arange(len(running)), likelihood.argmax(1)]
        wins = winning_cells(mine, taken) & playable_cells(taken)
        other = random_cell(np.where(wins != 0, wins, sensible_cells(mine, taken)), rng)
        cell = np.where(is_policy, liked, other)
        over = (cell & winning_cells(mine, taken)) != 0
        points[running[over]] = is_policy[over]
        ids = np.concatenate([ids, np.zeros((n_games, 1), np.int64)], 1)
        ids[running, -1] = cell_ids(cell)
        mine, taken, running = (mine ^ taken)[~over], (taken | cell)[~over], running[~over]
        if not len(running):
            break
    return float(points.mean())


@torch.no_grad()
def check_policy(report: Report, model: SmallTransformer, held_out: Games, rng: np.random.Generator) -> None:
    """On games that were not trained on: how often the likeliest move is legal, and the teacher's; and in games of its own."""
    ids, policy, value, exists = to_tensors(held_out)
    logits = model(ids, *model.empty_past(len(ids)))[0]
    best = logits[..., :CELLS].argmax(-1)
    legal = policy.gather(-1, best[..., None])[exists].gt(0).float().mean().item()
    same = (best == policy.argmax(-1))[exists].float().mean().item()
    moves, results = (loss.item() for loss in losses(logits, policy, value, exists))
    report.add("policy", "likeliest move", f"legal {legal:.2%}, the teacher's {same:.1%}", legal > 0.99 and same > 0.3)
    report.add("policy", "divergence from the teacher", f"moves {moves:.3f}, results {results:.3f}", True)
    wins = share_of_wins(model, 400, rng)
    report.add("policy", "against sensible random moves", f"{wins:.1%} of 400 games", wins > 0.75)


def export_connect_four(out: Path, n_games: int, n_random_games: int, n_passes: int, seed: int) -> None:
    torch.manual_seed(seed)
    rng, report, storage = np.random.default_rng(seed), Report(), Storage("f16")
    print(f"playing {n_games} games", flush=True)
    games, held_out = (teacher_games(n, n_random_games, rng) for n in (n_games, 256))
    model = SmallTransformer(VOCAB, WIDTH, HEADS, LAYERS, CONTEXT)
    train(model, games, n_passes, seed)
    model.eval()
    convert.prepare_weights(model, storage)
    check_policy(report, model, held_out, rng)

    out.mkdir(parents=True, exist_ok=True)
    ports = Ports(*byhand.cache_names(LAYERS), batch_axis=0, past_axis=2, limit=CONTEXT)
    exported = out / "exported.onnx"
    args = (torch.tensor([[START, 3], [START, 4]]), *model.empty_past(batch=2, length=3))
    exporters.torch_export(model, exported, args, ports, OPSET, dynamo=False)
    convert.finish_file(exported, out / "model.onnx", storage)
    config = {
        "vocab_size": VOCAB, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "max_position_embeddings": CONTEXT, "bos_token_id": START,
    }
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    size = (out / "model.onnx").stat().st_size
    report.add("model.onnx", "size", f"{size / 1e6:.2f} MB (limit {LIMIT_BYTES / 1e6:.1f})", size <= LIMIT_BYTES)
    checks.check_files(report, out)
    checks.check_decoder(report, CachedLoop(out / "model.onnx"), "model.onnx", model.logits_of, VOCAB)
    report.finish()
