"""Downloaded archives become packages: name, version, licence, and the text files that may be learnt from.

Only permissive licences pass, as the package's own metadata states them: a wheel's METADATA, npm's
package.json, Debian's machine-readable copyright file (where single files are under another licence,
those files are left out). Debian's packages are read as source (.dsc) or as the -dev package that holds
the source of a Go, Rust, Ruby, PHP or JavaScript library (.deb).
"""

from __future__ import annotations

import fnmatch
import io
import json
import re
import subprocess
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LANGUAGES = {
    ".py": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "typescript", ".mts": "typescript",
    ".go": "go", ".rs": "rust", ".java": "java",
    ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp",
    ".rb": "ruby", ".php": "php", ".md": "doc", ".rst": "doc", ".markdown": "doc",
}  # fmt: skip


def _asked_repositories() -> frozenset[str]:
    """Return the names of all repositories in tools/questions, and of their packages, in lower case."""
    found = set()
    for file in sorted((Path(__file__).parents[1] / "questions").rglob("*_repositories.toml")):
        for entry in tomllib.loads(file.read_text())["repository"]:
            package = re.sub(r"^@", "", entry.get("package", entry["name"]).lower())
            found |= {entry["name"].lower(), package, package.rsplit("/", 1)[-1]}
    return frozenset(found)


ASKED = _asked_repositories()
"""The repositories of the question sets. A package with one of these words in its name is a sibling."""
# Repositories that questions are measured on, anywhere, and their forks and siblings: never learnt from.
KEPT_OUT = ASKED | frozenset(
    """flask requests httpx fastapi starlette aiohttp pydantic pydantic_core pydantic_settings click pytest
    _pytest pylint sphinx sqlfluff reflex streamlink celery model2vec gin gin-gonic cobra chi caddy
    ripgrep axum tokio gson commons-lang commons-lang3 axios express redux trpc zod vitest guzzle
    guzzlehttp rack redis django httpie tornado fastify rxjs commons-io viper bat jq leveldb sinatra
    monolog scrapy marshmallow mocha immer tanstack query-core jsoup restic fd-find libuv re2 jekyll
    twig quart kombu billiard vine amqp semble vicinity werkzeug hiredis httpcore typer asyncclick
    rich_click sanic puma rubocop mobx mobx-react mobx-react-lite mobx-state-tree fd fdfind
    tanstack-query""".split()
)
# Of these, every package with the word in its name is kept out: plugins and parts of the same repository.
_WHOLE_FAMILY = ASKED | frozenset(
    """axum caddy celery cobra fastapi fastify fd gin guzzle guzzlehttp jekyll leveldb libuv mobx mocha
    monolog puma restic ripgrep rubocop rxjs scrapy sinatra sqlfluff starlette streamlink tanstack tokio
    trpc twig viper vitest zod jsoup jq re2 bat""".split()
)
_VENDORED = re.compile(
    r"(^|/)(_?vendor(ed)?|node_modules|third[_-]?party|external|extern|bundled|site-packages|testdata|\.pc|"
    r"__generated__|generated|min|bower_components|locales?|i18n|fixtures?)/|\.min\.|_pb2\.|\.pb\.|-bundle\.|\.umd\."
)
_FREE = re.compile(
    r"\b(MIT|Expat|BSD|0BSD|Apache|ISC|PSF|Python Software Foundation|Python-2|zlib|Unlicense|CC0|BSL-1|"
    r"Boost|public[ -]domain|HPND|curl|BlueOak|PostgreSQL|X11)", re.I,
)  # fmt: skip
_UNFREE = re.compile(
    r"GPL|General Public|MPL|Mozilla|EPL|Eclipse|CDDL|SSPL|BUSL|Business Source|Elastic|Propriet|Commercial|"
    r"NVIDIA|CC-BY|Artistic|EUPL|OSL|CECILL|non-free|Other/",
    re.I,
)
_INSTALLED = re.compile(
    r"^\./usr/(share/(gocode/src/([^/]+/){0,3}|cargo/registry/[^/]+/|nodejs/|php/|doc/|javascript/)|lib/(ruby/vendor_ruby/|nodejs/))"
)
_MAX_FILE_BYTES = 300_000
_MAX_PACKAGE_BYTES = 20_000_000
_MAX_ARCHIVE_BYTES = 60_000_000


@dataclass(frozen=True, slots=True)
class Package:
    """One archive. `licence` is what its metadata says; `files` are (path, language, text)."""

    registry: str
    name: str
    version: str
    licence: str
    files: list[tuple[str, str, str]]


class Refused(Exception):
    """The package may not be learnt from, or cannot be read; the message says why."""


def permissive(licence: str) -> bool:
    """Whether a licence statement names a permissive licence and nothing else."""
    return bool(_FREE.search(licence)) and not _UNFREE.search(licence)


def kept_out(name: str) -> bool:
    """Whether a package of this name must not be learnt from."""
    bare = re.sub(r"^(golang|node|ruby|rust|php|python)-|^@[^/]+/", "", name)
    last = bare.rsplit("-", 1)[-1] if name.startswith("golang") else bare
    return bool({name, bare, last} & KEPT_OUT) or bool(set(re.split(r"[-_@/.]", name)) & _WHOLE_FAMILY)


def archives(folder: Path) -> list[Path]:
    """All wheels, npm tarballs and Debian source descriptions below `folder`, sorted."""
    found = [*folder.rglob("*.whl"), *folder.rglob("*.tgz"), *folder.rglob("*.dsc"), *folder.rglob("*.deb")]
    return sorted(path for path in found if path.stat().st_size <= _MAX_ARCHIVE_BYTES)


def read_package(archive: Path) -> Package:
    """Read an archive.

    Raises:
        Refused: the licence is not permissive, the package is one of those kept out, or nothing is readable.
    """
    try:
        read = {".whl": _read_wheel, ".tgz": _read_npm, ".dsc": _read_debian, ".deb": _read_deb}[
            archive.suffix
        ]
        package = read(archive)
    except (
        OSError,
        EOFError,
        KeyError,
        ValueError,
        StopIteration,
        AssertionError,
        subprocess.CalledProcessError,
        tarfile.TarError,
        zipfile.BadZipFile,
    ) as error:
        raise Refused(f"unreadable: {error}") from error
    name = re.sub(r"^(golang|node|ruby|rust|php|python)-|^@[^/]+/", "", package.name)
    if {
        package.name,
        name,
        name.rsplit("-", 1)[-1] if package.name.startswith("golang") else name,
    } & KEPT_OUT:
        raise Refused("kept out")
    return package


def _wanted(path: str, size: int) -> str | None:
    """The language of a file that is worth reading, else None."""
    language = LANGUAGES.get(PurePosixPath(path).suffix.lower())
    if language is None or not 200 <= size <= _MAX_FILE_BYTES or _VENDORED.search(path.lower()):
        return None
    parts = {part.lower() for part in PurePosixPath(path).with_suffix("").parts}
    return None if parts & KEPT_OUT else language


def _collect(files: Iterator[tuple[str, str, bytes]]) -> list[tuple[str, str, str]]:
    kept, total = [], 0
    for path, language, content in files:
        text = content.decode("utf-8", "replace")
        if len(text) / (text.count("\n") + 1) > 200 or "\0" in text:
            continue
        kept.append((path, language, text.replace("\r\n", "\n")))
        total += len(text)
        if total > _MAX_PACKAGE_BYTES:
            break
    return kept


def _read_wheel(archive: Path) -> Package:
    with zipfile.ZipFile(archive) as wheel:
        names = wheel.namelist()
        metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
        head, _, readme = wheel.read(metadata).decode("utf-8", "replace").partition("\n\n")
        fields = [line.partition(": ") for line in head.split("\n")]
        said = [v for k, _, v in fields if k in ("License", "License-Expression")]
        said += [
            v.rsplit(" :: ", 1)[-1]
            for k, _, v in fields
            if v.startswith("License :: ") and "OSI App" not in v[-14:]
        ]
        licence = "; ".join(dict.fromkeys(s.strip()[:60] for s in said if s.strip()))
        if not permissive(licence):
            raise Refused(f"licence: {licence or 'none stated'}")
        wanted = ((i.filename, _wanted(i.filename, i.file_size)) for i in wheel.infolist())
        files = _collect((path, lang, wheel.read(path)) for path, lang in wanted if lang)
    name, version = archive.name.split("-")[:2]
    return Package(
        "pypi", name.lower().replace("_", "-"), version, licence, [*files, ("README.md", "doc", readme)]
    )


def _tar_files(archive: Path, skip: Callable[[str], bool] | None = None) -> Iterator[tuple[str, str, bytes]]:
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            path = member.name.removeprefix("./").partition("/")[2]
            language = _wanted(path, member.size) if member.isfile() else None
            if language and not (skip and skip(path)):
                stream = tar.extractfile(member)
                if stream is not None:
                    yield path, language, stream.read()


def _read_npm(archive: Path) -> Package:
    with tarfile.open(archive) as tar:
        root = next(m for m in tar if PurePosixPath(m.name).name == "package.json" and m.name.count("/") == 1)
        stream = tar.extractfile(root)
        about = json.loads(stream.read()) if stream else {}
    said = about.get("license") or about.get("licenses") or ""
    licence = said if isinstance(said, str) else json.dumps(said)
    if not permissive(licence):
        raise Refused(f"licence: {licence or 'none stated'}")
    return Package("npm", about["name"], about["version"], licence, _collect(_tar_files(archive)))


def _read_debian(archive: Path) -> Package:
    text = archive.read_text(errors="replace")
    name = re.search(r"^Source: (\S+)", text, re.M)
    version = re.search(r"^Version: (\S+)", text, re.M)
    listed = sorted(set(re.findall(r"^ [0-9a-f]{32} \d+ (\S+)$", text, re.M)))
    packaging = next(archive.parent / f for f in listed if ".debian.tar" in f)
    upstream = [archive.parent / f for f in listed if ".orig" in f and not f.endswith(".asc")]
    with tarfile.open(packaging) as tar:
        stream = tar.extractfile("debian/copyright")
        copyright_text = stream.read().decode("utf-8", "replace") if stream else ""
    licence, unfree = _debian_licence(copyright_text)
    files = _collect(f for tar_file in upstream for f in _tar_files(tar_file, unfree))
    assert name and version
    return Package("debian", name[1], version[1], licence, files)


def _read_deb(archive: Path) -> Package:
    name, version = archive.name.split("_")[:2]
    unpacked = subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], capture_output=True, check=True).stdout
    kept, copyright_text = [], ""
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as tar:
        for member in tar:
            if not member.isfile():
                continue
            stream = tar.extractfile(member)
            assert stream
            if member.name == f"./usr/share/doc/{name}/copyright":
                copyright_text = stream.read().decode("utf-8", "replace")
            path = _INSTALLED.sub("", member.name)
            if language := _wanted(path, member.size):
                kept.append((path, language, stream.read()))
    licence, unfree = _debian_licence(copyright_text)
    files = _collect(f for f in kept if not unfree(f[0]))
    return Package(
        "debian", re.sub(r"^lib(rust-.*)-dev$|^(golang-.*)-dev$", r"\1\2", name), version, licence, files
    )


def _debian_licence(text: str) -> tuple[str, Callable[[str], bool]]:
    """The licence of `Files: *`, and a test for paths under another, unfree licence."""
    licence, unfree = "", []
    for stanza in re.split(r"\n\s*\n", text):
        files = re.search(r"^Files:((?:.*\n[ \t])*.*)$", stanza, re.M)
        said = re.search(r"^License: *(.*)$", stanza, re.M)
        if not files or not said:
            continue
        globs = files[1].split()
        if "*" in globs:
            licence = said[1].strip()
        elif not permissive(said[1]):
            unfree += globs
    if not permissive(licence):
        raise Refused(f"licence: {licence or 'none stated'}")
    return licence, lambda path: any(fnmatch.fnmatch(path, glob) for glob in unfree)
