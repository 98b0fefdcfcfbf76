"""Name concepts as a reader would: after the document about them, else in the words of their code.

The document is one whose file is named like the most central file of the concept, or like its folder. The
words are those of its folder, of the two folders with most of its code, of what its files share, or of its
central files. A title has at most two names: a list of more is a list of identifiers.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from rag.code.documentation import title_of
from rag.code.symbols import File
from rag.wiki.facts.compound_words import is_acronym
from rag.wiki.facts.concepts import Concept, stem_words

_FOLDER_SHARE = 0.75
_WORD_SHARE = 0.55
_MAX_NAMES = 2
_MAX_TITLE = 48
_COMMON_SHARE, _FEW_FILES = 0.6, 8
"""A word in most file names of a folder with more files, or of all, distinguishes none of them."""
_HALF = 0.5
_MIN_NAME_CHARS = 3
_MAX_ALIKE = 0.5
"""Of two names that share more of their words only the first is in a title."""
_STEM_PARTS = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[^\W_]+")
_WORDS = re.compile(r"[a-z]+\d[a-z](?![a-z\d])|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+|[()/]")
_NOT_SUBJECTS = frozenset(
    "readme index change changelog history licen license contributing install new".split()
)
_VAGUE_HEADINGS = frozenset(
    "about background contents documentation example faq feature file gettingstarted intro introduction"
    " overview quickstart reference summary tableofcontent usage".split()
)
"""Titles of documents that do not say what they are about, as keys."""
_GUIDE = re.compile(
    r"(?:add|build|contribut|creat|gett|install|migrat|sett|upgrad|us|work|writ)ing \w|how to "
    r"|\w+ing(?: \S+){4}",
    re.IGNORECASE,
)
"""How a title of a document begins that says what its reader does: "Adding textobject queries"."""
_PLAIN_FOLDERS = frozenset(
    "src lib source sources pkg app main core python java js ts internal cmd crates packages"
    " typescript javascript golang rust".split()
)
_ROOT_PACKAGE = re.compile(
    r"/?(?<![^/])src/\w+/(?:java|kotlin|scala|groovy)(?:/(?:[a-z]{2,3}(?:/[^/]+)?)?)?$"
)
"""The folders of a source set down to the package that all of its code has: `src/main/java/org/project`."""
_SOURCE_FOLDERS = frozenset("src lib source sources".split())
_PLAIN_STEMS = frozenset("__init__ index mod lib main doc types utils util".split())
_VAGUE_FOLDERS = frozenset(
    "modules common base types backends handlers plugins impl helpers utils util include resources static"
    " assets public".split()
)
"""Folders that say what they hold only together with the folder around them."""
_GROUPS = {"internal": "Internal packages", "cmd": "Commands"}
"""Folders of many small packages, as a reader calls these."""
_MANY_FOLDERS = 4
"""A file name in as many folders says no more than the folder."""
_PLATFORMS = frozenset("win32 win64 windows posix unix linux darwin macos impl inl".split())


def concept_titles(
    found: Sequence[Concept],
    documents: Sequence[File] = (),
    known: Callable[[str], str] = lambda word: word,
    project: str = "",
    others: Collection[str] = (),
) -> list[str]:
    """Return a title for each concept, all different. Equal concepts and documents have equal titles.

    `known` returns a word of a file's name as the repository writes it. The name of the project is in a title
    only if it is that of the most central file, or if there are no other words. The titles differ from
    `others` too.
    """
    headings = _headings(documents, project)
    names = _FileNames(found)
    folders = [names.folder(_folder(concept)) for concept in found]
    counts = Counter(folders)
    titles: list[str] = []
    for concept, folder in zip(found, folders, strict=True):
        is_own = bool(folder) and counts[folder] == 1
        title = folder_name(folder, folders) if is_own else ""
        title = title or ("" if folder else names.largest_folders(concept)) or names.most_central(concept)
        named = posixpath.basename(folder) if is_own else title.partition(",")[0]
        heading = headings.pop(_key(named), "")
        title = (not concept.title and heading) or _readable(concept.title or title, known, project)
        title = title or concept.files[0].path
        if not (concept.title or is_own or heading or posixpath.basename(folder) in _VAGUE_FOLDERS):
            title = _with_topic(title, names.topic(folder), known, project)
        if title in others:
            title = f"{title} ({folder or concept.files[0].path})"
        alike = next((n for n, other in enumerate(titles) if _key(other) == _key(title)), None)
        if alike is not None:
            place = _distinguishing(folder, folders[alike], title) or concept.files[0].path
            if titles[alike] == title or "/" not in place:
                title = f"{title} ({place})"
        titles.append(title if title not in titles else f"{title} {len(titles) + 1}")
    return titles


def _distinguishing(folder: str, other: str, title: str) -> str:
    """Return the last part of a folder's path that neither another path nor the title has, else the path."""
    known = set(other.split("/"))
    plain = {_key(title), *_SOURCE_FOLDERS}
    parts = (part for part in reversed(folder.split("/")) if _key(part) not in plain)
    return next((part for part in parts if part not in known), folder)


def is_named(title: str, path: str, project: str) -> bool:
    """Return whether a title of several names has that of a file."""
    words = _telling(_WORDS.findall(posixpath.basename(path).partition(".")[0]), project)
    names = re.split(r", | and ", title.partition(": ")[2] or title)
    return len(names) > 1 and _key("".join(words)) in map(_key, names)


def path_words(path: str) -> list[str]:
    """Return the words, in lower case, that a title may take from a path."""
    return [*stem_words(path), *stem_words(posixpath.dirname(path))]


class _FileNames:
    """The names of the files of all concepts: what distinguishes one of them from the others."""

    def __init__(self, found: Sequence[Concept]) -> None:
        paths = [file.path for concept in found for file in concept.files]
        places: dict[str, set[str]] = defaultdict(set)
        for path in paths:
            places[posixpath.basename(path).partition(".")[0]].add(posixpath.dirname(path))
        many = {stem for stem, folders in places.items() if len(folders) >= _MANY_FOLDERS}
        self._vague = _PLAIN_STEMS | many
        self._common = self._common_words(paths)

    def _common_words(self, paths: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the words that most file names of each folder have; those of all files are under ""."""
        stems: dict[str, set[str]] = defaultdict(set)
        for path in paths:
            for folder in {posixpath.dirname(path), ""}:
                stems[folder].add(self._stem(path))
        common: dict[str, frozenset[str]] = defaultdict(frozenset)
        for folder, inside in stems.items():
            counts = Counter(word for stem in inside for word in set(stem_words(stem)))
            if len(inside) > _FEW_FILES:
                common[folder] = frozenset(w for w, n in counts.items() if n >= _COMMON_SHARE * len(inside))
        return {folder: words | common[""] for folder, words in common.items()}

    def _stem(self, path: str) -> str:
        stem = posixpath.basename(path).partition(".")[0]
        if stem not in self._vague:
            return stem
        folder = posixpath.basename(self.folder(posixpath.dirname(path)))
        parts = reversed(posixpath.dirname(path).split("/"))
        return folder or next((part for part in parts if part not in _SOURCE_FOLDERS), "") or stem

    @staticmethod
    def folder(folder: str) -> str:
        """Return a folder without the inner ones that any project has; "" if it has no others."""
        folder = _ROOT_PACKAGE.sub("", folder)
        while folder and posixpath.basename(folder).strip("()") in _PLAIN_FOLDERS:
            folder = posixpath.dirname(folder)
        return folder

    def topic(self, folder: str) -> frozenset[str]:
        """Return the words that the files of a folder share and those of other folders do not."""
        own = self._common.get(folder, frozenset()) - self._common.get("", frozenset())
        return own or frozenset([posixpath.basename(folder)] if folder else [])

    def largest_folders(self, concept: Concept) -> str:
        """Return the names of the two folders with most code of a concept, or what these small packages are
        called together; "" if most of it is in one folder or in none.
        """
        sizes: Counter[str] = Counter()
        for file in concept.files:
            sizes[self.folder(file.folder)] += len(file.lines)
        best: list[tuple[str, int]] = []
        for folder, lines in sizes.most_common():
            if folder and not any(_is_around(folder, one) or _is_around(one, folder) for one, _ in best):
                best.append((folder, lines))
        del best[_MAX_NAMES:]
        if len(best) < _MAX_NAMES:
            return ""
        if sum(lines for _, lines in best) < _HALF * concept.lines:
            group = _GROUPS.get(posixpath.basename(_folder(concept)))
            if group:
                return group
        return _tidy(", ".join(folder_name(folder, ()) for folder, _ in best))

    def most_central(self, concept: Concept) -> str:
        """Return a word that most files of a concept share, and the names of its most central files."""
        lines: Counter[str] = Counter()
        stems: dict[str, int] = {}
        for file in concept.files:
            common = self._common.get(file.folder, frozenset())
            words = dict.fromkeys(word for word in stem_words(file.path) if len(word) > 2)
            lines.update({word: len(file.lines) for word in words if word not in common})
            stem = _distinct(self._stem(file.path), common)
            stems[stem] = stems.get(stem, 0) + len(file.lines)
        order = {stem: number for number, stem in enumerate(stems)}
        best = sorted(stems, key=lambda stem: (-math.sqrt(stems[stem]) / (order[stem] + 2), order[stem]))
        shared = [w for w, n in lines.most_common(1) if n >= _WORD_SHARE * concept.lines and len(stems) > 2]
        named = list(shared)
        for stem in [stem for stem in best if stem not in _PLAIN_STEMS] or best:
            if not any(_are_alike(stem, other) for other in named):
                named.append(stem)
        return _tidy(", ".join(named[:_MAX_NAMES]))


def _with_topic(title: str, topic: frozenset[str], known: Callable[[str], str], project: str) -> str:
    """Return a title after the word that the files of its folder share, unless it has that word."""
    words = [_readable(word, known, project) for word in topic if _key(word) != _key(project)]
    if len(words) != 1 or _key(words[0]) in _key(title):
        return title
    inner = title if title[1:2].isupper() else title[:1].lower() + title[1:]
    return f"{words[0]}: {inner}"


def _headings(documents: Sequence[File], project: str) -> dict[str, str]:
    """Return the titles of documents that can be those of a page, by the words of the files' names.

    They are short and say what the document is about. "Twig for Template Designers" says for whom it is, and
    "Adding queries" what its reader does.
    """
    found: dict[str, str] = {}
    for file in documents:
        key = _key(posixpath.basename(file.path).partition(".")[0])
        heading = title_of(file.text, file.path)
        text = " ".join(re.sub(r"[`*_]", "", heading.text).split()) if heading else ""
        is_title = 0 < len(text) <= _MAX_TITLE and re.fullmatch(r"[A-Z][\w '’,&/-]*", text)
        is_vague = _key(text) in _VAGUE_HEADINGS or _key(text.partition(" for ")[0]) == _key(project)
        if key not in _NOT_SUBJECTS and is_title and not (is_vague or _GUIDE.match(text)):
            found.setdefault(key, text)
    return found


def _key(name: str) -> str:
    """Return a name in a form that is equal for a file and the document about it."""
    return re.sub(r"[^a-z0-9]", "", name.lower()).removesuffix("s")


def _readable(name: str, known: Callable[[str], str], project: str) -> str:
    """Return names of files as words: "write_batch, SkipList" as "Write batch and skip list"."""
    if _key(name) == _key(project):
        return name
    named = name.split(",")
    if _key(named[0]) != _key(project):  # the most central file says what its concept is
        named = [part for part in named if _key(part) != _key(project)]
    parts = [" ".join(_telling(_WORDS.findall(part), project)) for part in named]
    parts = list({_key(part): part.replace(" / ", "/") for part in reversed(parts) if part}.values())[::-1]
    words = list(dict.fromkeys(_words(part, known) for part in parts))
    while len(words) > 1 and len(", ".join(words)) > _MAX_TITLE:
        words.pop()
    text = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
    return _sentence_case(text)


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def _telling(words: list[str], project: str) -> list[str]:
    """Return the words without single letters (`t_zset`) and the project's name, if there are others."""
    long = [word for word in words if len(word) > 1 or not word.isalpha()] or words
    long = _without_spelled(long, project) or long
    if len(long) > 2 and long[1] == "/" and _key(long[0]) == _key(project):
        return long[2:]
    return long if "/" in long else [word for word in long if _key(word) != _key(project)] or long


def _without_spelled(words: list[str], project: str) -> list[str]:
    """Return the words without those that together are the project's name: `ZooKeeperServer`."""
    for start in range(len(words)):
        for end in range(start + 2, len(words) + 1):
            if _key("".join(words[start:end])) == _key(project):
                return [*words[:start], *words[end:]]
    return words


def _words(text: str, known: Callable[[str], str]) -> str:
    """Return words, some of them joined by "/", each as it is written."""
    return " ".join("/".join(_word(one, known) for one in word.split("/")) for word in text.split())


def _word(word: str, known: Callable[[str], str]) -> str:
    if is_acronym(word):
        return word.upper()
    written = known(word)
    if written != word:
        return written
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


def _is_around(outer: str, inner: str) -> bool:
    return inner.startswith(f"{outer}/")


def folder_name(folder: str, folders: Sequence[str]) -> str:
    """Return the last part of a folder's path, with the part before it where it is vague or not unique."""
    name = posixpath.basename(folder)
    outer = posixpath.basename(_FileNames.folder(posixpath.dirname(folder)))
    if outer and (len(name) < _MIN_NAME_CHARS or name in _VAGUE_FOLDERS):
        return f"{outer} {name}"
    same = [other for other in folders if posixpath.basename(other) == name]
    outside = [part for part in folder.split("/")[:-1] if part not in _SOURCE_FOLDERS]
    return _tidy("/".join([*outside[-1:], name]) if len(same) > 1 else name)


def _distinct(stem: str, common: frozenset[str]) -> str:
    """Return a file's name without the words that its neighbours have too, unless it has no others."""
    parts = _STEM_PARTS.findall(stem)
    words = [word for word in parts if word.lower() not in common | _PLATFORMS]
    if len(words) == len(parts):
        return stem
    return "_".join(words) or parts[-1]


def _are_alike(one: str, other: str) -> bool:
    """Return whether two names share most of their words, so that the second says little more."""
    words, others = (set(stem_words(name)) or {name} for name in (one, other))
    return len(words & others) > _MAX_ALIKE * min(len(words), len(others))


def _tidy(name: str) -> str:
    name = name.replace("_", " ").strip() if not name.startswith("t_") else name
    first = name.partition(",")[0]
    return name[:1].upper() + name[1:] if len(first) > 4 and first.isalpha() and first.islower() else name
