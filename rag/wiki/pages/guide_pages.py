"""The pages to read first: what the repository is, its concepts, and how a request runs through them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from rag.code.entry_points import EntryPoint, entry_points
from rag.code.flows import CallFlow
from rag.code.project_summary import project_description
from rag.code.survey import Call
from rag.code.symbols import Symbol
from rag.markdown import bullets, code, plain, said, table, title, words
from rag.quoting import counted
from rag.wiki.facts.facts import base_name, short_name
from rag.wiki.facts.placed_documents import sections_named
from rag.wiki.models import WikiPage
from rag.wiki.pages import diagrams
from rag.wiki.pages.links import CitationWriter
from rag.wiki.pages.page_context import PageContext, Part

_MAX_STARTS, _MAX_LANGUAGES, _MAX_CIRCLES, _MAX_TYPES = 12, 10, 6, 4
_MAX_DOCUMENTS, _MAX_OTHERS = 4, 12
_MAX_FLOWS, _MAX_STEPS, _MAX_DEPTH = 3, 5, 4
_ARCHITECTURE = re.compile(
    r"architecture|internals|how (?:it|\w+) works|design\b|concepts|structure|lifecycle|source code layout"
    r"|life of|data flow|overview",
    re.IGNORECASE,
)


def overview_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the parts of the first page: what it is, its parts, where it starts, what to read."""
    survey = context.survey
    if caption := project_description(survey):
        yield Part(context.quoted(cited, caption))
    subjects = [p for p in context.structure.pages if p.kind == "subject"]
    if subjects:
        yield Part("## What it deals with\n\n" + context.page_list(cited, subjects), "the list of subjects")
    concepts = [p for p in context.concepts if not p.parent]
    if concepts:
        yield Part("## The main parts\n\n" + context.page_list(cited, concepts), "the list of concepts")
    if rows := [_in_short(flow, context.facts.flows) for flow in context.facts.flows[:_MAX_FLOWS]]:
        whole = (
            f"All steps, with diagrams: {cited.page(context.pages['flow'])}."
            if "flow" in context.pages
            else ""
        )
        yield Part("## How it runs, in short\n\n" + "\n".join(rows) + f"\n\n{whole}", "flows")
    starts = [_start(point, cited) for point in entry_points(survey)]
    if starts:
        note = f"\n\n{_MAX_STARTS:,} of {len(starts):,} entry points." if len(starts) > _MAX_STARTS else ""
        yield Part("## Where it starts\n\n" + "\n".join(starts[:_MAX_STARTS]) + note, "entry points")
    listed = {page.id, *(one.id for one in (*subjects, *concepts))}
    others = [p for p in context.structure.pages if p.id not in listed]
    yield Part("## Pages\n\n" + context.page_list(cited, others), "the list of pages")
    yield Part("## Languages\n\n" + _languages(context), "languages")


def _start(point: EntryPoint, cited: CitationWriter) -> str:
    """Return an entry point with its lines, and its name if it is not that of its file."""
    place = cited.source(point.path, point.start, point.end)
    runs = f", runs {code(point.leads_to)}" if point.leads_to else ""
    if point.name == point.path:
        return f"- {place}, {point.what}{runs}"
    return f"- {code(point.name)}, {point.what}{runs} ({place})"


def _root_name(flow: CallFlow, others: Sequence[CallFlow]) -> tuple[str, str]:
    """Return the name of a flow's root, and the file that distinguishes it, "" if the name is enough."""
    name, path = short_name(flow.root), flow.root.path
    same = [other.root.path for other in others if short_name(other.root) == name]
    if len(same) == 1:
        return name, base_name(path) if name == "main" else ""
    return name, path if sum(base_name(other) == base_name(path) for other in same) > 1 else base_name(path)


def _in_short(flow: CallFlow, flows: Sequence[CallFlow]) -> str:
    """Return the root of a flow with what it calls and hands on first."""
    first = [call for depth, call in flow.steps if depth == 1]
    parts = []
    for verb, calls in (
        ("calls", [call for call in first if call not in flow.handed_on | flow.possible]),
        ("hands on", [call for call in first if call in flow.handed_on]),
        ("may run", [call for call in first if call in flow.possible]),
    ):
        if calls:
            parts.append(f"{verb} {', '.join(code(short_name(call.callee)) for call in calls[:_MAX_STEPS])}")
    name, file = _root_name(flow, flows)
    where = f" in {code(file)}" if file else ""
    return f"- {code(name)}{where} {' and '.join(parts)}{_further(flow, first)}"


def _further(flow: CallFlow, first: Sequence[Call]) -> str:
    """Return what follows in a flow that begins with a single call; "" if it begins with several."""
    text, before = "", first
    for depth in range(2, _MAX_DEPTH + 1):
        following = [
            call for at, call in flow.steps if at == depth and call not in flow.handed_on | flow.possible
        ]
        if len(before) != 1 or not following:
            break
        text += f", which calls {', '.join(code(short_name(call.callee)) for call in following[:_MAX_STEPS])}"
        before = following
    return text


def _languages(context: PageContext) -> str:
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for file in context.survey.files.values():
        files[file.language] += 1
        lines[file.language] += len(file.lines)
    order = sorted(lines, key=lambda name: (name == "text", -lines[name], name))[:_MAX_LANGUAGES]
    rows = [(code(name), f"{files[name]:,}", f"{_rounded(lines[name]):,}") for name in order]
    return table(("Language", "Files", "Lines, about"), rows)


def _rounded(count: int) -> int:
    """Return a number with two digits that count, so that a changed line does not change it."""
    unit = 10 ** max(0, len(str(count)) - 2)
    return max(1, round(count / unit)) * unit if count else 0


# ---------------------------------------------------------------- concepts


def architecture_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the parts of the page on all concepts: their diagram, their types, who uses whom."""
    drawn, arrows = diagrams.concepts_diagram(cited, context.concepts, context.between)
    if drawn is not None:
        caption = (
            "An arrow leads from a concept to one whose definitions it calls or imports at run time. "
            f"{diagrams.left_out(drawn, 'concept', 'weaker arrow')}"
        )
        yield Part(f"{drawn.markdown}\n\n{caption}")
    rows = []
    for concept in context.concepts:
        cited.paths |= set(concept.file_paths)  # what a concept uses may change with each of them
        types = [s for s in context.facts.ranked(concept.file_paths) if not context.facts.scope(s)]
        types = types[:_MAX_TYPES]
        is_named = concept.description.startswith(("`", "Defines "))
        listed = ", ".join(code(s.name) for s in types)
        named = f" Main definitions: {listed}." if types and not is_named else ""
        rows.append(f"- {cited.page(concept)}: {_ended(words(concept.description))}{named}")
    yield Part("## Concepts\n\n" + "\n".join(rows), "the list of concepts")
    sections = sections_named(context.survey, _ARCHITECTURE)[:_MAX_DOCUMENTS]
    for number, section in enumerate(sections):
        head = "## In the documentation\n\n" if number == 0 else ""
        yield Part(
            f"{head}### {title(section.title)}\n\n{context.quoted(cited, section.quotes)}",
            title(section.title),
        )
    yield Part(_who_uses_whom(context, cited), "who uses whom")
    if arrows:
        places = [
            f"- {plain(context.pages[source].title)} → {plain(context.pages[target].title)}: "
            + ", ".join(cited.source(path, line, line) for path, line in _first(context, source, target))
            for source, target in arrows
        ]
        yield Part("## Where the arrows come from\n\n" + "\n".join(places), "the lines of the arrows")
    if found := diagrams.circles(context.between):
        circles = [
            ", ".join(cited.page(context.pages[n]) for n in group[:12]) for group in found[:_MAX_CIRCLES]
        ]
        about = "The concepts of each line use each other, directly or through others."
        yield Part(f"## Cycles\n\n{about}\n\n{bullets(circles)}", "cycles")


def _ended(text: str) -> str:
    return text if not text or text.endswith((".", "…", "!", "?")) else f"{text}."


def _first(context: PageContext, source: str, target: str) -> list[tuple[str, int]]:
    """Return up to two places, of different files, where a concept uses another."""
    found: dict[str, int] = {}
    for path, line in context.uses[source, target]:
        found.setdefault(path, line)
    return list(found.items())[:2]


def _who_uses_whom(context: PageContext, cited: CitationWriter) -> str:
    after: dict[str, dict[str, int]] = defaultdict(dict)
    before: dict[str, dict[str, int]] = defaultdict(dict)
    for (source, target), count in context.between.items():
        after[source][target] = count
        before[target][source] = count
    rows = [
        (cited.page(p), context.related(cited, after[p.id], 4), context.related(cited, before[p.id], 4))
        for p in context.concepts
        if after[p.id] or before[p.id]
    ]
    found = table(("Concept", "Uses", "Used by"), rows)
    return f"## Who uses whom\n\n{found}" if found else ""


# ---------------------------------------------------------------- flows


def flow_parts(context: PageContext, page: WikiPage, cited: CitationWriter) -> Iterator[Part]:
    """Yield the flows: of each a diagram, and its calls as a list."""
    # The links of a file go to the first flow and to the roots of the others before the rest.
    for symbol in _linked_first(context.facts.flows):
        cited.named(short_name(symbol), symbol.path, symbol.start, symbol.end)
    for flow in context.facts.flows:
        drawn = diagrams.flow_diagram(cited, flow, context.address_of, context.facts.scope)
        name, file = _root_name(flow, context.facts.flows)
        linked = cited.named(name, flow.root.path, flow.root.start, flow.root.end)
        about = f" {said(flow.root.summary.text)}" if flow.root.summary else ""
        where = f" in {file}" if file else ""
        parts = [f"## {title(name + where)}", f"Begins at {linked} ({plain(flow.begins)}).{about}"]
        if drawn is not None:
            parts += [
                drawn.markdown,
                f"Certain calls, in the order of the code.{_dashed(flow)} {_not_shown(flow)}",
            ]
        parts.append(_steps(context, flow, cited))
        yield Part("\n\n".join(parts), code(name))


def _dashed(flow: CallFlow) -> str:
    """Return what the dashed arrows of a flow mean; "" if it has none."""
    shown = {call for _, call in flow.steps}
    meanings = []
    if shown & flow.handed_on:
        meanings.append("is handed on and called later")
    if shown & flow.possible:
        meanings.append("may be called, through an interface or a base class")
    return f" A dashed arrow leads to a function that {', or that '.join(meanings)}." if meanings else ""


def _linked_first(found: Sequence[CallFlow]) -> list[Symbol]:
    callers = [call.caller for _, call in found[0].steps if call.caller is not None] if found else []
    return [*list(dict.fromkeys(callers))[:3], *(flow.root for flow in found)]


def _not_shown(flow: CallFlow) -> str:
    if not flow.left_out:
        return "Nothing is left out."
    return f"Left out: {counted(flow.left_out, 'other call')} in these definitions."


def _steps(context: PageContext, flow: CallFlow, cited: CitationWriter) -> str:
    """Return each caller with its lines and what it calls, in order."""
    stack: dict[int, Symbol] = {0: flow.root}
    calls: dict[Symbol, list[Symbol]] = {}
    hows: dict[tuple[Symbol, Symbol], str] = {}
    for depth, call in flow.steps:
        calls.setdefault(stack[depth - 1], []).append(call.callee)
        if call in flow.handed_on | flow.possible:
            hows[stack[depth - 1], call.callee] = "hands on" if call in flow.handed_on else "may run"
        stack[depth] = call.callee
    lines = []
    for number, (caller, callees) in enumerate(calls.items(), start=1):
        linked = cited.named(short_name(caller), caller.path, caller.start, caller.end)
        lines.append(f"{number}. {linked} calls")
        for callee in callees:
            about = f": {said(callee.summary.text)}" if callee.summary else ""
            home = context.page_of.get(callee.path)
            named = code(short_name(callee))
            how = f"({hows[caller, callee]}) " if (caller, callee) in hows else ""
            lines.append(f"    - {how}{cited.page(context.pages[home], named) if home else named}{about}")
        others = [s for s in context.facts.graph.furthest(caller) if s not in callees][:_MAX_OTHERS]
        if others:
            lines.append(f"    - and, not drawn, {', '.join(code(short_name(s)) for s in others)}")
    return "\n".join(lines)
