"""The author's kernels file is imported like a script of its own, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.tools import tool

from hatch_tensoracle.errors import ConfigurationError
from hatch_tensoracle.kernels_file import load_kernels


@pytest.fixture(autouse=True)
def nothing_stays(tmp_path: Path) -> Iterator[None]:
    """What a kernels file does to the process is undone, whether it loads or fails."""
    modules, path, bytecode = dict(sys.modules), list(sys.path), sys.dont_write_bytecode
    yield
    assert (sys.path, sys.dont_write_bytecode) == (path, bytecode)
    assert {name: sys.modules.get(name) for name in modules} == modules
    new = {name: repr(module) for name, module in sys.modules.items() if name not in modules}
    assert [name for name in new if "beside_it" in name or str(tmp_path) in new[name]] == []


def written(directory: Path, text: str, name: str = "kernels.py") -> Path:
    file = directory / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(textwrap.dedent(text), encoding="utf-8")
    return file


def refusal(file: Path, name: str = "KERNELS") -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_kernels(file, name)
    return caught.value


def test_the_list_of_the_name_is_returned(tmp_path: Path) -> None:
    file = written(tmp_path, "KERNELS = [1, 2]\nOTHER = [3]\n")
    assert load_kernels(file, "KERNELS") == (1, 2)
    assert load_kernels(file, "OTHER") == (3,)


def test_a_tuple_will_do(tmp_path: Path) -> None:
    assert load_kernels(written(tmp_path, "KERNELS = (1,)"), "KERNELS") == (1,)


def test_what_the_file_prints_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_kernels(written(tmp_path, 'print("hello")\nKERNELS = [1]\n'), "KERNELS")
    assert capsys.readouterr() == ("", "hello\n")


def test_what_is_printed_below_python_goes_to_stderr_too(tmp_path: Path) -> None:
    """And what was printed before and is printed after goes to stdout."""
    text = """
        import ctypes, os, subprocess, sys
        os.write(1, b"descriptor\\n")
        subprocess.run(["echo", "process"])
        sys.__stdout__.write("original\\n")
        ctypes.CDLL(None).puts(b"library")
        KERNELS = [1]
    """
    written(tmp_path, text)
    program = """
        import ctypes
        from pathlib import Path
        from hatch_tensoracle.kernels_file import load_kernels
        print("before")
        ctypes.CDLL(None).puts(b"before, in C")
        print(load_kernels(Path("kernels.py"), "KERNELS"))
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "before\nbefore, in C\n(1,)\n"
    assert sorted(done.stderr.splitlines()) == ["descriptor", "library", "original", "process"]


@pytest.mark.parametrize("closed", [1, 2])
def test_a_stream_that_is_closed_is_no_matter(tmp_path: Path, closed: int) -> None:
    written(tmp_path, "print(1)\nKERNELS = [1]\n")
    program = """
        from pathlib import Path
        from hatch_tensoracle.kernels_file import load_kernels
        assert load_kernels(Path("kernels.py"), "KERNELS") == (1,)
    """
    command = f'"$0" -c "$1" {closed}>&-'
    subprocess.run([tool("sh"), "-c", command, sys.executable, textwrap.dedent(program)], cwd=tmp_path, check=True)


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    written(tmp_path, "VALUE = 7", "beside_it.py")
    written(tmp_path, "VALUE = 8", "package_beside_it/__init__.py")
    written(tmp_path, "VALUE = 9", "namespace_beside_it/inner.py")
    text = """
        import beside_it, package_beside_it, namespace_beside_it.inner
        KERNELS = [beside_it.VALUE, package_beside_it.VALUE, namespace_beside_it.inner.VALUE]
    """
    assert load_kernels(written(tmp_path, text), "KERNELS") == (7, 8, 9)


def test_namesakes_beside_two_files_are_not_confused(tmp_path: Path) -> None:
    for value in (1, 2):
        written(tmp_path, f"VALUE = {value}", f"{value}/beside_it.py")
        written(tmp_path, "from beside_it import VALUE\nKERNELS = [VALUE]\n", f"{value}/kernels.py")
    assert [load_kernels(tmp_path / str(value) / "kernels.py", "KERNELS") for value in (1, 2)] == [(1,), (2,)]


def test_no_bytecode_stays_in_the_authors_tree(tmp_path: Path) -> None:
    written(tmp_path, "", "beside_it.py")
    load_kernels(written(tmp_path, "import beside_it\nKERNELS = [1]\n"), "KERNELS")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["beside_it.py", "kernels.py"]


def test_functions_of_the_file_still_work_when_it_was_loaded(tmp_path: Path) -> None:
    written(tmp_path, "def triple(x): return 3 * x", "beside_it.py")
    text = "import beside_it\ndef six(): return beside_it.triple(2)\nKERNELS = [six]\n"
    (six,) = load_kernels(written(tmp_path, text), "KERNELS")
    assert six() == 6


def test_the_file_may_be_called_like_a_loaded_module(tmp_path: Path) -> None:
    before = json
    assert load_kernels(written(tmp_path, "KERNELS = [__name__]", "json.py"), "KERNELS") == ("json",)
    assert sys.modules["json"] is before


def test_a_file_may_change_the_search_path_for_itself(tmp_path: Path) -> None:
    written(tmp_path, "VALUE = 5", "elsewhere/in_elsewhere.py")
    text = """
        import sys
        from pathlib import Path
        sys.path[:] = [str(Path(__file__).with_name("elsewhere")), *sys.path[1:]]
        from in_elsewhere import VALUE
        KERNELS = [VALUE]
    """
    assert load_kernels(written(tmp_path, text), "KERNELS") == (5,)


def test_what_an_environment_inside_the_project_brings_stays_loaded(tmp_path: Path) -> None:
    """A project's .venv lies beside its kernels file: Triton, loaded twice, would not know its own functions."""
    written(tmp_path, "", ".venv/site-packages/installed/__init__.py")
    written(tmp_path, "import installed\nKERNELS = [installed]\n")
    program = """
        import sys
        from pathlib import Path
        from hatch_tensoracle.kernels_file import load_kernels
        sys.path.append(str(Path(".venv/site-packages").resolve()))
        (installed,) = load_kernels(Path("kernels.py").resolve(), "KERNELS")
        assert sys.modules["installed"] is installed
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        pytest.param("x = 1\nraise ValueError('no')", 2, "ValueError: no", id="exception"),
        pytest.param("x = 1\n\nx.y", 3, "AttributeError: 'int' object has no attribute 'y'", id="attribute"),
        pytest.param("import no_such_module", 1, "ModuleNotFoundError: No module named 'no_such_module'", id="import"),
        pytest.param("import sys\nsys.exit()", 2, "SystemExit", id="exit"),
        pytest.param("import sys\nsys.exit('stop')", 2, "SystemExit: stop", id="exit-message"),
        pytest.param("x = 1\nraise BaseException('no')", 2, "BaseException: no", id="no-exception-of-programs"),
        pytest.param("raise RuntimeError", 1, "RuntimeError", id="without-message"),
        pytest.param("import json\njson.loads('{')", 2, "JSONDecodeError: Expecting property name", id="in-a-library"),
        pytest.param("def f():\n    1 / 0\n\nf()", 2, "ZeroDivisionError: division by zero", id="in-a-function"),
        pytest.param("compile('a b', 'nowhere', 'exec')", 1, "SyntaxError: invalid syntax", id="syntax-of-a-string"),
        pytest.param("x = 1\nKERNELS = [", 2, "SyntaxError: '[' was never closed", id="syntax"),
        pytest.param("if True:\nx", 2, "IndentationError: expected an indented block", id="indentation"),
    ],
)
def test_a_file_that_fails_is_quoted_by_line(tmp_path: Path, text: str, line: int, cause: str) -> None:
    file = written(tmp_path, text)
    error = refusal(file)
    assert str(error).startswith(f"{file}:{line}: {cause}")
    assert error.remedy == "The file must run from top to bottom when it is imported, without a GPU."


def test_an_interrupt_is_not_the_files_fault(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_kernels(written(tmp_path, "raise KeyboardInterrupt"), "KERNELS")


@pytest.mark.parametrize(
    "torch",
    [None, "raise ModuleNotFoundError('no torch', name='torch')", "raise OSError('libtorch.so: no such file')"],
    ids=["missing", "without a part", "broken"],
)
def test_a_file_that_fails_for_torch_is_told_that_kernels_need_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch: str | None
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    if torch is None:
        monkeypatch.setitem(sys.modules, "torch", None)
    else:
        written(tmp_path, torch, "elsewhere/torch/__init__.py")
        monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    error = refusal(written(tmp_path / "project", "x = 1\nimport torch"))
    assert str(error).startswith(f"{tmp_path}/project/kernels.py:2: ")
    assert error.remedy.startswith("Kernels are compiled without torch: ")


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        pytest.param("x = 1\nraise KeyError('k')", 2, "KeyError: 'k'", id="exception"),
        pytest.param("a b", 1, "SyntaxError: invalid syntax", id="syntax"),
    ],
)
def test_a_module_beside_it_that_fails_is_quoted_itself(tmp_path: Path, text: str, line: int, cause: str) -> None:
    helper = written(tmp_path, text, "beside_it.py")
    assert str(refusal(written(tmp_path, "import beside_it"))).startswith(f"{helper}:{line}: {cause}")


def test_the_place_is_the_authors_line_not_that_of_a_library_in_a_nested_environment(tmp_path: Path) -> None:
    written(tmp_path, "def check():\n    raise TypeError('wrong')\n", ".venv/installed_in_it.py")
    file = written(tmp_path, "import installed_in_it\n\ninstalled_in_it.check()\n")
    sys.path.append(str(tmp_path / ".venv"))
    try:
        error = refusal(file)
    finally:
        sys.path.pop()
        del sys.modules["installed_in_it"]
    assert str(error) == f"{file}:3: TypeError: wrong"


def test_a_wrong_spec_is_quoted_at_the_authors_line(tmp_path: Path) -> None:
    """Checks of the producer are deep inside; the message is theirs, the place is the author's."""
    text = 'from tensoracle_producer import Pointer\n\nKERNELS = [Pointer("fp17")]\n'
    error = refusal(written(tmp_path, text))
    assert str(error).startswith(f"{tmp_path / 'kernels.py'}:3: ValueError: Pointer.element must be one of ")


def test_a_missing_name_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, "kernels = []")
    error = refusal(file)
    assert str(error) == f"{file} has no `KERNELS`"
    assert error.remedy == "Name the list of KernelSpec records after the colon of `kernels`."


@pytest.mark.parametrize("value", ["None", "3", "'KERNELS'", "{1: 2}", "{1}", "[]", "()"])
def test_the_name_must_be_a_list_that_is_not_empty(tmp_path: Path, value: str) -> None:
    file = written(tmp_path, f"KERNELS = {value}")
    error = refusal(file)
    assert str(error) == f"{file}: `KERNELS` must be a list of KernelSpec records, not {value}"
    assert error.remedy == "Put at least one tensoracle_producer.KernelSpec into it."


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "kernels.py"
    file.write_bytes(b"KERNELS = [1]\n\0\n")
    assert str(refusal(file)).startswith(f"{file}:")
