"""Notebooks, indexed and asked: definitions, callers, exact search, and what becomes of cited cells."""

from __future__ import annotations

import base64
import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rag.backends.memory.turns import MemoryTurnStore
from rag.corpus.history import Listing
from rag.memory.freshness import check
from rag.retrieval.exact import find_pattern
from rag.service import Engine
from rag.service.retention import KeptFiles
from rag.service.snapshots import FolderState
from rag.settings import Settings
from rag.types import Citation, Span
