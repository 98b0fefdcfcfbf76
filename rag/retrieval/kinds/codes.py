"""Find the exit codes of a program and the HTTP status codes that it answers with.

Lines that exit, or answer a request, with a number or a named constant are read from the text, in any
language; lines that compare a code are not among them. A constant with the number is followed to its uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import chain, pairwise

from rag.analysis import is_stop_word, terms, words
from rag.lines import lines_of
from rag.ports import ChunkIndex
from rag.retrieval.kinds.asked import Asked, code_facts
from rag.retrieval.kinds.asked_codes import REGISTERED, AskedCode, asked_code
from rag.retrieval.rank import is_aside
from rag.types import CodeFacts
from rag.types.question_kinds import CODES

_MAX_LINE_CHARS = 300
_MAX_CONSTANTS = 8
_MAX_OF_EACH = 6
"""How many places of each code are listed where all codes are asked for."""
_NO_CODE = re.compile(r"\s*(?://|#(?!\s*define)|/?\*|--|\"|'|;;)|.*\b(?:assert\w*|expect)\b")
_COMPARES = re.compile(
    r"(?:[=!<>]=|(?<![-=])[<>]|\bcase|\bis|\bin|\bnot)"
    r"(?:[\s(\[{]|listOf\b|\w{1,60}(?:\.|::)){0,6}\Z"
)
_COMPARED = re.compile(r"\s*(?:[=!<>]=|[<>:]|[-=]>)")
_EXIT = re.compile(
    r"(?<![\w$.:])(?:[\w$]+(?:\.|::))*(?:_?exit|Exit|SystemExit|_Exit|exitCode|exit_code|setExitCode|exit_status"
    r"|ExitCode(?:::from)?|ExitError)(?:\s*=(?!=)\s*|\s*:\s+|\s*\(\s*(?:(?:code|status)\s*=\s*)?)"
    r"(?P<code>\d{1,3}\b)|(?<![\w$.:])exit (?P<shell>\d{1,3})(?=\s*(?:\Z|[;|&})#`]|(?:if|unless)\b))"
)
_EXIT_CALL = re.compile(r"\A(?:_?exit|exit_?(?:code|status)|Exit|setExitCode|SystemExit)\Z", re.I)
"""What sets the code of the process, rather than names one."""
_CONSTANT = re.compile(
    r"(?!(?i:.*exit\w*(?:delay|wait|count|interval|retries|_ms)))(?:[A-Z]|exit(?!s)|.*(?:code|status))"
)
"""What may be a constant of exit codes: not `should_exit` or `EXIT_DELAY`."""
_FATAL = re.compile(r"\blog(?:ger|rus)?\.Fatal(?:f|ln)?\(")
"""In Go these exit with 1."""
_DECLARED = re.compile(
    r"^\s*(?:#\s*define\s+(?P<macro>[^\W\d]\w*)\s+\(?"
    r"|(?:(?:export|public|private|static|final|const|constexpr|pub|let|var|int|readonly)\s+)*"
    r"(?P<name>[^\W\d]\w*)(?:\s*:\s*\w+|\s+\w+)?\s*(?:=(?!=)|\(|:(?!:))\s*)"
    r"(?P<code>\d{1,3})(?!\w|\.\d)"
)
_NUMBERED = re.compile(
    r"(?:(?:[sS]tatus|STATUS|[rR]esponse(?=_?[cC]ode))(?:_?[cC]ode|_?CODE)?|\b(?:abort|code|error|fail|halt|head)"
    r"|\b(?:abort|error|fail|halt)\w*(?=\s*\()|[rR]esponse\w*(?=\s*\()|WriteHeader|writeHead"
    r"|HTTPError|HTTPException|send_error|set_status|http_response_code)[\"']?"
    r"(?:\s*\(\s*|\s*=(?!=)\s*|\s*:\s*|,\s*|\s+)(?:[^(){}\n\"'=<>]{0,30},\s*|\w+\s*=\s*)?(?P<code>[1-5]\d\d)\b(?!\.)"
)
_STATUS_NAME = re.compile(
    r"(?:\bhttp\.Status|\b(?:HTTPStatus|HttpStatus|HttpStatusCode|StatusCodes?|Status|status)(?:\.|::)(?:HTTP_|Status)?"
    r"(?:\d{3}_?)?|\bHTTP_(?:STATUS_)?(?:\d{3}_)?|\bSC_|\b(?:status|head|render)\b[^\n]{0,60}?:)"
    r"(?P<name>[^\W\d]{2,40})\b"
)
_NEXT = re.compile(r"\s*[,|]\s*[\w.:]*")
"""What is between two statuses of a list: `[]int{http.StatusNotFound, http.StatusForbidden}`."""
_ARGUMENT = r"(?:[fru]?\"[^\"\n]{0,80}\"|[fru]?'[^'\n]{0,80}'|[^(){}\n\"'=<>,]{1,30}(?:\([^()\n]{0,60}\))?)"
_AFTER_BODY = re.compile(
    r"(?<!\w)(?:\w*[rR]esponse\w*|abort|halt|send_error|HTTPError|HTTPException|http\.Error)\s*\(\s*"
    rf"(?:{_ARGUMENT},\s*){{1,2}}(?P<code>[1-5]\d\d)\b(?!\.)"
)
"""A call with a status after the body of the answer: `Response("no such item", 404)`."""
_RETURNED = re.compile(
    r"\s*(?:return\b(?P<body>[^\n]{1,200}?(?:[\"'\])}]|[\"'] [%+] [\w.]{1,60}))|[\])}]{1,8}),"
    r"\s*(?P<code>[1-5]\d\d)\s*"
    r"(?:#|\Z|,\s*\{|(?(body)[,)]|(?!)))"
)
"""In Python, a status after the body of an answer: `return "no such item", 404`, or the last line of it."""
_BODY = re.compile(r"[\"'{]|json|render|respon|templ|redirect", re.I)
_ALONE = re.compile(r"\s*([\w.:]{3,80}?)(,?)\s*")
"""A line with one value: perhaps a status of a list."""
_OPENS_LIST = re.compile(r"(?:[\[{]|\b(?:set|frozenset|list|tuple|\w*[oO]f)\s*\(|(?:=|\bin)\s*\()\s*\Z")
_TAKES_CODE = re.compile(r"status|respon|error|exception|abort|halt|head|fail|exit", re.I)
"""What a call that takes a code may be named."""
_OF_FUNCTION = re.compile(
    r"\b(?:does|do|did|will|would|can) `?(?:\w+(?:\.|::))*(\w+)`?(?:\(\))?`?"
    r" (?:return|respond|answer|reply|send)\b",
    re.I,
)
"""A question with a word that may be the name of a function: "When does count return 200?"."""
_MIN_DECLARED = 3
"""Lines that declare this many statuses under names of their own say what there is, not what is answered."""
_NAMED = {name.replace("_", "").lower(): status.value for name, status in HTTPStatus.__members__.items()}


@dataclass(frozen=True, slots=True)
class _Site:
    """A line with a code; what it does is the reason to show it."""

    index: ChunkIndex
    path: str
    line: int
    code: int
    reason: str


def find(asked: Asked) -> CodeFacts | None:
    """Return the lines that exit or answer with a code, those of the best files first; None without any."""
    wanted = asked_code(asked.question.question.text)
    if wanted is None:
        return None
    read = _exit_sites if wanted.of == "exit" else _status_sites
    sites = [site for index in asked.indexes for site in read(asked, index, wanted.number)]
    sites = _in_function(asked, _of_topic(asked, list(dict.fromkeys(sites)), wanted))
    found = (asked.place(site.index, site.path, site.line, site.reason) for site in _shown(sites, wanted))
    places = [place for place in found if place]
    what = "exit" if wanted.of == "exit" else "status"
    codes = sorted({site.code for site in sites})
    if wanted.number is None:
        number = f"{len(codes)} {what} code{'s' * (len(codes) != 1)}"
        summary = f"{number} found: {', '.join(map(str, codes))}"
    else:
        lines = f"{len(sites)} line" + "s" * (len(sites) != 1)
        summary = f"{what.capitalize()} code {wanted.number} is used in {lines}"
    note = "Codes that are computed are not among them"
    count = len({(site.path, site.line) for site in sites})
    return code_facts(asked, CODES, str(wanted.number or what), summary, places, note=note, count=count)


def _of_topic(asked: Asked, sites: list[_Site], wanted: AskedCode) -> list[_Site]:
    """Return the sites in the order of the ranking of their files; if the question has words of its own, only
    those in files with the most of them in the path, or in those that the ranking has, if any.
    """
    order = {path: place for place, path in enumerate(dict.fromkeys(one.hit.path for one in asked.best))}
    own = {term for word in words(asked.question.question.text) for term in terms(word) if term.isalpha()}
    if own := own - _FRAME:
        held = {site.path: len(own.intersection(terms(site.path))) for site in sites}
        most = max(held.values(), default=0)
        sites = [site for site in sites if held[site.path] == most and (most or site.path in order)] or sites
    sites.sort(key=lambda site: (is_aside(site.path), order.get(site.path, len(order)), site.path))
    is_last = wanted.number is not None and _MEANS.search(asked.question.question.text) is None
    return sorted(sites, key=lambda site: site.reason.startswith("declares") == is_last)


def _in_function(asked: Asked, sites: list[_Site]) -> list[_Site]:
    """Return the sites that are in the function that the question names, if it names one."""
    named = _OF_FUNCTION.search(asked.question.question.text)
    if named is None or is_stop_word(named[1]):
        return sites
    defined = [
        (id(index), one)
        for index in asked.indexes
        for one in index.graph.definitions(named[1])
        if one.unit == "function"
    ]
    if not defined:
        return sites
    return [
        site
        for site in sites
        if any(
            (id(site.index), site.path) == (index, one.path) and one.start <= site.line <= one.end
            for index, one in defined
        )
    ]


def _shown(sites: Sequence[_Site], wanted: AskedCode) -> list[_Site]:
    """Return the sites to show: where all codes are asked for, some of each, by code."""
    if wanted.number is not None:
        return [*sites]
    of_code: dict[int, list[_Site]] = {}
    for site in sites:
        of_code.setdefault(site.code, []).append(site)
    return [site for _, found in sorted(of_code.items()) for site in found[:_MAX_OF_EACH]]


_MEANS = re.compile(r"\b(?:means?|meaning|defined|declared)\b", re.I)
"""What asks for a declaration rather than its uses."""
_FRAME = frozenset(
    terms(
        "exit exits exited code codes status statuses value values return returns returned http response with"
        " mean means error errors program command tool process application there possible used uses list show"
        " respond responds answer answers send sends sent get give all defined declared listed have has"
    )
)


def _exit_sites(asked: Asked, index: ChunkIndex, number: int | None) -> Iterator[_Site]:
    """Yield the lines that exit with a code, or declare a constant of exit codes, and the uses of these."""
    constants: dict[str, int] = {}
    found = []
    for hit in asked.hits_with(index, ["exit"], code=True):
        within = set(terms(f"{hit.scope} {hit.symbol}"))
        for line, text in _lines(hit.text, hit.start):
            name, code = _declared(text)
            site = _EXIT.search(text)
            if "exit" in within.union(terms(name)) and _CONSTANT.match(name) and not _EXIT_CALL.search(name):
                constants[name] = code
                found.append((hit.path, line, code, "declares"))
            elif site and not _COMPARES.search(text[: site.start()]):
                found.append((hit.path, line, int(site["code"] or site["shell"]), "exits with"))
    if number in (None, 1):
        for hit in asked.hits_with(index, ["fatal"], code=True):
            lines = _lines(hit.text, hit.start) if hit.path.endswith(".go") else ()
            found += [(hit.path, line, 1, "exits with") for line, text in lines if _FATAL.search(text)]
    wanted = [name for name, code in constants.items() if number in (None, code)]
    for name in asked.first(wanted, _MAX_CONSTANTS, "constants were followed to their uses"):
        found += [(*place, constants[name], "uses") for place in _uses(asked, index, name)]
    known = {(path, line) for path, line, _, reason in found if reason == "declares"}
    for path, line, code, reason in found:
        if number in (None, code) and (reason == "declares" or (path, line) not in known):
            yield _Site(index, path, line, code, f"{reason} {code}")


def _declared(line: str) -> tuple[str, int]:
    """Return the constant that a line declares and its value; no name if it declares none."""
    found = _DECLARED.match(line)
    return (found["macro"] or found["name"], int(found["code"])) if found else ("", 0)


def _uses(asked: Asked, index: ChunkIndex, name: str) -> Iterator[tuple[str, int]]:
    used = re.compile(rf"(?<![\w$.:])(?:\w{{1,60}}(?:\.|::)){{0,4}}{re.escape(name)}(?![\w$])")
    for hit in asked.hits_with(index, terms(name)[-1:], code=True):
        for line, text in _lines(hit.text, hit.start):
            at = used.search(text)
            if at and not _COMPARES.search(text[: at.start()]) and not _COMPARED.match(text, at.end()):
                yield hit.path, line


def _status_sites(asked: Asked, index: ChunkIndex, number: int | None) -> Iterator[_Site]:
    """Yield the lines that answer with a status."""
    if number is None:
        sought = ["status", "http", "abort", "writehead", "respons"]
    else:
        names = [name for name, status in HTTPStatus.__members__.items() if status.value == number]
        parts = [terms(name.replace("_", " ")) for name in names]
        rarest = [min(each, key=lambda term: len(index.postings(term).chunks)) for each in parts if each]
        sought = [str(number), *rarest]
    hits = asked.hits_with(index, sought, code=True)
    if number is None:  # `return "no such item", 404` has none of these words
        registered = map(str, sorted(REGISTERED))
        hits = chain(hits, asked.hits_with(index, registered, code=True, ending=".py"))
    for hit in hits:
        lines = list(_lines(hit.text, hit.start))
        declared = {line: name for line, text in lines if (name := _declared_status(text))}
        is_table = len(set(declared.values())) >= _MIN_DECLARED
        text_of = dict(lines)
        for line, text in lines:
            if _is_listed(text, text_of.get(line - 1, ""), text_of.get(line + 1, "")):
                continue
            for code in _statuses(text):
                if number in (None, code) and not (is_table and line in declared):
                    yield _Site(index, hit.path, line, code, f"answers with {code}")


def _declared_status(line: str) -> str:
    """Return the constant to which a line gives a registered status; "" if it is no such line."""
    name, code = _declared(line)
    return name if code in REGISTERED and not re.match(rf"\s*{name}\s*\(", line) else ""


def _code_of(site: re.Match[str]) -> int:
    """Return the status that a part of a line is; 0 if its name is none."""
    given = site.groupdict()
    return int(given["code"]) if "code" in given else _NAMED.get(given["name"].replace("_", "").lower(), 0)


def _status_alone(line: str) -> bool:
    """Return whether a line is one status, as in a list with one of them in each line."""
    alone = _ALONE.fullmatch(line)
    if alone is None:
        return False
    named = _STATUS_NAME.fullmatch(alone[1])
    return (int(alone[1]) in REGISTERED) if alone[1].isdigit() else bool(named and _code_of(named))


def _is_listed(line: str, before: str, after: str) -> bool:
    """Return whether a line is a status of a list or tuple of them, one in each line."""
    if not _status_alone(line):
        return False
    is_first = line.rstrip().endswith(",") and _OPENS_LIST.search(before) is not None
    return is_first or _status_alone(before) or _status_alone(after)


def _returned(line: str) -> int:
    """Return the status that a line of Python returns after a body; 0 if it returns none."""
    found = _RETURNED.match(line)
    if found is None or (code := int(found["code"])) not in REGISTERED:
        return 0
    body = (found["body"] or "{}").strip()
    still_open = sum(body.count(one) for one in "([{") - sum(body.count(one) for one in ")]}")
    if still_open != body.startswith("(") * still_open or still_open > 1:
        return 0  # an argument of a call
    return code if code % 100 or _BODY.search(body) else 0


def _statuses(line: str) -> Iterator[int]:
    """Yield the statuses that a line answers with: none if it has a list of them."""
    if code := _returned(line):
        yield code
    every = [site for site in _STATUS_NAME.finditer(line) if _code_of(site)]
    if any(_NEXT.fullmatch(line, one.end(), other.start()) for one, other in pairwise(every)):
        return
    for pattern in (_NUMBERED, _AFTER_BODY, _STATUS_NAME):
        for site in pattern.finditer(line):
            if pattern is _STATUS_NAME and _declared_status(line):
                continue
            if _COMPARES.search(line[: site.start()]) or _COMPARED.match(line, site.end()):
                continue
            if code := _code_of(site):
                yield code


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield the lines that may be code, with their numbers; one that opens a call that may take a code, with
    the line after it.
    """
    lines = lines_of(text)
    joined = False
    for number, line in enumerate(lines):
        opens = line.rstrip().endswith("(") and number + 1 < len(lines)
        opens = opens and _TAKES_CODE.search(line[-_MAX_LINE_CHARS:]) is not None
        opens = opens and not (
            _status_alone(lines[number + 1]) and _status_alone("".join(lines[number + 2 : number + 3]))
        )
        if not _NO_CODE.match(line) and (opens or not joined):
            yield (
                start + number,
                line.rstrip() + lines[number + 1].strip()[:_MAX_LINE_CHARS] if opens else line,
            )
        joined = opens
