"""pth_to_safetensors keeps every tensor as it is, runs nothing, and writes all or nothing."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
safetensors_torch = pytest.importorskip("safetensors.torch")

from hatch_tensoracle.convert import CheckpointError, checkpoint, conversion, pth_to_safetensors  # noqa: E402 - only where torch is
from hatch_tensoracle.convert.safetensors_file import DATA_TYPES  # noqa: E402

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class Paths:
    """A checkpoint and where it is converted to."""

    def __init__(self, directory: Path) -> None:
        self.source, self.destination = directory / "model.pth", directory / "model.safetensors"

    def save(self, content: Any, **options: Any) -> None:
        """Make the checkpoint."""
        torch.save(content, self.source, **options)

    def convert(self, content: Any, **options: Any) -> dict[str, Any]:
        """Convert it, and read the result with safetensors' own package."""
        self.save(content, **options)
        pth_to_safetensors(self.source, self.destination)
        return dict(safetensors_torch.load_file(self.destination))

    def refuse(self, content: Any) -> CheckpointError:
        """Expect it not to be converted, and nothing to be there afterwards."""
        self.save(content)
        with pytest.raises(CheckpointError) as caught:
            pth_to_safetensors(self.source, self.destination)
        assert self.files() == [self.source.name]
        return caught.value

    def files(self) -> list[str]:
        """What is in the directory."""
        return sorted(path.name for path in self.source.parent.iterdir())


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path)


def bits(tensor: Any) -> Any:
    return tensor.contiguous().view(BITS[tensor.element_size()])


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Types, shapes and bits are equal."""
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in found.items()} == {
        name: (tensor.dtype, tensor.shape) for name, tensor in expected.items()
    }
    for name, tensor in found.items():
        assert torch.equal(bits(tensor), bits(expected[name])), name


def of_type(name: str) -> Any:
    """Random bits as a tensor; booleans are 0 or 1."""
    type_ = getattr(torch, name)
    size = torch.empty((), dtype=type_).element_size()
    generator = torch.Generator().manual_seed(len(name))
    drawn = torch.randint(0, 2 if name == "bool" else 256, (5, 7, size), dtype=torch.uint8, generator=generator)
    return drawn.view(type_).squeeze(-1)


@pytest.mark.parametrize("name", DATA_TYPES)
def test_every_type_keeps_its_bits(paths: Paths, name: str) -> None:
    tensor = of_type(name)
    assert_same(paths.convert({"a": tensor, "turned": tensor.T}), {"a": tensor, "turned": tensor.T})


def test_the_file_is_the_one_that_safetensors_itself_writes(paths: Paths) -> None:
    tensors = {name: of_type(name) for name in DATA_TYPES} | {'b"\n\u00e9\x7f\x01/': torch.ones(3), "0": torch.ones(())}
    paths.convert(tensors)
    other = paths.source.with_name("other.safetensors")
    safetensors_torch.save_file(tensors, other)
    assert paths.destination.read_bytes() == other.read_bytes()


def layouts() -> dict[str, Any]:
    base = torch.arange(2 * 3 * 4, dtype=torch.float32).reshape(2, 3, 4)
    return {
        "transposed": base.permute(2, 0, 1),
        "strided": base[:, ::2, 1::2],
        "with an offset": base[1, 1:],
        "repeated": base[:1, :1].expand(5, 3, 4),
        "overlapping": base.flatten().as_strided((4, 3), (1, 2)),
        "channels last": torch.arange(48.0).reshape(1, 3, 4, 4).to(memory_format=torch.channels_last),
        "no axes": torch.tensor(7.0),
        "no elements": torch.empty(0, 3),
        "no elements, strided": torch.empty(4, 0).T,
        "a conjugate": torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj(),
        "negated": torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj().imag,
        "a parameter": torch.nn.Parameter(torch.ones(2)),
    }


@pytest.mark.parametrize("layout", layouts())
def test_every_layout_keeps_shape_and_values(paths: Paths, layout: str) -> None:
    tensor = layouts()[layout]
    found = paths.convert({"a": tensor})["a"]
    assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
    assert torch.equal(found, tensor.detach())


@pytest.mark.parametrize("shape", [(3, 1 << 20), (1 << 22,), (70, 50, 3, 400)])
def test_large_tensors_are_written_piece_by_piece(paths: Paths, shape: tuple[int, ...]) -> None:
    tensor = torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    turned = tensor.transpose(0, -1)
    assert_same(paths.convert({"a": tensor, "b": turned}), {"a": tensor, "b": turned})


def test_tied_and_shared_tensors_are_written_under_each_name(paths: Paths) -> None:
    weight = torch.arange(12.0).reshape(3, 4)
    tied = torch.nn.Parameter(weight)
    content = {"embedding": tied, "head": tied, "part": weight[1], "turned": weight.T}
    assert_same(paths.convert(content), {name: tensor.detach() for name, tensor in content.items()})


def test_inner_names_are_joined_with_dots(paths: Paths) -> None:
    one, two, three = torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3.0)
    content = {
        "state_dict": OrderedDict({"layer.weight": one, "layer": {"bias": two}}),
        "ema": {"": three},
    }
    assert_same(paths.convert(content), {"state_dict.layer.weight": one, "state_dict.layer.bias": two, "ema.": three})


def test_one_mapping_under_two_names_is_two(paths: Paths) -> None:
    inner = {"w": torch.ones(2)}
    assert set(paths.convert({"model": inner, "ema": inner})) == {"model.w", "ema.w"}


def test_the_state_of_a_module_is_converted(paths: Paths) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).to(torch.bfloat16)
    assert_same(paths.convert(module.state_dict()), module.state_dict())


def test_checkpoints_of_the_old_format_are_converted(paths: Paths) -> None:
    tensors = {"a": torch.arange(5.0), "b": torch.arange(6).reshape(2, 3).T}
    assert_same(paths.convert(tensors, _use_new_zipfile_serialization=False), tensors)


def test_checkpoints_that_were_compressed_afterwards_are_converted(paths: Paths) -> None:
    """Their bytes cannot be mapped: what lies there is not the tensor."""
    tensors = {"zeros": torch.zeros(10_000), "noise": torch.rand(100_000)}
    paths.save(tensors)
    with zipfile.ZipFile(paths.source) as archive:
        members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    with zipfile.ZipFile(paths.source, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    pth_to_safetensors(paths.source, paths.destination)
    assert_same(safetensors_torch.load_file(paths.destination), tensors)


def test_many_small_tensors_are_converted(paths: Paths) -> None:
    tensors = {f"layer.{index}.weight": torch.full((index % 3,), float(index)) for index in range(3000)}
    assert_same(paths.convert(tensors), tensors)


def test_strings_may_name_the_files(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    paths.save({"a": torch.ones(1)})
    monkeypatch.chdir(paths.source.parent)
    pth_to_safetensors("model.pth", "model.safetensors")
    assert set(safetensors_torch.load_file(paths.destination)) == {"a"}


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_objects_are_named_and_never_run(paths: Paths) -> None:
    error = paths.refuse({"a": torch.ones(1), "hook": Evil(paths.source.parent / "harm")})
    assert error.cause == "holds an object of posix.mkdir, and objects are not loaded, since they can run code"
    assert "weights_only" not in str(error)


def test_the_environment_cannot_have_objects_run(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    paths.refuse({"hook": Evil(paths.source.parent / "harm")})


def test_whole_modules_are_refused(paths: Paths) -> None:
    error = paths.refuse(torch.nn.Linear(2, 2))
    assert error.cause.startswith("holds an object of torch.nn.modules.linear.Linear")
    assert error.remedy == "Save the mapping of names to tensors alone, such as model.state_dict()."


def test_all_that_is_no_tensor_is_listed(paths: Paths) -> None:
    content = {
        "model": {"weight": torch.ones(1)},
        "epoch": 3,
        "optimizer": {"state": {0: {"step": torch.ones(1)}, (1, 2): 3, 2**70: 4}, "lr": 0.1},
        "names": ["a"],
        "none": None,
        "tensors": [torch.ones(1)],
    }
    error = paths.refuse(content)
    assert error.file == str(paths.source)
    assert error.entries == (
        "'epoch' is of type int, not a tensor",
        "'optimizer.state.[0]' is a key of type int, not str",
        "'optimizer.state.[...]' is a key of type tuple, not str",
        "'optimizer.state.[...]' is a key of type int, not str",
        "'optimizer.lr' is of type float, not a tensor",
        "'names' is of type list, not a tensor",
        "'none' is of type NoneType, not a tensor",
        "'tensors' is of type list, not a tensor",
    )
    assert str(error).startswith(f"{paths.source}: holds what is not converted:\n  'epoch' is of type int")


def test_a_long_list_is_cut_in_the_message_alone(paths: Paths) -> None:
    error = paths.refuse({f"number {index}": index for index in range(25)})
    assert len(error.entries) == 25
    assert str(error).endswith("'number 19' is of type int, not a tensor\n  and 5 more")


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("tensor", "defect"),
    [
        pytest.param(lambda: torch.eye(3).to_sparse(), "is a torch.sparse_coo tensor, not a dense one", id="sparse"),
        pytest.param(
            lambda: torch.quantize_per_tensor(torch.zeros(3), 1.0, 0, torch.quint8),
            "is a quantized tensor, not a dense one",
            id="quantized",
        ),
        pytest.param(
            lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]),
            "is a nested tensor, not a dense one",
            id="nested",
        ),
        pytest.param(lambda: torch.zeros(2, device="meta"), "is a tensor without values, on device meta", id="meta"),
        pytest.param(
            lambda: torch.zeros(2, dtype=torch.complex128),
            "is a tensor of complex128, which safetensors files have not",
            id="wide complex",
        ),
        pytest.param(
            lambda: torch.zeros((), dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
            "is a tensor of float4_e2m1fn_x2, which are pairs, without an axis to count them on",
            id="a pair without axes",
        ),
    ],
)
def test_tensors_that_a_file_cannot_hold_are_named(paths: Paths, tensor: Any, defect: str) -> None:
    assert paths.refuse({"good": torch.ones(1), "inner": {"wrong": tensor()}}).entries == (f"'inner.wrong' {defect}",)


@pytest.mark.parametrize(
    ("content", "entry"),
    [
        pytest.param({"a": {"b": 1}, "a.b": 2}, "'a.b' is the name of two tensors", id="the same once joined"),
        pytest.param(
            {"a": {"": {"b": 1}}, "a.": {"b": 2}}, "'a..b' is the name of two tensors", id="with no name inside"
        ),
        pytest.param({"__metadata__": 1}, "'__metadata__' is a name that safetensors files use", id="reserved"),
        pytest.param({"a\ud800": 1}, "'a\\ud800' is a name with half a character", id="half a character"),
    ],
)
def test_names_that_a_file_cannot_hold_are_listed(paths: Paths, content: Any, entry: str) -> None:
    def filled(value: Any) -> Any:
        return torch.ones(1) if isinstance(value, int) else {name: filled(inner) for name, inner in value.items()}

    (found,) = paths.refuse(filled(content)).entries
    assert found.startswith(entry)


@pytest.mark.parametrize("content", [{}, {"a": {}}])
def test_a_checkpoint_without_tensors_is_refused(paths: Paths, content: Any) -> None:
    assert paths.refuse(content).cause == "holds no tensor"


@pytest.mark.parametrize("content", [torch.ones(1), [torch.ones(1)], "text"])
def test_what_is_no_mapping_is_refused(paths: Paths, content: Any) -> None:
    assert paths.refuse(content).cause == f"holds a {type(content).__name__}, not a mapping of names to tensors"


def test_a_mapping_that_holds_itself_is_refused(paths: Paths) -> None:
    content: dict[str, Any] = {"a": torch.ones(1)}
    content |= {"again": content}
    content["again"] = content
    assert "more than 100 deep or without end" in str(paths.refuse(content))


def test_mappings_that_multiply_are_refused_before_they_fill_the_memory(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "LONGEST_HEADER", 1_000_000)
    content: Any = torch.ones(1)
    for _ in range(60):
        content = {"left": content, "right": content}
    assert "more than the 1000000 bytes" in str(paths.refuse(content))


def test_more_names_than_a_header_may_hold_are_refused(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only their JSON is too long."""
    monkeypatch.setattr(conversion, "LONGEST_HEADER", 1000)
    assert "has names and shapes of 1264 bytes; 1000 are allowed" in str(paths.refuse({"\x01" * 200: torch.ones(1)}))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello world", id="text"),
        pytest.param(b"PK\x03\x04 and no more", id="the beginning of an archive"),
        pytest.param(b"\x80\x02}q\x00.", id="a bare pickle"),
        pytest.param(b"\x08\0\0\0\0\0\0\0{}      ", id="a safetensors file"),
    ],
)
def test_what_is_no_checkpoint_is_refused(paths: Paths, data: bytes) -> None:
    paths.source.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"^{paths.source}: ") as caught:
        pth_to_safetensors(paths.source, paths.destination)
    assert caught.value.__cause__ is not None
    assert paths.files() == ["model.pth"]


def test_a_checkpoint_that_is_cut_off_is_refused(paths: Paths) -> None:
    paths.save({"a": torch.ones(10_000)})
    paths.source.write_bytes(paths.source.read_bytes()[:-1000])
    with pytest.raises(CheckpointError, match="torch cannot read it as a checkpoint") as caught:
        pth_to_safetensors(paths.source, paths.destination)
    assert "cut off" in caught.value.remedy
    paths.source.write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"torch cannot read it as a checkpoint: EOFError$") as caught:
        pth_to_safetensors(paths.source, paths.destination)
    assert "empty" in caught.value.remedy


def test_an_existing_file_is_replaced_and_its_readers_keep_the_old_one(paths: Paths) -> None:
    paths.destination.write_bytes(b"old")
    with paths.destination.open("rb") as reader:
        paths.convert({"a": torch.ones(1)})
        assert reader.read() == b"old"
    assert paths.files() == ["model.pth", "model.safetensors"]


def test_a_link_is_replaced_and_what_it_names_is_left(paths: Paths) -> None:
    shared = paths.source.with_name("shared")
    shared.write_bytes(b"of others")
    paths.destination.symlink_to(shared)
    paths.convert({"a": torch.ones(1)})
    assert shared.read_bytes() == b"of others"
    assert not paths.destination.is_symlink()


@pytest.mark.parametrize("link", [None, "symlink_to", "hardlink_to"])
def test_source_and_destination_are_two_files(paths: Paths, link: str | None) -> None:
    paths.save({"a": torch.ones(1)})
    before = paths.source.read_bytes()
    destination = paths.destination if link else paths.source.parent / ".." / paths.source.parent.name / "model.pth"
    if link:
        getattr(destination, link)(paths.source)
    with pytest.raises(CheckpointError, match="is the same file as the destination"):
        pth_to_safetensors(paths.source, destination)
    assert paths.source.read_bytes() == before


@pytest.mark.parametrize(
    ("places", "error", "message"),
    [
        pytest.param(("missing.pth", "x"), FileNotFoundError, "missing.pth", id="no source"),
        pytest.param((".", "x"), CheckpointError, "is not a file", id="a directory as source"),
        pytest.param(("model.pth", "no/where"), NotADirectoryError, "no such directory .*/no'", id="no directory"),
        pytest.param(("model.pth", "folder"), FileExistsError, "is not a file and is not replaced", id="a directory"),
    ],
)
def test_paths_are_checked_before_anything_is_loaded(
    paths: Paths, places: tuple[str, str], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths.save({"a": torch.ones(1)})
    directory = paths.source.parent
    (directory / "folder").mkdir()
    monkeypatch.setattr(torch, "load", None)
    with pytest.raises(error, match=message):
        pth_to_safetensors(*(directory / place for place in places))


def test_too_little_space_is_seen_before_anything_is_written(paths: Paths) -> None:
    paths.save({"a": torch.ones(1).expand(1 << 30, 1 << 20)})
    with pytest.raises(OSError, match=r"the tensors take 4503599627370592 bytes, \d+ are free"):
        pth_to_safetensors(paths.source, paths.destination)
    assert paths.files() == ["model.pth"]


def test_a_write_that_fails_leaves_the_old_file(paths: Paths) -> None:
    paths.save({"a": torch.ones(100_000)})
    paths.destination.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            pth_to_safetensors(paths.source, paths.destination)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert paths.destination.read_bytes() == b"old"
    assert paths.files() == ["model.pth", "model.safetensors"]


def test_an_interruption_leaves_the_old_file(paths: Paths) -> None:
    paths.save({"a": torch.ones(100_000)})
    paths.destination.write_bytes(b"old")

    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pth_to_safetensors(paths.source, paths.destination, progress=interrupt)
    assert paths.destination.read_bytes() == b"old"
    assert paths.files() == ["model.pth", "model.safetensors"]


def test_progress_is_in_bytes_up_to_all(paths: Paths) -> None:
    paths.save({"a": torch.ones(5 << 20), "b": torch.ones(3, 2)})
    seen: list[tuple[int, int]] = []
    pth_to_safetensors(paths.source, paths.destination, progress=lambda done, total: seen.append((done, total)))
    total = (5 << 22) + 24
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert len(seen) > 3


def test_torch_is_imported_only_to_convert() -> None:
    code = "import sys, hatch_tensoracle.convert; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("version", [None, "2.5.1+cu124", "1.13.1"])
def test_torch_that_is_missing_or_old_is_an_import_error(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    paths.save({"a": torch.ones(1)})
    if version is None:
        monkeypatch.setitem(sys.modules, "torch", None)
    else:
        monkeypatch.setattr(torch, "__version__", version)
    message = rf"(torch is {version}; )?.*needs torch 2.6 or newer: pip install 'hatch-tensoracle\[convert\]'"
    with pytest.raises(ImportError, match=message.replace("+", r"\+")):
        pth_to_safetensors(paths.source, paths.destination)


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "hatch_tensoracle.convert", *map(str, arguments)]


def test_the_command_line_converts(paths: Paths) -> None:
    paths.save({"a": torch.ones(3)})
    done = subprocess.run(command(paths.source, paths.destination), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert_same(safetensors_torch.load_file(paths.destination), {"a": torch.ones(3)})


def test_the_command_line_says_what_is_wrong(paths: Paths) -> None:
    paths.save({"epoch": 1})
    done = subprocess.run(command(paths.source, paths.destination), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"python -m hatch_tensoracle.convert: {paths.source}: holds what is not converted:\n"
        "  'epoch' is of type int, not a tensor\n"
        "Save the mapping of names to tensors alone, such as model.state_dict().\n"
    )
    missing = subprocess.run(command("missing.pth", paths.destination), capture_output=True, text=True, check=False)
    assert missing.returncode == 2
    assert missing.stderr == "python -m hatch_tensoracle.convert: [Errno 2] No such file or directory: 'missing.pth'\n"


def test_ctrl_c_ends_the_command_and_leaves_nothing(paths: Paths) -> None:
    paths.save({"a": torch.ones(1).expand(1 << 28)})  # a gibibyte to write
    with subprocess.Popen(command(paths.source, paths.destination), stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while len(paths.files()) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 128 + signal.SIGINT
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert paths.files() == ["model.pth"]


def test_the_page_s_example_converts(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "convert.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    paths.save({"state_dict": {"layer.weight": torch.ones(3)}})
    monkeypatch.chdir(paths.source.parent)
    exec(example, {})  # noqa: S102 - our own page
    assert set(safetensors_torch.load_file(paths.destination)) == {"state_dict.layer.weight"}


def test_memory_is_that_of_the_checkpoint(paths: Paths) -> None:
    """Also where every tensor has to be copied to be written, since that is done in pieces."""
    size = 1 << 27
    paths.save({"a": torch.ones(1 << 13, size >> 15).T, "b": torch.ones(size >> 2)})
    code = (
        "import resource, sys, torch\n"
        "from hatch_tensoracle.convert import pth_to_safetensors\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "pth_to_safetensors(*sys.argv[1:])\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, paths.source, paths.destination], capture_output=True, text=True, check=True
    )
    assert int(json.loads(done.stdout)) < 1.2 * paths.source.stat().st_size
