#!/bin/sh
# Entry point of the image: names the mounted repositories to git as safe to read, then runs rag.
# They belong to another user than the image's; git reads such a repository only where it is named.
set -eu
mounted=${REPOSITORIES:-/repositories}
: > "$HOME/.gitconfig"
for folder in "$mounted" "$mounted"/*; do
    for place in "$folder" "$folder/.git"; do
        if [ -e "$place" ]; then git config --global --add safe.directory "$place"; fi
    done
done
exec rag "$@"
