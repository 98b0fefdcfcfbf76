#!/bin/sh
# Asks a real repository a question and a follow-up. Called by `make demo` with the virtual environment's
# bin folder; everything it writes goes to .demo/.
set -eu
bin=$1
here=$(dirname "$0")
work=.demo
export RAG_HOME="$PWD/$work/home"
mkdir -p "$work/archive"

if ! ls "$work"/werkzeug-* >/dev/null 2>&1; then
    echo "demo: downloading the source of Werkzeug 3.1.3 (0.8 MB, sha256 checked)" >&2
    if "$bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
        --requirement "$here/requirements.txt" --dest "$work/archive" 2>"$work/download.log"; then
        tar -xzf "$work"/archive/werkzeug-*.tar.gz -C "$work"
    fi
fi
repository=$(ls -d "$work"/werkzeug-*/ 2>/dev/null | head -n 1)
if [ -n "$repository" ]; then
    first="How does the server restart when a file changes?"
    second="And who calls it?"
else
    echo "demo: no package registry answers (see $work/download.log), so this checkout is asked" >&2
    repository=.
    first="How are old turns kept out of the prompt when the budget is spent?"
    second="And who calls it?"
fi

printf '\n$ rag ask %s "%s"\n' "$repository" "$first"
"$bin/rag" ask "$repository" "$first"
printf '\n$ rag ask "%s" -c\n' "$second"
"$bin/rag" ask "$second" -c
