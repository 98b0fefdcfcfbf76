"""Obtain the repositories of evaluation questions by name and version: fetch, verify, unpack.

A TOML file lists them, one `[[repository]]` each:

    name = "httpie"                     # the name in the questions
    language = "python"
    source = "pypi"                     # an sdist; npm: a tarball; debian: upstream's tarball
    package = "httpie"
    version = "3.2.4"
    archive = "httpie-3.2.4.tar.gz"     # the file's name at the source
    sha256 = "…"                        # of the archive; anything else is rejected
    licence = "BSD-3-Clause"
    leave_out = ["dist"]                # optional: folders and files not to unpack (generated copies)

An archive is fetched once and cached. It is unpacked into its own folder, whose name contains the archive's
checksum, so a changed entry never uses an older folder. Nothing in an archive is executed.
"""

import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from pathlib import Path, PurePosixPath

from rag.decoding import text_of
from rag.errors import SettingsError, SourceError, SourceNotFound
from rag.parsing import parse_toml
from rag.resources import make_private

TIMEOUT_S = 120
MAX_UNPACKED_BYTES = 2**31
MAX_MEMBERS = 200_000
_REQUIRED = ("name", "language", "source", "package", "version", "archive", "sha256", "licence")


@dataclass(frozen=True)
class EvaluationRepository:
    """One repository of the TOML file. `leave_out` holds paths below the repository's root."""

    name: str
    language: str
    source: str
    package: str
    version: str
    archive: str
    sha256: str
    licence: str
    leave_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Registries:
    """The registries that archives are fetched from. Debian drops old versions, so its snapshot archive comes
    second.
    """

    pypi: str = "https://pypi.org/simple"
    npm: str = "https://registry.npmjs.org"
    debian: tuple[str, ...] = (
        "https://deb.debian.org/debian",
        "http://deb.debian.org/debian",
        "https://snapshot.debian.org/archive/debian/20250701T000000Z",
    )

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> "Registries":
        """Return the mirrors named by PIP_INDEX_URL, NPM_CONFIG_REGISTRY and DEBIAN_MIRROR."""
        defaults = cls()
        debian = environment.get("DEBIAN_MIRROR")
        return cls(
            pypi=environment.get("PIP_INDEX_URL", defaults.pypi).rstrip("/"),
            npm=environment.get("NPM_CONFIG_REGISTRY", defaults.npm).rstrip("/"),
            debian=((debian.rstrip("/"),) if debian else ()) + defaults.debian,
        )


def read_repositories(path: Path) -> list[EvaluationRepository]:
    """Read a TOML file of repositories, in its order.

    Raises:
        SettingsError: the file cannot be read, is not TOML, lacks a field, or names a repository twice.
    """
    try:
        entries = parse_toml(text_of(path.read_bytes())).get("repository", [])
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the repositories in {path}: {error}; fix the file") from error
    repositories = [_repository(entry, path) for entry in entries]
    names = [repository.name for repository in repositories]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SettingsError(f"{path} names {', '.join(twice)} more than once; keep one entry each")
    return repositories


def _repository(entry: Mapping[str, object], path: Path) -> EvaluationRepository:
    missing = [field for field in _REQUIRED if not isinstance(entry.get(field), str)]
    leave_out = entry.get("leave_out", [])
    if missing or not isinstance(leave_out, list):
        raise SettingsError(
            f"{path}: the entry {entry.get('name', '?')!r} lacks {', '.join(missing) or 'a list leave_out'}; "
            "tools/benchmarks/repositories.py shows a complete entry"
        )
    values = {field: str(entry[field]) for field in _REQUIRED}
    if values["source"] not in ("pypi", "npm", "debian"):
        raise SettingsError(f"{path}: {values['source']!r} is not a source; choose pypi, npm or debian")
    for field in ("name", "archive"):  # both become file names in the cache
        if PurePosixPath(values[field]).name != values[field]:
            raise SettingsError(f"{path}: {field} {values[field]!r} must be a plain file name")
    return EvaluationRepository(**values, leave_out=tuple(str(part).strip("/") for part in leave_out))


def obtain_all(
    repositories: Sequence[EvaluationRepository], cache: Path, registries: Registries | None = None
) -> dict[str, Path]:
    """Return the folder of every repository, by name. The same errors as `obtain`; the first one aborts."""
    return {repository.name: obtain(repository, cache, registries) for repository in repositories}


def obtain(repository: EvaluationRepository, cache: Path, registries: Registries | None = None) -> Path:
    """Return the folder with the repository's files; fetch and unpack what is not cached.

    The archive's single top folder is removed, so a question's path starts at the repository's root.
    `registries`: None means `Registries.of_environment()`.

    Raises:
        SourceNotFound: no registry has the archive, or none responds.
        SourceError: the checksum is wrong, or the archive is damaged or has unsafe members.
    """
    identity = "\n".join((repository.sha256, *repository.leave_out))
    folder = (
        cache / f"{repository.name}-{repository.version}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    )
    if folder.is_dir():
        return folder
    archive = cache / "archives" / repository.archive
    if not archive.is_file():
        _fetch(repository, archive, registries or Registries.of_environment())
    _verify(repository, archive)
    make_private(cache)  # it may create the data folder
    with tempfile.TemporaryDirectory(dir=cache, prefix=".unpacking-") as workplace:
        whole = Path(workplace) / "whole"
        whole.mkdir()
        unpack(archive, whole, leave_out=repository.leave_out)
        try:
            whole.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same files
                raise
    return folder


def _verify(repository: EvaluationRepository, archive: Path) -> None:
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != repository.sha256:
        archive.unlink()
        raise SourceError(
            f"{repository.archive} has the sha256 {found}, expected {repository.sha256}; it was removed from "
            "the cache: try again; if it fails again, the registry has changed the file"
        )


def _fetch(repository: EvaluationRepository, target: Path, registries: Registries) -> None:
    """Download the archive to `target`, from the first address that has it."""
    make_private(target.parent)
    failures: list[str] = []
    for address in _addresses(repository, registries, failures):
        try:
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as workplace:
                part = Path(workplace) / "part"
                with _open(address) as answer, part.open("wb") as file:
                    shutil.copyfileobj(answer, file)
                part.replace(target)
            return
        except (OSError, ValueError, HTTPException) as error:  # URLError and HTTPError are OSErrors
            failures.append(f"{address}: {error}")
    raise SourceNotFound(
        f"cannot fetch {repository.archive} ({repository.package} {repository.version}): "
        + "; ".join(failures or ["no registry names it"])
        + f"; put the file into {target.parent}, or name a mirror in "
        "PIP_INDEX_URL, NPM_CONFIG_REGISTRY or DEBIAN_MIRROR"
    )


def _open(address: str) -> "urllib.response.addinfourl":
    if urllib.parse.urlsplit(address).scheme not in ("http", "https"):
        raise ValueError("only http and https addresses are followed")
    request = urllib.request.Request(address, headers={"User-Agent": "rag-turns evaluation"})
    answer: urllib.response.addinfourl = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    return answer


def _addresses(
    repository: EvaluationRepository, registries: Registries, failures: list[str]
) -> Iterator[str]:
    package, archive = repository.package, repository.archive
    if repository.source == "npm":
        yield f"{registries.npm}/{package}/-/{archive}"
    elif repository.source == "debian":
        first = package[:4] if package.startswith("lib") else package[0]
        for base in registries.debian:
            yield f"{base}/pool/main/{first}/{package}/{archive}"
    else:
        page = f"{registries.pypi}/{package.lower().replace('_', '-').replace('.', '-')}/"
        try:
            with _open(page) as answer:
                text = answer.read().decode("utf-8", errors="replace")
        except (OSError, ValueError, HTTPException) as error:
            failures.append(f"{page}: {error}")
            return
        yield from (urllib.parse.urljoin(page, link) for link in _links(text) if _file_name(link) == archive)


def _file_name(link: str) -> str:
    return urllib.parse.unquote(PurePosixPath(urllib.parse.urlsplit(link).path).name)


class _LinkReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _links(page: str) -> list[str]:
    reader = _LinkReader()
    reader.feed(page)
    return reader.links


def unpack(archive: Path, folder: Path, *, leave_out: Sequence[str] = ()) -> int:
    """Unpack the regular files of a tar archive (gz, bz2, xz or plain) into `folder`; return how many.

    A single top folder shared by all members is removed. Links, devices and other special files are skipped,
    and so is everything below a path of `leave_out`. Files get default permissions, whatever the archive
    says.

    Raises:
        SourceError: the archive is damaged, a member's name leads out of the folder, or there are more than
            MAX_MEMBERS members or MAX_UNPACKED_BYTES bytes.
    """
    try:
        with tarfile.open(archive) as tar:
            members = [(member, _safe_path(member.name, archive)) for member in tar.getmembers()]
            _refuse_too_much([member for member, _ in members], archive)
            files = [(member, path) for member, path in members if member.isreg()]
            tops = {path.parts[0] for _, path in files if path.parts}
            depth = 1 if len(tops) == 1 and all(len(path.parts) > 1 for _, path in files) else 0
            return sum(
                _write(tar, member, PurePosixPath(*path.parts[depth:]), folder, leave_out)
                for member, path in files
            )
    except (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise SourceError(f"{archive} is damaged: {error}; remove it to fetch it again") from error
    except OSError as error:
        raise SourceError(
            f"cannot unpack {archive} to {folder}: {error}; free some space, choose another cache, or remove "
            "the archive"
        ) from error


def _safe_path(name: str, archive: Path) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise SourceError(f"{archive} holds {name!r}, which leads out of its folder; it is not unpacked")
    return path


def _refuse_too_much(members: Sequence[tarfile.TarInfo], archive: Path) -> None:
    size_bytes = sum(member.size for member in members if member.isreg())
    if len(members) > MAX_MEMBERS or size_bytes > MAX_UNPACKED_BYTES:
        raise SourceError(
            f"{archive} holds {len(members)} members and {size_bytes} bytes; no more than {MAX_MEMBERS} and "
            f"{MAX_UNPACKED_BYTES} are unpacked"
        )


def _write(
    tar: tarfile.TarFile, member: tarfile.TarInfo, path: PurePosixPath, folder: Path, leave_out: Sequence[str]
) -> bool:
    """Write one regular file; False when it is left out."""
    if any(path.is_relative_to(part) for part in leave_out):
        return False
    content = tar.extractfile(member)
    if content is None:
        return False
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)
    return True
