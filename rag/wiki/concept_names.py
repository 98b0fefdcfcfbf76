"""Name concepts after their folder, a word that their files share, or their central files."""

from __future__ import annotations

import math
import posixpath
from collections import Counter
from collections.abc import Sequence

from rag.wiki.concepts import Concept, stem_words

_FOLDER_SHARE = 0.75
_WORD_SHARE = 0.55
_NAMED_FILES = 3
_PLAIN_FOLDERS = frozenset("src lib source sources pkg app main core python java js ts internal cmd".split())
_PLAIN_STEMS = frozenset("__init__ index mod lib main doc types utils util".split())


def concept_titles(found: Sequence[Concept]) -> list[str]:
    """Return a title for each concept, all different. Equal concepts have equal titles."""
    folders = [_folder(concept) for concept in found]
    counts = Counter(folders)
    titles: list[str] = []
    for concept, folder in zip(found, folders, strict=True):
        is_own = folder and counts[folder] == 1 and posixpath.basename(folder) not in _PLAIN_FOLDERS
        title = _of_folder(folder, folders) if is_own else _of_files(concept)
        if title in titles:
            title = f"{title} ({folder or concept.files[0].path})"
        titles.append(title if title not in titles else f"{title} {len(titles) + 1}")
    return titles


def _folder(concept: Concept) -> str:
    """Return the deepest folder that has most of a concept's code; "" for none."""
    sizes: Counter[str] = Counter()
    for file in concept.files:
        folder = file.folder
        while folder:
            sizes[folder] += len(file.lines)
            folder = posixpath.dirname(folder)
    enough = [folder for folder, lines in sizes.items() if lines >= _FOLDER_SHARE * concept.lines]
    return max(enough, key=lambda folder: (folder.count("/"), folder), default="")


def _of_folder(folder: str, folders: Sequence[str]) -> str:
    name = posixpath.basename(folder)
    same = [other for other in folders if posixpath.basename(other) == name]
    return _tidy(name if len(same) == 1 else "/".join(folder.split("/")[-2:]))


def _of_files(concept: Concept) -> str:
    """Return a word that most files share, and the names of the most central files."""
    lines: Counter[str] = Counter()
    for file in concept.files:
        lines.update({word: len(file.lines) for word in set(stem_words(file.path)) if len(word) > 2})
    stems: dict[str, int] = {}
    for file in concept.files:
        stems[_stem(file.path)] = stems.get(_stem(file.path), 0) + len(file.lines)
    order = {stem: number for number, stem in enumerate(stems)}
    best = sorted(stems, key=lambda stem: (-math.sqrt(stems[stem]) / (order[stem] + 2), order[stem]))
    shared = [w for w, n in lines.most_common(1) if n >= _WORD_SHARE * concept.lines and len(stems) > 2]
    names = [stem for stem in best if not set(shared) & {stem.lower(), *stem_words(stem)}]
    return _tidy(", ".join([*shared, *names][:_NAMED_FILES]))


def _stem(path: str) -> str:
    stem = posixpath.basename(path).partition(".")[0]
    folder = posixpath.basename(posixpath.dirname(path))
    return folder if stem in _PLAIN_STEMS and folder not in ("", *_PLAIN_FOLDERS) else stem


def _tidy(name: str) -> str:
    name = name.replace("_", " ").strip() if not name.startswith("t_") else name
    first = name.partition(",")[0]
    return name[:1].upper() + name[1:] if len(first) > 4 and first.isalpha() and first.islower() else name
