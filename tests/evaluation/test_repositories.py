import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rag.errors import SettingsError, SourceError, SourceNotFound
from tools.benchmarks.repositories import EvaluationRepository, Registries, obtain, read_repositories, unpack

FILES = {
    "toy-1.0/src/toy.py": b"def play():\n    pass\n",
    "toy-1.0/dist/toy.py": b"copy\n",
    "toy-1.0/README": b"Toy\n",
}


def pack(path: Path, files: dict[str, bytes], *links: tuple[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w:xz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return path


def toy(archive: Path, source: str = "npm") -> EvaluationRepository:
    return EvaluationRepository(
        name="toy",
        language="python",
        source=source,
        package="toy",
        version="1.0",
        archive=archive.name,
        sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
        licence="MIT",
        leave_out=("dist",),
    )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the loopback address it is served at."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    folder = tmp_path / "registry"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_cached_archive_is_unpacked_without_its_top_folder_and_what_is_left_out(tmp_path: Path) -> None:
    archive = pack(tmp_path / "archives" / "toy-1.0.tar.gz", FILES)

    folder = obtain(toy(archive), tmp_path)

    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "README",
        "src/toy.py",
    ]
    assert (folder / "src/toy.py").read_bytes() == FILES["toy-1.0/src/toy.py"]
    assert obtain(toy(archive), tmp_path) == folder
    assert obtain(replace(toy(archive), leave_out=()), tmp_path) != folder


@pytest.mark.parametrize("source", ["pypi", "npm", "debian"])
def test_an_archive_is_found_where_its_registry_keeps_it(
    tmp_path: Path, served: tuple[Path, str], source: str
) -> None:
    registry, address = served
    place = {"pypi": "files", "npm": "toy/-", "debian": "pool/main/t/toy"}[source]
    archive = pack(registry / place / "toy-1.0.tar.gz", FILES)
    page = registry / "simple" / "toy" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(
        '<a href="../../files/toy-0.9.tar.gz#sha256=0">old</a><a href="../../files/toy-1.0.tar.gz">x</a>'
    )

    folder = obtain(
        toy(archive, source), tmp_path / "cache", Registries(f"{address}/simple", address, (address,))
    )

    assert (folder / "src" / "toy.py").is_file()


def test_an_archive_that_is_not_the_named_one_is_refused_and_forgotten(tmp_path: Path) -> None:
    archive = pack(tmp_path / "archives" / "toy-1.0.tar.gz", FILES)
    other = replace(toy(archive), sha256="0" * 64)

    with pytest.raises(SourceError, match="expected 0000"):
        obtain(other, tmp_path)

    assert not archive.exists()


def test_an_archive_nobody_has_is_named_with_the_addresses_tried(
    tmp_path: Path, served: tuple[Path, str]
) -> None:
    archive = pack(tmp_path / "elsewhere" / "toy-1.0.tar.gz", FILES)
    registries = Registries(served[1], served[1], (served[1],))

    with pytest.raises(SourceNotFound, match=r"toy/-/toy-1\.0\.tar\.gz.*404"):
        obtain(toy(archive), tmp_path / "cache", registries)


@pytest.mark.parametrize("name", ["../evil", "toy/../../evil", "/etc/evil", "toy\\..\\evil"])
def test_a_member_that_leads_out_of_the_folder_stops_everything(tmp_path: Path, name: str) -> None:
    archive = pack(tmp_path / "bad.tar.gz", {"toy/good": b"", name: b"x"})
    target = tmp_path / "target" / "inner"
    target.mkdir(parents=True)

    with pytest.raises(SourceError, match="leads out"):
        unpack(archive, target)

    assert list(target.iterdir()) == []
    assert not (tmp_path / "target" / "evil").exists()


def test_links_are_not_unpacked(tmp_path: Path) -> None:
    archive = pack(tmp_path / "links.tar.xz", {"toy/a": b"1", "toy/b": b"2"}, ("toy/c", "/etc/passwd"))

    assert unpack(archive, tmp_path / "out") == 2

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "b"]


def test_a_damaged_archive_is_an_error_of_ours(tmp_path: Path) -> None:
    archive = pack(tmp_path / "toy.tar.gz", FILES)
    archive.write_bytes(archive.read_bytes()[:100])

    with pytest.raises(SourceError, match="damaged"):
        unpack(archive, tmp_path / "out")


def test_a_toml_file_is_read_in_its_order_and_mistakes_are_named(tmp_path: Path) -> None:
    entry = (
        '[[repository]]\nname="{0}"\nlanguage="python"\nsource="pypi"\npackage="{0}"\nversion="1"\n'
        'archive="{0}.tar.gz"\nsha256="x"\nlicence="MIT"\n'
    )
    path = tmp_path / "repositories.toml"
    path.write_text(entry.format("b") + entry.format("a"))
    assert [repository.name for repository in read_repositories(path)] == ["b", "a"]

    for text, problem in [
        (entry.format("a") * 2, "more than once"),
        (entry.format("a").replace('licence="MIT"\n', ""), "lacks licence"),
        (entry.format("a").replace('"pypi"', '"cpan"'), "not a source"),
        (entry.format("../a"), "plain file name"),
        ("[[", "cannot read"),
    ]:
        path.write_text(text)
        with pytest.raises(SettingsError, match=problem):
            read_repositories(path)
