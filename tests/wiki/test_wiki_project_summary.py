"""What a project is: 35 real ones in 13 languages, by the shortest excerpts that a rule could get wrong."""
# ruff: noqa: E501 - excerpts are quoted as they are

from __future__ import annotations

import pytest
from surveys import survey_of

from rag.code.project_summary import project_description, readmes
from rag.code.survey import Survey
from rag.wiki.pages.structure import describe

BADGE = "[![Build Status](https://example.org/b.svg)](https://example.org)\n\n"

PROJECTS: dict[str, tuple[dict[str, str], str]] = {
    # ---- a paragraph that announces a list
    "md4c": (
        {
            "README.md": "# MD4C\n\nMD4C is a parser in C, with the following features:\n\n* **Fast:** It is.\n"
        },
        "MD4C is a parser in C.",
    ),
    "pocketbase": (
        {
            "README.md": "# P\n\n[PocketBase](https://x.org) is an open source Go backend that includes:\n\n"
            "- embedded database\n- built-in **files**\n- and simple **REST-ish API**\n"
        },
        "PocketBase is an open source Go backend that includes embedded database, built-in files, simple REST-ish API.",
    ),
    # ---- words in HTML, a wrapped link, a manual page
    "caddy": (
        {
            "README.md": '<p align="center">\n\t<a href="https://x.org"><img src="x.png"></a>\n</p>\n<hr>\n<h3 align="center">Every site on HTTPS</h3>\n'
            '<p align="center">Caddy is an extensible server platform that uses TLS by default.</p>\n\n## About\n\nCaddy is a project of ZeroSSL.\n'
        },
        "Caddy is an extensible server platform that uses TLS by default.",
    ),
    "nginx": (
        {
            "README": "\nDocumentation is available at http://nginx.org\n",
            "man/nginx.8": '.\\" All rights reserved.\n.Dd November 5, 2020\n.Sh NAME\n.Nm nginx\n.Nd "HTTP and reverse proxy server, mail proxy server"\n',
        },
        "HTTP and reverse proxy server, mail proxy server",
    ),
    "dunst": (
        {
            "README.md": "[![main][badge]][link]\n\n# Dunst\n\n<i>A highly configurable and lightweight notification daemon.</i>\n\n"
            "## Highly customizable\n\nCustomize fonts, icons, timeouts, and more.\n"
        },
        "A highly configurable and lightweight notification daemon.",
    ),
    "proxychains-ng": (
        {
            "README": "ProxyChains-NG ver 4.17 README\n=============\n\n  ProxyChains is a UNIX program, that hooks\n  functions.\n\nChangelog:\n==========\n\nVersion 4.17\n- fix\n"
        },
        "ProxyChains is a UNIX program, that hooks functions.",
    ),
    "bats-core": (
        {
            "README.md": "# Bats-core: Bash Automated Testing System\n\nBats is a testing framework for Bash 3.2 or above.\n",
            "package.json": '{"name": "bats", "description": "Bash Automated Testing System"}',
        },
        "Bats is a testing framework for Bash 3.2 or above.",
    ),
    "plug": (
        {
            "README.md": "# Plug\n\nPlug is:\n\n  1. A specification\n\nIn other words, Plug allows you to build web applications.\n",
            "mix.exs": 'defmodule Plug.MixProject do\n  @description "Compose web applications with functions"\n  description: @description,\n',
        },
        "Compose web applications with functions",
    ),
    # ---- Python
    "click": (
        {
            "README.md": '<div align="center"><img src="x.svg" alt=""></div>\n\n# Click\n\nClick is a Python package for creating command line interfaces.\n',
            "pyproject.toml": '[project]\nname = "click"\ndescription = "Composable command line interface toolkit"\n',
        },
        "Click is a Python package for creating command line interfaces.",
    ),
    "flask": (
        {
            "README.md": "# Flask\n\nFlask is a lightweight [WSGI] web application framework. It is designed\nwell.\n"
        },
        "Flask is a lightweight WSGI web application framework.",
    ),
    "django": (
        {
            "README.rst": "======\nDjango\n======\n\nDjango is a high-level Python Web framework that encourages rapid "
            "development\nand clean, pragmatic design. Thanks for checking it out.\n\nAll documentation is in docs.\n"
        },
        "Django is a high-level Python Web framework",
    ),
    "requests": (
        {
            "README.md": "Requests: HTTP for Humans™\n===========\n\n"
            + BADGE
            + "Requests is the one and only HTTP "
            "library for Python that is safe for human\nconsumption.\n\nBehold, the power of Requests:\n"
        },
        "Requests is the one and only HTTP library for Python",
    ),
    "scikit-learn": (
        {
            "README.rst": ".. -*- mode: rst -*-\n\n|Azure| |Codecov|\n\n.. |Azure| image:: https://example.org\n\n"
            "**scikit-learn** is a Python module for machine learning built on top of\nSciPy and is distributed "
            "under the 3-Clause BSD license.\n\nIt is currently maintained by a team of volunteers.\n"
        },
        "scikit-learn is a Python module for machine learning",
    ),
    "celery": (
        {
            "README.rst": ".. image:: banner.png\n\n|build-status| |coverage|\n\n:Version: 5.2.0rc2 (dawn-chorus)\n\n"
            "Donations\n=========\n\nOpen Collective is our community-powered funding platform that fuels "
            "Celery.\n\nFor enterprise\n==============\n\nAvailable as part of the Tidelift Subscription.\n\n"
            "What's a Task Queue?\n====================\n\nTask queues are used as a mechanism to distribute work "
            "across threads or\nmachines.\n\nWhat do I need?\n===============\n\nCelery is a project with minimal "
            "funding,\nso we don't support Microsoft Windows.\n",
            "celery/__init__.py": '"""Distributed Task Queue."""\n',
        },
        "Distributed Task Queue.",
    ),
    "numpy": (
        {
            "README.md": '<h1 align="center">\n<img src="logo.svg">\n</h1><br>\n\n' + BADGE + "NumPy is the "
            "fundamental package for scientific computing with Python.\n\nIt provides:\n\n- arrays\n"
        },
        "NumPy is the fundamental package for scientific computing with Python.",
    ),
    # ---- Go
    "gin": (
        {
            "README.md": "# Gin Web Framework\n\n"
            + BADGE
            + "## 📰 Announcing Gin 1.12.0!\n\nWe're excited to "
            "announce the release of Gin 1.12.0!\n\n---\n\nGin is a high-performance HTTP web framework written in "
            "[Go](https://go.dev/). It provides a Martini-like API.\n"
        },
        "Gin is a high-performance HTTP web framework written in Go.",
    ),
    "cobra": (
        {
            "README.md": "# Cobra\n\nA Commander for modern go CLI interactions\n\n"
            + BADGE
            + "## Overview\n\nCobra is "
            "a commander providing a simple interface to create powerful modern CLI\ninterfaces.\n"
        },
        "Cobra is a commander providing a simple interface",
    ),
    "prometheus": (
        {
            "README.md": "# Prometheus\n\nBedecke deinen Himmel, Zeus!  A new kid is in town.\n\nPrometheus is a "
            "generic time series collection and computation server that is\nuseful in the following fields:\n"
        },
        "Prometheus is a generic time series collection and computation server",
    ),
    # ---- C and C++
    "redis": (
        {
            "README.md": "This README is just a fast *quick start* document. You can find more detailed documentation "
            "at [redis.io](https://redis.io).\n\nWhat is Redis?\n---\n\nRedis is often referred to as a *data "
            "structures* server. What this means is much.\n"
        },
        "Redis is often referred to as a data structures server.",
    ),
    "curl": (
        {
            "README.md": "      _   _ ____  _\n  ___| | | |  _ \\| |\n\nCurl is a command line tool for transferring "
            "data specified with URL\nsyntax. Find out how to use curl by reading the curl.1 man page.\n"
        },
        "Curl is a command line tool for transferring data specified with URL syntax.",
    ),
    "neovim": (
        {
            "README.md": "# neovim ([bountysource fundraiser](https://example.org))\n\n## Introduction\n\nVim is a "
            "powerful text editor with a big community that is constantly\ngrowing.\n\n## Solution\n\nNeovim is a "
            "project that seeks to aggressively refactor vim source code in order\nto achieve goals.\n"
        },
        "Neovim is a project that seeks to aggressively refactor vim source code",
    ),
    "jq": (
        {"README.md": "jq\n==\n\njq is a command-line JSON processor.\n\nTo build jq, run\n"},
        "jq is a command-line",
    ),
    "json": (
        {
            "README.md": "# JSON for Modern C++\n\n*What if JSON was party of modern C++?*\n\n"
            + BADGE
            + "## Design "
            "goals\n\nThere are myriads of [JSON](http://json.org) libraries out there.\n"
        },
        "JSON for Modern C++",
    ),
    # ---- Rust
    "ripgrep": (
        {
            "README.md": "ripgrep (rg)\n------------\nripgrep is a line-oriented search tool that recursively searches "
            "the current\ndirectory for a regex pattern. By default it respects gitignore.\n"
        },
        "ripgrep is a line-oriented search tool",
    ),
    "axum": (
        {
            "Cargo.toml": '[workspace]\nmembers = ["axum", "axum-*"]\n',
            "axum/README.md": "# axum\n\n`axum` is a web application framework that focuses on ergonomics and "
            "modularity.\n\n" + BADGE,
            "axum-core/README.md": "# axum-core\n\nCore types and traits for axum.\n",
        },
        "axum is a web application framework that focuses on ergonomics and modularity.",
    ),
    "serde_state": (
        {
            "README.md": "# serde_state &emsp; [![Build Status]][travis]\n\n[travis]: https://example.org\n\n"
            "**serde_state is an experimental addition to serde which makes it possible to pass state.**\n"
        },
        "serde_state is an experimental addition to serde",
    ),
    # ---- TypeScript and JavaScript
    "zod": (
        {
            "README.md": '<p align="center">\n  <img src="logo.svg" />\n</p>\n\nThese docs have been translated into '
            "[Chinese](./README_ZH.md).\n\n# Table of contents\n\nThe full documentation is available.\n\n# What is Zod"
            "\n\nZod is a TypeScript-first schema declaration and validation library. I mean it.\n"
        },
        "Zod is a TypeScript-first schema declaration and validation library.",
    ),
    "axios": (
        {
            "README.md": '<h3 align="center"> 🥇 Gold sponsors <br> </h3>\n\n## Features\n\n- Make requests\n',
            "package.json": '{\n  "name": "axios",\n  "description": "Promise based HTTP client for the browser"\n}\n',
        },
        "Promise based HTTP client for the browser",
    ),
    "express": (
        {
            "Readme.md": "[![Express Logo](https://example.org/l.png)](https://expressjs.com/)\n\n**Fast, unopinionated, "
            "minimalist web framework for [Node.js](https://nodejs.org).**\n\n**This project has a [Code of "
            "Conduct][].**\n"
        },
        "Fast, unopinionated, minimalist web framework for Node.js.",
    ),
    # ---- Java and Kotlin
    "gson": (
        {
            "README.md": "# Gson\n\nGson is a Java library that can be used to convert Java Objects into their JSON "
            "representation. It can more.\n\n> [!NOTE]\\\n> Gson is currently in maintenance mode.\n"
        },
        "Gson is a Java library that can be used to convert Java Objects",
    ),
    "junit5": (
        {
            "README.md": "# JUnit 5\n\nThis repository is the home of _JUnit 5_.\n\n## Sponsors\n\nSupport JUnit today, do.\n"
        },
        "This repository is the home of",
    ),
    "okhttp": (
        {
            "README.md": "OkHttp\n======\n\nSee the [project website][okhttp] for documentation and APIs.\n\nHTTP is the "
            "way modern applications network.\n\nOkHttp is an HTTP client that’s efficient by default:\n\n * HTTP/2\n"
        },
        "OkHttp is an HTTP client that’s efficient by default.",
    ),
    "ktor": (
        {
            "README.md": '<img src="ktor.png" alt="Ktor">\n\n'
            + BADGE
            + "Ktor is a framework for quickly creating web "
            "applications in Kotlin with minimal effort.\n"
        },
        "Ktor is a framework for quickly creating web applications in Kotlin",
    ),
    # ---- PHP
    "framework": (
        {
            "README.md": '<p align="center"><img src="logo.svg"></p>\n\n## About Laravel\n\n> **Note:** This repository '
            "contains the core code of the Laravel framework.\n\nLaravel is a web application framework with "
            "expressive, elegant syntax. We believe.\n",
            "composer.json": '{"name": "laravel/framework", "description": "The Laravel Framework."}\n',
        },
        "Laravel is a web application framework with expressive, elegant syntax.",
    ),
    "guzzle": (
        {
            "README.md": "Guzzle, PHP HTTP client and webservice framework\n======\n\nGuzzle is a game changer in the "
            "world of PHP HTTP clients. Guzzle allows you much.\n"
        },
        "Guzzle is a game changer in the world of PHP HTTP clients.",
    ),
    # ---- Ruby
    "sinatra": (
        {
            "README.md": "# Sinatra\n\nSinatra is a [DSL](http://example.org) for\nquickly creating web applications in "
            "Ruby with minimal effort:\n\n``` ruby\nget '/'\n```\n\nInstall the gem:\n"
        },
        "Sinatra is a DSL for quickly creating web applications in Ruby with minimal effort.",
    ),
    "actioncable": (
        {
            "README.md": "# Action Cable – Integrated websockets for Rails\n"
            + BADGE
            + "Action Cable seamlessly "
            "integrates websockets with the rest of your Rails application.\nIt allows much.\n"
        },
        "Action Cable seamlessly integrates websockets with the rest of your Rails application.",
    ),
    # ---- C#, Swift, Elixir
    "Newtonsoft.Json": (
        {
            "README.md": "# ![Logo](Doc/icons/logo.jpg) Json.NET\n\n"
            + BADGE
            + "- [Homepage](https://example.org)\n",
            "Src/Newtonsoft.Json/Newtonsoft.Json.csproj": "<Project>\n  <Description>Json.NET is a popular "
            "high-performance JSON framework for .NET</Description>\n</Project>\n",
        },
        "Json.NET is a popular high-performance JSON framework for .NET",
    ),
    "Alamofire": (
        {
            "README.md": "![Alamofire: Elegant Networking in Swift](alamofire.png)\n\n"
            + BADGE
            + "Alamofire is an HTTP "
            "networking library written in Swift.\n\n## Installation\n\nCocoaPods is a dependency manager.\n"
        },
        "Alamofire is an HTTP networking library written in Swift.",
    ),
    "phoenix": (
        {
            "README.md": "# Phoenix\n\n> Elixir Web Framework targeting full-featured, fault tolerant applications\n\n"
            + BADGE
            + "## Getting started\n\nInstall it and go on from there.\n"
        },
        "Elixir Web Framework targeting full-featured, fault tolerant applications",
    ),
}


def repository(name: str, texts: dict[str, str]) -> Survey:
    return Survey(name, survey_of(texts).files)


@pytest.mark.parametrize("name", PROJECTS)
def test_the_first_sentence_says_what_the_project_is(name: str) -> None:
    texts, expected = PROJECTS[name]
    assert describe(repository(name, texts)).startswith(expected)


@pytest.mark.parametrize(
    "said",
    [
        "Thing is available for Linux, macOS and Windows.",
        "Thing is sponsored by a company that sells things.",
        "This README is just a fast quick start document.",
        "We're excited to announce the release of Thing 2.0!",
        "Continuous integration runs here: https://example.org.",
        "> [!WARNING]\n> Thing is no longer maintained by anyone.",
    ],
)
def test_what_says_nothing_of_the_project_is_not_taken_for_it(said: str) -> None:
    texts = {
        "README.md": f"# Thing\n\n{said}\n",
        "setup.cfg": "[metadata]\nname = thing\ndescription = A thing that does\n",
    }
    assert describe(repository("thing", texts)) == "A thing that does"
    (quote,) = project_description(repository("thing", texts))
    assert (quote.path, quote.start) == ("setup.cfg", 3)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("pyproject.toml", '[project]\nname = "thing"\ndescription = "A thing that does"\n'),
        ("setup.py", 'setup(\n    name="thing",\n    description="A thing that does",\n)\n'),
        ("Cargo.toml", '[package]\nname = "thing"\ndescription = "A thing that does"\n'),
        ("crates/thing/Cargo.toml", '[package]\nname = "thing"\ndescription = "A thing that does"\n'),
        ("package.json", '{"name": "@org/thing", "description": "A thing that does"}'),
        ("pom.xml", "<project>\n<description>\n A thing that does\n</description></project>"),
        ("thing.gemspec", 'Gem::Specification.new do |s|\n  s.summary = "A thing that does"\nend\n'),
    ],
)
def test_a_manifest_says_it_where_no_document_does(path: str, text: str) -> None:
    assert describe(
        repository("thing", {path: text, "other/package.json": '{"description": "Another one"}'})
    ) == ("A thing that does")


@pytest.mark.parametrize("text", ["{", "[1, 2]", '{"description": 7}', '{"description": ' + "[" * 50_000])
def test_a_manifest_that_cannot_be_read_is_none(text: str) -> None:
    assert describe(repository("thing", {"package.json": text, "pyproject.toml": text})) == ""


def test_a_readme_that_is_a_link_is_read_where_it_leads(tmp_path, sample_repo) -> None:
    from rag.service import Engine, locate
    from rag.service.tools.survey_of import survey
    from rag.settings import load_settings

    (sample_repo / "README.md").rename(sample_repo / "snip/README.md")
    (sample_repo / "README.md").symlink_to("snip/README.md")
    (sample_repo / "README.txt").symlink_to("/etc/hostname")
    engine = Engine(load_settings())
    assert readmes(survey(engine.repository(locate(str(sample_repo))))) == ["snip/README.md"]
    engine.close()


def test_only_paragraphs_that_follow_at_once_are_added() -> None:
    readme = (
        "# Kiln\n\nKiln is a tool for people who fire pots.\n\nIt measures heat in every part of the oven.\n\n"
        "```\nkiln fire\n```\n\nOr use the client on the command line.\n"
    )
    found = project_description(survey_of({"README.md": readme}))
    assert [quote.start for quote in found] == [3, 5]


@pytest.mark.parametrize(
    "names", [("README-cs.md", "README.md"), ("README.de.md", "README.md"), ("Readme-ja.rst", "readme.txt")]
)
def test_a_translated_readme_comes_after_the_original(names):
    assert readmes(survey_of(dict.fromkeys(names, "# Kiln\n"))) == [names[1], names[0]]
