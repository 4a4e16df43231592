"""What a report says about the machine it was measured on."""
import datetime
import os
import pathlib
import platform


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def instruction_sets() -> list[str]:
    flags = next((set(line.split()) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), set())
    return [name for name, flag in (("AVX2", "avx2"), ("AVX-512", "avx512f"), ("VNNI", "avx512_vnni"), ("AMX", "amx_int8")) if flag in flags]


def describe(threads: int) -> dict:
    return {"processor": processor(), "cores": os.cpu_count(), "instruction_sets": instruction_sets(), "threads": threads, "date": datetime.date.today().isoformat()}
