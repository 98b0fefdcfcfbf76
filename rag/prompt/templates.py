"""Find, check and render the Jinja templates, which hold all text that is sent to a model.

A template is one file. It runs in a sandbox, and its variables are checked when it is loaded: an unknown
variable is an error even in a branch that is never taken. Variables of `answer`, `consolidate` and `facts`
(the first five are AdalFlow's and DeepWiki's):

    system_prompt         the rendered `system` template, and the caller's instructions
    output_format_str     a description of the requested output; usually ""
    conversation_history  {number: turn}, oldest first: .user_query.query_str,
                          .assistant_response.response_str, .citations (.n .path .start .end .used)
    contexts              the numbered sources, best first: .n .text, .meta_data (file_path, start_line,
                          end_line, symbol, repo), .place (`path:start-end`), .what (`function
                          Session.sign`), .reason (`called by …`), .language, .fence (backticks that .text
                          cannot close)
    files                 the same sources by file: .path .language .fence, .sources, by line, and .text, the
                          lines of all of them with their numbers
    places                further sources, one line of each: texts such as `[7] path:37 name — line`
    frames                of each repository a text: what it is, its folders; to reword also names
    outlines              of the files that most sources are in: .path, .definitions (`10-13 Session.sign`),
                          .more
    code_facts            what a rule found for the kind of question, None if nothing: .kind, .summary,
                          .note, .more, .items (.text .place .reason .certain, and .n: its source, or 0)
    input_str             the question as typed
    standalone_question   the question as searched
    language              code of the language to answer in
    repositories          names of the repositories asked
    summary               a summary of the conversation; "" for none
    preferences           {key: text}, the user's
    warning               what was not found; "" for none
    missing_words         words of the question that the sources lack, where there is a warning
    facts                 known facts about the repositories, oldest first: .text, .state ("fresh", "moved",
                          "changed", "gone", "unknown", or "" for a fact that cites nothing), .reason

`system` has only `language` and `repositories`. `instructions` is put after it for a caller that has its own,
or that needs JSON: `instructions` and `is_json`. `stale` is put before an earlier answer whose sources have
changed since; it has `sources` and `is_stale`. `reword` names its own variables. A template that uses neither
`contexts` nor `files`, or no `conversation_history`, gets no sources or no turns; one that does must show all
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import jinja2
import jinja2.meta
import jinja2.nodes

from rag.decoding import decode
from rag.errors import TemplateError
from rag.prompt.background import Known
from rag.prompt.sandbox import Sandbox
from rag.prompt.views import StaleView, history_of, plain
from rag.resources import is_file, shipped, template_path, user_path
from rag.types import DialogTurn

_SYSTEM_VARIABLES = frozenset({"language", "repositories"})
_INSTRUCTIONS_VARIABLES = frozenset({"instructions", "is_json"})
_STALE_VARIABLES = frozenset({"sources", "is_stale"})
_REWORD_VARIABLES = frozenset(
    {"input_str", "conversation_history", "about", "is_foreign", "frames", "phrasings"}
)
_LOOK_VARIABLES = frozenset({"input_str", "repositories", "contexts", "with_tools", "tools", "steps", "left"})
_ANSWER_VARIABLES = _SYSTEM_VARIABLES | {
    "system_prompt",
    "output_format_str",
    "conversation_history",
    "contexts",
    "files",
    "places",
    "frames",
    "outlines",
    "code_facts",
    "input_str",
    "standalone_question",
    "summary",
    "preferences",
    "facts",
    "warning",
    "missing_words",
}


@dataclass(frozen=True, slots=True)
class Template:
    """A template that has been loaded and checked. `origin` is its file, or "the given text".

    `system` is the template of its `system_prompt`, `stale` that of the note before an earlier answer whose
    sources have changed; None is the shipped one.
    """

    origin: str
    variables: frozenset[str]
    _compiled: jinja2.Template
    _sandbox: Sandbox
    system: Template | None = None
    stale: Template | None = None

    def history(self, turns: Sequence[DialogTurn]) -> dict[int, DialogTurn]:
        """Return turns as `conversation_history`; those whose sources have changed are marked."""

        def label(sources: Sequence[StaleView]) -> str:
            stale = self.stale or _read(shipped("templates") / "stale.j2", knows=_STALE_VARIABLES)
            is_stale = any(source.state != "unknown" for source in sources)
            return stale.render(sources=sources, is_stale=is_stale)

        return history_of(turns, label)

    def render(self, **variables: object) -> str:
        """Render the template.

        Raises:
            TemplateError: it reads an attribute that does not exist, or does something that is not allowed.
        """
        try:
            return self._sandbox.render(self._compiled, variables)
        except (
            jinja2.TemplateError,
            TypeError,
            ValueError,
            ArithmeticError,
            LookupError,
            AttributeError,
            RecursionError,
            MemoryError,
        ) as error:
            line, why = _failing_line(error), str(error) or "it needs too much memory"
            raise TemplateError(f"the template {self.origin}:{line} cannot be rendered: {why}") from error


def load_template(chosen: str | None, home: Path, name: str = "answer") -> Template:
    """Return the template `name` with its `system` template.

    Args:
        chosen: the user's choice: a file, the name of one in `home/templates`, or the text of a template (it
            contains `{{` or `{%`). None means `home/templates/NAME.j2`, else the shipped one.
        home: the folder of the user's settings.
        name: `answer`, `consolidate` or `facts`.

    Raises:
        TemplateError: it does not exist, has a mistake, or names a variable that does not exist.
    """
    template = _chosen(chosen, home) if chosen else _read(template_path(home, name))
    return replace(
        template,
        system=_read(template_path(home, "system"), knows=_SYSTEM_VARIABLES),
        stale=_read(template_path(home, "stale"), knows=_STALE_VARIABLES),
    )


def render_instructions(home: Path, *, instructions: str, is_json: bool) -> str:
    """Return the part of the system prompt with a caller's own instructions.

    Raises:
        TemplateError: as `load_template` and `Template.render`.
    """
    template = _read(template_path(home, "instructions"), knows=_INSTRUCTIONS_VARIABLES)
    return template.render(instructions=plain(instructions).strip(), is_json=is_json).strip()


def render_reword(
    home: Path,
    *,
    question: str,
    turns: Sequence[DialogTurn] = (),
    about: Sequence[str] = (),
    is_foreign: bool = False,
    frames: Sequence[str] = (),
    phrasings: int = 0,
) -> str:
    """Return the prompt that asks a model for a question as the code would say it; see `templates/reword.j2`.

    It holds all `turns`, whatever their length; `about` are the names that "it" may mean.

    Raises:
        TemplateError: as `load_template` and `Template.render`.
    """
    template = _read(template_path(home, "reword"), knows=_REWORD_VARIABLES)
    template = replace(template, stale=_read(template_path(home, "stale"), knows=_STALE_VARIABLES))
    return template.render(
        input_str=plain(question),
        conversation_history=template.history(turns),
        about=[plain(name) for name in about],
        is_foreign=is_foreign,
        frames=[plain(frame) for frame in frames],
        phrasings=phrasings,
    )


def render_consolidate(home: Path, *, summary: str, turns: Sequence[DialogTurn], language: str = "en") -> str:
    """Return the prompt that asks a model for a summary updated with new turns, and for facts.

    It holds all `turns`, whatever their length.

    Raises:
        TemplateError: as `load_template` and `Template.render`.
    """
    return _rendered(load_template(None, home, "consolidate"), summary, turns, language)


def render_facts(home: Path, *, turns: Sequence[DialogTurn], language: str = "en") -> str:
    """Return the prompt that asks a model for the facts that turns state.

    It holds all `turns`, whatever their length.

    Raises:
        TemplateError: as `load_template` and `Template.render`.
    """
    return _rendered(load_template(None, home, "facts"), "", turns, language)


def render_look(home: Path, **variables: object) -> str:
    """Return the prompt that asks a model which code to read before it answers; see `templates/look.j2`.

    Raises:
        TemplateError: as `load_template` and `Template.render`.
    """
    return _read(template_path(home, "look"), knows=_LOOK_VARIABLES).render(**variables)


def _rendered(
    template: Template,
    text: str,
    turns: Sequence[DialogTurn],
    language: str,
) -> str:
    return template.render(
        system_prompt="",
        output_format_str="",
        conversation_history=template.history(turns),
        contexts=[],
        files=[],
        places=[],
        frames=[],
        outlines=[],
        code_facts=None,
        input_str=plain(text),
        standalone_question=plain(text),
        language=language,
        repositories=[],
        warning="",
        missing_words=[],
        **Known().variables(),
    )


@lru_cache(maxsize=64)
def parse_template(
    text: str, *, origin: str = "the given text", knows: frozenset[str] | None = None
) -> Template:
    """Check and compile a template. The last ones are cached: compiling takes longer than a search.

    `knows` are the variables of a template that is part of another; None means those of an answer.

    Raises:
        TemplateError: a syntax error, a variable that does not exist, or no question in it.
    """
    environment = Sandbox()
    known = _ANSWER_VARIABLES if knows is None else knows
    try:
        tree = environment.parse(text)
        compiled = environment.from_string(tree)
    except (jinja2.TemplateError, RecursionError) as error:
        line = getattr(error, "lineno", None) or 1
        raise TemplateError(f"the template {origin}:{line} has a mistake: {error}") from error
    variables = frozenset(jinja2.meta.find_undeclared_variables(tree)) - set(environment.globals)
    if unknown := variables - known:
        line, name = _first_use(tree, unknown)
        raise TemplateError(
            f"the template {origin}:{line} uses {name!r}, which does not exist; the variables are "
            + ", ".join(sorted(known))
        )
    if knows is None and "input_str" not in variables:
        raise TemplateError(f"the template {origin} never shows the question; add {{{{ input_str }}}} to it")
    return Template(origin, variables, compiled, environment)


def _chosen(wanted: str, home: Path) -> Template:
    if "{{" in wanted or "{%" in wanted:
        return parse_template(wanted)
    folder = home / "templates"
    candidates = [folder / wanted, folder / f"{wanted}.j2"]
    # The current folder may be a repository that has a file of the name of the user's own template.
    candidates.insert(len(candidates) if Path(wanted).name == wanted else 0, Path(wanted))
    for path in candidates:
        if is_file(path):
            return _read(user_path(path))
    raise TemplateError(
        f"there is no template {wanted!r}: no such file, and no {wanted} or {wanted}.j2 in {folder}; "
        f"copy {shipped('templates') / 'answer.j2'} to start one"
    )


def _read(path: Path, *, knows: frozenset[str] | None = None) -> Template:
    try:
        stat = path.stat()
        return _read_at(path, stat.st_mtime_ns, stat.st_size, knows)
    except (OSError, UnicodeDecodeError) as error:
        raise TemplateError(f"cannot read the template {path}: {error}") from error


@lru_cache(maxsize=64)
def _read_at(path: Path, mtime_ns: int, size: int, knows: frozenset[str] | None) -> Template:
    """Return a template's file at a modification time: it is read again when it changes."""
    text, _, is_guess = decode(path.read_bytes())
    if is_guess:
        raise TemplateError(f"cannot read the template {path}: save it in UTF-8")
    return parse_template(text, origin=str(path), knows=knows)


def _first_use(tree: jinja2.nodes.Template, names: frozenset[str]) -> tuple[int, str]:
    return min((node.lineno, node.name) for node in tree.find_all(jinja2.nodes.Name) if node.name in names)


def _failing_line(error: BaseException) -> int:
    """Return the template's line in the traceback; Jinja rewrites its frames to the template's lines."""
    line, traceback = 1, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line
