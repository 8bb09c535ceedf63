"""The Hatch build hook: configuration in, verified library in the wheel."""

from __future__ import annotations

import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from hatch_tensoracle._files import write_whole
from hatch_tensoracle.config import HookConfig, LibraryConfig
from hatch_tensoracle.errors import ConfigurationError, MissingPluginError, TensoracleError
from hatch_tensoracle.inspection import inspect_wheel, manifest_name
from hatch_tensoracle.library import make_library

__all__ = ["TensoracleBuildHook"]

_PLATFORM = "linux-x86_64"


class TensoracleBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the plugin libraries of a model package and puts them into its wheel; other targets are left alone."""

    PLUGIN_NAME = "tensoracle"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build every configured library before hatchling collects the wheel's files."""
        if self.target_name != "wheel":
            return
        with self._aborting():
            config = self._configure()
            self._workspace = tempfile.TemporaryDirectory(prefix="tensoracle-")
            for number, library in enumerate(config.libraries):
                output = Path(self._workspace.name) / str(number)
                make_library(library, Path(self.root), output, self._report)
                if version == "editable":
                    self._place_in_tree(library, output)
                else:
                    self._hand_over(library, output, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Inspect the finished wheel; one that fails does not stay."""
        if self.target_name != "wheel":
            return
        self._workspace.cleanup()
        if version == "editable":
            return
        with self._aborting(remove=Path(artifact_path)):
            bundles = inspect_wheel(artifact_path)
            for library in self._configure().libraries:
                if library.library not in bundles:
                    raise MissingPluginError(f"does not hold `{library.library}`", where=artifact_path)
                self._report(f"verified {library.library}: bundle {bundles[library.library].digest[:16]}")

    def _configure(self) -> HookConfig:
        if sysconfig.get_platform() != _PLATFORM:
            message = f"wheels can be built on {_PLATFORM} only, this is {sysconfig.get_platform()}"
            raise ConfigurationError(message, remedy="Build on Linux x86_64, in a container for example.")
        config = HookConfig.from_table(self.config)
        config.check_files(Path(self.root))
        self._check_paths_are_free(config)
        return config

    def _check_paths_are_free(self, config: HookConfig) -> None:
        forced = {target: source for source, target in self.build_config.force_include.items()}
        for library in config.libraries:
            for name in (library.library, manifest_name(library.library)):
                if name in forced:
                    raise ConfigurationError(
                        f"{forced[name]} is to be put at {name} too, by `force-include`",
                        remedy="Remove this entry: the hook puts library and manifest into the wheel itself.",
                    )

    def _hand_over(self, library: LibraryConfig, output: Path, build_data: dict[str, Any]) -> None:
        for name in (library.library, manifest_name(library.library)):
            build_data["force_include"][str(output / name)] = name
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_PLATFORM.replace('-', '_')}"

    def _place_in_tree(self, library: LibraryConfig, output: Path) -> None:
        """Editable installs import from the tree: put the library where hatchling would take it from."""
        for name in (library.library, manifest_name(library.library)):
            write_whole(Path(self.root) / self._source_path(name), (output / name).read_bytes())

    def _source_path(self, name: str) -> str:
        """The path in the tree of a path in the wheel: hatchling's `sources` backwards."""
        for source, prefix in self.build_config.sources.items():
            if name.startswith(prefix) and (Path(self.root) / source / name[len(prefix) :]).parent.is_dir():
                return f"{source}{name[len(prefix) :]}"
        return name

    def _report(self, line: str) -> None:
        self.app.display_info(f"tensoracle: {line}")

    @contextmanager
    def _aborting(self, remove: Path | None = None) -> Iterator[None]:
        """End the build on an error that the user can mend, with its cause and remedy and no traceback."""
        try:
            yield
        except TensoracleError as error:
            if remove is not None:
                remove.unlink(missing_ok=True)
            self._abort(error)

    def _abort(self, error: TensoracleError) -> NoReturn:
        self.app.abort("\n".join(filter(None, (f"tensoracle: {error}", error.remedy))))
        raise AssertionError  # abort does not return
