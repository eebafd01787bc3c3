#!/bin/bash
# Makes the archives beside it, with 7zz (26.02 made those that are there) and python3: tests/foreign/sevenz/make.sh
set -euo pipefail
out=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cd "$tree"
mkdir -p dir/sub empty
for number in 1 2 3 4; do
    seq "$number" 7 $((number * 900)) > "dir/f$number.txt"
done
# Something that the filters for programs change: calls, relative to where they stand.
python3 -c 'import sys; sys.stdout.buffer.write(b"".join(b"\x55\xe8" + (i * 40 % 65536).to_bytes(4, "little") + b"\x0f\x84" + (i * 56 % 65536).to_bytes(4, "little") + b"\xc3" for i in range(600)))' > dir/sub/code.exe
printf '#!/bin/sh\n' > run.sh
: > zero
ln -s run.sh link
chmod 755 run.sh
chmod 700 empty
chmod 640 dir/f*.txt
find . -exec touch -h -d '2001-02-03 04:05:06.789 UTC' {} +
make() {
    local name=$1
    shift
    rm -f "$out/$name.7z"
    7zz a -bso0 -bsp0 -snl "$@" "$out/$name.7z" .
}
make lzma2 -m0=lzma2
make lzma -m0=lzma
make ppmd -m0=ppmd:mem=1m
make bzip2 -m0=bzip2
make deflate -m0=deflate
make deflate64 -m0=deflate64
make copy -m0=copy
make bcj2 -m0=bcj2 -m1=lzma2 -m2=lzma -m3=lzma -mb0:1 -mb0s1:2 -mb0s2:3
make delta -m0=delta:4 -m1=lzma
make separate -ms=off
make plain-header -mhc=off
make password -psecret
make password-header -psecret -mhe=on
