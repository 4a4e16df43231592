"""How keys and values go from one step to the next: names, layouts, one tensor for some or for all."""

from __future__ import annotations

from .choices import Choices
from .net import BATCH, PAST, TOTAL, Net


class NoCache:
    """Every call begins anew."""

    def declare(self, net: Net, c: Choices) -> None:
        pass

    def past_length(self, net: Net) -> str:
        return net.ints(0)

    def extend(self, net: Net, layer: int, k: str, v: str) -> tuple[str, str]:
        return k, v

    def give(self, net: Net) -> None:
        pass

    def pairs(self) -> list[tuple[str, str]]:
        return []


class Layered(NoCache):
    """A key and a value of each layer, kept in some order of axes."""

    def declare(self, net: Net, c: Choices) -> None:
        self.c = c
        self.values = {}
        self.heads = c.heads if c.cache == "repeated" else c.kv_heads
        slots = [(i, kind) for i in range(c.n_layers) for kind in (0, 1)]
        self.slots = sorted(slots, key=lambda slot: slot[1]) if c.grouped_order else slots
        for layer, kind in self.slots:
            net.input(self.past(layer, kind), net.onnx_type, self.shape(kind, PAST))

    def names(self, layer: int, kind: int) -> tuple[str, str]:
        number = 17 + self.slots.index((layer, kind)) if hasattr(self, "slots") else 0
        return tuple(t.format(i=layer, kind=self.c.named_kinds[kind], n=number) for t in self.c.names.split())

    def past(self, layer: int, kind: int) -> str:
        return self.names(layer, kind)[0]

    def dim(self, kind: int) -> int:
        return (self.c.head_dim, self.c.value_dim)[kind]

    def axis(self, kind: int) -> int:
        return {"rows": 1, "merged": 1, "keys-transposed": 3 - kind}.get(self.c.cache, 2)

    def shape(self, kind: int, length: str) -> list:
        dim = self.dim(kind)
        if self.c.cache == "rows":
            return [BATCH, length, self.heads, dim]
        if self.c.cache == "merged":
            return ["batch_size x num_heads", length, dim]
        if self.c.cache == "keys-transposed" and kind == 0:
            return [BATCH, self.heads, dim, length]
        return [BATCH, self.heads, length, dim]

    def past_length(self, net: Net) -> str:
        layer, kind = self.slots[0]
        return net.size(self.past(layer, kind), self.axis(kind))

    def store(self, net: Net, x: str, kind: int) -> str:
        """[B, H, S, D] as it is kept."""
        if self.c.cache == "rows":
            return net.transpose(x, 0, 2, 1, 3)
        if self.c.cache == "merged":
            return net.op("Reshape", x, net.dims(-1, net.size(x, 2), self.dim(kind)))
        return net.transpose(x, 0, 1, 3, 2) if self.c.cache == "keys-transposed" and kind == 0 else x

    def view(self, net: Net, x: str, kind: int) -> str:
        """What is kept as [B, H, T, D]."""
        if self.c.cache == "rows":
            return net.transpose(x, 0, 2, 1, 3)
        if self.c.cache == "merged":
            return net.op("Reshape", x, net.dims(-1, self.heads, net.size(x, 1), self.dim(kind)))
        return net.transpose(x, 0, 1, 3, 2) if self.c.cache == "keys-transposed" and kind == 0 else x

    def extend(self, net: Net, layer: int, k: str, v: str) -> tuple[str, str]:
        whole = []
        for kind, x in enumerate((k, v)):
            present = net.op("Concat", self.past(layer, kind), self.store(net, x, kind), axis=self.axis(kind))
            self.keep(layer, kind, present)
            whole.append(self.view(net, present, kind))
        return tuple(whole)

    def keep(self, layer: int, kind: int, present: str) -> None:
        self.values[layer, kind] = present

    def give(self, net: Net) -> None:
        for layer, kind in self.slots:
            net.output(self.names(layer, kind)[1], self.values[layer, kind], net.onnx_type, self.shape(kind, TOTAL))

    def pairs(self) -> list[tuple[str, str]]:
        return [self.names(*slot) for slot in self.slots]


class OneALayer(Layered):
    """Keys and values of a layer in one tensor."""

    def declare(self, net: Net, c: Choices) -> None:
        self.c, self.values = c, {}
        self.slots = [(i, 0) for i in range(c.n_layers)]
        for layer, _ in self.slots:
            net.input(self.past(layer, 0), net.onnx_type, self.shape(0, PAST))


class Fused(OneALayer):
    """Keys and values of a layer side by side: [B, P, 2 D] for one head, [B, H, P, 2 D] for several."""

    def names(self, layer: int, kind: int) -> tuple[str, str]:
        return f"past_key_values.{layer}.key_value", f"present.{layer}.key_value"

    def axis(self, kind: int) -> int:
        return 1 if self.c.kv_heads == 1 else 2

    def shape(self, kind: int, length: str) -> list:
        width = self.c.head_dim + self.c.value_dim
        return [BATCH, length, width] if self.c.kv_heads == 1 else [BATCH, self.c.kv_heads, length, width]

    def extend(self, net: Net, layer: int, k: str, v: str) -> tuple[str, str]:
        new = net.op("Concat", k, v, axis=-1)
        if self.c.kv_heads == 1:
            new = net.op("Squeeze", new, net.ints([1]))
        present = net.op("Concat", self.past(layer, 0), new, axis=-2)
        self.keep(layer, 0, present)
        k, v = net.split(present, [self.c.head_dim, self.c.value_dim])
        return (net.unsqueeze(k, 1), net.unsqueeze(v, 1)) if self.c.kv_heads == 1 else (k, v)


class Stacked(OneALayer):
    """Keys and values of a layer in front of each other: [2, B, H, P, D]."""

    def names(self, layer: int, kind: int) -> tuple[str, str]:
        return f"past_{layer}", f"present_{layer}"

    def axis(self, kind: int) -> int:
        return 3

    def shape(self, kind: int, length: str) -> list:
        return [2, BATCH, self.c.kv_heads, length, self.c.head_dim]

    def extend(self, net: Net, layer: int, k: str, v: str) -> tuple[str, str]:
        new = net.op("Concat", net.unsqueeze(k, 0), net.unsqueeze(v, 0), axis=0)
        present = net.op("Concat", self.past(layer, 0), new, axis=3)
        self.keep(layer, 0, present)
        return tuple(net.op("Gather", present, net.ints(i), axis=0) for i in (0, 1))


class StackedAll(Stacked):
    """The whole cache in one tensor: [layers, 2, B, H, P, D]."""

    def declare(self, net: Net, c: Choices) -> None:
        self.c, self.values = c, {}
        self.slots = [(0, 0)]
        net.input("past_key_values", net.onnx_type, self.shape(0, PAST))

    def names(self, layer: int, kind: int) -> tuple[str, str]:
        return "past_key_values", "present_key_values"

    def axis(self, kind: int) -> int:
        return 4

    def shape(self, kind: int, length: str) -> list:
        return [self.c.n_layers, 2, BATCH, self.c.kv_heads, length, self.c.head_dim]

    def extend(self, net: Net, layer: int, k: str, v: str) -> tuple[str, str]:
        mine = net.op("Gather", "past_key_values", net.ints(layer), axis=0)
        k, v = (net.op("Concat", net.op("Gather", mine, net.ints(i), axis=0), x, axis=2) for i, x in enumerate((k, v)))
        both = net.op("Concat", net.unsqueeze(k, 0), net.unsqueeze(v, 0), axis=0)
        self.values[layer, 0] = net.unsqueeze(both, 0)
        return k, v

    def give(self, net: Net) -> None:
        whole = net.op("Concat", *self.values.values(), axis=0)
        net.output("present_key_values", whole, net.onnx_type, self.shape(0, TOTAL))


CACHES = {"none": NoCache, "fused": Fused, "stacked": Stacked, "stacked-all": StackedAll}


def make_cache(c: Choices) -> NoCache:
    return CACHES.get(c.cache, Layered)()


