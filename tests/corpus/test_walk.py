"""Which files are indexed, and the reason for each that is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rag.code.languages import kind_of, language_of_path, language_of_text
from rag.corpus.walk import Walk, walk
from rag.errors import SourceError
from rag.types import Filters

_LIMIT = 1_000_000


def look(root: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> Walk:
    return walk(root, Filters(include, exclude), max_file_bytes=_LIMIT)


def paths(found: Walk) -> list[str]:
    return [entry.path for entry in found.files]


def reasons(found: Walk) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in found.skipped}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder whose own path is full of names that are left out below a root."""
    folder = tmp_path / "build" / "node_modules" / "tmp"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(params=["plain", "git"])
def tree(root: Path, request: pytest.FixtureRequest) -> Callable[..., Path]:
    """Writes files into the root, which is a git work tree in every second run of the test."""
    if request.param == "git":
        subprocess.run(["git", "init", "-q", str(root)], check=True)

    def write(*names: str, **texts: str) -> Path:
        for name in names:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("x = 1\n")
        for name, text in texts.items():
            (root / name.replace("__", "/").replace("DOT", ".")).write_text(text)
        return root

    return write


def test_files_come_in_the_order_of_their_paths_whatever_the_root_is_called(
    tree: Callable[..., Path],
) -> None:
    found = look(tree("b.py", "a/z.py", "a.py", "a/b/c.go", "Makefile"))
    assert paths(found) == ["Makefile", "a.py", "a/b/c.go", "a/z.py", "b.py"]
    assert found.skipped == []
    assert found.seen == 5


def test_an_entry_says_what_a_scan_needs(tree: Callable[..., Path]) -> None:
    root = tree("src/a.py", "tests/test_a.py")
    entry, test = look(root).files
    status = (root / "src/a.py").stat()
    assert (entry.size_bytes, entry.mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert (entry.language, entry.kind, test.kind) == ("python", "code", "test")


def test_nested_gitignores_are_honoured_and_the_inner_one_decides(tree: Callable[..., Path]) -> None:
    root = tree("a.log.py", "keep/b.gen.py", "keep/c.gen.py", "out/d.py", "deep/out/e.py", "x/y.py")
    (root / ".gitignore").write_text("*.gen.py\n/out/\n# comment\nx/\n\n*.log.*\n")
    (root / "keep" / ".gitignore").write_text("!b.gen.py\n")
    assert paths(look(root)) == [".gitignore", "deep/out/e.py", "keep/.gitignore", "keep/b.gen.py"]


def test_ragignore_and_filters_leave_out_with_their_reason(tree: Callable[..., Path]) -> None:
    root = tree("src/a.py", "src/b.js", "docs/c.md", "old/d.py", "src/skip/e.py")
    (root / ".ragignore").write_text("old/\n")
    found = look(root, include=("*.py", "/docs/"), exclude=("src/skip/**",))
    assert paths(found) == ["docs/c.md", "src/a.py"]
    assert reasons(found) == {
        ".ragignore": "excluded by filter",
        "old/d.py": "ignored by .ragignore",
        "src/b.js": "excluded by filter",
        "src/skip/e.py": "excluded by filter",
    }


def test_a_pattern_that_means_nothing_is_an_error(tree: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match="--include"):
        look(tree("a.py"), include=("!",))


def test_source_code_may_be_twice_as_large_as_other_files(tree: Callable[..., Path]) -> None:
    large, larger = "x = 1\n" * (_LIMIT // 5), "x = 1\n" * (_LIMIT // 2)
    found = look(tree(aDOTpy=large, bDOTpy=larger, cDOTmd=large))
    assert paths(found) == ["a.py"]
    assert reasons(found) == {"b.py": "too large", "c.md": "too large"}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("logo.png", "binary"),
        ("package-lock.json", "generated"),
        ("go.sum", "generated"),
        ("app.min.js", "generated"),
        ("app.js.map", "generated"),
        ("api_pb2.py", "generated"),
        ("locale/de/django.po", "translation catalogue"),
        ("rows.csv", "data file"),
        (".env", "likely secret"),
        (".env.production", "likely secret"),
        ("id_rsa", "likely secret"),
        ("server.pem", "likely secret"),
        ("store.p12", "likely secret"),
        (".netrc", "likely secret"),
        *(
            (name, "likely secret")
            for name in """
            .envrc .npmrc .pypirc .git-credentials .pgpass .dockercfg .vault-token .htpasswd kubeconfig.yaml
            infra/terraform.tfvars infra/prod.auto.tfvars terraform.tfstate .bash_history credentials.json
            gcp-key.json serviceAccount.json my-service-account.json wp-config.php deploy/.kube/config
            .docker/config.json .aws/config .cargo/credentials.toml config/master.key store.kdbx vpn.ovpn
            """.split()
        ),
    ],
)
def test_what_a_name_tells_is_left_out(tree: Callable[..., Path], name: str, reason: str) -> None:
    found = look(tree(name, "a.py"))
    assert (paths(found), reasons(found)) == (["a.py"], {name: reason})


def test_files_of_an_unknown_type_are_listed_and_of_the_size_of_documents(tree: Callable[..., Path]) -> None:
    found = look(tree(aDOTxyz="rule main", bDOTxyz="x = 1\n" * (_LIMIT // 5)))
    assert [(entry.path, entry.language, entry.kind) for entry in found.files] == [("a.xyz", "other", "code")]
    assert reasons(found) == {"b.xyz": "too large"}


def test_names_that_only_look_so_are_kept(tree: Callable[..., Path]) -> None:
    names = [
        ".env.example",
        "id_rsa.pub.md",
        "environment.py",
        "locker.py",
        "vendor.py",
        "minify.js",
        "secrets.py",
        "config.json",
        "credentials.py",
        "docker/config.json",
        "kube/config.py",
        "master.py",
        "service_account.py",
    ]
    assert paths(look(tree(*names))) == sorted(names)


def test_vendored_folders_are_named_once(tree: Callable[..., Path]) -> None:
    found = look(tree("a.py", "node_modules/x/index.js", "node_modules/y/index.js", "src/vendor/lib.go"))
    assert paths(found) == ["a.py"]
    assert reasons(found) == {"node_modules/": "vendored", "src/vendor/": "vendored"}


def test_a_wiki_that_was_written_here_is_left_out(tree: Callable[..., Path]) -> None:
    wiki = ("a wiki/docs/index.md", "a wiki/.rag-wiki.json", "a wiki/mkdocs.yml", "a wiki/site/logo.png")
    found = look(tree("a.py", "a wiki.md", "node_modules/x/.rag-wiki.json", *wiki))
    assert paths(found) == ["a wiki.md", "a.py"]
    assert reasons(found) == {"a wiki/": "generated", "node_modules/": "vendored"}
    assert paths(look(tree() / "a wiki")) == [".rag-wiki.json", "docs/index.md", "mkdocs.yml"]


def test_a_large_file_is_left_out_unread(tree: Callable[..., Path]) -> None:
    root = tree("a.py")
    with (root / "huge.py").open("wb") as file:
        file.truncate(200 << 20)  # no disk is used: a hole
    found = look(root)
    assert reasons(found) == {"huge.py": "too large"}
    assert found.skipped[0].detail == f"{200 << 20} bytes"


def test_links_are_not_followed(tree: Callable[..., Path], tmp_path: Path) -> None:
    root = tree("src/a.py")
    (tmp_path / "secret.py").write_text("outside")
    (root / "outside.py").symlink_to(tmp_path / "secret.py")
    (root / "inside.py").symlink_to("src/a.py")
    (root / "src" / "loop").symlink_to(root)
    (root / "self.py").symlink_to("self.py")
    (root / "broken.py").symlink_to("nowhere")
    found = look(root)
    assert paths(found) == ["src/a.py"]
    assert reasons(found) == {
        "broken.py": "broken symlink",
        "inside.py": "symlink",
        "outside.py": "symlink outside the repository",
        "self.py": "symlink loop",
        "src/loop": "symlink loop",
    }


def test_a_pipe_is_no_file(tree: Callable[..., Path]) -> None:
    root = tree("a.py")
    os.mkfifo(root / "pipe.py")
    assert paths(look(root)) == ["a.py"]  # git does not even list it


def test_odd_names_are_kept_where_they_can_be_read(tree: Callable[..., Path]) -> None:
    names = [
        "-rf.py",
        " lead.py",
        "new\nline.py",
        "quote'\".py",
        "ünï/日本.py",
        "sp ace.py",
        "[x].py",
        "#.py",
    ]
    root = tree(*names)
    (root / os.fsdecode(b"bad\xff.py")).write_text("x")
    found = look(root)
    assert paths(found) == sorted(names)
    assert reasons(found) == {"bad\\xff.py": "name is not UTF-8"}


def test_a_repository_inside_is_a_submodule(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "init", "-q", str(root / "inner")], check=True)
    (root / "inner" / "a.py").write_text("")
    (root / "b.py").write_text("")
    found = look(root)
    assert (paths(found), reasons(found)) == (["b.py"], {"inner": "submodule"})


def test_a_deleted_file_is_not_there(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "a.py").write_text("")
    subprocess.run(["git", "add", "a.py"], cwd=root, check=True)
    (root / "a.py").unlink()
    assert look(root) == Walk()


def test_paths_are_relative_to_a_folder_inside_the_repository(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "sub").mkdir()
    (root / "a.py").write_text("")
    (root / "sub" / "b.py").write_text("")
    assert paths(look(root / "sub")) == ["b.py"]


def test_a_folder_the_enclosing_repository_ignores_is_listed_all_the_same(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("unpacked/\n")
    (root / "unpacked" / "pkg").mkdir(parents=True)
    (root / "unpacked" / "pkg" / "a.py").write_text("")
    assert paths(look(root / "unpacked")) == ["pkg/a.py"]


def test_an_empty_folder_holds_nothing(tree: Callable[..., Path]) -> None:
    assert look(tree()) == Walk()


def test_what_may_not_be_read_is_named(tree: Callable[..., Path]) -> None:
    root = tree("a.py", "closed/b.py", "c.py")
    program = (
        "import os, sys; from pathlib import Path\n"
        "from rag.corpus.walk import walk; from rag.corpus.read import read\n"
        "from rag.types import Filters\n"
        "import rag.corpus.ignore, pathspec, rag.corpus.secrets\n"
        "root = Path(sys.argv[1])\n"
        "(root / 'closed').chmod(0); (root / 'c.py').chmod(0)\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "os.environ.update(GIT_CONFIG_COUNT='0')\n"
        "found = walk(root, Filters(), max_file_bytes=10**6)\n"
        "print([e.path for e in found.files], [(s.path, s.reason) for s in found.skipped])\n"
        "print([read(root, e) for e in found.files][-1])\n"
    )
    for folder in (root, *root.parents):
        if folder != Path("/") and folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o555)
    done = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True)
    (root / "closed").chmod(0o700)
    assert done.stdout.splitlines()[0] == "['a.py', 'c.py'] [('closed/', 'unreadable')]", done
    assert "reason='unreadable'" in done.stdout.splitlines()[1]


def test_seven_thousand_files_are_listed_quickly(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for folder in range(70):
        (root / f"package_{folder}").mkdir()
        for number in range(100):
            (root / f"package_{folder}" / f"module_{number}.py").touch()
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    look(root)
    began = sum(os.times()[:4])  # of this process and of git's
    assert len(look(root).files) == 7000
    assert sum(os.times()[:4]) - began < 2.0  # 0.07 s


@pytest.mark.parametrize(
    ("path", "language", "kind"),
    [
        ("src/app.py", "python", "code"),
        ("src/app_test.go", "go", "test"),
        ("itests/Echo.java", "java", "test"),
        ("web/x.spec.ts", "typescript", "test"),
        ("web/x.test.tsx", "tsx", "test"),
        ("src/FooTest.java", "java", "test"),
        ("src/FooTests.cs", "csharp", "test"),
        ("spec/models/user_spec.rb", "ruby", "test"),
        ("tests/conftest.py", "python", "test"),
        ("src/latest.py", "python", "code"),
        ("src/contest.py", "python", "code"),
        ("README.md", "markdown", "doc"),
        ("tests/README.md", "markdown", "doc"),
        ("docs/conf.py", "python", "doc"),
        ("docs/topics/http.txt", "text", "doc"),
        ("LICENSE", "text", "doc"),
        ("Dockerfile", "docker", "config"),
        ("deploy/Dockerfile.prod", "docker", "config"),
        ("pyproject.toml", "toml", "config"),
        (".github/workflows/ci.yml", "yaml", "config"),
        ("CMakeLists.txt", "cmake", "config"),
        ("setup.py", "python", "config"),
        ("vite.config.ts", "typescript", "config"),
        ("requirements-dev.txt", "text", "config"),
        ("config.yaml.example", "yaml", "config"),
        ("app/App.vue", "vue", "code"),
        ("include/a.h", "c", "code"),
        ("notebooks/a.ipynb", "json", "code"),
        ("bin/run", "text", "code"),
        ("core/src/commonTest/kotlin/org/a/B.kt", "kotlin", "test"),
        ("core/src/commonMain/kotlin/org/a/B.kt", "kotlin", "code"),
        ("core/src/testFixtures/java/org/a/B.java", "java", "test"),
        ("test-d/stdio/input.test-d.ts", "typescript", "test"),
        ("types/index.test-d.ts", "typescript", "test"),
        ("features/login.feature", "gherkin", "test"),
        ("Shop.Tests/Kiln.cs", "csharp", "test"),
        ("runtime-tests/deno/kiln.ts", "typescript", "test"),
        ("src/test-utils/render.tsx", "tsx", "test"),
        ("internal/testutil/kiln.go", "go", "test"),
        ("src/__tests__/kiln.ts", "typescript", "test"),
        ("src/latest-news/kiln.ts", "typescript", "code"),
    ],
)
def test_a_path_tells_language_and_kind(path: str, language: str, kind: str) -> None:
    assert language_of_path(path) == language
    assert kind_of(path, language) == kind


@pytest.mark.parametrize(
    ("language", "path", "text", "settled"),
    [
        ("text", "run", "#!/usr/bin/env python3\n", "python"),
        ("text", "run", "#!/bin/sh -e\n", "bash"),
        ("text", "run", "#!/usr/bin/env -S deno run\n", "typescript"),
        ("text", "run", "plain\n", "text"),
        ("c", "a.h", "#pragma once\nnamespace x {\n}\n", "cpp"),
        ("c", "a.h", "struct a { int b; };\n", "c"),
        ("c", "a.h", "@interface A : B\n@end\n", "objc"),
        ("python", "a.py", "#!/bin/sh\n", "python"),
    ],
)
def test_the_text_settles_what_a_path_leaves_open(language: str, path: str, text: str, settled: str) -> None:
    assert language_of_text(language, path, text) == settled
