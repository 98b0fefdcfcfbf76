"""Questions about a project as a whole, and the places where projects conventionally answer them.

"How do I install it?": the words occur in a hundred functions, but the answer is in the README. A question is
of this kind when it has the words of one row and no others but neutral words.
"""

from __future__ import annotations

from dataclasses import dataclass

_WORDS = """
a about an and are be can codebase could do does exactly for get give got has have here i in into is it
its me my need of on one or our please program project repo repository code base see should software that
the there this to tool app application library package us use used uses using want we what whats where
which who how with would you your find at actually all any by file files from kind now currently tell
show
"""

NEUTRAL_WORDS = frozenset(_WORDS.split())
"""Neutral words, allowed in any such question."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place that holds an answer: a pattern for its path, and one for a line of its text, "" for any line.

    Both are regular expressions that ignore case. Of the files with such a line those nearest to the root
    count, and of their chunks `most`: those headed by the words of the question, then the first. With
    `terms`, all code that holds one of them counts, and chunks with most such lines come first.
    """

    path: str
    line: str = ""
    most: int = 3
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProjectQuestion:
    """A kind of question: one word of each group in `asked` and no others but those of `extra`; and the
    places, best first.
    """

    asked: tuple[frozenset[str], ...]
    extra: frozenset[str]
    places: tuple[Place, ...]

    def is_asked(self, asked_words: frozenset[str]) -> bool:
        """Return whether the words of a question, in lower case, include one of each group."""
        return all(asked_words & words for words in self.asked)

    def left_over(self, asked_words: frozenset[str]) -> frozenset[str]:
        """Return the words that ask for something else."""
        return asked_words.difference(NEUTRAL_WORDS, self.extra, *self.asked)


def _row(*asked: str, extra: str = "", places: tuple[Place, ...]) -> ProjectQuestion:
    groups = tuple(frozenset(words.split()) for words in asked)
    return ProjectQuestion(groups, frozenset(extra.split()), places)


_README = r"^(?:[^/]+/)?readme(?:\.\w+)?$"
README = Place(_README)
_PROSE = r"^[ \t]*[^\s<>\[!|].*\w{2}"
"""A line of text, unlike those of logos and badges, with which a README may begin."""
_GUIDE = r"^(?:\.github/|docs?/)?(?:contributing|develop\w*|hacking|building)\b[^/]*$"
_MANUAL = (
    r"(?:^|/)docs?/(?:.*/)?"
    r"(?:index|intro\w*|install\w*|setup|getting.?started|quick.?start|usage|tutorial)\.(?:md|rst|adoc|txt|html)$"
)
_MANIFEST = (
    r"(?:^|/)(?:pyproject\.toml|setup\.(?:cfg|py)|package\.json|composer\.json|cargo\.toml|[^/]+\.gemspec|pom\.xml"
    r"|build\.gradle(?:\.kts)?|go\.mod|meson\.build|cmakelists\.txt|[^/]+\.(?:csproj|cabal|podspec|rockspec)"
    r"|mix\.exs|pubspec\.yaml|package\.swift|deno\.jsonc?|configure\.ac)$"
)
_METADATA = r"^(?:pkg-info|[^/]*\.egg-info/pkg-info|meta\.(?:json|yml))$"
_NEEDS = r"^(?:requirements?[^/]*\.(?:txt|in)|gemfile|pipfile|environment\.ya?ml)$|" + _MANIFEST
_TASKS = (
    r"^(?:(?:gnu)?makefile|justfile|rakefile|tox\.ini|noxfile\.py|taskfile\.ya?ml|composer\.json)$"
    r"|(?:^|/)package\.json$"
)
_INSTALL = r"^(?:docs?/)?(?:install\w*|building|compil\w*)\b[^/]*$"
_RELEASING = (
    r"^(?:\.github/|docs?/)?(?:releas(?:e|ing)|packag(?:ing|es?)|publish\w*|deploy\w*)\b"
    r"[^/]*\.(?:md|rst|adoc|txt)$"
)
_RELEASE_SCRIPT = (
    r"^(?:\.github/workflows/|scripts?/|tools?/)?[^/]*(?:release|publish|deploy)[^/]*\.(?:ya?ml|sh|py|m?js)$"
)
_PROMPT = r"(?:^[ \t>$`]*|`[^`\n]{0,20})\b"
"""What is before a command in a document."""
_STARTS = (
    rf"{_PROMPT}(?:(?:npm|pnpm|yarn|bun|composer|make|just|python3?|php|rails|bundle|docker|gradle)\b"
    r".{0,40}\b(?:dev|develop|start|serve|server|up)\b|(?:go|cargo|dotnet|flutter) run\b)"
)
_BUILDS = (
    rf"{_PROMPT}(?:cmake|make|meson|ninja|gradle|mvn|bazel|cargo build|go build|npm run build"
    r"|(?:configure|gradlew|mvnw)\b)"
)
_TESTS = (
    rf"{_PROMPT}(?:(?:npm|pnpm|yarn|bun|composer|make|just|go|cargo|mix|dotnet|swift|php artisan)"
    r"(?: run)? (?:test|check)|(?:python3? -m )?(?:pytest|tox|nox|unittest)|rspec|rake|mvn|gradlew?|ctest)\b"
)
_NEWS = r"^(?:docs?/)?(?:changelog|changes|history|news|releases?)\b[^/]*$"
_SOURCE = r"\.(?:py|[cm]?[jt]sx?|go|rs|rb|php|java|kt|cc?|cpp|cs|h)$"
_WHOLE_TESTS = "e2e|end-to-end|integration|acceptance|functional"


def _headed(words: str) -> str:
    """Return a pattern for a short line of documentation with one of the words: a heading in any markup."""
    return rf"^[ \t#=.*]*(?:[^\n.:,]{{0,30}}\b)?(?:{words})"


PROJECT_QUESTIONS = (
    _row(
        "what whats explain describe summarize summarise summary overview tell show give",
        "project repo repository codebase package library program tool app application software",
        extra="overview summary purpose point idea good short brief explain describe summarize summarise",
        places=(Place(_README, _PROSE), README, Place(_MANIFEST, r"^\W*description\b")),
    ),
    _row(
        "license licence licensed licenced licensing licenses licences copyright",
        extra="under released distributed terms type commercially commercial open source covered",
        places=(
            Place(r"^(?:licen[cs]es?|copying|unlicense|copyright)\b[^/]*$", most=1),
            Place(_MANIFEST, "licen[cs]e"),
            Place(_README, "licen[cs]e"),
            Place(_METADATA, "licen[cs]e"),
        ),
    ),
    _row(
        "what whats which",
        "version",
        extra="current latest number release",
        places=(
            Place(_MANIFEST, r"^\W*(?:\w+\.)?version\b\W{1,6}\d|<version>\d|project\([^)]*version"),
            Place(
                r"(?:^|/)(?:__init__|_*version_*|__about__)(?:\.\w+)?$", r"version_*\b.{0,20}\d|^v?\d+\.\d+"
            ),
            Place(_NEWS, r"\d+\.\d+", most=1),
            Place(_METADATA, r"^version\b"),
        ),
    ),
    _row(
        "what which minimum min oldest lowest",
        "version versions",
        "android c++ compiler go java jdk jvm node nodejs php python ruby rust rustc sdk typescript",
        extra="needs needed require requires required support supports supported compatible"
        " run runs work works",
        places=(
            Place(
                _MANIFEST,
                r"requires-python|python_requires|\"engines\"|^go \d|rust-version|required_ruby_version"
                r"|\bminSdk|\"php\"|maven\.compiler|java\.version|sourceCompatibility|CMAKE_CXX_STANDARD|cpp_std",
            ),
            Place(_README, r"\b(?:requires?|requirements?|prerequisites?|supports?)\b"),
            Place(_METADATA, "^requires-python"),
        ),
    ),
    _row(
        "how",
        "install installed installing installation set setup",
        extra="up locally",
        places=(
            Place(_README, _headed("install|set[- ]?up|getting started|download")),
            Place(_README, r"\b(?:install|npm i|go get|cargo add|composer require)\b"),
            Place(_MANUAL, "install"),
        ),
    ),
    _row(
        "how",
        "run execute launch start running",
        "e2e end-to-end integration acceptance functional",
        "test tests testsuite",
        extra="e2e integration acceptance functional suite locally myself",
        places=(
            Place(_GUIDE, rf"\b(?:{_WHOLE_TESTS})\b"),
            Place(_TASKS, rf"^\W*+[\w:-]*(?:{_WHOLE_TESTS})[\w:-]*\W{{0,3}}:(?!=)"),
            Place(_README, _headed(_WHOLE_TESTS)),
            Place(rf"^\.github/workflows/[^/]*(?:{_WHOLE_TESTS})[^/]*$"),
        ),
    ),
    _row(
        "how",
        "run execute launch start running",
        "test tests testsuite",
        extra="unit suite locally myself",
        places=(
            Place(_GUIDE, _TESTS),
            Place(_GUIDE, r"\btests?\b"),
            Place(_README, _headed("test")),
            Place(_TASKS, r"^\W*(?:test|check)\w*\W{0,3}[:=]|\[testenv|def tests?\b|task\W+test"),
            Place(_README, r"\b(?:run|make|npm|cargo|go|tox|nox|rake)\b.{0,12}\btests?\b"),
            Place(_MANIFEST, r"\[tool\W?[.:]pytest|testpaths|^\W*tests?\W+[:=]|enable_testing"),
        ),
    ),
    _row(
        "how",
        "build compile built compiled",
        extra="source sources scratch locally myself cmake cargo gradle maven meson autotools bazel",
        places=(
            Place(_INSTALL, _BUILDS),
            Place(_README, _headed("build|compil")),
            Place(_GUIDE, r"\b(?:build|compil)"),
            Place(_TASKS, r"^\W*(?:build|all|dist|compile)\W{0,3}:(?!=)"),
            Place(_MANIFEST, "build-system|add_executable|add_library"),
        ),
    ),
    _row(
        "how which what",
        "lint linter linters linting format formatter formatters formatting style",
        extra="run execute check checks code used uses locally",
        places=(
            Place(_GUIDE, r"\b(?:lint|format|pre-commit)"),
            Place(
                _TASKS,
                r"^\W*(?:lint|format|fmt|style|check)[\w:-]*\W{0,3}[:=]|\[testenv:(?:lint|style|format)",
            ),
            Place(
                r"^\.pre-commit-config\.ya?ml$|^\.golangci\.ya?ml$|^\.rubocop\.yml$|^(?:\.|eslint)[^/]*rc?\.\w+$"
            ),
            Place(_MANIFEST, r"ruff|flake8|\bblack\b|pylint|eslint|prettier|clippy|checkstyle"),
            Place(_README, r"\b(?:lint|format)"),
        ),
    ),
    _row(
        "what which where",
        "image images base",
        "docker dockerfile container containers",
        extra="based on built from file",
        places=(Place(r"(?:^|/)(?:dockerfile|containerfile)[^/]*$|\.dockerfile$", r"^FROM\b"),),
    ),
    _row(
        "what which where how",
        "ci workflow workflows pipeline pipelines continuous",
        extra="integration github gitlab run runs tests checks job jobs configured set up defined steps",
        places=(
            Place(
                r"^(?:\.github/workflows/[^/]+|\.gitlab-ci\.yml|\.circleci/config\.yml|\.travis\.yml"
                r"|azure-pipelines\.yml|jenkinsfile|\.buildkite/pipeline\.ya?ml|appveyor\.yml)$",
                most=8,
            ),
        ),
    ),
    _row(
        "how",
        "release released publish published deploy deployed shipped",
        extra="pypi npm crates docker hub maven nuget rubygems registry version new production apk built"
        " build cut make made done gets package packaged image signed workflow process script",
        places=(
            Place(_RELEASING),
            Place(_GUIDE, _headed("releas|publish|deploy")),
            Place(_RELEASE_SCRIPT),
            Place(_TASKS, r"^\W*(?:release|publish|deploy|upload)[\w:-]*\W{0,3}:(?!=)"),
            Place(_README, _headed("releas|publish|deploy")),
        ),
    ),
    _row(
        "how",
        "run start launch serve bring",
        "dev development server webserver backend frontend",
        "i we you one to",  # "how does the server start?" asks for its code
        extra="up locally in mode app application web machine",
        places=(
            Place(_GUIDE, _STARTS),
            Place(_TASKS, r"^\W*(?:dev|develop|serve|server|start|run)\W{0,3}:(?!=)"),
            Place(_README, _STARTS),
        ),
    ),
    _row(
        "how",
        "run start launch use started usage",
        "it this project repo repository package library program tool app application software started",
        extra="quick locally getting",
        places=(
            Place(
                _README, _headed("usage|quick ?start|getting started|running|how to use|basic use|example")
            ),
            Place(_MANUAL),
            README,
        ),
    ),
    _row(
        "what which list show",
        "dependencies dependency depend depends requirements",
        extra="third party external libraries packages runtime other third-party",
        places=(
            Place(
                _NEEDS,
                r"dependenc|install_requires|\brequires?\b|^[a-z][\w.-]+\s*(?:[=<>~!]=|$)|find_package",
            ),
        ),
    ),
    _row(
        "where what which",
        "entry entrypoint entrypoints entry-point main start starts begin begins",
        "point points entrypoint entrypoints entry-point program app application project execution tool it",
        extra="function execution",
        places=(
            Place(
                _MANIFEST,
                r"console_scripts|project\.scripts|entry[_-]points|^\W*(?:main|bin)\W+[:=]|\[\[bin\]\]",
            ),
            Place(
                r"(?:^|/)(?:__main__|main|cli|app|index|lib)" + _SOURCE,
                r"\bmain\b|^(?:export|module\.exports|pub )",
            ),
            Place(r"\.go$", r"^func main\("),
        ),
    ),
    _row(
        "how what whats explain describe show",
        "structured structure organised organized layout architecture",
        extra="main high level high-level folder folders directory source tree out overall general overview",
        places=(
            Place(r"^(?:docs?/(?:.*/)?)?(?:architecture|design|structure|overview|internals)\w*\.\w+$"),
            Place(_README, _headed("structure|architecture|layout|organi[sz]|overview|design")),
            Place(_GUIDE, "structure|architecture|layout|source tree|organi[sz]"),
            Place(r"(?:^|/)(?:__init__\.py|lib\.rs|doc\.go|mod\.rs|(?:src|lib|docs?)/index\.\w+)$", most=1),
            README,
        ),
    ),
    _row(
        "who",
        "maintains maintained maintainer maintainers author authors wrote written owns contributors created",
        extra="maintainer maintainers",
        places=(
            Place(r"^(?:\.github/|docs?/)?(?:authors?|maintainers?|codeowners|contributors|credits)\b[^/]*$"),
            Place(_MANIFEST, "author|maintainer"),
            Place(_README, "author|maintain"),
            Place(_METADATA, "^(?:author|maintainer)"),
        ),
    ),
    _row(
        "what whats show",
        "changed new changelog changes news",
        extra="last latest recent recently release version since",
        places=(Place(_NEWS),),
    ),
    _row(
        "how",
        "contribute contributing",
        places=(Place(_GUIDE), Place(_README, "contribut")),
    ),
    _row(
        "how where",
        "report",
        "bug bugs vulnerability vulnerabilities security issue issues problem problems",
        places=(
            Place(r"^(?:\.github/|docs?/)?security\.\w+$"),
            Place(_GUIDE, "report|issue|bug"),
            Place(_README, "report|issue|bug"),
        ),
    ),
    _row(
        "what which list show",
        "variable variables vars",
        "environment env",
        extra="environment read reads set recognise recognize support supports look looks take takes",
        places=(
            Place(
                _SOURCE,
                r"\bos\.environ\b|\bgetenv\b|\bprocess\.env\b|\benv::var|\bENV(?:\.fetch\(|\[)|\bLookupEnv\(",
                most=8,
                terms=("environ", "getenv", "env", "lookupenv"),
            ),
            Place(_README, "environment variables?"),
        ),
    ),
    _row(
        "what which list show",
        "option options flag flags argument arguments switches",
        "cli command command-line",
        extra="line available support supports take takes accept accepts understand understands",
        places=(
            Place(
                _SOURCE,
                r"\.add_argument\(|@\w+\.(?:option|argument)\(|\btyper\.(?:Option|Argument)\(|\bflag\.\w+\(|\.Flags\(\)"
                r"|#\[(?:arg|clap)\b|\bArg::new\(|\.option\(['\"]|\bgetopt\w*\(|\bopts?\.on\b",
                most=8,
                terms=("addargument", "option", "argument", "flag", "arg", "getopt", "opt", "typer"),
            ),
            Place(_README, _headed("options|usage|command")),
        ),
    ),
    _row(
        "what which list show",
        "endpoint endpoints route routes",
        extra="api http rest exposed expose exposes available define defines defined url urls",
        places=(
            Place(
                _SOURCE,
                r"@\w+\.(?:route|get|post|put|patch|delete)\(|\.(?:get|post|put|patch|delete)\(\s*['\"`]/"
                r"|\bHandleFunc\(|@(?:Get|Post|Put|Delete|Request)Mapping|\burlpatterns\b",
                most=8,
                terms=("rout", "get", "post", "handlefunc", "getmap", "postmap", "urlpattern"),
            ),
        ),
    ),
    _row(
        "what which list show where any",
        "todo todos fixme fixmes",
        extra="comments left open",
        places=(Place(_SOURCE, r"(?-i:\b(?:TODO|FIXME|XXX)\b)", most=8, terms=("todo", "fixm", "xxx")),),
    ),
)
"""When two rows match, the first one counts."""

ASKED_WORDS = frozenset[str]().union(*(group for row in PROJECT_QUESTIONS for group in row.asked))
"""The words that such questions ask with, also those that are written as names are: e2e."""
