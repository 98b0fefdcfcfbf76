"""Django 5.2, the repository of several benchmarks."""

from __future__ import annotations

from tools.benchmarks.repositories import EvaluationRepository

DJANGO = EvaluationRepository(
    name="django",
    language="python",
    source="pypi",
    package="Django",
    version="5.2",
    archive="Django-5.2.tar.gz",
    sha256="1a47f7a7a3d43ce64570d350e008d2949abe8c7e21737b351b6a1611277c6d89",
    licence="BSD-3-Clause",
)
TOUCHED = "django/contrib/sessions/backends/base.py"
QUESTION = "Where are session cookies signed?"
