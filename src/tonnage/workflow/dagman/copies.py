"""A copy of a workflow: the top DAG, and next to it a folder with copies of what it splices, includes and submits."""

import re
from collections.abc import Callable, Collection, Mapping
from os.path import normpath
from pathlib import Path
from typing import TypeAlias

from tonnage.errors import InputError
from tonnage.files import is_file, is_stream, stem, without_gz
from tonnage.workflow.dagman.parts import JOBS, Node, folder_within
from tonnage.workflow.dagman.patch import Patch, Patches
from tonnage.workflow.dagman.saving import NewFile
from tonnage.workflow.dagman.scopes import Scope
from tonnage.workflow.dagman.statements import quoted
from tonnage.workflow.names import FreeNames

__all__ = ["Copies", "SubmitPath"]

SubmitPath: TypeAlias = Callable[[Scope, Node], Path | None]
"""Returns the submit file of a node, or None."""

_MARK = "README.tonnage"
_MARK_TEXT = "Copies that belong to {}: `tonnage rank --output` creates them, and replaces them when it is run again.\n"
_SUBMIT = "submit"
_UNSAFE = re.compile(r"^[.-]|[^\w.+,-]")
_LONGEST_NAME = 60  # characters, of up to four bytes each


class Copies:
    """Collects the files of a copy, the innermost splices first, and makes each refer to the copies of the others."""

    def __init__(self, path: Path, output: Path, submits: Mapping[Path, Patch]) -> None:
        self._path = path
        self._output = output
        self._elsewhere = path.parent.resolve() != output.parent.resolve()
        self._folder = output.with_name(f"{stem(output)}.files")
        self._names = FreeNames([_SUBMIT, stem(Path(_MARK))])
        self._spliced: dict[Scope, Path] = {}
        self._submits = _submit_places(submits, self._folder / _SUBMIT)
        self._data = {self._submits[file]: patch.data for file, patch in submits.items()}

    def add(self, scope: Scope, patches: Patches, submit_path: SubmitPath) -> None:
        """Copy a DAG and the files that it includes, if they change; its splices must have been added before."""
        self._name_submit_files(scope, patches, submit_path)
        self._name_splices(scope, patches)
        self._name_included(scope, patches)
        own = patches.patch_for(scope.document)
        if not scope.prefix:
            self._data[self._output] = own.data  # the top DAG: the last of all
        elif own.changed:
            self._spliced[scope] = self._place(scope.name, scope.document.path)
            self._data[self._spliced[scope]] = own.data

    def _name_submit_files(self, scope: Scope, patches: Patches, submit_path: SubmitPath) -> None:
        for statement, document in scope.parts.kept if self._submits else ():
            if statement.keyword not in JOBS:
                continue
            node = scope.parts.names[statement.words[0]]
            path = submit_path(scope, node) if isinstance(node, Node) else None
            if path in self._submits:
                directory = folder_within(scope.directory, node.directory)
                patches.patch_for(document).replace_word(statement, 1, self._reference(self._submits[path], directory))

    def _name_splices(self, scope: Scope, patches: Patches) -> None:
        for statement, document in scope.parts.kept:
            if statement.keyword == "SPLICE":
                name, file = statement.words[:2]
                inner = scope.inner[name]
                new = self._new_name(file, self._spliced.get(inner), inner.directory)
                if new is not None:
                    patches.patch_for(document).replace_word(statement, 1, new)

    def _name_included(self, scope: Scope, patches: Patches) -> None:
        places: dict[Patch, Path] = {}
        # From the last to the first: what an included file itself includes comes after it, and can change it.
        for statement, document in reversed(scope.parts.kept):
            if statement.keyword != "INCLUDE":
                continue
            file = statement.words[0]
            included = patches.at(self._path.parent / scope.directory / file)
            path = included.document.path
            if included.changed and included not in places:
                places[included] = self._place(f"{scope.prefix}{stem(path)}", path)
            new = self._new_name(file, places.get(included), scope.directory)
            if new is not None:
                patches.patch_for(document).replace_word(statement, 0, new)
        for included, place in places.items():
            self._data[place] = included.data

    def _new_name(self, file: str, place: Path | None, directory: str) -> str | None:
        """Return the new name of a file, copied or not, or None if its old name is still right."""
        if place is not None:
            return self._reference(place, directory)
        if self._elsewhere and not Path(file).is_absolute():
            return quoted(str(self._path.parent.absolute() / directory / file))
        return None

    def _reference(self, place: Path, directory: str) -> str:
        """Return the name of a copy in a statement whose names are relative to `directory`.

        Relative names would be wrong if the copy is in another folder, because it must be submitted from the old one.
        """
        if self._elsewhere or directory not in ("", "."):
            return quoted(str(place.absolute()))
        return quoted(str(place.relative_to(self._output.parent)))

    def _place(self, label: str, path: Path) -> Path:
        """Return the path for the copy of a spliced or included file."""
        name = self._names.give(_UNSAFE.sub("_", label)[-_LONGEST_NAME:])
        return self._folder / f"{name}{Path(without_gz(path)).suffix[:_LONGEST_NAME] or '.dag'}"

    def check(self, sources: Collection[Path]) -> None:
        """Refuse to replace files of the workflow itself, or files that Tonnage did not create."""
        for place in self._data:
            if place.resolve() in sources:
                raise InputError("belongs to the workflow itself", path=place, hint="choose another --output")
        if len(self._data) == 1:
            return
        if is_stream(self._output) or (self._output.exists() and not is_file(self._output)):
            message = "must be a file: splices, included or submit files are copied into a folder next to it"
            raise InputError(message, path=self._output)
        if self._folder.exists() and not is_file(self._folder / _MARK):
            message = "already exists, but copies of splices, included and submit files would go there"
            raise InputError(message, path=self._folder, hint="choose another --output, or remove it")

    def files(self) -> tuple[NewFile, ...]:
        """Return all files of the copy, the top DAG last."""
        beside = [NewFile(place, data) for place, data in self._data.items() if place != self._output]
        if beside:
            beside.insert(0, NewFile(self._folder / _MARK, _MARK_TEXT.format(self._output.name).encode()))
        top = NewFile(self._output, self._data[self._output], self._output.suffix.lower() == ".gz")
        return (*beside, top)

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings about a copy in another folder."""
        if not self._elsewhere:
            return ()
        folder = self._path.parent.absolute()
        return (f"names in {self._output} are still relative to {folder}: run condor_submit_dag there",)


def _submit_places(submits: Collection[Path], folder: Path) -> dict[Path, Path]:
    """Return the paths for the copies of submit files: under their own names, which are the categories of their jobs.

    If several folders have files of the same name, all but the first get a folder of their own.
    """
    folders: dict[str, Path] = {}
    taken: dict[str, str] = {}
    free = FreeNames(path.name for path in submits)
    places: dict[Path, Path] = {}
    for path in submits:
        category = normpath(path.with_suffix(""))
        if category not in folders:
            first = taken.setdefault(Path(category).name, category) == category
            folders[category] = folder if first else folder / free.give(_UNSAFE.sub("_", path.parent.name) or "folder")
        places[path] = folders[category] / path.name
    return places
