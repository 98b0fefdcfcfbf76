"""What is fuzzed: one class for each part of rag that takes text from strangers."""

from __future__ import annotations

from tools.fuzz.targets.base import Bounds, Refused, Target
from tools.fuzz.targets.changes import ReviewedChange, Steps
from tools.fuzz.targets.commands import Batch, Import
from tools.fuzz.targets.files import Globs, Names, References, Source
from tools.fuzz.targets.programs import AgentsFile
from tools.fuzz.targets.questions import Ask, Search, Texts
from tools.fuzz.targets.server import Http, Mcp
from tools.fuzz.targets.settings import SettingsFile, StoreFile, TemplateText

__all__ = ["TARGETS", "Bounds", "Refused", "Target"]

TARGETS: dict[str, type[Target]] = {
    "source": Source,
    "references": References,
    "globs": Globs,
    "names": Names,
    "texts": Texts,
    "search": Search,
    "ask": Ask,
    "batch": Batch,
    "import": Import,
    "http": Http,
    "mcp": Mcp,
    "settings": SettingsFile,
    "template": TemplateText,
    "store": StoreFile,
    "agents": AgentsFile,
    "review": ReviewedChange,
    "steps": Steps,
}
"""By name; `share` of each says how many of 100 inputs are its."""
