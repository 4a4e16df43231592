"""The shapes that are measured, with random weights: rotary positions, grouped attention, a gated feed-forward layer, and a head that is the embedding."""
import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Shape:
    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    head: int  # numbers per head
    inner: int
    vocab: int
    context: int
    bias: bool = False  # of queries, keys and values

    def matrices(self) -> Iterator[tuple[str, int, int]]:
        """Of one layer: name, outputs, inputs."""
        yield "attn_q", self.heads * self.head, self.width
        yield "attn_k", self.kv_heads * self.head, self.width
        yield "attn_v", self.kv_heads * self.head, self.width
        yield "attn_output", self.width, self.heads * self.head
        yield "ffn_gate", self.inner, self.width
        yield "ffn_up", self.inner, self.width
        yield "ffn_down", self.width, self.inner

    def layer_weights(self) -> int:
        return sum(rows * columns for _, rows, columns in self.matrices())

    def n_weights(self) -> int:
        """In matrices, with the head: what one token reads."""
        return self.layers * self.layer_weights() + self.vocab * self.width

    def cache_numbers(self) -> int:
        """Keys and values of one position."""
        return 2 * self.layers * self.kv_heads * self.head


SHAPES = {shape.name: shape for shape in (
    Shape("0.5b", 24, 896, 14, 2, 64, 4864, 151936, 40960, bias=True),
    Shape("1.5b", 28, 1536, 12, 2, 128, 8960, 151936, 40960, bias=True),
    Shape("15m", 6, 288, 6, 6, 48, 768, 32000, 2048),
    Shape("small", 4, 256, 4, 4, 64, 1024, 1000, 2048),
    Shape("narrow", 4, 128, 4, 4, 32, 512, 1000, 2048),
)}

EPSILON = 1e-6
ROPE_BASE = 1e6
