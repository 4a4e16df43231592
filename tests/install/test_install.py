"""An installation as others use it: moved elsewhere, found by CMake and by pkg-config, with the programs that the README prints."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

BUILD = pathlib.Path(os.environ["KVIK_BINARY_DIR"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
STORY = " there lived a king who had a son"


def run(*command, folder, **variables):
    """In an environment without this checkout."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    done = subprocess.run([str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def readme_block(kind, first_words):
    blocks = re.findall(rf"^```{kind}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    [block] = [block for block in blocks if block.startswith(first_words)]
    return block


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", folder / "first", folder=folder)
    (folder / "moved").mkdir()
    yield shutil.move(folder / "first", folder / "moved" / "kvik")
    shutil.rmtree(folder)


@pytest.fixture
def library_folder(installed):
    [config] = installed.glob("lib*/**/cmake/kvik/kvikConfig.cmake")
    return config.parents[2]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "story.cc").write_text(readme_block("cpp", "#include <iostream>"))
    return tmp_path


def test_the_installed_command_finds_its_models_from_anywhere(installed, tmp_path):
    kvik = installed / "bin" / "kvik"
    assert run(kvik, "run", "fable", "Once upon a time", "-n", 40, folder=tmp_path).startswith(STORY)
    (tmp_path / "link").symlink_to(kvik)
    assert "en-zh" in run("./link", "models", folder=tmp_path)


def test_bash_completes_commands_options_their_values_and_models(installed, tmp_path):
    script = f"""source {installed}/share/bash-completion/completions/kvik
        complete_words() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kvik; echo "${{COMPREPLY[*]}}"; }}
        complete_words kvik trans
        complete_words kvik run --back
        complete_words kvik run fable --backend n
        complete_words {installed}/bin/kvik run fab
        complete_words kvik completion z"""
    words = run("bash", "-c", script, folder=tmp_path).splitlines()
    assert words == ["translate transcribe", "--backend", "native", "fable", "zsh"]


def test_every_command_has_a_manual_page_that_names_its_options(installed, tmp_path):
    commands = re.findall(r"^  (\w+) ", run(installed / "bin" / "kvik", "--help", folder=tmp_path).split("Subcommands:")[1], re.MULTILINE)
    pages = installed / "share" / "man" / "man1"
    assert {page.name for page in pages.iterdir()} == {"kvik.1", *(f"kvik-{command}.1" for command in commands)}
    for command in commands:
        page = (pages / f"kvik-{command}.1").read_text()
        options = re.findall(r"--[a-z-]+", run(installed / "bin" / "kvik", command, "--help", folder=tmp_path))
        assert options and all(f"\\fB{option.replace('-', chr(92) + '-')}\\fR" in page for option in options)


def test_a_program_finds_the_package_with_cmake(installed, project):
    (project / "CMakeLists.txt").write_text(readme_block("cmake", "cmake_minimum_required"))
    run("cmake", "-G", "Ninja", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}", folder=project)
    run("cmake", "--build", "build", folder=project)
    path = f"{installed / 'bin'}:{os.environ['PATH']}"
    assert run("build/story", folder=project, PATH=path).startswith(STORY)
    assert run("build/story", folder=project, XDG_DATA_DIRS=str(installed / "share")).startswith(STORY)


def test_a_program_finds_the_library_with_pkg_config(installed, library_folder, project):
    command = readme_block("", "g++")
    run("bash", "-c", command, folder=project, PKG_CONFIG_PATH=str(library_folder / "pkgconfig"))
    variables = {"LD_LIBRARY_PATH": str(library_folder), "KVIK_MODELS": str(installed / "share/kvik/models")}
    assert run("./story", folder=project, **variables).startswith(STORY)


def test_a_program_in_c_links_with_the_flags_of_pkg_config(installed, library_folder, tmp_path):
    (tmp_path / "version.c").write_text(
        """#include <kvik/kvik_c.h>
        #include <stdio.h>
        int main(void) {
          kvik_model* model = NULL;
          if (kvik_model_load("no-such-model", NULL, &model) != KVIK_STATUS_IO) return 1;
          puts(kvik_version());
          return 0;
        }
        """
    )
    run("bash", "-c", "cc version.c $(pkg-config --cflags --libs kvik) -o version", folder=tmp_path, PKG_CONFIG_PATH=str(library_folder / "pkgconfig"))
    version = run(installed / "bin" / "kvik", "--version", folder=tmp_path)
    assert run("./version", folder=tmp_path, LD_LIBRARY_PATH=str(library_folder)) == version


def test_nothing_that_is_installed_names_the_folder_it_was_built_in(installed):
    texts = [file for file in installed.rglob("*") if file.suffix in (".cmake", ".pc", ".h")]
    assert len(texts) > 6
    for file in texts:
        assert str(ROOT) not in file.read_text() and "/first" not in file.read_text(), file


def test_a_project_can_take_the_sources_in_and_needs_no_command_line_for_it(project):
    story = readme_block("cmake", "cmake_minimum_required").replace("find_package(kvik REQUIRED)", f'add_subdirectory("{ROOT}" kvik)')
    (project / "CMakeLists.txt").write_text(story)
    run("cmake", "-G", "Ninja", "-B", "build", folder=project)
    commands = run("ninja", "-C", "build", "-t", "commands", "story", folder=project)
    assert "libicuuc" in commands.splitlines()[-1], "what a static library needs is linked too"
    assert "src/cli" not in commands
    assert "tests/" not in run("ninja", "-C", "build", "-t", "targets", "all", folder=project)
