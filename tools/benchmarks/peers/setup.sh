#!/bin/sh
# Install the peers that `make bench ONLY=dev` measures beside us: setup.sh FOLDER
# Each peer gets a virtual environment of its own there; FOLDER/model is WordLlama's table as a Model2Vec folder.
# PYTHON names the interpreter (3.11 or newer). Only pip is used; nothing comes from a model hub.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python=${PYTHON:-python3}

environment() { # NAME PACKAGE…
    name=$1
    shift
    [ -f "$folder/$name/.installed" ] && return
    "$python" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
    touch "$folder/$name/.installed"
}

environment bm25 bm25s==0.3.16 numpy
environment adalflow adalflow==1.1.3 faiss-cpu numpy openai safetensors tokenizers
environment semble semble==0.7.0

if [ ! -f "$folder/model/config.json" ]; then
    "$folder/semble/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --dest "$folder/wheels" wordllama==0.4.0.post1
    "$folder/semble/bin/python" "$here/make_model.py" "$folder"/wheels/wordllama-0.4.0.post1-*.whl "$folder/model"
fi
echo "the peers are ready in $folder"
