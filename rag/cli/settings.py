"""`rag settings`: every setting, its value and where it comes from."""

from __future__ import annotations

from dataclasses import fields

from rag.cli.settings_options import field_texts, is_option, settings_from
from rag.cli.terminal import out, out_json, wants_json
from rag.quoting import without_secrets
from rag.settings import ENVIRONMENT, NOT_SETTINGS, SECRETS, Settings


def settings() -> None:
    """List the settings: their options, variables and values, and what set them.

    rag settings
    """
    current = settings_from()
    names = [each.name for each in fields(Settings) if each.name not in NOT_SETTINGS]
    if wants_json():
        out_json([_row(current, name) for name in names])
        return
    out(f"RAG_HOME = {current.home}")
    for name in names:
        value = _shown(current, name)
        ways = [f"--{name.replace('_', '-')}"] * is_option(name) + list(ENVIRONMENT.get(name, ()))
        out(f"{name}{'' if value in (None, '', ()) else f' = {value}'}{current.source_of(name)}")
        if ways:
            out(f"    {', '.join(ways)}")
        out(f"    {field_texts(Settings)[name]}")


def _row(current: Settings, name: str) -> dict[str, object]:
    """Return a setting as JSON values."""
    return {
        "name": name,
        "value": _shown(current, name),
        "set_by": current.source_of(name).strip(" ()"),
        "variables": list(ENVIRONMENT.get(name, ())),
        "meaning": field_texts(Settings)[name],
    }


def _shown(current: Settings, name: str) -> object:
    """Return the value of a setting; of a secret only that there is one."""
    value: object = getattr(current, name)
    if name == "memory":
        return without_secrets(current.memory)
    return "…" if value and name in SECRETS else value
