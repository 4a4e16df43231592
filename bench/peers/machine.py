"""What a report says about the machine it was measured on."""
import datetime
import os
import pathlib
import platform
import subprocess


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def instruction_sets() -> list[str]:
    flags = next((set(line.split()) for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), set())
    return [name for name, flag in (("AVX2", "avx2"), ("AVX-512", "avx512f"), ("VNNI", "avx512_vnni"), ("AMX", "amx_int8")) if flag in flags]


def gpu() -> str:
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"--device cuda: no NVIDIA GPU was found ({error})") from error


def describe(threads: int, device: str = "cpu") -> dict:
    return ({} if device == "cpu" else {"gpu": gpu()}) | {"processor": processor(), "cores": os.cpu_count(), "instruction_sets": instruction_sets(), "threads": threads, "date": datetime.date.today().isoformat()}
