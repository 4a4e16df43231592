"""Command line of the exporter."""

from __future__ import annotations

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/export/export", description="Exports models to ONNX and checks every file against PyTorch.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    for name, what in (("fable", "the embedded story teller"), ("en-zh", "the embedded translator")):
        command = commands.add_parser(name, help=f"{what}, from its trained weights")
        command.add_argument("--source", type=Path, default=ROOT.parent / "shared" / "models" / name, help="folder with model.safetensors")
        command.add_argument("--out", type=Path, default=ROOT / "models" / name)
    return parser


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.command in ("fable", "en-zh"):
        from . import embedded

        {"fable": embedded.export_fable, "en-zh": embedded.export_en_zh}[arguments.command](arguments.source, arguments.out)


if __name__ == "__main__":
    main()
