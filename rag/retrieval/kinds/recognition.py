"""Recognize the kinds that a question may be of, by its words alone.

The rules that answer a kind are in its own module, which is imported only when a question is of the kind.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from rag.analysis import words
from rag.identifiers import CAMEL, LOWER, UPPER
from rag.retrieval.asked_definition import AFTER, HERE, NAME, UNIT
from rag.retrieval.question import last_part
from rag.types.question_kinds import (
    CALLERS,
    LIST,
    MESSAGE,
    SETTING,
    TRACE,
)

_WRITTEN = re.compile(r"(?<![\w-])(?:--)?[^\W\d_][\w.-]*[\w]")
"""What may be the name of a setting."""
_MIN_MESSAGE_WORDS = 3
"""The words of a text that is neither marked nor a question: a message if it is a whole literal."""
_ALL = re.compile(r"\b(?:list|enumerate|all|every)\b", re.I)
_MESSAGE = re.compile(
    r"[\"“«`'‘][^\"“”«»`\n]{12,200}[\"”»`'’]"
    r"|\b(?:\w*errors?|\w*exception|warn(?:ing)?|fatal|fail(?:ed|ure|s)?|traceback|panic|cannot|could not"
    r"|can't|unable|invalid|unknown|unexpected|denied|refused|missing|not found|exceeded|unsupported|illegal"
    r"|undefined|no such|not (?:supported|allowed|valid)|does not exist|already exists|timed out)\b",
    re.I,
)
_ASKS_FOR_CODE = re.compile(
    r"\bwhere\b[^?]{1,300}\b(?:implemented|handled|performed|computed|calculated|done)\b"
    r"|\bimplementation of\b|\bwh(?:at|ich|o)\b[^?]{0,60}\bimplements?\b",
    re.I,
)
_QUESTION = re.compile(
    r"\s*(?:(?:who|what|where|when|how)s?|which|why|is|are|does|do|can|could|will|if|in|list|show|find"
    r"|explain)\b",
    re.I,
)
_REQUEST = re.compile(
    r"\?|(?:\A\W*|[.:;,!-]\s+)(?:(?:and|or|so|but|now|ok|please|thanks|hi|hello) ){0,3}"
    r"(?:(?:who|what|where|when|how)s?|which|why|is|are|does|do|can|could|will|would|if|in|list|enumerate"
    r"|show|find"
    r"|search|look|explain|describe|give|get me|name (?:me|all|every|each|the)|i|we|need)\b"
    r"|\A\W*(?:(?:the|an?|any|complete|full) ){0,2}"
    r"(?:all|every|each|lists?|overview"
    r"|options?|settings?|flags?|switch\w*|parameters?|defaults?|directives?|variables?|keys?"
    r"|callers?|call(?:ing)?[ -]?sites?|uses|usages?|users|subclasses|implement(?:ations?|ers?)|overrides"
    r"|import(?:s|ers?)|references|invocations|dependents|anything|anyone|everything)\b"
    r"|\bplease\b",
    re.I,
)
"""What a text has that asks for something: a question mark, a word of questions or orders at the beginning of
a clause, or what is wanted at its beginning ("all routes", "default of the port").
"""
_ORDER = re.compile(r"\W*(?:please |and |then ){0,2}(?:list|enumerate|show|find|name|give|explain)\b", re.I)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'`(]?[A-Z])|\n+")
_RELATIONS = {
    "raisers": re.compile(
        rf"\b(?:rais(?:es?|ing)|throw(?:s|ing)?) (?:an? |the )?`?(?-i:[{UPPER}]\w*[{LOWER}]\w*)"
        rf"|(?!wh)(?-i:\b[{UPPER}]\w*[{LOWER}]\w*)`? (?:\w+ ){{0,3}}(?:raised|thrown)\b",
        re.I,
    ),
    "overrides": re.compile(r"\b(overrid\w+|re-?implement\w*|overload\w*)\b", re.I),
    "subclasses": re.compile(
        r"\b(subclass\w*|sub-class\w*|extends?|extended|extending|inherit(?:s|ed|ing)?|deriv(?:es?|ed|ing))\b",
        re.I,
    ),
    "implementers": re.compile(
        r"\b(?:who|what|class(?:es)?|types?|structs?|enums?|records?)"
        r" (?:(?:that|all|also|directly) )?implements?\b"
        r"|\bclass(?:es)? implementing\b|\bimplement(?:ers?|ors?|ations?) of\b",
        re.I,
    ),
    "importers": re.compile(r"\b(imports?|imported|importers?)\b", re.I),
    "callers": re.compile(
        r"\b(callers?|call(?:ing)?[ -]?sites?|call(?:s|ed|ing)?|invok\w+|invocations?|triggered|exercised)\b",
        re.I,
    ),
    "uses": re.compile(
        r"\bwho (?!(?:owns|maintains|raises|throws|defines|declares|documents|knows|was|has|does)\b)"
        r"\w{2,20}s (?:the |an? )?`?"
        rf"(?-i:[{UPPER}]\w*{CAMEL}\w*|[{LOWER}]+(?:[{UPPER}]|_)\w+)\b"  # "who dispatches the ScrobbleJob"
        r"|\b(us(?:es?|ed|ing|ages?)|users of|refs?|referenc\w+|asks?|relies|rely|depends?|draws? on"
        r"|mentions?|affect(?:s|ed)"
        r"|(?:templates?|charts?|manifests?) includes?)\b",
        re.I,
    ),
}
"""The relations, in the order in which their words decide."""
_WHO = re.compile(r"\A\W*(?:who|what) \w+", re.I)
_CAPITAL = re.compile(rf"(?<=\w )[{UPPER}]\w*")
_MAX_CHARS = 400
_TESTS = (
    r"(?:(?:unit|integration|existing|automated) )?(?:tests?|specs?)"
    r"(?: (?:cases?|methods?|functions?|files?))?"
)
_DOES = (
    r"(?:(?:that|which|is|are|do|does|there|directly|actually) )*"
    r"(?:cover(?:s|ing)?|test(?:s|ing)?|exercis(?:es?|ing)|check(?:s|ing)?|call(?:s|ing)?|us(?:es?|ing)"
    r"|verif(?:y|ies|ying)|run(?:s|ning)?|invok(?:es?|ing)|for|of)"
)
_ASKED = rf"{UNIT}{NAME}{AFTER}"
_OF_TESTS = ("test", "spec", "cover", "verify", "exercise")
"""One of these is in every question for the tests of a name, whose pattern takes 8 ms to compile."""
_ASKS_FOR_TESTS = (
    r"\A\W*(?:(?:and|but|so|ok|please|can you) )?(?:"
    rf"(?:which|what) (?:are the )?{_TESTS} {_DOES} {_ASKED}"
    rf"|(?:is|are) {_ASKED} (?:ever |already |even |well |unit[ -])?(?:tested|covered)"
    rf"|(?:where|how) (?:is|are) {_ASKED} (?:unit[ -])?(?:tested|covered)"
    rf"|(?:where|how) (?:do|does|did) (?:we|you|they|the tests) (?:test|verify|exercise) {_ASKED}"
    rf"|(?:is|are|where (?:is|are)) (?:there|the) (?:an? |any )?{_TESTS} {_DOES} {_ASKED}"
    rf"|(?:(?:show|find|list|see|give|open) )?(?:me )?(?:(?:the|any|all|an?) )?(?:of the )?{_TESTS}"
    rf" {_DOES} {_ASKED}"
    rf"|(?:does|do) {_ASKED} have (?:any |an? )?{_TESTS}"
    rf"|(?:who|what) tests {_ASKED}"
    rf")(?: (?:by|in|with) (?:(?:an?|any|the|which|some) )?(?:\w+ )?{_TESTS}| anywhere| at all)?{HERE}"
)
_ASKS_USES = re.compile(
    r"^\W*(?:and |but |so |ok(?:ay)?,? |then )*(?:who|what|which|where|from (?:where|which)|list|show|find"
    r"|all|any\w*|every\w*|does (?:any|some)\w*|is \w+ (?:called|used)|callers?|call sites?|usages?|uses"
    r"|users)\b"
    r"|\b(?:callers?|call sites?|usages|users|importers|implement(?:ations?|ers?|ors?)|sub-?classes) of\b"
    r"|\bwho (?:calls?|uses?|asks?|invokes?)\b"
    r"|\bwhere\b[^.?!]{0,120}\b(?:called|used|invoked|call)\b|\b(?:from (?:where|which)|which)\b",
    re.I,
)
_NO_USES = re.compile(
    r"\b(?:what|which|who|where)\b[^?.!]{0,60}\b(?:do|does|did) "
    r"(?!any|some|we\b|you\b|they\b|people\b)[^?.!]{1,80}"
    r"\b(?:call|use|invoke|import|depend|rely|extend|inherit|override|reference)\b"  # the other direction
    r"|\bwhat happens\b|\b(?:why|reason|how|settings?|options?|flags?|switch|defaults?|when|moment)\b",
    re.I,
)
_USES_OF_IT = re.compile(
    r"\bwho (?:calls?|uses?|invokes?|triggers?) (?:it|that|this|them|these|those)\b"
    r"|\bwhen (?:is|are|was|does|do|did) (?:it|that|this|they|these|those)"
    r" (?:(?:ever|actually|really|get|gets) ){0,2}(?:called|invoked|triggered)\b"
    r"|^\W*who (?:calls|uses|invokes) \S+\W*$",
    re.I,
)
"""What asks for uses whatever else the question says: "when does that happen, i.e. who calls it?", or nothing
but a name: "who calls defaults?".
"""
NEGATED = re.compile(
    r"\([^()]{0,200}\b(?:not|other|leave)\b[^()]{0,200}\)"
    r"|(?:(?<=[.?!,;-])|\band)\s*(?:but )?(?:not|no|I do not mean|I don't mean|leave)\b[^.?!]{0,200}"
    r"|(?<=[.?!])[^.?!]{0,120}\b(?:not|n't) count\b[^.?!]{0,100}"
    r"|(?<=[.?!]) (?:there are|several|many)\b[^.?!]{0,200}",
    re.I,
)
_LISTS = re.compile(
    r"\b(?:list|enumerate|(?<!the )(?<!a )name)\s+(?:me\s+)?(?:all|every|each|the|of)\b"
    r"|\b(?:all|every)\s+(?:of\s+)?(?:the\s+)?(?:[\w-]{1,40}\s{1,9}){0,3}\w"
    r"|\b(?:which|what)\s+(?!(?:makes|causes|lets|keeps|prevents|ensures|decides)\b)"  # what makes jobs run?
    r"(?:are\s+(?:all\s+)?the\s+)?(?:[\w-]{1,40}\s{1,9}){0,4}?(?!does|this|has|was)[a-z-]{3,40}(?<!ss)(?<!us)(?<!is)s\b"
    r"(?:\s+(?:of|for|in|to|on|from|with)\b[^?.,;]{0,60})?"
    r"\s+(?:are|can|could|does|do|did|may|might|exist|has|have|come|ship|run|will|must|be)\b"
    r"|\b(?:which|what)\s+(?:\w*(?:kinds|types|sorts)\s+of|(?:[\w-]{1,40}\s{1,9}){1,3}are\s+there)\b"
    r"|\bwhat\s+are\s+the\s+(?:[\w-]{1,40}\s{1,9}){0,3}[a-z-]{3,40}(?<!ss)(?<!us)(?<!is)s\b",
    re.I,
)
_ORDERS_LIST = re.compile(
    r"^\W*(?:please\s+)?(?:list|enumerate)\s+(?:all|every|each)\b(?![^.?]*\bsteps?\b)", re.I
)
"""Whatever else such a question mentions."""
_NO_LIST = re.compile(
    r"\b(?:who|what|which|where)\b[^?.]{0,40}\b(?:calls?|called|callers?|invokes?|happens)\b"
    r"|\b(?:which|what|the|an) (?:option|setting|flag|switch|parameter|environment variable|directive)\b"
    r"|\b(?:which|what|the) default\b|\bsteps?\b|\bthrough which\b"
    r"|\bdefault (?:of|for)\b|\b(?:is|are) there (?:a |any )?tests?\b|\bwhich tests?\b"
    r"|\b(?:after|before|when) all\b|\bat all\b|^\s*(?:why|how|when|what if)\b"
    r"|\b(?:are|is|be) (?:raised|thrown|returned)\b|\bwhat is \S{1,80} set to\b"
    r"|\bwhere (?:is|are) (?:the|a) list of\b[^?.,]{0,80}[a-z]ed "
    r"(?:for|by|when|until|if|before|after|against)\b",
    re.I,
)
_SETTINGS = re.compile(
    r"(?<![\"'`‘“])\b(?:options?|settings?|flags?|switch(?:es)?|parameters?"
    r"|env(?:ironment)? var(?:iable)?s?|directives?|config\w*|defaults?|by default|fallback|limit"
    r"|system propert(?:y|ies)|keys? of"
    r"|(?:which|what) variable (?:sets|says|controls|enables|disables|turns|limits|configures|defines)"
    r"|(?:if|when|where|unless) (?:i|we|you|nothing|none|no \w+)\b[^?.,;]{0,20}"
    r"\b(?:say|said|set|given?|specif\w+|configur\w+|nothing|change|pass(?:ed)?)"
    r"|what is \S{1,80} set to|value of (?-i:[`\"']?(?:\S*[_.-]\S+|[A-Z]{3,}|[a-z]+[A-Z]\w*))"
    r"|(?:if|when) (?:i|we|you) (?:leave|omit)\b"
    r"|in \w+\.(?:ya?ml|toml|ini|conf|json|cfg))\b",
    re.I,
)
_ASKS_SETTING = re.compile(
    r"\b(?:which|what|is there|can i|could i|do i"
    r"|how (?:many|much|long|big|large|often|far|old)|^\s*(?:is|are|does)"
    r"|where (?:can|do) i set|option|setting|flag|default|limit|environment variable|unless)\b",
    re.I,
)
_SET_OR_READ = re.compile(
    r"^\W*(?:and )?(?:who|what|which \w+) reads? \S+\W*$|\bwhere (?:is|does) \S+ (?:set|read|configured)\W*$",
    re.I,
)
"""What asks for the places of a setting, if it names one."""
_VALUE_OF = re.compile(
    r"\b(?:(?:value|default) (?:of|for)|what is) [`\"']?(\w+)[`\"']?(?= set to|\W*$)", re.I
)
_NO_SETTING = re.compile(
    r"\b(?:who|what|where)\b[^?.]{0,40}\b(?:calls?|callers?)\b|\b(?:happens|tested|tests?)\b|^\s*what if\b"
    r"|^\s*where\b(?!.*\b(?:default|set|configur\w*|options?|settings?)\b)",
    re.I,
)
_QUOTED_PHRASE = re.compile(r"[\"“«`](?:[^\"“”«»`\s]{1,60}\s{1,9}){2,60}[^\"“”«»`\n]{1,300}[\"”»`]")
"""At least three words in quotation marks."""
_QUOTED_NAME = re.compile(r"[\"“`][^\"“”`\n]{1,80}[\"”`]")
_DOTTED_NAME = re.compile(r"(?<![\w$])[A-Za-z_$][\w$]*(?:(?:\.|::|->|#)[A-Za-z_$][\w$]*)+")
_WAYS = re.compile(
    r"\b(?:from|between|until|till|up to|gets? (?:in)?to|reach(?:es)?|leads? to|ends? up|come to call|steps?"
    r"|what sequence|(?:which|what) order|call (?:chain|path|stack|flow)|trace|follow|happens?"
    r"|is (?:called|done))\b",
    re.I,
)
"""What asks how one place leads to another: answered only where calls lead from one name to another."""
_EACH_END = 5_000
"""A longer text asks something at its beginning or at its end; the rest is what it asks about."""
_MAX_SETTING_CHARS = 600
"""A longer text, such as an issue, has words of settings in what it reports."""
_UNTIL = re.compile(r"\b(?:from|between)\b[^?]{1,200}\b(?:until|till|up to)\b", re.I)


def kinds_of(text: str) -> list[str]:
    """Return the kinds that a question is of, in the order their rules are tried."""
    whole, text = text, text if len(text) <= 2 * _EACH_END else f"{text[:_EACH_END]}\n{text[-_EACH_END:]}"
    unquoted = asking_part(_QUOTED_PHRASE.sub(" ", text))  # quoted words are not those of the question
    asked = [
        kind for kind, is_asked in _RECOGNIZED.items() if is_asked(whole if kind == MESSAGE else unquoted)
    ]
    others = set[str]()
    if TRACE in asked and _UNTIL.search(unquoted):
        others |= {CALLERS, SETTING}  # "What is called from the config until render?"
    if LIST in asked and _ALL.search(text):
        others.add(SETTING)
    if CALLERS in asked and not _QUOTED_PHRASE.search(text) and is_question(text):
        others.add(MESSAGE)  # a name in it may be a word of a message
    return [kind for kind in asked if kind not in others]


def asking_part(text: str) -> str:
    """Return the sentences of a short text that ask or order something, all if none has a question mark: what
    is only stated before a question does not say what kind of answer that wants.
    """
    parts = _SENTENCE_END.split(text.strip()) if len(text) <= _MAX_SETTING_CHARS else []
    asking = [part for part in parts if part.endswith("?")]
    return " ".join(part for part in parts if part in asking or _ORDER.match(part)) if asking else text


def is_answered_by_rules(text: str) -> bool:
    """Return whether the rules of its kind look for the answer of a question, in the order of the search."""
    return is_pasted(text) or not {MESSAGE, TRACE}.issuperset(kinds_of(text))


def is_pasted(text: str) -> bool:
    """Return whether a text is a message of a program rather than a question about one."""
    return has_message(text) and not is_question(text)


@lru_cache(maxsize=4)
def has_message(text: str) -> bool:
    """Return whether a text quotes something, or has a word that messages of failures have."""
    return _MESSAGE.search(text) is not None


def is_question(text: str) -> bool:
    """Return whether a text begins as a question or a request."""
    return _QUESTION.match(text) is not None


@cache
def _tests_pattern() -> re.Pattern[str]:
    return re.compile(_ASKS_FOR_TESTS, re.I)


def subject_of_tests(text: str) -> str:
    """Return the name whose tests are all that a question asks for: "it" is one; "" if it asks for more."""
    lower = text.lower()
    if len(text) > _MAX_CHARS or not any(word in lower for word in _OF_TESTS):
        return ""
    found = _tests_pattern().match(text)
    return next(filter(None, found.groups()), "") if found else ""


def relation_of(text: str) -> str | None:
    """Return which uses of a definition a question asks for: "callers", "subclasses" and the like."""
    if subject_of_tests(text):
        return "tests"
    text = NEGATED.sub(" ", text)
    verb, plain = _WHO.match(text), _CAPITAL.sub(" ", _without_names(text))
    for asked in (verb[0] if verb else "", plain, text):  # a name, as `Importer`, may have words of relations
        for name, pattern in _RELATIONS.items():
            if pattern.search(text if name == "raisers" else asked):
                return name
    return None


def without_quoted_names(text: str) -> str:
    """Return a text without its quoted names, whose words are not those of the question: `break-lock`."""
    return _QUOTED_NAME.sub(" ", text)


def _is_message(text: str) -> bool:
    """Return whether a text may hold a message of a program: whether it has enough words.

    What asks where something is implemented has its words from a label or a description, unless it quotes.
    """
    asks_for_code = _ASKS_FOR_CODE.search(text) and not _QUOTED_NAME.search(text)
    return len(words(text)) >= _MIN_MESSAGE_WORDS and not asks_for_code


def _without_names(text: str) -> str:
    """Return a text without its quoted and dotted names: `Option.default` asks for no option."""
    return _DOTTED_NAME.sub(" ", without_quoted_names(text))


def _asks_for_uses(text: str) -> bool:
    if subject_of_tests(text):
        return True
    asks = _USES_OF_IT.search(text) or (_ASKS_USES.search(text) and not _NO_USES.search(_without_names(text)))
    return _is_request(text) and bool(asks) and relation_of(text) is not None


def _asks_for_all(text: str) -> bool:
    return (
        _is_request(text)
        and bool(_LISTS.search(text))
        and bool(_ORDERS_LIST.match(text) or not _NO_LIST.search(text))
    )


def _asks_for_setting(text: str) -> bool:
    return (
        len(text) <= _MAX_SETTING_CHARS
        and _is_request(text)
        and (
            bool(_SET_OR_READ.search(text) and settings_named(text))
            or bool(_SETTINGS.search(text) and _ASKS_SETTING.search(text) and not _NO_SETTING.search(text))
        )
    )


def setting_asked(text: str) -> str:
    """Return the first name that a question for a setting has; "" for another question."""
    return next(iter(settings_named(text)), "") if SETTING in kinds_of(text) else ""


def settings_named(text: str) -> list[str]:
    """Return the words of a question that are written as a setting may be."""
    words = (one for one in _WRITTEN.findall(text) if re.search(r"[\w-][_-]|\.\w|^--|^[A-Z\d_]{3,}$", one))
    asked = [one[1] for one in _VALUE_OF.finditer(text) if re.search(CAMEL, one[1])]
    return list(
        dict.fromkeys(last_part(word.lstrip("-")).removeprefix("CONFIG_") for word in [*words, *asked])
    )


def _is_request(text: str) -> bool:
    """Return whether a text asks for something, rather than states it, as a comment does."""
    return _REQUEST.search(text) is not None


def _asks_for_steps(text: str) -> bool:
    """Return whether a question asks for what happens from one place to another."""
    return len(text) <= _MAX_SETTING_CHARS and _is_request(text) and bool(_WAYS.search(text))


_RECOGNIZED = {  # in the order in which their rules are tried
    MESSAGE: _is_message,
    CALLERS: _asks_for_uses,
    LIST: _asks_for_all,
    SETTING: _asks_for_setting,
    TRACE: _asks_for_steps,
}
