"""Parse a question: its terms, the names it mentions, and the kind of place it asks for.

All of it uses rules over words; no model is called here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from rag.analysis import terms, without_clitics, words
from rag.identifiers import LIKE_CODE, UNCASED, UPPER, composed, names_in
from rag.retrieval.german import in_english
from rag.retrieval.literal import without_quotations
from rag.retrieval.log_prefix import without_log_prefixes

_CODE_SPAN = re.compile(r"(?<!`)`+([^`\n]+?)`+")
_CONTRACTED = re.compile(
    r"(?<![\w'\"`.-])(?:ca|do|does|did|is|are|was|were|wo|would|could|should|have|has|had)(?-i:n['’]?t)(?![\w'\"`.(-])",
    re.I,
)
_WHO_IS = re.compile(
    r"((?:\A\s*|[.,;:!?/(]\s+)(?:(?:and|but|so|or|ok|okay|hey|hi|hello|please),?\s+){0,3}|\b(?:and|or)\s+)"
    r"(who|what|where|how)['’]?s(?=\s)",
    re.I,
)
"""A question that begins with "who's" or, as often typed, "whos"."""
_PATH = re.compile(r"(?:[\w.-]{1,255}/)+[\w.-]+|\b[\w-]{1,255}\.[A-Za-z]{1,5}(?![A-Za-z0-9_])")
_FRAME = re.compile(r'\bFile "([^"\n]+)", line (\d{1,7})(?:, in (\w+))?')
_LINE = re.compile(r"(?<![\w./-])((?:[\w.-]*/)*[\w.-]+\.[A-Za-z]\w{0,7})(?::|#L)(\d{1,7})")
"""A line of a file, as in Python's tracebacks, and as most other programs write it."""
_PATH_OF_LINES = r"(?<![\w./-])`?(?P<%s>(?>(?:[\w.-]{1,255}+/)*)[\w-]{1,255}\.[A-Za-z]\w{0,7})`?"
_LINE_NUMBERS = r"(?P<%s>\d{1,7})(?:(?: ?[-–] ?| (?:to|through|until|and) )L?(?P<%s>\d{1,7}))?"
_LINES = (
    rf"{_PATH_OF_LINES % 'before'},? (?:(?:at|on|in) )?lines? {_LINE_NUMBERS % ('first', 'last')}",
    rf"\blines? {_LINE_NUMBERS % ('first_of', 'last_of')}"
    rf"(?: (?:of|in|from) (?:the )?(?:file )?{_PATH_OF_LINES % 'after'})?",
    rf"{_PATH_OF_LINES % 'at'}(?::|#L){_LINE_NUMBERS % ('first_at', 'last_at')}",
)
_LINES_ASKED = re.compile(rf"(?:{'|'.join(_LINES)})(?![\d:])", re.I)
"""Lines that a question asks to see: "lines 40-60 of app.py", "app.py:40"; but not "app.py:40:7: error"."""
_SPELLED = re.compile(r"(?<![\w$'#:./-])(?!\d)[\w$*%][\w$*%'-]*(?:[.:#/!?=>]{1,2}[\w$*%'-]+)*[!?=*]?")
"""What may be a name where names have more than letters and digits: `wrap-session`, `s:open`."""
_NAMED_LIKE_CODE = re.compile(rf"{LIKE_CODE}|::|->|\(\)|\w\.\w|^[{UPPER}]{{2,}}$|{UNCASED}")

_TEST = r"(?:\w{1,20} )?(?:tests?|specs?|test cases?)"
_OF = r"(?:\W*\Z| (?:for|of|that|which|about|around)\b)"
_ASKS_FOR_TESTS = (
    r"\A\W*(?:(?:and|or|so|find|show me|list|see|the|any|all|its) ){0,3}" + _TEST + _OF,
    r"\b(?:is|are) there (?:a |any |no )?" + _TEST,
    r"\b(?:have|has|find|see|show(?: me)?|where are|how about|and) (?:we |you )?(?:(?:a|any|the|no|its) )?"
    + _TEST
    + _OF,
    r"\b(?:which|what|do(?: the| any)?) (?:unit )?(?:tests|specs|test cases)\b",
    r"\bwhich (?:unit )?(?:test|spec|test case)\b",
    r"\b(?:where|how) (?:do|are|is|does|did) (?:\w{1,20} ){0,2}test(?:s|ed|ing)?\b(?! \w)",
    r"\bwhere do (?:we|you|they) (?:test|verify)\b",
    r"\b(?:un)?tested\b|\bcover(?:s|ed|age)?\b",
)
"""What a question says that asks for tests. The bare word does not: it may be the topic of the code."""
_ASKS = {
    "callers": re.compile(
        r"\b(who|what|which|where|anything|anyone)\b[^?.]{0,60}\b(calls?|called|invokes?|invoked|uses?|used"
        r"|triggers?|triggered|reaches|references?|depends? on|callers?|call sites?)\b",
        re.I,
    ),
    "tests": re.compile("|".join(_ASKS_FOR_TESTS), re.I),
    "test_code": re.compile(r"\b(?:tests?|testing|specs?|test cases?)\b", re.I),
    "config": re.compile(
        r"\b(configur\w+|settings?|options?|defaults?|environment variables?|env vars?|flags?|switch"
        r"|parameters?|directives?)\b",
        re.I,
    ),
    "docs": re.compile(
        r"\b(?:documented|documentation|docs|readme|tutorial|changelog|guide|the manual|man ?pages?)\b"
        r"|\b(?:where|is|are)\b[^?.]{0,60}\b(?:described|explained)\b|\bread (?:more |up )?(?:about|on)\b",
        re.I,
    ),
    "behaviour": re.compile(
        r"\b(what (if|happens|does it)|fails?|failed|raises?|raised|throws?|returns?|returned|gives? back"
        r"|comes? (back|out)|errors?|when does it|how does it)\b",
        re.I,
    ),
    "example": re.compile(r"\b(examples?|samples?|demos?|benchmarks?)\b", re.I),
}

_GOES_ON = re.compile(
    r"\s*(and|but|so|then|or|also|what about|how about|what if|why not|same for|ok|okay|now)\b", re.I
)
_REFERS = re.compile(
    r"\b(it|its|it's|that|this|these|those|they|them|their|he|she|one|ones|the same|the other|instead"
    r"|otherwise|else|again|then|here|both|former|latter|such"
    r"|(?<!is )(?<!are )there(?! (?:is|are)\b))\b",
    re.I,
)
_PLACE = r"(?:functions?|methods?|class(?:es)?|modules?|files?|code|parts?|pieces?|place|components?|logic)"
_OF_ITSELF = re.compile(
    rf"(\b(?:an?|each|every|the (?!(?:same|other|whole|{_PLACE})\b)) \w[^?!.:;]{{2,80}}? "
    r"(?:after|because|before|if|once|until|when|while) )(?:it|they)\b",
    re.I,
)
"""A pronoun with what it means in the same sentence: "where is a file read before it is parsed?"."""


_FRESH = re.compile(
    r"\b(something (else|different|new)|(another|different|new|unrelated) (question|topic|thing|subject)"
    r"|chang(e|ing) (the )?(topic|subject)|by the way|unrelated)\b",
    re.I,
)
_DIGITS_WEIGHT = 0.2
"""A number that is part of a word occurs in many other words: the word as a whole is what is asked for."""
_FRAME_WEIGHT = 0.2
"""A word that only says what kind of place is asked for seldom occurs there."""
_ASKING = re.compile(
    r"\A\W*(?:(?:please|can you|could you|and|so|but|now)\W+){0,2}"
    r"(?P<order>show|find|explain|describe|locate|give)\b"
    rf"|\b(?:what|which)\s+(?P<head>{_PLACE})(?:\s+of\s+the\s+(?P<whole>code(?:base)?|source|project))?\b"
    rf"|\bthe\s+(?P<the>{_PLACE}|implementation|definition)(?:\s+of\s+the\s+(?P<all>code(?:base)?|source|project))?"
    r"\s+(?:that|which|where|for|behind)\b"
    r"|\bis\s+(?P<duty>responsible)\s+for\b|\b(?P<deals>deals?|dealing)\s+with\b"
    r"|\b(?P<care>tak(?:es?|ing)\s+care)\s+of\b|\bin\s+(?P<charge>charge)\s+of\b"
    r"|\b(?P<last>implemented|defined|declared|located|handled|performed|situated|placed|found|carried|lives?"
    r"|happens?|takes?\s+place)(?:\s+(?:out|with|at|exactly|here|now))?"
    r"(?:\s+(?:in|inside|within)\s+(?:this|the|your|our)\s+"
    r"(?P<here>repo\w*|code\w*|project|package|library|sources?))?"
    r"\s*(?:\Z|[?.!,;](?:\s|\Z))",
    re.I,
)
"""Words that say how something is asked, each in a group: "show me …", "which file …", "… is defined?"."""
_END_MARKS = "?!=*.,;:…()[]{}<>`'\"‘’“”«»"
"""What may be next to a name in a question, and with which few names end."""
_MAX_PLACES = 20
"""How many places count at each end of a text that mentions many."""
_MAX_SPELLED_CHARS = 400
"""A longer text is searched for names only so far."""
_SHORT_CHARS = 160
"""A longer text names no lines to show."""
_KEPT_CHARS = 500
"""What is parsed of a longer text takes up to a megabyte."""
_FRAGMENT_WORDS = 3
"""A question of at most this many words is treated as incomplete."""


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """A parsed question.

    Each of `terms` has a weight; `names` are the identifiers mentioned, as written; `paths` the file names
    mentioned; `places` lines of files, as (path, line); `asks` is the subset of callers, tests, config, docs,
    behaviour, example that it asks for, and test_code where it mentions tests; `dependent` is True when it
    depends on earlier questions, `refers` when it does by a word such as "it", `fresh` when it states that it
    does not. `lines` are the lines that a short question names, as (path, first, last); the path is "" where
    it says only "line 40".
    """

    text: str
    terms: dict[str, float] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    places: tuple[tuple[str, int], ...] = ()
    lines: tuple[tuple[str, int, int], ...] = ()
    asks: frozenset[str] = frozenset()
    dependent: bool = False
    refers: bool = False
    fresh: bool = False


def parse_question(text: str) -> ParsedQuestion:
    """Parse a question. Any text is valid; a text without words has no terms.

    A German question is read in English if all its words are known. The last results are cached, of long
    texts fewer: each follow-up needs the questions before it.
    """
    return (_parsed if len(text) <= _KEPT_CHARS else _parsed_long)(text)


def _parse(text: str) -> ParsedQuestion:
    text = _WHO_IS.sub(r"\1\2 is", in_english(composed(text)))
    spans = _CODE_SPAN.findall(text)
    names = [name for span in spans for name in names_in(span)]
    names += [name for name in names_in(text) if _NAMED_LIKE_CODE.search(name)]
    if len(words(text)) == 1:
        names += names_in(text)  # a single word is a name to look up
    frames = _FRAME.findall(text)
    names += [name for _, _, name in frames if name]
    places = [(path, int(line)) for path, line, *_ in (*frames, *_LINE.findall(text))]
    lines = [] if frames or len(text) > _SHORT_CHARS else _lines_asked(text)
    places += [(path, first) for path, first, _ in lines if path]
    paths = tuple(dict.fromkeys(_PATH.findall(text)))
    asks = frozenset(ask for ask, pattern in _ASKS.items() if pattern.search(text))
    said = without_log_prefixes(text)
    refers = bool(_REFERS.search(_OF_ITSELF.sub(r"\1", without_quotations(text))))
    return ParsedQuestion(
        text=text,
        terms=_weighed(said),
        names=tuple(dict.fromkeys(name.removesuffix("()") for name in names)),
        paths=paths,
        places=_ends(tuple(dict.fromkeys(places))),
        lines=tuple(lines),
        asks=asks,
        dependent=refers or bool(_GOES_ON.match(text)) or len(words(text)) <= _FRAGMENT_WORDS,
        refers=refers,
        fresh=bool(_FRESH.search(text)),
    )


_parsed, _parsed_long = lru_cache(1024)(_parse), lru_cache(32)(_parse)


def _lines_asked(text: str) -> list[tuple[str, int, int]]:
    """Return the lines that a text names, as (path, first, last)."""
    found = []
    for match in _LINES_ASKED.finditer(text):
        path = match["before"] or match["after"] or match["at"] or ""
        first = int(match["first"] or match["first_of"] or match["first_at"])
        last = int(match["last"] or match["last_of"] or match["last_at"] or first)
        found.append((path, min(first, last), max(first, last)))
    return found


def _weighed(text: str) -> dict[str, float]:
    """Return the weight of each term: 1, but less for the number in a word, such as the 9 of `F9`, and for a
    word that only says how something is asked.
    """
    text = without_contractions(text)
    found = dict.fromkeys(terms(text), _FRAME_WEIGHT)
    found |= dict.fromkeys(terms(_without_asking(text)), 1.0)
    parts = [terms(word) for word in words(text) if not word.isdigit()]
    found |= {term: _DIGITS_WEIGHT for some in parts if len(some) > 1 for term in some if term.isdigit()}
    return found | {term: 1.0 for word in words(text) if word.isdigit() for term in terms(word)}


def without_contractions(text: str) -> str:
    """Return a text with "can't", "doesnt" and the like as "not", and no letters after an apostrophe."""
    return without_clitics(_CONTRACTED.sub("not", text))


def _without_asking(text: str) -> str:
    """Return a text without the words that only say how something is asked. Code in backticks is kept."""
    kept, at = [], 0
    for match in _ASKING.finditer(_CODE_SPAN.sub(lambda span: " " * len(span[0]), text)):
        for first, last in match.regs[1:]:
            if first >= at:
                kept.append(text[at:first])
                at = last
    return " ".join([*kept, text[at:]])


def _ends(places: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Return the first and last places: the ends of a long traceback show what went wrong."""
    return places if len(places) <= 2 * _MAX_PLACES else places[:_MAX_PLACES] + places[-_MAX_PLACES:]


def without_places(text: str) -> str:
    """Return a question without the lines of files that it mentions."""
    return _LINES_ASKED.sub(" ", _LINE.sub(" ", _FRAME.sub(" ", text)))


def spelled_names(text: str) -> list[str]:
    """Return the words of a text that are names if the repository defines them as they are written.

    They have punctuation, such as `valid-key?`, `s:open` or `as.list`; a mark at the end is left out too.
    """
    found = _SPELLED.findall(text[:_MAX_SPELLED_CHARS])
    forms = dict.fromkeys(form for name in found for form in (name, without_marks(name)))
    return [form for form in forms if not form.isidentifier()]


def without_marks(name: str) -> str:
    """Return a name without the punctuation at its ends, which may be that of the question: `open?`."""
    return name.strip(_END_MARKS)


def bare_name(name: str) -> str:
    """Return a name that is asked for without the quotes around it and its arguments: "`send(text)`"; a path
    without "./".
    """
    name = name.strip()
    if len(name) > 2 and name[0] == name[-1] and name[0] in "`'\"":
        name = name[1:-1].strip()
    name = re.sub(r"(?<=\w)/\d{1,3}\Z", "", name.removeprefix("./"))  # `run/2` has two arguments
    head = name.partition("(")[0]
    return head if re.search(r"[\w?!]\Z", head) else name


def last_part(name: str) -> str:
    """Return the last part of a qualified name: `run` of `app.Server.run` and `Server#run`, but `#run`."""
    return re.split(r"\.|::|->|(?<=\w)#", name)[-1]
