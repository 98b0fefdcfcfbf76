"""Places where projects conventionally answer questions about themselves: files, their headings and lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A place that holds an answer: a pattern for its path, and one for a line of its text, "" for any line.

    Both are regular expressions that ignore case. Of the files with such a line those nearest to the root
    count, and of their chunks the first `most`. In a place that is `headed` the line is a heading: the chunks
    below such a heading come before those with such a line in their text. With `terms`, all code that holds
    one of them counts; `by_count`, chunks with most such lines come first.
    """

    path: str
    line: str = ""
    most: int = 3
    terms: tuple[str, ...] = ()
    headed: bool = False
    by_count: bool = True


def headed(path: str, words: str, most: int = 3) -> Place:
    """Return the sections of files with one of the words in their heading, in any markup."""
    line = rf"^(?![^\n]*\]\()[ \t#=.*]*(?:[^\n.:,\[]{{0,30}}\b)?(?:{words})"
    return Place(path, line, most, headed=True)


README = r"^(?:\.github/|docs?/)?readme(?:\.\w+)?$"
PROSE = r"^[ \t]*(?:(?![*_]{0,3}\[)[^\s<>!|#].*\w{2}|\[[^\]\n!]+\]\([^)\n]+\)(?: [\w'-]+){2})"
"""A line of text, unlike titles, logos and badges, with which a README may begin."""
GUIDE = r"^(?:\.github/|docs?/)?(?:contributing|develop\w*|hacking|building)\b[^/]*$"
AGENTS = r"^(?:\.\w+/)?(?:agents|claude|gemini|copilot-instructions)\.md$"
"""What a repository says to coding agents: its commands and its structure."""
_TEXT = r"\.(?:md|markdown|rst|adoc|org|txt|html)$"
_DOCS = r"(?:^|/)(?:docs?|documentation|manual|guide|book|site|website)/(?:.*/)?"
MANUAL = (
    rf"{_DOCS}(?:index|intro\w*|install\w*|setup|getting.?started|quick.?start|usage|tutorial){_TEXT}"
    rf"|^(?:getting.?started|quick.?start|usage|tutorial|user.?guide|manual){_TEXT}"
)
MAN_PAGE = r"(?:^|/)[^/]+\.[1578](?:\.(?:md|scd|adoc|rst|txt|in|ronn|pod))?$"
FIRST_STEPS = (
    rf"{_DOCS}(?:\d+[-_. ]*)?"
    rf"(?:intro\w*|getting.?started|quick.?start|tutorial|overview|prerequisites)[^/]*{_TEXT}"
)
REQUIREMENTS = rf"(?:^|{_DOCS})(?:\d+[-_. ]*)?(?:(?:system.?)?requirements|prerequisites)\b[^/]*{_TEXT}"
CONFIG_GUIDE = (
    rf"{_DOCS}[^/]*(?:config\w*|settings|options)\b[^/]*{_TEXT}"
    r"|(?:^|/)[^/]+\.5(?:\.(?:md|scd|adoc|rst|txt|in|ronn|pod))?$"
)
CONFIG_FILE = (
    r"^(?:(?!\.(?:circleci|github|gitlab|buildkite|vscode|idea)/)[^/]+/)?(?:[\w.-]*\b(?:config|configuration|settings|conf)\b[\w.-]*"
    r"\.(?:in|sample|example|dist|default|template|ya?ml|toml|json|ini|cfg|conf|rb|lua)"
    r"|(?:config|settings)\.in|\.env[.-](?:example|sample|dist|template)"
    r"|[\w-]*(?:example|sample|default)[\w-]*\.(?:ya?ml|toml|json|ini|cfg|conf))$"
)
CONFIG_CODE = (
    r"(?:^|/)(?:settings|config|configuration|options|flags)\.(?:toml|py|go|rs|[jt]s|rb|php|java|kt)$"
)
DEBUG_GUIDE = rf"(?:^|{_DOCS})[^/]*(?:debug|troubleshoot)[^/]*{_TEXT}"
MANIFEST = (
    r"(?:^|/)(?:pyproject\.toml|setup\.(?:cfg|py)|package\.json|composer\.json|cargo\.toml|[^/]+\.gemspec|pom\.xml"
    r"|build\.gradle(?:\.kts)?|go\.mod|meson\.build|cmakelists\.txt|[^/]+\.(?:csproj|cabal|podspec|rockspec)"
    r"|mix\.exs|pubspec\.yaml|package\.swift|deno\.jsonc?|configure\.ac)$"
)
METADATA = r"^(?:pkg-info|[^/]*\.egg-info/pkg-info|meta\.(?:json|yml))$"
NEEDS = r"^(?:requirements?[^/]*\.(?:txt|in)|gemfile|pipfile|environment\.ya?ml)$|" + MANIFEST
TASKS = (
    r"^(?:(?:gnu)?makefile|justfile|rakefile|tox\.ini|noxfile\.py|taskfile\.ya?ml|composer\.json)$"
    r"|(?:^|/)package\.json$"
)
CI = (
    r"^(?:\.github/workflows/[^/]+|\.gitlab-ci\.yml|\.circleci/config\.yml|\.travis\.yml"
    r"|azure-pipelines\.yml|jenkinsfile|\.buildkite/pipeline\.ya?ml|\.?appveyor\.yml|\.builds/[^/]+\.yml"
    r"|\.cirrus\.yml)$"
)
INSTALL = r"^(?:docs?/)?(?:install\w*|building|compil\w*)\b[^/]*$"
RELEASING = (
    r"^(?:\.github/|docs?/)?(?:releas(?:e|ing)|packag(?:ing|es?)|publish\w*|deploy\w*)\b"
    r"[^/]*\.(?:md|rst|adoc|txt)$"
)
RELEASE_SCRIPT = (
    r"^(?:\.github/workflows/|scripts?/|tools?/)?[^/]*(?:release|publish|deploy)[^/]*\.(?:ya?ml|sh|py|m?js)$"
)
BUG_FORM = r"^(?:\.github/|\.gitlab/)?(?:issue_templates?(?:/[^/]*bug[^/]*|\.\w+)|bugs?(?:\.\w+)?)$"
INSTALLS = (
    r"\b(?:(?:pip3?|pipx|brew|gem|npm|apt|apt-get|dnf|choco|scoop|cargo|go|luarocks|cabal|uv tool) install"
    r"|npm i|go get|cargo add|composer require|yarn add|docker (?:run|pull)|npx \S)\b"
)
_NEWS = r"(?:changelog|changes|history|news|release[ _-]?notes|releases?|latest[ _-]?changes|whats?[ _-]?new)"
NEWS = rf"^(?:docs?/)?{_NEWS}(?:(?:[-_. ][^/]*)?{_TEXT}|(?:[-_][^/.]*)?$)"
PACKAGE_NEWS = rf"(?:^|/){_NEWS}(?:{_TEXT}|$)"
SOURCE = r"\.(?:py|[cm]?[jt]sx?|go|rs|rb|php|java|kt|cc?|cpp|cs|h|hs|swift|zig|dart|lua)$"
PROGRAM = r"\.(?:py|go|rs|java|kt|cc?|cpp|cs|hs|swift|zig|dart)$"
"""Files of languages whose programs begin with a function or a line of their own."""
MAIN = (
    r"^[ \t]*(?:(?:public |static |final |export |pub |async )*(?:int|void|func?|fn|fun|def|proc)"
    r"[ \t]+main[ \t]*\(|main[ \t]*(?:::|=)|if __name__\b)"
)
"""The line with which a program begins."""
LICENSE = r"^(?:licen[cs]es?|copying|unlicense|copyright)\b[^/]*$"
SECURITY = r"^(?:\.github/|docs?/)?security\.\w+$"
CONTAINER = r"(?:^|/)(?:dockerfile|containerfile)[^/]*$|\.dockerfile$"
WORKSPACE = r"^(?:pnpm-workspace\.yaml|lerna\.json|nx\.json|go\.work|settings\.gradle(?:\.kts)?)$"
EXAMPLES = r"^(?:docs?/)?(?:examples?|demos?|samples?)/"
MINIMUM = (
    r"requires-python|python_requires|\"engines\"|^go \d|rust-version|required_ruby_version|\bminSdk|\"php\""
    r"|maven\.compiler|java\.version|sourceCompatibility|CMAKE_CXX_STANDARD|cpp_std|tested-with|meson_version"
)
DEPENDENCIES = (
    r"^(?![ \t]*(?:#|//|--))[^\n]*(?:dependenc|install_requires|\bbuild-depends\b|\"require\"|find_package)"
    r"|^require \("
)
NEEDED = r"dependenc|\brequires?\b|^[a-z][\w.-]+\s*(?:[=<>~!]=|$)|^gem\b"
MAINTAINED = (
    r"\b(?:un|not |no longer |actively |un-)maintained\b|\bmaintainers? wanted\b|\bdevelopment branch\b"
    r"|\b(?:maintenance|feature)[ -]?(?:mode|frozen|complete)\b|\b(?:under|in active) development\b"
    r"|\bthis (?:project|repository|repo|package|library) (?:is|has been)\b.{0,30}"
    r"\b(?:deprecated|archived|discontinued|abandoned|maintained)"
)
LOG_OPTION = r"[\"'`-](?:debug|verbose|(?:[a-z]+-)*log[_-]level)[\"'`]"
SYSTEMS = (
    ("windows win32", r"windows"),
    ("linux", r"linux"),
    ("mac macos osx", r"macos|mac os|os x|osx"),
    ("bsd freebsd openbsd netbsd", r"\w*bsd"),
    ("android", r"android"),
    ("ios iphone", r"ios"),
    ("operating platforms platform oses", r"(?-i:Windows|Linux|macOS|OS X|FreeBSD|Unix|Debian|Ubuntu)"),
)
"""Operating systems as they are asked about, and as text has them."""
OPERATING = "operating system systems platform platforms"


def of_system(names: str) -> tuple[Place, ...]:
    """Return the places that name an operating system, given as a pattern."""
    line = rf"\b(?:{names})\b"
    sections = "system requirements|requirements|prerequisites|platforms?|supported|compatib|install"
    return (
        Place(README, rf"{line}.{{0,200}}\b(?:support|run|only|work|requires?|install|available)"),
        Place(README, rf"\b(?:supports?|runs?|works?|available|install)\b.{{0,200}}{line}"),
        Place(REQUIREMENTS),
        Place(README, line),
        Place(MANUAL, line),
        Place(CI, line),
        headed(README, sections),
    )
