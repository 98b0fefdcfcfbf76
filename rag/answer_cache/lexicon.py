"""How questions about code are phrased: the word lists and frames of `rag.answer_cache.question_equivalence`.

General knowledge of English, extended after reading the questions of `tools/questions/cache_dev.jsonl`, never
those of `cache_final.jsonl`.
"""

from __future__ import annotations

import re

WH = frozenset("where when why how who what which order".split())
BE = frozenset("be is are was were been being am".split())
GET = frozenset("get gets got gotten getting".split())
DO = frozenset("do does did".split())
HAVE = frozenset("have has had having".split())
MODAL = {
    **dict.fromkeys(("can", "could", "may", "might"), "can"),
    **dict.fromkeys(("should", "ought"), "should"),
    **dict.fromkeys(("will", "would", "shall"), ""),
    "must": "must",
}
"""Each with the word it is compared as; those that express a tense are in TENSES."""
TENSES = {
    **dict.fromkeys(("was", "were", "did"), "past"),
    **dict.fromkeys(("will", "shall"), "will"),
    "would": "would",
    "might": "might",
    "being": "being",
    "been": "been",
    "had": "had",
}
SINGULAR = frozenset("is was does has".split())
AUXILIARY = BE | DO | MODAL.keys()

DETERMINERS = frozenset(("a", "an", "the"))
NEUTRAL = frozenset("we you it one they code program project".split())
"""The agent when nobody is named: the program that the question is about."""

JOINTS = frozenset(
    """from to into in on at by for with without before after during between through via over under until
    when whenever while if unless because as per within outside inside against across onto upon toward
    towards like besides except instead about around behind that which whose who where why how what and or but
    so though although since""".split()
)
"""Words that begin another part of a question; the word itself is part of the meaning."""

PARTICLES = frozenset("out off up down away back again on in together apart".split())
NOT_ADVERBS = frozenset(
    """apply assembly multiply reply rely supply comply imply family anomaly fly early only daily
    italy july""".split()
)
MANNER = frozenset("default hand name itself themselves accident design contract convention".split())
"""Nouns after "by" that are not an agent."""
RELATIONS = frozenset("call use reference invoke import".split())
"""Asking who does this to a name means the same as asking where it is done."""
NAME_VERBS = frozenset(
    """define declare implement call invoke import export override instantiate subclass inherit return raise
    throw yield do mean""".split()
)
"""Verbs whose subject or object has a name: "Where is items defined?", "What does args do?"."""
CODE_NOUNS = frozenset(
    """function functions method class module file variable option flag argument parameter field attribute
    property constant decorator hook macro struct enum interface type command endpoint fixture table column
    package script setting key""".split()
)
"""The word before them may be a name: "the keys function"."""
ASKED_NOUNS = CODE_NOUNS | frozenset(
    "test benchmark error exception file rule event value format request user part line".split()
)
"""Nouns that are asked for: "what tests cover it" asks for tests, "what closes it" for anything that does."""
MADE_OF_NAMES = frozenset(
    """argument arguments parameter parameters args params signature type tests callers definition usages uses
    implementation docstring subclasses""".split()
)
"""Attributes of a named thing: "the arguments of items"."""
BOUND_BY_NOT = frozenset(
    """all every any only always both each just necessarily yet even everything everyone many much more less
    most until before after""".split()
)
"""Words that "not" negates alone: "not all are" differs from "all are not"."""
NOT_PLURAL = frozenset(
    """alias canvas https redis tls dns css js os aws series lens kubernetes atlas always news perhaps towards
    besides across upwards downwards afterwards means this has does was""".split()
)
"""Words that end in "s" but are not plurals."""
SILENT_E = frozenset(
    """locale suite envelope morale humane corpse tense dense lapse route envelope moderate separate
    article alternate duplicate universe""".split()
)
"""Words whose last "e" distinguishes them from others, or may stay."""
SIZES = frozenset("many much long often far big large deep old fast high small soon late".split())

_ROOTS = """
set set|put put|cut cut|read read|run ran run|hit hit|let let|split split|shut shut|spread spread|reset reset
quit quit|write wrote written|send sent|keep kept|make made|build built|hold held|find found|give gave given
take took taken|choose chose chosen|throw threw thrown|catch caught|bind bound|seek sought|see saw seen
know knew known|show showed shown|go went gone|begin began begun|break broke broken|lose lost|leave left
mean meant|tell told|say said|think thought|bring brought|get got gotten|draw drew drawn|hide hid hidden
forget forgot forgotten|freeze froze frozen|wake woke woken|spin spun|wind wound|feed fed|pay paid|lay laid
fall fell fallen|grow grew grown|override overrode overridden|overwrite overwrote overwritten|free freed
rewrite rewrote rewritten|rebuild rebuilt|sync synced|undo undid undone|do done|have has had|deal dealt
sleep slept|lead led|win won|stick stuck|understand understood|eat ate eaten|rise rose risen
drive drove driven|add added adding|use used using uses
"""
IRREGULAR = {
    form: root
    for line in _ROOTS.split("|")
    for part in line.split("\n")
    if part
    for root, *forms in [part.split()]
    for form in forms
}
"""Irregular past forms, and their verbs."""
PARTICIPLES = frozenset(IRREGULAR) - frozenset(
    """ran wrote gave took chose threw saw knew went began broke froze woke drew hid forgot fell grew overrode
    overwrote rewrote undid ate rose drove has had adding using uses""".split()
)

NUMBERS = dict(
    zip(
        """zero one two three four five six seven eight nine ten eleven twelve""".split(),
        map(str, range(13)),
        strict=True,
    )
)
del NUMBERS["one"]  # "which one is it" counts nothing

REPLACEMENTS = {
    "cannot": "can not",
    "can't": "can not",
    "won't": "will not",
    "i'd": "i would",
    "i'm": "i am",
    "i've": "i have",
    "it's": "it is",
    "they're": "it is",
    "we're": "we are",
    "you're": "you are",
    "let's": "let us",
    "that's": "that is",
    "there's": "there is",
    "they": "it",
    "them": "it",
    "their": "its",
    "1st": "first",
    "2nd": "second",
    "3rd": "third",
}
"""Words that are compared as others."""

_GROUPS = """
delete remove erase|directory folder dir|argument parameter arg param|configuration config conf cfg
repository repo|database db|environment env|execute run|choose select pick|throw raise|start begin
application app|initialize init|call invoke|maximum max|minimum min|continue resume
message msg|function func fn|compute calculate|happen occur|determine decide|display show|permit allow
modify change|fetch retrieve|store save|close shut|big large|fast quick|collect gather
"""
ALIKE = [part.split() for line in _GROUPS.strip().split("|") for part in line.split("\n") if part]
"""Words that always mean the same of a program."""

_PLACE = r"(?:file|place|spot|module|part of code|part of codebase)s?"
_CODE = r"(?:function|method|code|routine)s?"
_WHERE_CODE = r"(?:file|code|module)s?"
_ASKED = r"(?:where|when|why|how|who|what|which|(?:in|at|by) (?:which|what)|place where|way|reason)\b"
_TELL = r"(?:tell|show|explain|describe|point|help)"
_AUXILIARY = r"(?:is|are|was|were|do|does|did|can|could|may|should|must|will|has|have)\b"
_EXACTLY = r"(?:exactly|precisely|actually|really|just)"

FRAMES = [
    (re.compile(pattern), put)
    for pattern, put in (
        (r"^(?:hi|hello|hey|please|kindly|ok|okay|so|well|just|thanks|thank you) (?=\S)", ""),
        (r" (?:please|thanks|thank you)$", ""),
        (rf"^(?:can|could|would|will) you (?:please |kindly |just )?(?={_TELL}\b)", ""),
        (r"^do you know (?=where|when|why|how|who|what|which)", ""),
        (r"^i (?:would like|would love|want|need|like) to (?:know|understand|see|learn|find out) (?=\S)", ""),
        (r"^i wonder (?:if |whether )?(?=\S)", ""),
        (r"^i am (?:looking for|trying to (?:find|understand)|curious|interested in) (?=\S)", ""),
        (
            r"^(?:tell|show|explain|describe|help)(?: to)?(?: me| us)?(?: to)?(?: understand| see| find)?"
            rf"(?: {_EXACTLY}| please)? (?={_ASKED}|{_CODE} (?:that|which)\b)",
            "",
        ),
        (r"^(?:tell|explain|describe)(?: to)?(?: me| us)? (?=\S)", "what is "),
        (r"^point (?:me|us) to (?=\S)", ""),
        (rf"^(?:in|at) (?:which|what) (?:exact )?{_PLACE} ", "where "),
        (r"^where in (?:code|codebase|source|source code|repository|project) ", "where "),
        (r"^place where ", "where "),
        (rf"^(?:which|what) {_WHERE_CODE} (?!{_AUXILIARY})", "where it "),
        (rf"^by (?:which|what) {_CODE} ", "who "),
        (rf"^(?:which|what) {_CODE} (?!{_AUXILIARY})", "who "),
        (r"^code (?:that|which) ", "where it "),
        (rf"^{_CODE} (?:that|which) ", "who "),
        (r"^by (?:whom|what|who) ", "who "),
        (r"^(?:for (?:what|which) reason|how come|(?:what is )?reason (?:why|that|for which)?) ?", "why "),
        (r"^what is reason ", "why "),
        (r"^(?:at|in) (?:what|which) (?:point|moment|time|stage) ", "when "),
        (r"^(?:in|by) (?:what|which) (?:way|manner|means) ", "how "),
        (r"^(?:what is )?way in which ", "how "),
        (r"^in (?:what|which) order ", "order "),
        (r"^what is order in which ", "order "),
        (rf"^(where|when|why|how|who|what) {_EXACTLY} ", r"\1 "),
        (r"^where (?:can|do) (?:i|we) find (?=where )", ""),
        (r"^where (?:can|do) (?:i|we) find ", "where is "),
        (r"^show (?:me|us) (?=(?:definition|implementation) of )", "where is "),
        (r"^where is (?:definition|declaration) of (\S+)$", r"where is \1 defined"),
        (r"^where is implementation of (\S+)$", r"where is \1 implemented"),
        (r"^what is purpose of (.+)$", r"what is \1 for"),
        (r"^what (is|are) (.+) used for$", r"what \1 \2 for"),
        (r"^how to ", "how do i "),
        (r"^(?:which|what) tests (?:are there|exist) for ", "which tests cover "),
        (r"^(?:what|who) are callers of ", "who calls "),
        (r"^what are (?:uses|usages) of (\S+)$", r"where is \1 used"),
        (
            r"^what (?:does (\S+) default to|value does (\S+) have by default)$",
            r"what is default value of \1\2",
        ),
        (r"^what type does (\S+) return$", r"what is return type of \1"),
        (r"^what type is returned by (\S+)$", r"what is return type of \1"),
        (r"^what if ", "what happens if "),
        (r"\benv (var)", r"environment \1"),
        (r"\benvironment var(s?)\b", r"environment variable\1"),
        (r"\b(?:turned|switched) off\b", "disabled"),
        (r"\b(?:turned|switched) on\b", "enabled"),
        (r"^is it possible for (.+?) to ", r"can \1 "),
        (r"^is it possible to ", "can we "),
        (r"^what is return value of (`\S+)$", r"what does \1 return"),
        (
            r"^(?:which|what) (\S+) does (`\S+) (?:take|accept|expect|need|require|have|receive)$",
            r"what are \1 of \2",
        ),
        (r"^how (?:do|does) (\S+) and (\S+) differ$", r"what is difference between \1 and \2"),
        (r"^how does (\S+) differ from (\S+)$", r"what is difference between \1 and \2"),
    )
]
"""Phrases around a question, in the order in which they are removed, and their replacements."""

POLITE_START = re.compile(r"^(?:hi|hello|hey)(?: there| all| everyone)?[,!.]\s+(?=\w)", re.IGNORECASE)
POLITE_END = re.compile(
    r"(?<=[?.!])\s+(?:many )?(?:thanks|thank you|thx|cheers|please)(?: a lot| so much| in advance)*[.!\s]*$",
    re.IGNORECASE,
)
"""Sentences that ask nothing, before and after the question."""

HAN = re.compile("[\u3400-\u9fff]")
CHINESE = [
    (re.compile(pattern), put)
    for pattern, put in (
        (r"^(?:你好|您好)[,!\s]*", ""),
        (r"^请问(?:一下)?[,\s]*", ""),
        (
            r"^[你您]?(?:能不能|能否|能|可以|可否)?请?(?:告诉我|说说|讲讲|(?:解释|说明|介绍|讲)一下)[,:\s]*"
            r"(.*(?:什么|啥|怎么|如何|怎样|哪|谁|为何|多少|几).*?)吗?$",
            r"\1",
        ),
        (r"[呢啊呀。]+$", ""),
        (r"啥", "什么"),
        (r"为何", "为什么"),
        (r"哪里|哪儿|什么地方|何处", "哪"),
        (r"如何|怎样(?!的)", "怎么"),
        (r"^什么是\s*(.+)$", r"\1是什么"),
        (r"(?<=[\u3400-\u9fff]) +(?=[\u3400-\u9fff])", ""),
        (r"(?<=[\u3400-\u9fff])(?=[\w`\"])(?![\u3400-\u9fff])", " "),
        (r"(?<=[\w`\")])(?<![\u3400-\u9fff])(?=[\u3400-\u9fff])", " "),
    )
]
"""The same for Chinese, where "what is it" has two word orders; words of other scripts are then separated."""
