"""What a report says about the machine it was measured on."""
import datetime
import os
import pathlib
import platform
import subprocess


def cpuinfo() -> dict[str, str]:
    """Of the first core."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def core() -> str:
    """AMD's generation: virtual machines name all of them alike."""
    info = cpuinfo()
    families = {"25": "Zen 4" if "AVX-512" in instruction_sets() else "Zen 3", "26": "Zen 5"}
    return families.get(info.get("cpu family", ""), "") if info.get("vendor_id") == "AuthenticAMD" else ""


def processor() -> str:
    name = cpuinfo().get("model name", platform.machine())
    return f"{name}, {core()}" if core() else name


def instruction_sets() -> list[str]:
    flags = cpuinfo().get("flags", "").split()
    return [name for name, flag in (("AVX2", "avx2"), ("AVX-512", "avx512f"), ("VNNI", "avx512_vnni"), ("AMX", "amx_int8")) if flag in flags]


def gpu() -> str:
    try:
        return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"--device cuda: no NVIDIA GPU was found ({error})") from error


def describe(threads: int, device: str = "cpu") -> dict:
    return ({} if device == "cpu" else {"gpu": gpu()}) | {"processor": processor(), "core": core(), "cores": os.cpu_count(), "instruction_sets": instruction_sets(), "threads": threads, "date": datetime.date.today().isoformat()}
