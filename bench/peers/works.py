"""What is measured. A work is one figure per contender; works of one shape and one format run on the same loaded models."""
import dataclasses

FORMATS = ("q8", "q4", "f16", "f32")


@dataclasses.dataclass(frozen=True)
class Work:
    kind: str  # decode, prefill, uncached or translate
    shape: str
    form: str
    sequences: int = 1
    depth: int = 0  # tokens before the measured ones; of a prefill, its tokens
    steps: int = 0
    beams: int = 1
    long: bool = False  # left out unless it is asked for

    @property
    def name(self) -> str:
        """For --only: any part of it chooses the work."""
        if self.kind == "translate":
            return f"translate/{self.form}/batch-{self.sequences}/beams-{self.beams}"
        size = {"decode": f"depth-{self.depth}", "prefill": f"{self.depth}", "uncached": f"{self.depth}+{self.steps}"}[self.kind]
        together = f"/{self.sequences}-sequences" if self.sequences > 1 else ""
        return f"{self.kind}/{self.shape}/{self.form}/{size}{together}"

    @property
    def command(self) -> str:
        return {"decode": f"decode {self.sequences} {self.depth} {self.steps}", "prefill": f"prefill {self.depth}", "uncached": f"uncached {self.depth} {self.steps}"}[self.kind]

    def rate(self, ms: float) -> float:
        """Tokens per second, if a step, or the prompt, takes so long."""
        return 1e3 / ms * (self.depth if self.kind == "prefill" else self.sequences)


def large(shape: str) -> list[Work]:
    works = []
    for form in FORMATS:
        works.append(Work("decode", shape, form, 1, 64, 32))
        if form in ("q8", "q4"):
            works += [Work("prefill", shape, form, 1, 512), Work("decode", shape, form, 16, 128, 16), Work("decode", shape, form, 64, 128, 8),
                      Work("decode", shape, form, 1, 4096, 16), Work("prefill", shape, form, 1, 4096), Work("decode", shape, form, 1, 32000, 8, long=True)]
    return works


def small(shape: str) -> list[Work]:
    return [Work("decode", shape, form, sequences, 64, 128) for form in ("q8", "q4", "f32") for sequences in (1, 16)]


def translations() -> list[Work]:
    return [Work("translate", "en-zh", form, batch, beams=beams) for form in ("q8", "f32") for batch in (1, 16, 64) for beams in (1, 4)]


def all_works() -> list[Work]:
    """The most telling first."""
    decode_1_5b = [Work("decode", "1.5b", form, 1, 64, 16) for form in FORMATS]
    return large("0.5b") + small("15m") + small("small") + translations() + [Work("uncached", "narrow", "f32", 1, 19, 50)] + decode_1_5b


def on_gpu(shape: str = "1.5b") -> list[Work]:
    """Decoding alone and together, prompts, and depths; of several streams in f16."""
    works = [Work("decode", shape, "f16", streams, 512, 48 if streams < 64 else 24) for streams in (1, 8, 32, 64, 256)]
    works += [Work("prefill", shape, "f16", 1, 512), Work("prefill", shape, "f16", 1, 4096)]
    works += [Work("decode", shape, "f16", 1, depth, 32) for depth in (4096, 32000)]
    return works + [Work("decode", shape, form, 1, 512, 48) for form in ("q8", "q4")]


def chosen(only: list[str], long: bool, device: str = "cpu") -> list[Work]:
    """Works whose name has every comma-separated word of one of `only`, such as 'decode,0.5b'. In the order of `only`, else of all_works."""
    works = on_gpu() if device != "cpu" else [work for work in all_works() if long or not work.long or any("32000" in words for words in only)]
    if not only:
        return works
    found = [work for words in only for work in works if all(word in work.name for word in words.split(","))]
    return list(dict.fromkeys(found))


def groups(works: list[Work]) -> list[list[Work]]:
    """Neighbors of one shape and format."""
    result: list[list[Work]] = []
    for work in works:
        if result and (result[-1][0].shape, result[-1][0].form) == (work.shape, work.form):
            result[-1].append(work)
        else:
            result.append([work])
    return result
