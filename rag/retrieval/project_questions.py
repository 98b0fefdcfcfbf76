"""Questions about a project as a whole, and the places where projects conventionally answer them.

"How do I install it?": the words occur in a hundred functions, but the answer is in the README. A question is
of this kind when it has the words of one row and no others but neutral words.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass

from rag.retrieval.conventional_places import (
    AGENTS,
    BUG_FORM,
    CI,
    CONFIG_CODE,
    CONFIG_FILE,
    CONFIG_GUIDE,
    CONTAINER,
    DEBUG_GUIDE,
    DEPENDENCIES,
    EXAMPLES,
    FIRST_STEPS,
    GUIDE,
    INSTALL,
    INSTALLS,
    LICENSE,
    LOG_OPTION,
    MAIN,
    MAINTAINED,
    MAN_PAGE,
    MANIFEST,
    MANUAL,
    METADATA,
    MINIMUM,
    NEEDED,
    NEEDS,
    NEWS,
    OPERATING,
    PACKAGE_NEWS,
    PROGRAM,
    PROSE,
    README,
    RELEASE_SCRIPT,
    RELEASING,
    REQUIREMENTS,
    SECURITY,
    SOURCE,
    SYSTEMS,
    TASKS,
    WORKSPACE,
    Place,
    headed,
    of_system,
)
from rag.types.question_kinds import OVERVIEW

_WORDS = """
a about an and are be can codebase could do does exactly for get give got has have here i in into is it
its me my need of on one or our please program project repo repository code base see should software that
the there this to tool app application library package us use used uses using want we what whats where
which who how with would you your find at actually all any by file files from kind now currently tell
show
"""

NEUTRAL_WORDS = frozenset(_WORDS.split())
"""Neutral words, allowed in any such question."""

_NOUN = r"(?:project|repo|repository|package|library|program|tool|app|application)"
_SETTINGS = r"(?:config\w*|settings|preferences)"
_OF_CODE = (
    r"\b(?:what|which) (?:files?|code|packages?|librar(?:y|ies)|modules?|parts?)"
    r" (?:(?:is|are) run|(?:use|need|depend|require|run|read|change|start)s?)\b",
    r"\bwhat (?:depends on|(?:needs|requires|uses|changes) (?:to (?:run|use)|it|this|that|the)\b)",
    r"\bwhere\b.*\bused?\b|\b(?:used|docs|examples?) .*\bin (?:the|this|our) (?:code|source)|\bdead code\b",
    r"\b(?:in|of|from|use|read|with) (?:the|this|that|an?) file\b|\bfix (?:the|this|that|an?) tests?\b",
    r"\b(?:what|which) (?:file )?formats?\b|\bwhere\b.*\blayout\b|\bdoes \w+ report\b",
    rf"\b{_SETTINGS} (?:.*\bfrom|used)\b|\b(?:use|get)s? (?:its|the|our|my|these) {_SETTINGS}\b(?! file)",
    r"\Ahow(?:['’]s| is| are) \w+ going\b",
    rf"\A(?!.*\b(?:it|this|the {_NOUN})\b).*\ban? {_NOUN}\b",
)
OF_CODE = re.compile("|".join(_OF_CODE), re.I)
"""What asks for a part of the code, or for any project, in words of a question about the whole project."""


@dataclass(frozen=True, slots=True)
class ProjectQuestion:
    """A kind of question: one word of each group in `asked` and no others but those of `extra`; and the
    places, best first. `purpose` is that of the commands that answer it, "" for none.
    """

    asked: tuple[frozenset[str], ...]
    extra: frozenset[str]
    places: tuple[Place, ...]
    purpose: str = ""

    def is_asked(self, asked_words: frozenset[str]) -> bool:
        """Return whether the words of a question, in lower case, include one of each group."""
        return all(asked_words & words for words in self.asked)

    def left_over(self, asked_words: frozenset[str]) -> frozenset[str]:
        """Return the words that ask for something else."""
        return asked_words.difference(NEUTRAL_WORDS, self.extra, *self.asked)


def _row(*asked: str, extra: str = "", places: tuple[Place, ...], purpose: str = "") -> ProjectQuestion:
    groups = tuple(frozenset(words.split()) for words in asked)
    return ProjectQuestion(groups, frozenset(extra.split()), places, purpose)


_CONTRIBUTING = (Place(GUIDE), headed(README, "contribut|pull requests?"), Place(README, "contribut"))
_DEPENDENCY_PLACES = (
    Place(MANIFEST, DEPENDENCIES),
    Place(NEEDS, NEEDED),
    headed(README, "dependencies|requirements|prerequisites"),
)


_NAMED_SO = "it this project repo repository package library program tool app application software"


PROJECT_QUESTIONS = (
    _row(
        "license licence licensed licenced licensing licenses licences copyright",
        extra="under released distributed terms type commercially commercial open source covered",
        places=(
            Place(LICENSE, most=1),
            Place(MANIFEST, "licen[cs]e"),
            Place(README, "licen[cs]e"),
            Place(METADATA, "licen[cs]e"),
        ),
    ),
    _row(
        "allowed permitted commercially legally sell redistribute",
        "i we one you",
        f"{_NAMED_SO} code source",
        extra="am work company closed source product commercial modify copy share",
        places=(Place(LICENSE, most=1), Place(MANIFEST, "licen[cs]e"), Place(README, "licen[cs]e")),
    ),
    _row(
        "what whats which",
        "version",
        extra="current latest number release am looking",
        places=(
            Place(MANIFEST, r"^[^\w\n]*+(?:\w+\.)?version\b\W{1,6}\d|<version>\d|project\([^)]*version"),
            Place(
                r"(?:^|/)(?:__init__|_*version_*|__about__)(?:\.\w+)?$", r"version_*\b.{0,20}\d|^v?\d+\.\d+"
            ),
            Place(NEWS, r"\d+\.\d+", most=1),
            Place(METADATA, r"^version\b"),
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
                MANIFEST,
                MINIMUM,
            ),
            Place(README, r"\b(?:requires?|requirements?|prerequisites?|supports?)\b"),
            Place(METADATA, "^requires-python"),
        ),
    ),
    _row(
        "how way",
        "install installed installing installation setup up",
        extra="set locally easiest simplest best recommended quickest way",
        places=(
            headed(README, "install|set[- ]?up|getting started|download"),
            Place(INSTALL),
            Place(README, INSTALLS),
            headed(MANUAL, "install"),
            Place(MANUAL, INSTALLS),
            headed(README, "quick ?start|usage|running"),
            Place(FIRST_STEPS, PROSE),
            Place(README, PROSE),
        ),
    ),
    _row(
        "what whats which",
        "need needs needed require requires required requirements requirement prerequisites prerequisite",
        "run running use using start install work works before prerequisites prerequisite system",
        extra="hardware",
        places=(
            headed(README, "(?:system )?requirements|prerequisites|what you(?:.ll)? need|before you"),
            Place(REQUIREMENTS),
            headed(README, "dependencies|compatib|supported"),
            Place(README, r"\b(?:requires?|prerequisites?)\b|\bdependencies\b"),
            Place(MANIFEST, MINIMUM),
            headed(README, "install|quick ?start|getting started"),
            Place(NEEDS, NEEDED),
        ),
    ),
    _row(
        "how where",
        "test tests testing testsuite specs e2e",
        "my i we where run execute launch start running",
        extra="changes change patch fix locally unit suite them live lives located kept myself"
        " end-to-end integration acceptance functional",
        purpose="test",
        places=tuple(headed(one, r"(?:running |unit )?tests?\b|testing\b") for one in (GUIDE, README)),
    ),
    _row(
        "how",
        "build compile built compiled",
        extra="source sources scratch locally myself cmake cargo gradle maven meson autotools bazel",
        purpose="build",
        places=tuple(headed(one, "build|compil|set[- ]?up") for one in (INSTALL, README, GUIDE)),
    ),
    _row(
        "how which what",
        "lint linter linters linting format formatter formatters formatting style",
        extra="run execute check checks code used uses locally",
        purpose="lint",
        places=(
            Place(GUIDE, r"\b(?:lint|format|pre-commit)"),
            Place(
                r"^\.pre-commit-config\.ya?ml$|^\.golangci\.ya?ml$|^\.rubocop\.yml$|^(?:\.|eslint)[^/]*rc?\.\w+$"
            ),
            Place(README, r"\b(?:lint|format)"),
        ),
    ),
    _row(
        "what which where",
        "image images base",
        "docker dockerfile container containers",
        extra="based on built from file",
        places=(Place(CONTAINER, r"^FROM\b"),),
    ),
    _row(
        "what which where how",
        "ci workflow workflows pipeline pipelines continuous",
        extra="integration github gitlab run runs tests checks job jobs configured set up defined steps",
        places=(Place(CI, most=8),),
    ),
    _row(
        "how",
        "release released publish published deploy deployed shipped",
        extra="pypi npm crates docker hub maven nuget rubygems registry version new production apk built"
        " build cut make made done gets package packaged image signed workflow process script",
        places=(
            Place(RELEASING),
            headed(GUIDE, "releas|publish|deploy"),
            Place(RELEASE_SCRIPT),
            Place(TASKS, r"^[^\w\n]*+(?:release|publish|deploy|upload)[\w:-]*\W{0,3}:(?!=)"),
            headed(README, "releas|publish|deploy"),
        ),
    ),
    _row(
        "how",
        "run start launch serve bring",
        "dev development server webserver backend frontend",
        "i we you one to",  # "how does the server start?" asks for its code
        extra="up locally in mode app application web machine",
        purpose="run",
        places=(headed(GUIDE, "running|develop|set[- ]?up"), headed(README, "running|develop")),
    ),
    *(
        _row(
            "how",
            verbs,
            f"{_NAMED_SO} started",
            extra="quick locally getting up machine computer laptop local try out",
            purpose=purpose,
            places=(
                headed(README, "usage|quick ?start|getting started|running|how to use|basic use|example"),
                Place(FIRST_STEPS, PROSE),
                Place(MANUAL, PROSE),
                Place(README, PROSE),
            ),
        )
        for purpose, verbs in (("run", "run start launch started going running"), ("", "use usage"))
    ),
    _row(
        "what which list show",
        "dependencies dependency depend depends requirements",
        extra="third party external libraries packages runtime other third-party",
        places=_DEPENDENCY_PLACES,
    ),
    _row(
        "what which list show",
        "library libraries libs packages gems crates frameworks framework",
        "rely relies depend depends need needs require requires built build based",
        extra="on upon third party external other third-party",
        places=_DEPENDENCY_PLACES,
    ),
    _row(
        "where what whats which",
        "entry entrypoint entrypoints entry-point main start starts begin begins",
        "point points entrypoint entrypoints entry-point program app application project execution tool it",
        extra="function execution",
        places=(
            headed(AGENTS, "entry points?"),
            Place(
                MANIFEST,
                r"console_scripts|project\.scripts|entry[_-]points|^[^\w\n]*+(?:main|bin)\W+[:=]|\[\[bin\]\]"
                r"|\bmain-is\b|\.executables\b|mainClass",
            ),
            Place(PROGRAM, MAIN, terms=("main",), by_count=False),
            Place(
                r"(?:^|/)(?:__main__|main|cli|app|index|lib)" + SOURCE,
                r"^(?:export|module\.exports|pub )",
            ),
            Place(r"^bin/[^/]+$", most=1),
        ),
    ),
    _row(
        "who",
        "maintains maintained maintainer maintainers author authors wrote written owns contributors"
        " created behind",
        extra="maintainer maintainers",
        places=(
            Place(r"^(?:\.github/|docs?/)?(?:authors?|maintainers?|codeowners|contributors|credits)\b[^/]*$"),
            Place(MANIFEST, r"^[^\w\n]*+(?:\w+\.)?(?:authors?|maintainers?|contributors|developers)\b"),
            headed(README, r"authors?\b|maintainers?|credits|contact|team\b"),
            Place(README, r"\b(?:maintain(?:ed|ers?)|created|written|developed) by\b"),
            Place(GUIDE, r"\b(?:managed|maintained|reviewed) by\b|\bmaintainers\b"),
            Place(LICENSE, r"\bcopyright\b.{0,9}(?:\b(?:19|20)\d\d|\(c\)|©)", most=1),
            Place(METADATA, "^(?:author|maintainer)"),
        ),
    ),
    _row(
        "what whats show",
        "changed new changelog changes news",
        extra="last latest recent recently release version since",
        places=(Place(NEWS), Place(PACKAGE_NEWS, most=1)),
    ),
    _row(
        "is",
        "maintained unmaintained dead alive abandoned deprecated archived actively",
        "it this project repo repository package library program tool app application software",
        extra="still being anymore more longer yet developed development",
        places=(
            Place(README, MAINTAINED),
            headed(README, "(?:project |maintenance )?status"),
            Place(NEWS, r"\d", most=1),
            Place(GUIDE, MAINTAINED),
            Place(MANIFEST, "development status"),
            Place(PACKAGE_NEWS, most=1),
        ),
    ),
    _row(
        "how",
        "contribute contributing contribution contributions",
        places=_CONTRIBUTING,
    ),
    *(
        _row(
            "how",
            "i id we",
            first,
            second,
            extra="like love work works send submit open make",
            places=_CONTRIBUTING,
        )
        for first, second in (
            ("help involved", "out involved"),
            ("pr patch patches", "send submit open make"),
            ("pull", "request requests"),
        )
    ),
    _row(
        "how where who",
        "report who",
        "i ive we one you to",
        "vulnerability vulnerabilities security",
        extra="hole issue issues problem problems found ive",
        places=(
            Place(SECURITY),
            Place(GUIDE, "security|vulnerabilit"),
            Place(README, "security|vulnerabilit"),
        ),
    ),
    _row(
        "how where who",
        "report who file raise",
        "i ive we one you to",
        "bug bugs issue issues problem problems",
        extra="found ive",
        places=(
            headed(GUIDE, r"report|\w+ (?:an? )?(?:issue|bug)|bugs?\b|issues?\b"),
            headed(README, r"report|bugs?\b|issues?\b|support"),
            Place(BUG_FORM),
            Place(GUIDE, r"\b(?:report|issues?|bugs?)\b"),
            Place(README, r"\breport|\b(?:issues|bugs?)\b"),
            Place(SECURITY),
        ),
    ),
    _row(
        "what how",
        "debug debugging verbose debugger",
        "i we you one",
        extra="turn enable switch logging logs log output mode messages problem problems issue issues more"
        " troubleshoot start run",
        places=(
            headed(GUIDE, "debug|troubleshoot"),
            headed(README, "debug|troubleshoot|logging|verbos"),
            headed(AGENTS, "debug|troubleshoot"),
            Place(DEBUG_GUIDE),
            Place(GUIDE, r"\bdebug(?:ger|ging)?\b"),
            Place(AGENTS, r"\bdebug(?:ger|ging)?\b"),
            Place(MAN_PAGE, r"--?(?:debug|verbose)\b"),
            Place(BUG_FORM, r"\bdebug\b"),
            Place(README, r"\bdebug(?:ger|ging)?\b|--verbose\b"),
            Place(SOURCE, LOG_OPTION, terms=("debug", "verbos", "level")),
        ),
    ),
    _row(
        "where there whats",
        "documentation docs manual handbook wiki tutorial",
        extra="online official user users full",
        places=(
            headed(README, r"(?:\w+ )?(?:documentation|docs|manual|handbook|guides?|resources)\s*$|learn\b"),
            Place(MANUAL, PROSE),
            Place(README, r"\b(?:documentation|(?<![/.@-])docs(?![./])|manual|handbook|user guide)\b"),
            Place(FIRST_STEPS, PROSE),
            Place(MAN_PAGE),
            Place(README, r"\b(?:wiki|faq)\b"),
        ),
    ),
    _row(
        "there show give where",
        "example examples demo",
        extra="small simple minimal short quick how usage basic working",
        places=(
            headed(README, r"(?:basic |quick )?(?:examples?|usage|demo)\b|how to use"),
            headed(README, r"quick ?start|getting started|running|use\b"),
            Place(FIRST_STEPS, PROSE),
            Place(MANUAL, PROSE),
            Place(EXAMPLES, most=2),
            Place(README, r"^[ \t]*```[ \t]*\w*$"),
        ),
    ),
    _row(
        "config configuration configure configured settings preferences",
        "file files where how",
        extra="live lives located go goes put belong default sample example main exist",
        places=(
            headed(README, "config|settings|preferences|customi[sz]"),
            Place(CONFIG_GUIDE),
            headed(MAN_PAGE, r"(?:rc |configuration )?files?\b|configuration"),
            Place(CONFIG_FILE),
            Place(README, r"\bconfig(?:uration)?[ -]?files?\b|\bconfigur"),
            Place(CONFIG_CODE),
        ),
    ),
    *(
        _row(
            "does will can is which what",
            names,
            "run runs running work works working support supported supports compatible available",
            extra=f"on under natively {OPERATING}",
            places=of_system(pattern),
        )
        for names, pattern in SYSTEMS
    ),
    _row(
        "what which list show",
        "variable variables vars",
        "environment env",
        extra="environment read reads set recognise recognize support supports look looks take takes",
        places=(
            Place(
                SOURCE,
                r"\bos\.environ\b|\bgetenv\b|\bprocess\.env\b|\benv::var|\bENV(?:\.fetch\(|\[)|\bLookupEnv\(",
                most=8,
                terms=("environ", "getenv", "env", "lookupenv"),
            ),
            Place(README, "environment variables?"),
        ),
    ),
    _row(
        "what which list show",
        "option options flag flags argument arguments switches",
        "cli command command-line",
        extra="line available support supports take takes accept accepts understand understands",
        places=(
            Place(
                SOURCE,
                r"\.add_argument\(|@\w+\.(?:option|argument)\(|\btyper\.(?:Option|Argument)\(|\bflag\.\w+\(|\.Flags\(\)"
                r"|#\[(?:arg|clap)\b|\bArg::new\(|\.option\(['\"]|\bgetopt\w*\(|\bopts?\.on\b",
                most=8,
                terms=("addargument", "option", "argument", "flag", "arg", "getopt", "opt", "typer"),
            ),
            headed(README, "options|usage|command"),
        ),
    ),
    _row(
        "what which list show",
        "endpoint endpoints route routes",
        extra="api http rest exposed expose exposes available define defines defined url urls",
        places=(
            Place(
                SOURCE,
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
        places=(Place(SOURCE, r"(?-i:\b(?:TODO|FIXME|XXX)\b)", most=8, terms=("todo", "fixm", "xxx")),),
    ),
)
"""When two rows match, the first one counts."""


_ABOUT = (
    Place(README, PROSE),
    Place(r"^[^/]+/readme(?:\.\w+)?$", PROSE),
    Place(MANIFEST, r"^[^\w\n]*+description\b"),
)
_STRUCTURE = (
    Place(r"^(?:docs?/(?:.*/)?)?(?:architecture|design|structure|overview|internals)\w*\.\w+$"),
    *(
        headed(one, "structure|architecture|layout|organi[sz]|overview|design")
        for one in (README, AGENTS, GUIDE)
    ),
    Place(WORKSPACE),
    Place(r"(?:^|/)(?:__init__\.py|lib\.rs|doc\.go|mod\.rs|(?:src|lib|docs?)/index\.\w+)$", most=1),
)
OVERVIEW_QUESTION = _row(places=(*_ABOUT, *_STRUCTURE), purpose=OVERVIEW)
STRUCTURE_QUESTION = _row(places=(*_STRUCTURE, *_ABOUT), purpose=OVERVIEW)
"""Questions about the project as a whole: see `overview_question`."""
PROJECT = frozenset(
    """app application code codebase framework library package program project repo repository software source
    system tool""".split()
)
_STRUCTURED = frozenset(
    """architecture design folders layout organisation organised organization organized parts structure
    structured tour""".split()
)
_WHOLE = _STRUCTURED | frozenset(
    """about components consist consists contain contains contents describe explain goal idea introduction
    main outline overview point purpose responsibilities responsibility responsible summarise summarize
    summary work working works""".split()
)
"""Words of a question for a whole."""
ASKED_WORDS = _WHOLE.union(*(group for row in PROJECT_QUESTIONS for group in row.asked))
"""The words that such questions ask with, also those that are written as names are: e2e."""
_BEGINNING = frozenset("begin beginning first new newcomer newcomers beginner start starting started".split())
_READER = frozenset("i im we one newcomer newcomers beginner beginners to".split())
_WITH_THEM = frozenset(
    """at basic between big brief briefly each general good high how inside internally internals its key learn
    level me most of out overall picture read reading role short through together understand walk way
    whole""".split()
)
_QUALIFIED = frozenset("basic big good key short".split())
"""Words that make a thing of the project of its parts: the key of a package, a short code."""
_PARTS = frozenset(("file", "files"))
_INTO = frozenset("in with to on about read reading learn understand".split())
"""Words of a question for where to start with a project, rather than for what starts it."""


def asks_for_whole(asked: Set[str]) -> bool:
    """Return whether the words of a question, without the name of its subject, ask for a whole, and for
    nothing else.
    """
    return not asked - NEUTRAL_WORDS - _WHOLE - _WITH_THEM - PROJECT and not asked.isdisjoint(_WHOLE)


def overview_question(asked: Set[str], own: Set[str], *, begins: bool) -> ProjectQuestion | None:
    """Return the kind of a question about the project as a whole, given its words: it has none of a subject.

    `own` are the names of the project. "This" is it only in the question that `begins` a conversation.
    """
    known = NEUTRAL_WORDS | PROJECT | _WHOLE | _WITH_THEM | _BEGINNING | _READER | own
    if asked - known or not asked.isdisjoint(_PARTS):
        return None
    is_named = begins or not asked.isdisjoint(PROJECT | own | {"architecture", "overview"})
    says_what = not asked.isdisjoint(("what", "whats")) and not asked.isdisjoint(
        PROJECT | own | {"this", "it"}
    )
    says_what = says_what and asked.isdisjoint(_QUALIFIED)
    starts_it = not asked.isdisjoint(("start", "begin")) and not asked.isdisjoint(PROJECT | own)
    if starts_it and asked.isdisjoint(_INTO):
        return None
    if not asked.isdisjoint(_BEGINNING):
        is_asked = not asked.isdisjoint(_READER) and "how" not in asked
    else:
        is_asked = is_named and (says_what or not asked.isdisjoint(_WHOLE))
    row = OVERVIEW_QUESTION if asked.isdisjoint(_STRUCTURED) else STRUCTURE_QUESTION
    return row if is_asked else None
