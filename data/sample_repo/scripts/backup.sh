#!/bin/sh
# Copy the database while the server runs, and keep the newest copies only.
set -eu

database=${1:-snip.sqlite3}
folder=${2:-backups}
keep=${KEEP_BACKUPS:-14}

mkdir -p "$folder"
target="$folder/snip-$(date -u +%Y%m%dT%H%M%SZ).sqlite3"
sqlite3 "$database" ".backup '$target'"

# The names sort by time; everything after the first $keep is older.
find "$folder" -maxdepth 1 -name 'snip-*.sqlite3' | sort -r | tail -n "+$((keep + 1))" | while read -r old; do
    rm -- "$old"
done
echo "$target"
