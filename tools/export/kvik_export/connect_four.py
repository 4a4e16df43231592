"""Connect four for many boards at once, and a teacher that rates moves by random games. NumPy only.

A board is two sets of cells: those of the player to move and those of both. Bit 7 * column + row, row 0 at the bottom; row 6 stays empty, so
that shifted sets do not run from one column into the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

COLUMNS, ROWS = 7, 6
CELLS = COLUMNS * ROWS
BOTTOM = np.uint64(sum(1 << 7 * c for c in range(COLUMNS)))
BOARD = np.uint64(int(BOTTOM) * 0b111111)
COLUMN_BITS = np.array([0b111111 << 7 * c for c in range(COLUMNS)], np.uint64)
WIN, DRAW, LOSS = 0, 1, 2


def winning_cells(mine: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Empty cells that complete four in a row, whether or not a stone can reach them now."""
    def up(n: int) -> np.ndarray:
        return mine << np.uint64(n)

    def down(n: int) -> np.ndarray:
        return mine >> np.uint64(n)

    found = up(1) & up(2) & up(3)
    for s in (7, 6, 8):  # a row, and the two diagonals
        found |= up(s) & up(2 * s) & (up(3 * s) | down(s))
        found |= down(s) & down(2 * s) & (up(s) | down(3 * s))
    return found & (BOARD ^ taken)


def playable_cells(taken: np.ndarray) -> np.ndarray:
    return (taken + BOTTOM) & BOARD


def sensible_cells(mine: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Playable cells: those that stop the opponent's four if there is one, else those that do not enable it, else all."""
    playable, threats = playable_cells(taken), winning_cells(mine ^ taken, taken)
    blocks, safe = playable & threats, playable & ~(threats >> np.uint64(1))
    return np.where(blocks != 0, blocks, np.where(safe != 0, safe, playable))


def by_column(cells: np.ndarray) -> np.ndarray:
    """[N] sets with at most one cell per column -> [N, 7] sets of at most one cell."""
    return cells[:, None] & COLUMN_BITS


def random_cell(cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    columns = by_column(cells)
    choice = (rng.random(columns.shape, np.float32) * (columns != 0)).argmax(1)
    return np.take_along_axis(columns, choice[:, None], 1)[:, 0]


def random_games(mine: np.ndarray, taken: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """WIN, DRAW or LOSS for the player to move, of one game each; both sides take a win and play sensible cells otherwise."""
    results = np.full(mine.shape, DRAW, np.int64)
    running, moves = np.arange(mine.size), 0
    while running.size:
        wins = (winning_cells(mine, taken) & playable_cells(taken)) != 0
        results[running[wins]] = WIN if moves % 2 == 0 else LOSS
        go_on = ~wins & (taken != BOARD)
        running, mine, taken = running[go_on], mine[go_on], taken[go_on]
        cell = random_cell(sensible_cells(mine, taken), rng)
        mine, taken = mine ^ taken, taken | cell  # the stones of the player to move next
        moves += 1
    return results


def rate_moves(mine: np.ndarray, taken: np.ndarray, n_games: int, rng: np.random.Generator) -> np.ndarray:
    """[N, 7, 3] shares of WIN, DRAW and LOSS for the player to move after each column; zeros if it is full."""
    cells = by_column(playable_cells(taken))
    wins = (cells & winning_cells(mine, taken)[:, None]) != 0
    shares = np.zeros((*cells.shape, 3), np.float32)
    shares[wins] = np.eye(3, dtype=np.float32)[WIN]
    boards, columns = np.nonzero((cells != 0) & ~wins)
    next_taken = taken[boards] | cells[boards, columns]
    opponent = (mine ^ taken)[boards]
    for _ in range(n_games):
        for_opponent = random_games(opponent, next_taken, rng)
        shares[boards, columns, LOSS - for_opponent] += 1 / n_games
    return shares


def cell_ids(cells: np.ndarray) -> np.ndarray:
    """Sets of one cell -> column + 7 * row."""
    column, row = np.divmod(np.round(np.log2(cells.astype(np.float64))).astype(np.int64), 7)
    return column + COLUMNS * row


@dataclass
class Games:
    """Games side by side. [G, 42]; cells are -1 after the end."""

    cells: np.ndarray   # the move of each turn
    policy: np.ndarray  # [G, 42, 42] the teacher's choice of a cell
    value: np.ndarray   # [G, 42, 3] its WIN, DRAW, LOSS for the player to move

    def mirrored(self) -> Games:
        columns, rows = np.arange(CELLS) % COLUMNS, np.arange(CELLS) // COLUMNS
        other = COLUMNS - 1 - columns + COLUMNS * rows
        return Games(np.where(self.cells < 0, -1, other[self.cells]), self.policy[:, :, other], self.value)


def teacher_games(n: int, n_random_games: int, rng: np.random.Generator, temperature: float = 0.1) -> Games:
    """Games of the teacher with itself: up to eight random moves first, and one move in ten is random later."""
    games = Games(np.full((n, CELLS), -1), np.zeros((n, CELLS, CELLS), np.float32), np.zeros((n, CELLS, 3), np.float32))
    mine, taken, running = np.zeros(n, np.uint64), np.zeros(n, np.uint64), np.arange(n)
    n_opening = rng.integers(0, 9, n)
    for turn in range(CELLS):
        playable = by_column(playable_cells(taken))
        shares = rate_moves(mine, taken, n_random_games, rng)
        score = np.where(playable != 0, shares[:, :, WIN] - shares[:, :, LOSS], -np.inf)
        choice = np.exp((score - score.max(1, keepdims=True)) / temperature)
        choice /= choice.sum(1, keepdims=True)
        boards, columns = np.nonzero(playable)
        games.policy[running[boards], turn, cell_ids(playable[boards, columns])] = choice[boards, columns]
        games.value[running, turn] = (choice[:, :, None] * shares).sum(1)

        at_random = (turn < n_opening[running]) | (rng.random(running.size) < 0.1)
        weights = np.where(at_random[:, None], playable != 0, choice)
        column = (np.log(np.maximum(weights, 1e-30)) + rng.gumbel(size=weights.shape)).argmax(1)
        cell = playable[np.arange(running.size), column]
        games.cells[running, turn] = cell_ids(cell)
        over = (cell & winning_cells(mine, taken)) != 0
        mine, taken = (mine ^ taken)[~over], (taken | cell)[~over]
        running = running[~over]
        if not running.size:
            break
    return games
