"""Random weights, the same for every contender."""
import numpy as np


def random_matrix(name: str, rows: int, columns: int) -> np.ndarray:
    """[rows, columns] f32, the same for the same name. Variance 1 / columns keeps what comes out as large as what went in."""
    seed = np.frombuffer(name.encode(), np.uint8)
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32) / np.float32(columns**0.5)
