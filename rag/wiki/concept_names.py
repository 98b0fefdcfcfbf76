"""Name concepts as a reader would: after the document about them, else in the words of their code.

The document is one whose file is named like the most central file of the concept, or like its folder. The
words are those of its folder, of what its files share, or of its central files.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Sequence

from rag.code.documentation import title_of
from rag.code.symbols import File
from rag.wiki.concepts import Concept, stem_words

_FOLDER_SHARE = 0.75
_WORD_SHARE = 0.55
_NAMED_FILES = 3
_MAX_TITLE = 48
_WORDS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[()/]")
_ACRONYMS = frozenset(
    "acl api ast cli css csv db dns dsl gpu gui html http https id io ip json jwt orm os pdf rpc sdk sql ssl"
    " tcp tls udp ui uri url utf8 wsgi asgi xml yaml".split()
)
_NOT_SUBJECTS = frozenset(
    "readme index change changelog history licen license contributing install new".split()
)
_PLAIN_FOLDERS = frozenset("src lib source sources pkg app main core python java js ts internal cmd".split())
_PLAIN_STEMS = frozenset("__init__ index mod lib main doc types utils util".split())


def concept_titles(found: Sequence[Concept], documents: Sequence[File] = ()) -> list[str]:
    """Return a title for each concept, all different. Equal concepts and documents have equal titles."""
    headings = _headings(documents)
    folders = [_folder(concept) for concept in found]
    counts = Counter(folders)
    titles: list[str] = []
    for concept, folder in zip(found, folders, strict=True):
        is_own = folder and counts[folder] == 1 and posixpath.basename(folder) not in _PLAIN_FOLDERS
        title = _of_folder(folder, folders) if is_own else _of_files(concept)
        named = posixpath.basename(folder) if is_own else title.partition(",")[0]
        title = headings.pop(_key(named), "") or _readable(title) or concept.files[0].path
        if title in titles:
            title = f"{title} ({folder or concept.files[0].path})"
        titles.append(title if title not in titles else f"{title} {len(titles) + 1}")
    return titles


def _headings(documents: Sequence[File]) -> dict[str, str]:
    """Return the titles of documents that are short enough for a page, by the words of the files' names."""
    found: dict[str, str] = {}
    for file in documents:
        key = _key(posixpath.basename(file.path).partition(".")[0])
        heading = title_of(file.text, file.path)
        text = " ".join(re.sub(r"[`*_]", "", heading.text).split()) if heading else ""
        is_title = 0 < len(text) <= _MAX_TITLE and re.fullmatch(r"[A-Z][\w '’,&/-]*", text)
        if key not in _NOT_SUBJECTS and is_title:
            found.setdefault(key, text)
    return found


def _key(name: str) -> str:
    """Return a name in a form that is equal for a file and the document about it."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("s")


def _readable(name: str) -> str:
    """Return names of files as words: "write_batch, SkipList" as "Write batch and skip list"."""
    parts = [" ".join(_telling(_WORDS.findall(part))) for part in name.split(",")]
    parts = list({_key(part): part.replace(" / ", "/") for part in reversed(parts) if part}.values())[::-1]
    words = [" ".join(_word(word) for word in part.split()) for part in parts]
    text = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
    return text[:1].upper() + text[1:]


def _telling(words: list[str]) -> list[str]:
    """Return the words without single letters (`t_zset`), unless there are no others."""
    return [word for word in words if len(word) > 1 or not word.isalpha()] or words


def _word(word: str) -> str:
    if word.lower() in _ACRONYMS:
        return word.upper()
    return word if word.isupper() else word.lower()


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
