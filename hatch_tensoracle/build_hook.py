"""The Hatch build hook: configuration in, verified library in the wheel."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from hatch_tensoracle._files import write_whole
from hatch_tensoracle.build_directory import forget, workspace
from hatch_tensoracle.bundle import Bundle
from hatch_tensoracle.config import HookConfig, LibraryConfig
from hatch_tensoracle.errors import ConfigurationError, MissingPluginError, TensoracleError, UnexpectedFileError
from hatch_tensoracle.inspection import inspect_wheel, manifest_name, shipped_name
from hatch_tensoracle.library import make_library
from hatch_tensoracle.platform_tag import check_platform, platform_tag

__all__ = ["TensoracleBuildHook"]


class TensoracleBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the plugin libraries of a model package and puts them into its wheel; other targets are left alone."""

    PLUGIN_NAME = "tensoracle"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build every configured library before hatchling collects the wheel's files."""
        if self.target_name != "wheel":
            return
        self._files_in_use = ExitStack()  # until hatchling has read them
        with self._aborting():
            check_platform()
            config = self._configure()
            files = self._build(config)
            if version == "editable":
                self._place_in_tree(files)
            else:
                self._hand_over(config, files, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - hatchling's
        """Inspect the finished wheel; one that fails does not stay."""
        if self.target_name != "wheel":
            return
        self._files_in_use.close()
        if version == "editable":
            return
        with self._aborting(remove=Path(artifact_path)):
            bundles = inspect_wheel(artifact_path)
            built = [library.library for library in self._configure().libraries]
            for name in built:
                if name not in bundles:
                    raise MissingPluginError(f"does not hold `{name}`", where=artifact_path)
                self._report(f"verified {name}: bundle {bundles[name].digest[:16]}")
            if others := sorted(bundles.keys() - built):
                raise UnexpectedFileError(
                    f"holds {', '.join(others)}, which this build did not make",
                    where=artifact_path,
                    remedy="Remove it from the tree, where an earlier build put it, or exclude it from the wheel.",
                )

    def clean(self, versions: list[str]) -> None:  # noqa: ARG002 - hatchling's
        """Remove what editable installs put into the tree, and what is kept of builds."""
        if self.target_name != "wheel":
            return
        config = HookConfig.from_table(self.config, os.environ)
        for library in config.libraries:
            for name in (library.library, manifest_name(library.library)):
                self._in_tree(name).unlink(missing_ok=True)
            shutil.rmtree(self._in_tree(shipped_name(library.library, "")), ignore_errors=True)
        forget(config, Path(self.root))

    def _configure(self) -> HookConfig:
        config = HookConfig.from_table(self.config, os.environ)
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

    def _build(self, config: HookConfig) -> dict[str, Path]:
        """Build every library; return the files for the wheel by their paths in it."""
        directory = self._files_in_use.enter_context(workspace(config, Path(self.root), self._report))
        files: dict[str, Path] = {}
        for number, library in enumerate(config.libraries):
            output = directory / str(number)
            bundle = make_library(
                library,
                Path(self.root),
                output,
                self._report,
                jobs=config.jobs,
                verbose=config.verbose,
                kept=output / "cmake",
            )
            files |= _wheel_files(library, bundle, output)
        return files

    def _hand_over(self, config: HookConfig, files: Mapping[str, Path], build_data: dict[str, Any]) -> None:
        libraries = {library.library: files[library.library] for library in config.libraries}
        build_data["force_include"] |= {str(file): name for name, file in files.items()}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(config.platform_tag, libraries)}"

    def _place_in_tree(self, files: Mapping[str, Path]) -> None:
        """Editable installs import from the tree: put the library where hatchling would take it from."""
        for name, file in files.items():
            place = self._in_tree(name)
            try:
                write_whole(place, file.read_bytes())
            except OSError as error:
                raise ConfigurationError(
                    f"{place} cannot be written: {error.strerror}",
                    remedy="An editable install needs its library in the tree. Make that writable, or install a wheel.",
                ) from error

    def _in_tree(self, name: str) -> Path:
        """The place in the tree of a path in the wheel: hatchling's `sources` backwards."""
        for source, prefix in self.build_config.sources.items():
            if name.startswith(prefix) and (Path(self.root) / source / name[len(prefix) :]).parent.is_dir():
                return Path(self.root, f"{source}{name[len(prefix) :]}")
        return Path(self.root, name)

    def _report(self, lines: str) -> None:
        for line in lines.splitlines():
            self.app.display_info(f"tensoracle: {line}")

    @contextmanager
    def _aborting(self, remove: Path | None = None) -> Iterator[None]:
        """End the build on an error that the user can mend, with its cause and remedy and no traceback."""
        try:
            yield
        except BaseException as error:
            self._files_in_use.close()
            if remove is not None:
                remove.unlink(missing_ok=True)
            if not isinstance(error, TensoracleError):
                raise
            self._abort(error)

    def _abort(self, error: TensoracleError) -> NoReturn:
        self.app.abort("\n".join(filter(None, (f"tensoracle: {error}", error.remedy))))
        raise AssertionError  # abort does not return


def _wheel_files(library: LibraryConfig, bundle: Bundle, output: Path) -> dict[str, Path]:
    names = (library.library, manifest_name(library.library))
    codes = [code.file for _, code in bundle.codes()] if library.ship_cubins else []
    return {name: output / name for name in names} | {
        shipped_name(library.library, file): output / "bundle" / file for file in codes
    }
