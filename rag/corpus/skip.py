"""Decide by its path whether a file is skipped. The reasons are fixed phrases, so they can be counted."""

from __future__ import annotations

import re
from functools import lru_cache

BINARY = "binary"
TOO_LARGE = "too large"
GENERATED = "generated"
VENDORED = "vendored"
RAGIGNORED = "ignored by .ragignore"
FILTERED = "excluded by filter"
SECRET = "likely secret"
TRANSLATION = "translation catalogue"
DATA = "data file"
SYMLINK = "symlink"
SYMLINK_BROKEN = "broken symlink"
SYMLINK_LOOP = "symlink loop"
SYMLINK_OUTSIDE = "symlink outside the repository"
UNREADABLE = "unreadable"
SPECIAL = "not a regular file"
ODD_NAME = "name is not UTF-8"
VANISHED = "vanished"
NOT_CHECKED_OUT = "not checked out"

# Of files that are only searched for a name:
GIT_IGNORED = "ignored by git"
AROUND = "outside the folder"
NOT_YET = "not indexed yet"
UNDECODED = "not text"
NOT_FETCHED = "not fetched"
LONG_LINE = "long line that is not indexed to its end"
BEYOND = "larger than the limit of the search"
CACHE = "caches of tools"

VENDORED_FOLDERS = frozenset(
    """
    node_modules bower_components jspm_packages vendor vendors vendored _vendor _vendored third_party
    third-party thirdparty 3rdparty 3rd_party site-packages dist-packages .venv venv virtualenv
    __pycache__ __pypackages__ .tox .nox .eggs .mypy_cache .pytest_cache .ruff_cache .hypothesis .gradle
    .bundle pods carthage .yarn .pnpm-store .next .nuxt .svelte-kit .parcel-cache .terraform .dart_tool
    .idea .ipynb_checkpoints
    """.split()
)
"""Folders with third-party or generated code, compared in lower case."""

VERSION_CONTROL_FOLDERS = frozenset({".git", ".hg", ".svn", ".bzr", ".jj", "cvs", "_darcs"})
"""Folders of version control; never listed."""

WIKI_STATE_FILE = ".rag-wiki.json"
"""Marks a folder that `rag wiki` wrote: its pages repeat what the code says, and may be outdated."""

_BINARY_EXTENSIONS = frozenset(
    """
    png jpg jpeg gif bmp ico icns webp avif tif tiff psd ai eps heic pdf doc docx xls xlsx ppt pptx odt
    ods odp zip gz tgz bz2 xz zst lz4 lzma 7z rar tar jar war ear whl egg deb rpm apk ipa dmg iso cab
    msi nupkg crx exe dll so dylib a lib o obj ko elf bin dat class pyc pyo pyd wasm node swiftmodule
    swiftdoc swiftsourceinfo mp3 mp4 m4a m4v wav flac ogg oga ogv opus webm mov avi mkv mid midi ttf otf
    woff woff2 eot fon pfb db sqlite sqlite3 mdb parquet feather arrow avro orc npy npz pkl pickle
    joblib h5 hdf5 pt pth ckpt onnx pb tflite safetensors gguf model rds rdata mat fits nc grib idx pack
    keystore jks bks der crt cer gpg sig asc fbx blend glb gltf 3ds stl dwg dxf unity3d unitypackage
    assetbundle swf fla xcf sketch fig gmo mo qm bcmap res lockb snk nib
    """.split()
)
_DATA_EXTENSIONS = frozenset(
    """
    csv tsv psv svg geojson topojson ndjson log out output trace har dump expected golden gold
    patch diff rej orig bak swp tmp pcap srt vtt sum hex ihex ps vcf ics eml mbox bib lst
    """.split()
)
_LOCK_FILES = frozenset(
    """
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock
    cargo.lock poetry.lock uv.lock pdm.lock pipfile.lock composer.lock gemfile.lock podfile.lock
    pubspec.lock mix.lock flake.lock go.sum go.work.sum gradle.lockfile packages.lock.json
    project.assets.json conda-lock.yml package.resolved cartfile.resolved .terraform.lock.hcl
    module.bazel.lock paket.lock pixi.lock stack.yaml.lock rebar.lock dub.selections.json elm-stuff.json
    .package-lock.json
    """.split()
)
_GENERATED_NAME = re.compile(
    r"(?:[.-]min\.(?:js|css|mjs|cjs|html)|\.map|_pb2(?:_grpc)?\.pyi?|\.pb\.(?:go|cc|h|gw\.go|swift)|_pb\.(?:js|d\.ts|rb)"
    r"|_grpc\.pb\.go|\.g(?:\.dart|\.cs|\.i\.cs)|\.freezed\.dart|\.designer\.(?:cs|vb)|\.generated\.\w+|\.gen\.(?:go|ts)"
    r"|\.snap|\.bundle\.js|\.chunk\.js|zz_generated\..*|bindata\.go|\.tsbuildinfo|\.lock)$"
)
_TRANSLATIONS = (".po", ".pot", ".xliff", ".xlf", ".arb", ".strings", ".stringsdict", ".lproj")

_SECRET_FILES = frozenset(
    """
    .envrc .htpasswd .netrc _netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .mylogin.cnf .dockercfg
    .s3cfg .boto .terraformrc terraform.rc terraform.tfvars terraform.tfvars.json .vault-token credentials
    credentials.json credentials.yaml credentials.yml credentials.toml credentials.tfrc.json kubeconfig
    kubeconfig.yaml kubeconfig.yml master.key wp-config.php .bash_history .zsh_history .sh_history
    .python_history .psql_history .mysql_history .rediscli_history .node_repl_history .irb_history
    """.split()
)
_SECRET_PLACES = frozenset({".kube/config", ".docker/config.json", ".aws/config", ".cargo/credentials.toml"})
"""Files that hold a secret in a folder of this name, although their own name is harmless."""
_SECRET_NAMES = tuple({place.rpartition("/")[2] for place in _SECRET_PLACES})
_SECRET_NAME = re.compile(
    r"^(?:\.env(?:\..+)?|.*\.env|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    r"|.*\.(?:pem|p12|pfx|ppk|key|keytab|kdbx?|pkcs12|p8|ovpn|agekey|kubeconfig|tfstate(?:\.backup)?|auto\.tfvars(?:\.json)?)"
    r"|.*service[._-]?account.*\.json|(?:gcp|gcloud|google|firebase)[._-](?:key|credentials?|adminsdk).*\.json"
    r"|client_secrets?.*\.json|secrets?\.(?:ya?ml|json|toml|ini|tfvars)|\.vault[-_]pass.*)$"
)
_NO_SECRET = re.compile(
    r"[._-](?:example|sample|template|dist|defaults?|tmpl|in|schema)(?:\.\w+)?$|^(?:example|sample)[._-]"
)
_PLAIN_KEY_EXTENSION = re.compile(r"\.(?:pub|pem\.(?:txt|md))$")


def reason_by_name(path: str) -> str | None:
    """Return why a file of this name is skipped, None when it is not. Folders are not checked."""
    lowered = path.lower()
    if lowered.endswith(_SECRET_NAMES) and "/".join(lowered.rsplit("/", 2)[-2:]) in _SECRET_PLACES:
        return SECRET
    return _reason_by_name(lowered.rpartition("/")[2])


@lru_cache(maxsize=65536)
def _reason_by_name(name: str) -> str | None:
    if is_secret_name(name):
        return SECRET
    extension = name.rpartition(".")[2] if "." in name.lstrip(".") else ""
    if name in _LOCK_FILES or _GENERATED_NAME.search(name):
        return GENERATED
    if name.endswith(_TRANSLATIONS):
        return TRANSLATION
    if extension in _BINARY_EXTENSIONS:
        return BINARY
    return DATA if extension in _DATA_EXTENSIONS else None


def is_secret_name(name: str) -> bool:
    """Return whether a file of this name (lower case, no folder) usually holds a credential."""
    if name in _SECRET_FILES:
        return True
    if not _SECRET_NAME.match(name) or _PLAIN_KEY_EXTENSION.search(name):
        return False
    return not _NO_SECRET.search(name)


@lru_cache(maxsize=16384)
def vendored_folder(folder: str) -> str | None:
    """Return the outermost vendored folder in the path of `folder`, relative to the root, or None."""
    parts = folder.split("/")
    for depth, part in enumerate(parts):
        if part.lower() in VENDORED_FOLDERS:
            return "/".join(parts[: depth + 1])
    return None
