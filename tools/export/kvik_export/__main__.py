"""Command line of the exporter."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import DECODER_FORMS, GPT2_FORMS, graphs

ROOT = Path(__file__).resolve().parents[3]


def _add_storage(command: argparse.ArgumentParser, data: str = "inside") -> None:
    command.add_argument(
        "--weights", choices=graphs.WEIGHT_FORMS, default="f32",
        help="f32; f16: stored in 16 bits, computed in f32; f16-graph: everything in f16 (default: %(default)s)",
    )
    command.add_argument("--data", choices=graphs.DATA_LAYOUTS, default=data, help="where weights lie (default: %(default)s)")
    command.add_argument("--chunk-bytes", type=int, default=graphs.CHUNK_BYTES, help="largest file of --data chunks")
    command.add_argument("--opset", type=int, default=18, help="(default: %(default)s)")


def _add_exporter(command: argparse.ArgumentParser) -> None:
    command.add_argument("--exporter", choices=("torchscript", "dynamo"), default="torchscript")
    command.add_argument("--seed", type=int, default=1)


def _parser() -> argparse.ArgumentParser:
    about = "Exports models to ONNX and checks every file against PyTorch."
    parser = argparse.ArgumentParser(prog="tools/export/export", description=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for name, what in (("fable", "the embedded story teller"), ("en-zh", "the embedded translator")):
        command = commands.add_parser(name, help=f"{what}, from its trained weights")
        command.add_argument("--source", type=Path, default=ROOT.parent / "shared" / "models" / name, help="folder with model.safetensors")
        command.add_argument("--out", type=Path, default=ROOT / "models" / name)

    command = commands.add_parser("connect-four", help="the embedded policy of connect four: plays, trains and exports (minutes)")
    command.add_argument("--out", type=Path, default=ROOT / "models" / "connect-four")
    for option, value, what in (
        ("games", 12000, "games of the teacher"), ("random-games", 24, "random games per move it rates"),
        ("passes", 16, "of training over the games and their mirror images"), ("seed", 1, ""),
    ):
        command.add_argument(f"--{option}", type=int, default=value, help=f"{what} (default: %(default)s)".strip())

    command = commands.add_parser("convert", help="any Hugging Face decoder or encoder-decoder folder")
    command.add_argument("source", type=Path, help="folder with config.json and weights")
    command.add_argument("out", type=Path, help="a new folder")
    command.add_argument("--form", choices=DECODER_FORMS, help="default: one for a decoder, merged for an encoder-decoder")
    _add_storage(command)

    command = commands.add_parser("small", help="a small transformer from scratch with past_key_i -> present_key_i")
    command.add_argument("out", type=Path, help="a new folder")
    for option, value in (("layers", 4), ("heads", 4), ("width", 256), ("vocab", 1000), ("context", 512)):
        command.add_argument(f"--{option}", type=int, default=value, help="(default: %(default)s)")
    _add_exporter(command)
    _add_storage(command, data="one-file")

    command = commands.add_parser("gpt2", help="GPT-2 in the forms found in the wild")
    command.add_argument("out", type=Path, help="a new folder")
    command.add_argument("--form", choices=GPT2_FORMS, default="one")
    command.add_argument("--source", type=Path, help="a local folder; without it, random weights")
    for option, value in (("layers", 4), ("heads", 4), ("width", 128), ("vocab", 1000)):
        command.add_argument(f"--{option}", type=int, default=value, help="of the random one (default: %(default)s)")
    _add_exporter(command)
    _add_storage(command)

    command = commands.add_parser("random-0.5b", help="a 0.5B-shaped decoder with random weights, for benchmarks (2 GB)")
    command.add_argument("out", type=Path, help="a new folder, outside the tree")
    command.add_argument("--seed", type=int, default=1)
    _add_storage(command, data="one-file")
    return parser


def _run(arguments: argparse.Namespace) -> None:
    if arguments.command in ("fable", "en-zh"):
        from . import embedded

        {"fable": embedded.export_fable, "en-zh": embedded.export_en_zh}[arguments.command](arguments.source, arguments.out)
        return
    if arguments.command == "connect-four":
        from . import policy

        policy.export_connect_four(arguments.out, arguments.games, arguments.random_games, arguments.passes, arguments.seed)
        return

    from . import byhand, convert

    storage, out = convert.Storage(arguments.weights, arguments.data, arguments.chunk_bytes), arguments.out.resolve()
    if arguments.command == "convert":
        convert.convert(arguments.source, out, arguments.form, storage, arguments.opset)
    elif arguments.command == "small":
        shape = byhand.SmallShape(arguments.layers, arguments.heads, arguments.width, arguments.vocab, arguments.context)
        byhand.small(out, shape, arguments.seed, arguments.exporter == "dynamo", storage, arguments.opset)
    elif arguments.command == "gpt2":
        sizes = (arguments.layers, arguments.width, arguments.heads, arguments.vocab)
        model = byhand.gpt2_model(arguments.source, arguments.seed, *sizes)
        byhand.gpt2(out, model, arguments.form, arguments.exporter == "dynamo", storage, arguments.opset)
    else:
        byhand.random_half_billion(out, arguments.seed, storage, arguments.opset)


if __name__ == "__main__":
    _run(_parser().parse_args())
