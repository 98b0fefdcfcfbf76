"""Determine the language of a file and its kind from its path.

Only names are used here, so that a scan of an unchanged repository reads no file. `TEXT` is used for files
whose name gives no language; `language_of_text` decides those once the text is read.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rag.types import Kind

TEXT = "text"
OTHER = "other"
"""The language of a file whose extension is not in the table: its text is read, if it is text."""
JAVASCRIPT = frozenset({"javascript", "typescript", "tsx"})
"""The JavaScript family, whose files declare their exports."""
TERRAFORM, TEMPLATE = "terraform", "template"
HYPHENATED = frozenset(
    {"lisp", "clojure", "powershell", "css", "scss", "nix", "yaml", TEMPLATE, TERRAFORM, OTHER}
)
"""The languages in which a hyphen is part of a name."""

_EXTENSIONS_OF = {
    "python": "py pyi pyw pyx pxd pxi bzl star gyp gypi vy",
    "javascript": "js jsx mjs cjs es6",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "java": "java",
    "go": "go",
    "rust": "rs",
    "c": "c h",
    "cpp": "cc cpp cxx c++ hh hpp hxx h++ ipp tpp inl ino cu cuh ixx cppm",
    "ruby": "rb rake gemspec ru podspec jbuilder thor",
    "php": "php phtml php5 inc",
    "csharp": "cs csx",
    "kotlin": "kt kts",
    "scala": "scala sc sbt",
    "swift": "swift swiftinterface",
    "lua": "lua nse rockspec luau",
    "bash": "sh bash zsh ksh bats ebuild",
    "sql": "sql psql pgsql ddl plsql",
    "html": "html htm xhtml jinja jinja2 j2 hbs handlebars mustache ejs njk liquid twig cshtml razor erb"
    " jsp jspx jspf tag tagx asp aspx ascx",
    "vue": "vue",
    "svelte": "svelte astro",
    "css": "css",
    "scss": "scss sass less styl",
    "json": "json jsonc json5 webmanifest ipynb jsonl",
    "yaml": "yaml yml",
    "toml": "toml",
    "markdown": "md markdown mdx mkd qmd rmd",
    "rst": "rst rest",
    "asciidoc": "adoc asciidoc",
    "org": "org",
    "tex": "tex sty cls",
    TEXT: "txt text",
    "xml": "xml xsd xsl xslt wsdl plist storyboard xib csproj vbproj fsproj props targets resx xaml config"
    " pom ui qrc wxs nuspec vcproj vcxproj tld dtd",
    "ini": "ini cfg conf cnf properties editorconfig desktop service timer socket env",
    "proto": "proto",
    "thrift": "thrift",
    "graphql": "graphql gql graphqls",
    "terraform": "tf tfvars hcl nomad",
    "gradle": "gradle groovy",
    "cmake": "cmake",
    "make": "mk mak am",
    "docker": "dockerfile",
    "kconfig": "kconfig",
    "perl": "pl pm t pod",
    "r": "r",
    "julia": "jl",
    "dart": "dart",
    "elixir": "ex exs eex heex leex",
    "erlang": "erl hrl",
    "haskell": "hs lhs",
    "ocaml": "ml mli",
    "fsharp": "fs fsi fsx",
    "clojure": "clj cljs cljc edn",
    "lisp": "lisp lsp cl el scm ss rkt",
    "zig": "zig",
    "nim": "nim nims nimble",
    "d": "d di",
    "v": "v sv svh vhd vhdl",
    "crystal": "cr",
    "objc": "m mm",
    "pascal": "pas pp dpr",
    "fortran": "f f77 f90 f95 f03 f08 for ftn fpp fypp",
    "ada": "adb ads",
    "assembly": "s asm",
    "powershell": "ps1 psm1 psd1",
    "batch": "bat cmd",
    "vb": "vb bas vbs",
    "solidity": "sol",
    "vim": "vim",
    "tcl": "tcl",
    "awk": "awk",
    "nix": "nix",
    "fish": "fish",
    "glsl": "glsl vert frag comp hlsl wgsl metal",
    "template": "tmpl tpl gotmpl mako tt",
    "bazel": "bazel build",
    "meson": "meson",
    "m4": "m4",
    "coffeescript": "coffee",
    "elm": "elm",
    "purescript": "purs",
    "prisma": "prisma",
    "gherkin": "feature",
    "jsonnet": "jsonnet libsonnet",
    "rego": "rego",
}
_BY_EXTENSION = {ext: language for language, exts in _EXTENSIONS_OF.items() for ext in exts.split()}

_BY_NAME = {
    "kconfig": "kconfig",
    "makefile": "make",
    "gnumakefile": "make",
    "cmakelists.txt": "cmake",
    "dockerfile": "docker",
    "containerfile": "docker",
    "jenkinsfile": "gradle",
    "vagrantfile": "ruby",
    "rakefile": "ruby",
    "gemfile": "ruby",
    "podfile": "ruby",
    "fastfile": "ruby",
    "brewfile": "ruby",
    "guardfile": "ruby",
    "capfile": "ruby",
    "justfile": "make",
    "procfile": "yaml",
    "build": "bazel",
    "workspace": "bazel",
    "meson.build": "meson",
    "meson_options.txt": "meson",
    "sconstruct": "python",
    "sconscript": "python",
    "wscript": "python",
    "snakefile": "python",
    "pipfile": "toml",
    "go.mod": "gomod",
    "go.work": "gomod",
    ".babelrc": "json",
    ".eslintrc": "json",
    ".prettierrc": "json",
    ".stylelintrc": "json",
    ".swcrc": "json",
    ".jshintrc": "json",
    ".watchmanconfig": "json",
    ".clang-format": "yaml",
    ".clang-tidy": "yaml",
    ".bashrc": "bash",
    ".zshrc": "bash",
    ".profile": "bash",
    ".bash_profile": "bash",
    ".vimrc": "vim",
    "configure.ac": "m4",
    "configure.in": "m4",
    ".gitconfig": "ini",
    ".gitmodules": "ini",
    ".gitattributes": "ini",
    ".gitignore": "ini",
    ".dockerignore": "ini",
    ".npmrc": "ini",
    ".pypirc": "ini",
    ".flake8": "ini",
    ".pylintrc": "ini",
    ".coveragerc": "ini",
    ".editorconfig": "ini",
}

_TEMPLATE_ENDINGS = frozenset(
    {"in", "tmpl", "tpl", "template", "example", "sample", "dist", "default", "j2", "erb", "tt"}
)
"""`config.yaml.example` is YAML: one such ending is taken off before the extension is read."""

_SHEBANG = re.compile(r"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+)*)?([A-Za-z]+)")
_INTERPRETERS = {
    "python": "python",
    "pypy": "python",
    "sh": "bash",
    "bash": "bash",
    "dash": "bash",
    "zsh": "bash",
    "ksh": "bash",
    "bats": "bash",
    "node": "javascript",
    "nodejs": "javascript",
    "bun": "typescript",
    "deno": "typescript",
    "tsx": "typescript",
    "ruby": "ruby",
    "php": "php",
    "perl": "perl",
    "lua": "lua",
    "luajit": "lua",
    "awk": "awk",
    "gawk": "awk",
    "tclsh": "tcl",
    "wish": "tcl",
    "fish": "fish",
    "make": "make",
    "elixir": "elixir",
    "escript": "erlang",
    "julia": "julia",
    "swift": "swift",
    "scala": "scala",
    "kotlin": "kotlin",
    "groovy": "gradle",
    "pwsh": "powershell",
    "osascript": TEXT,
    "Rscript": "r",
    "runhaskell": "haskell",
}


_OTHER_NAMES = {
    "c#": "csharp",
    "f#": "fsharp",
    "golang": "go",
    "makefile": "make",
    "objective-c": "objc",
    "shell": "bash",
}
LANGUAGES = frozenset((*_EXTENSIONS_OF, *_BY_NAME.values(), *_INTERPRETERS.values(), OTHER))
"""The names of languages, without the few that only a text shows."""
_FAMILIES = {"typescript": ("typescript", "tsx")}


def languages_named(name: str) -> tuple[str, ...]:
    """Return the languages that a name or file extension means, such as `Python`, `c++` or `.ts`."""
    wanted = name.strip().lower().removeprefix(".")
    language = wanted if wanted in LANGUAGES else _OTHER_NAMES.get(wanted) or _BY_EXTENSION.get(wanted)
    return () if language is None else _FAMILIES.get(language, (language,))


def language_of_path(path: str) -> str:
    """Return the language of a path: `TEXT` for a name without extension, `OTHER` for an unknown one."""
    return _language_of_name(path.rpartition("/")[2].lower())


@lru_cache(maxsize=65536)
def _language_of_name(name: str) -> str:
    known = _BY_NAME.get(name)
    if known:
        return known
    if name.startswith(("dockerfile.", "containerfile.", "kconfig.", "kconfig-", "makefile.")):
        return {"k": "kconfig", "m": "make"}.get(name[0], "docker")
    stem, dot, extension = name.lstrip(".").rpartition(".")
    if not dot:
        return "ini" if name.startswith(".") and name.endswith(("rc", "ignore")) else TEXT
    if extension in _TEMPLATE_ENDINGS and "." in stem:
        inner = _BY_EXTENSION.get(stem.rpartition(".")[2])
        if inner:
            return inner
    if extension.isdigit() and len(extension) == 1:
        return "roff"
    if extension in _HUMAN_LANGUAGES and _DOC_NAME.match(name):
        return TEXT
    known = _BY_EXTENSION.get(extension) or _BY_EXTENSION.get(extension.partition("-")[0])  # py-tpl
    return known or (TEXT if extension in _TEMPLATE_ENDINGS or _DOC_NAME.match(name) else OTHER)


_CPP_SIGNS = re.compile(
    r"^[ \t]*(?:template\s*<|namespace\b|class\s+\w[\w\s:,<>]{0,300}[{;]|using\s+\w"
    r"|(?:public|private|protected)\s*:"
    r"|#[ \t]*include\s*<\w+>|virtual\b|constexpr\b|enum\s+class\b)|\bstd::",
    re.MULTILINE,
)
_OBJC_SIGNS = re.compile(
    r"^[ \t]*(?:@interface|@implementation|@protocol|@class|@import|#[ \t]*import)\b", re.MULTILINE
)


def language_of_text(language: str, path: str, text: str) -> str:
    """Return the language, decided by the text where the name is ambiguous.

    That is: a first line `#!…` in a file without extension, and C++ or Objective-C in a `.h` file.
    """
    if language == TEXT and text.startswith("#!"):
        match = _SHEBANG.match(text)
        return _INTERPRETERS.get(match[1], TEXT) if match else TEXT
    if language == "c" and path.endswith(".h"):
        if _OBJC_SIGNS.search(text):
            return "objc"
        return "cpp" if _CPP_SIGNS.search(text) else "c"
    if path.endswith(".m") and not _OBJC_SIGNS.search(text):
        return "matlab"
    return language


_TEST_FOLDERS = frozenset(
    "test tests itest itests spec specs e2e cypress testdata testcases unittests unittest androidtest"
    " fixtures mocks testutil testutils testing testfixtures testfiles".split()
)
_TEST_WORDS = frozenset({"test", "tests"})
"""Words of the name of a folder with tests: `test-utils`, `Shop.Tests`."""
_TEST_LANGUAGE = "gherkin"
_TEST_SOURCES = re.compile(r"(?:^|/)src/[a-z]\w*Tests?(?:/|$)")
"""A source set of Gradle that holds tests: `src/commonTest/kotlin`."""
_TEST_NAME = re.compile(
    r"^(?:test_.*|tests?|conftest|.*[._-](?:test|tests|test-d|spec|specs|e2e|cy)|.*(?<=[a-z0-9])(?:Tests?|TestCase|Spec|IT)"
    r"|Test[A-Z]\w*)$"
)
_TEST_MODULES = frozenset({"test", "tests"})
_DOC_FOLDERS = frozenset("doc docs documentation man manual wiki".split())
_DOC_LANGUAGES = frozenset({"markdown", "rst", "asciidoc", "org", "tex", "roff"})
_DOC_NAME = re.compile(
    r"^(?:readme|license|licence|copying|notice|authors|contributors|maintainers|changelog|changes|history|news|todo"
    r"|contributing|code_of_conduct|security|install|upgrading|credits|thanks|faq|releasing|hacking)\b",
    re.IGNORECASE,
)
_HUMAN_LANGUAGES = frozenset("cs de es fr hu it ja ko pl pt ru sv tr uk zh".split())
"""Endings of documents that are translated, such as `CHANGES.ru`; some are those of programs too."""
_TRANSLATED = re.compile(
    rf"(?:/|^)(?:{'|'.join(sorted(_HUMAN_LANGUAGES))})(?:[-_][a-z]{{2,4}})?/"
    rf"|[._-](?:{'|'.join(sorted(_HUMAN_LANGUAGES - {'it'}))})(?:[-_][a-z]{{2,4}})?(?:\.[a-z]+)?$",
    re.IGNORECASE,
)
_CONFIG_LANGUAGES = frozenset(
    "yaml toml ini json docker gomod make cmake meson bazel terraform kconfig".split()
)
_CONFIG_FOLDERS = frozenset({".github", ".circleci", ".gitlab", ".vscode", ".buildkite", ".devcontainer"})
_CONFIG_NAME = re.compile(
    r"^(?:setup\.py|noxfile\.py|.*\.config\.[cm]?[jt]s|gruntfile\.js|gulpfile\.[cm]?[jt]s|.*\.gradle(?:\.kts)?|pom\.xml"
    r"|.*\.(?:csproj|props|targets|plist|podspec|gemspec|sbt)|gemfile|podfile|vagrantfile|jenkinsfile"
    r"|requirements.*\.txt|constraints.*\.txt)$",
    re.IGNORECASE,
)
_DATA_EXTENSIONS = (".txt", ".text")


@lru_cache(maxsize=16384)
def _part_of_folder(folder: str) -> Kind | None:
    parts = [part.strip("_") for part in folder.lower().split("/")]
    has_tests = any(part in _TEST_FOLDERS or _is_of_tests(part) for part in parts)
    if has_tests or _TEST_SOURCES.search(folder):
        return "test"
    if any(part in _DOC_FOLDERS for part in parts):
        return "doc"
    return "config" if any(part in _CONFIG_FOLDERS for part in parts) else None


def _is_of_tests(part: str) -> bool:
    return not _TEST_WORDS.isdisjoint(re.split(r"[-_.]", part)) if "test" in part else False


def kind_of(path: str, language: str) -> Kind:
    """Return whether the file is code, test, doc or config, by the conventions of many languages.

    A document in a test folder counts as documentation only by its name (`tests/README.md`). Code in a
    documentation folder is documentation, since it is an example.
    """
    folder, _, name = path.rpartition("/")
    if language in _DOC_LANGUAGES or (language == TEXT and _DOC_NAME.match(name)):
        return "doc"
    part = "test" if language == _TEST_LANGUAGE else _part_of_folder(folder)
    if part == "test" or _TEST_NAME.match(
        name.partition(".")[0] if name.count(".") < 2 else name.rpartition(".")[0]
    ):
        return "test"
    if name.endswith(".ipynb"):
        return part or "code"
    if _CONFIG_NAME.match(name) or language in _CONFIG_LANGUAGES or part == "config":
        return "config"
    if part == "doc" or (language == TEXT and name.lower().endswith(_DATA_EXTENSIONS)):
        return "doc"
    return "code"


def kind_inside(kind: Kind, language: str, name: str) -> Kind:
    """Return the kind of what has a qualified name in a file of a kind: Rust has tests in files of code."""
    is_test = kind == "code" and language == "rust" and not _TEST_MODULES.isdisjoint(name.split("."))
    return "test" if is_test else kind


def is_translated(path: str) -> bool:
    """Return whether a document is a translation, by its path: `docs/ja/index.md`, `README.zh-CN.md`."""
    return _TRANSLATED.search(path) is not None


def kind_of_path(path: str) -> Kind:
    """Return the kind of a file, whose language is that of its path."""
    return kind_of(path, language_of_path(path))
