"""The command line: serve, manage users, purge."""

from __future__ import annotations

import argparse
import getpass
import sys
import time
from pathlib import Path
from wsgiref.simple_server import make_server

from snip import __version__
from snip.app import create_app
from snip.auth import hash_password, issue_token
from snip.config import load_config
from snip.errors import SnipError
from snip.storage import Storage


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(prog="snip", description="A small link shortener")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("--config", type=Path, help="a TOML file, see deploy/snip.example.toml")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("serve", help="answer requests until interrupted")
    add_user = commands.add_parser("add-user", help="add a user and print a first token")
    add_user.add_argument("name")
    revoke = commands.add_parser("revoke", help="revoke a user's tokens of one label")
    revoke.add_argument("name")
    revoke.add_argument("label")
    commands.add_parser("purge", help="delete expired links now")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit code."""
    arguments = build_parser().parse_args(argv)
    config = load_config(arguments.config)
    if arguments.command == "serve":
        return serve(config)
    storage = Storage(config.database)
    try:
        if arguments.command == "add-user":
            user = storage.add_user(arguments.name, hash_password(getpass.getpass()))
            print(issue_token(storage, user, "first"))
        elif arguments.command == "revoke":
            user = storage.user_by_name(arguments.name)
            print(storage.revoke_tokens(user.id, arguments.label) if user else 0)
        else:
            print(storage.purge_expired(int(time.time())))
    except SnipError as error:
        print(f"snip: {error}", file=sys.stderr)
        return 1
    finally:
        storage.close()
    return 0


def serve(config) -> int:
    """Answer requests until interrupted; clicks that are still in memory are written at the end."""
    app = create_app(config)
    scheduler = app.start_jobs()
    with make_server(config.host, config.port, app) as server:
        print(f"listening on http://{config.host}:{config.port}", file=sys.stderr)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass
    scheduler.stop()
    app.clicks.flush(app.storage)
    app.storage.close()
    return 0
