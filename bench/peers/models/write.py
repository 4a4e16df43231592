"""Writes one shape in one format before it is asked for, so that several can be written at once: python -m models.write SHAPE FORMAT."""
import sys

from contenders.kvik import Kvik
from contenders.llama import Llama
from contenders.ort import OnnxRuntime
from contenders.peer import Load
from models.shapes import SHAPES

if __name__ == "__main__":
    shape, form = sys.argv[1:]
    for peer in (Kvik(), Llama(), OnnxRuntime()):
        if any(form in several for several in peer.formats.values()):
            peer.write(Load(SHAPES[shape], form, 1))
