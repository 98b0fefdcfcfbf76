"""What is asked of a project as a whole, and where custom has it that projects tell it.

"How do I install it?": the words stand in a hundred functions, and the answer in the README. A question is
one of these when it has the words of one row and, beside them, only words that say nothing.
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

SAYS_NOTHING = frozenset(_WORDS.split())
"""Words that may stand in any such question."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where something is told: what its path looks like, and a line of its text, "" for any.

    Both are regular expressions, whatever the case. Of the files those nearest to the root count, and of
    their chunks the first `most`; with `terms` all code that holds one of them, where most such lines are.
    """

    path: str
    line: str = ""
    most: int = 3
    terms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Custom:
    """What is asked: a word of each group, and else only words of `beside`; and the places, best first."""

    asked: tuple[frozenset[str], ...]
    beside: frozenset[str]
    places: tuple[Where, ...]

    def is_asked(self, said: frozenset[str]) -> bool:
        """Whether the words of a question, in lower case, have one of each group."""
        return all(said & words for words in self.asked)

    def left_over(self, said: frozenset[str]) -> frozenset[str]:
        """Those of them that ask for something else."""
        return said.difference(SAYS_NOTHING, self.beside, *self.asked)


def _custom(*asked: str, beside: str = "", places: tuple[Where, ...]) -> Custom:
    return Custom(tuple(frozenset(words.split()) for words in asked), frozenset(beside.split()), places)


_README = r"^(?:[^/]+/)?readme(?:\.\w+)?$"
README = Where(_README)
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
    r"^(?:(?:gnu)?makefile|justfile|rakefile|tox\.ini|noxfile\.py|taskfile\.ya?ml)$|(?:^|/)package\.json$"
)
_NEWS = r"^(?:docs?/)?(?:changelog|changes|history|news|releases?)\b[^/]*$"
_SOURCE = r"\.(?:py|[cm]?[jt]sx?|go|rs|rb|php|java|kt|cc?|cpp|cs|h)$"


def _headed(words: str) -> str:
    """A line of documentation that begins with few words, these among them: a heading, in any markup."""
    return rf"^[ \t#=.*]*(?:[^\n.:,]{{0,30}}\b)?(?:{words})"


CUSTOMS = (
    _custom(
        "what whats explain describe summarize summarise summary overview tell show give",
        "project repo repository codebase package library program tool app application software",
        beside="overview summary purpose point idea good short brief explain describe summarize summarise",
        places=(README, Where(_MANIFEST, r"^\W*description\b")),
    ),
    _custom(
        "license licence licensed licenced licensing licenses licences copyright",
        beside="under released distributed terms type commercially commercial open source covered",
        places=(
            Where(r"^(?:licen[cs]es?|copying|unlicense|copyright)\b[^/]*$", most=1),
            Where(_MANIFEST, "licen[cs]e"),
            Where(_README, "licen[cs]e"),
            Where(_METADATA, "licen[cs]e"),
        ),
    ),
    _custom(
        "what whats which",
        "version",
        beside="current latest number release",
        places=(
            Where(_MANIFEST, r"^\W*(?:\w+\.)?version\b\W{1,6}\d|<version>\d|project\([^)]*version"),
            Where(
                r"(?:^|/)(?:__init__|_*version_*|__about__)(?:\.\w+)?$", r"version_*\b.{0,20}\d|^v?\d+\.\d+"
            ),
            Where(_NEWS, r"\d+\.\d+", most=1),
            Where(_METADATA, r"^version\b"),
        ),
    ),
    _custom(
        "what which",
        "version versions",
        "c++ compiler go java jdk jvm node nodejs php python ruby rust rustc typescript",
        beside="needs require requires required support supports supported minimum compatible run runs",
        places=(
            Where(
                _MANIFEST,
                r"requires-python|python_requires|\"engines\"|^go \d|rust-version|required_ruby_version"
                r"|\"php\"|maven\.compiler|java\.version|sourceCompatibility|CMAKE_CXX_STANDARD|cpp_std",
            ),
            Where(_README, r"\b(?:requires?|requirements?|prerequisites?|supports?)\b"),
            Where(_METADATA, "^requires-python"),
        ),
    ),
    _custom(
        "how",
        "install installed installing installation set setup",
        beside="up locally",
        places=(
            Where(_README, _headed("install|set[- ]?up|getting started|download")),
            Where(_README, r"\b(?:install|npm i|go get|cargo add|composer require)\b"),
            Where(_MANUAL, "install"),
        ),
    ),
    _custom(
        "how",
        "run execute launch start running",
        "test tests testsuite",
        beside="unit suite locally myself",
        places=(
            Where(_GUIDE, r"\btests?\b"),
            Where(_README, _headed("test")),
            Where(_TASKS, r"^\W*(?:test|check)\w*\W{0,3}[:=]|\[testenv|def tests?\b|task\W+test"),
            Where(_README, r"\b(?:run|make|npm|cargo|go|tox|nox|rake)\b.{0,12}\btests?\b"),
            Where(_MANIFEST, r"\[tool\W?[.:]pytest|testpaths|^\W*tests?\W+[:=]|enable_testing"),
        ),
    ),
    _custom(
        "how",
        "build compile built compiled",
        beside="source sources scratch locally myself",
        places=(
            Where(_README, _headed("build|compil")),
            Where(_GUIDE, r"\b(?:build|compil)"),
            Where(_TASKS, r"^\W*(?:build|all|dist|compile)\W{0,3}[:=]"),
            Where(_MANIFEST, "build-system|add_executable|add_library"),
        ),
    ),
    _custom(
        "how",
        "run start launch use started usage",
        "it this project repo repository package library program tool app application software started",
        beside="quick locally getting",
        places=(
            Where(
                _README, _headed("usage|quick ?start|getting started|running|how to use|basic use|example")
            ),
            Where(_MANUAL),
            README,
        ),
    ),
    _custom(
        "what which list show",
        "dependencies dependency depend depends requirements",
        beside="third party external libraries packages runtime other third-party",
        places=(
            Where(
                _NEEDS,
                r"dependenc|install_requires|\brequires?\b|^[a-z][\w.-]+\s*(?:[=<>~!]=|$)|find_package",
            ),
        ),
    ),
    _custom(
        "where what which",
        "entry entrypoint entrypoints entry-point main start starts begin begins",
        "point points entrypoint entrypoints entry-point program app application project execution tool it",
        beside="function execution",
        places=(
            Where(
                _MANIFEST,
                r"console_scripts|project\.scripts|entry[_-]points|^\W*(?:main|bin)\W+[:=]|\[\[bin\]\]",
            ),
            Where(
                r"(?:^|/)(?:__main__|main|cli|app|index|lib)" + _SOURCE,
                r"\bmain\b|^(?:export|module\.exports|pub )",
            ),
            Where(r"\.go$", r"^func main\("),
        ),
    ),
    _custom(
        "how what whats explain describe show",
        "structured structure organised organized layout architecture",
        beside="main high level high-level folder folders directory source tree out overall general overview",
        places=(
            Where(r"^(?:docs?/(?:.*/)?)?(?:architecture|design|structure|overview|internals)\w*\.\w+$"),
            Where(_README, _headed("structure|architecture|layout|organi[sz]|overview|design")),
            Where(_GUIDE, "structure|architecture|layout|source tree|organi[sz]"),
            Where(r"(?:^|/)(?:__init__\.py|lib\.rs|doc\.go|mod\.rs|(?:src|lib|docs?)/index\.\w+)$", most=1),
            README,
        ),
    ),
    _custom(
        "who",
        "maintains maintained maintainer maintainers author authors wrote written owns contributors created",
        beside="maintainer maintainers",
        places=(
            Where(r"^(?:\.github/|docs?/)?(?:authors?|maintainers?|codeowners|contributors|credits)\b[^/]*$"),
            Where(_MANIFEST, "author|maintainer"),
            Where(_README, "author|maintain"),
            Where(_METADATA, "^(?:author|maintainer)"),
        ),
    ),
    _custom(
        "what whats show",
        "changed new changelog changes news",
        beside="last latest recent recently release version since",
        places=(Where(_NEWS),),
    ),
    _custom(
        "how",
        "contribute contributing",
        places=(Where(_GUIDE), Where(_README, "contribut")),
    ),
    _custom(
        "how where",
        "report",
        "bug bugs vulnerability vulnerabilities security issue issues problem problems",
        places=(
            Where(r"^(?:\.github/|docs?/)?security\.\w+$"),
            Where(_GUIDE, "report|issue|bug"),
            Where(_README, "report|issue|bug"),
        ),
    ),
    _custom(
        "what which list show",
        "variable variables vars",
        "environment env",
        beside="environment read reads set recognise recognize support supports look looks take takes",
        places=(
            Where(
                _SOURCE,
                r"\bos\.environ\b|\bgetenv\b|\bprocess\.env\b|\benv::var|\bENV(?:\.fetch\(|\[)|\bLookupEnv\(",
                most=8,
                terms=("environ", "getenv", "env", "lookupenv"),
            ),
            Where(_README, "environment variables?"),
        ),
    ),
    _custom(
        "what which list show",
        "option options flag flags argument arguments switches",
        "cli command command-line",
        beside="line available support supports take takes accept accepts understand understands",
        places=(
            Where(
                _SOURCE,
                r"\.add_argument\(|@\w+\.(?:option|argument)\(|\btyper\.(?:Option|Argument)\(|\bflag\.\w+\(|\.Flags\(\)"
                r"|#\[(?:arg|clap)\b|\bArg::new\(|\.option\(['\"]|\bgetopt\w*\(|\bopts?\.on\b",
                most=8,
                terms=("addargument", "option", "argument", "flag", "arg", "getopt", "opt", "typer"),
            ),
            Where(_README, _headed("options|usage|command")),
        ),
    ),
    _custom(
        "what which list show",
        "endpoint endpoints route routes",
        beside="api http rest exposed expose exposes available define defines defined url urls",
        places=(
            Where(
                _SOURCE,
                r"@\w+\.(?:route|get|post|put|patch|delete)\(|\.(?:get|post|put|patch|delete)\(\s*['\"`]/"
                r"|\bHandleFunc\(|@(?:Get|Post|Put|Delete|Request)Mapping|\burlpatterns\b",
                most=8,
                terms=("rout", "get", "post", "handlefunc", "getmap", "postmap", "urlpattern"),
            ),
        ),
    ),
    _custom(
        "what which list show where any",
        "todo todos fixme fixmes",
        beside="comments left open",
        places=(Where(_SOURCE, r"(?-i:\b(?:TODO|FIXME|XXX)\b)", most=8, terms=("todo", "fixm", "xxx")),),
    ),
)
"""Of two that are asked the first counts."""
