#!/usr/bin/env python3
"""Measure public archive tools (and nra) on the benchmark corpora.

    peers.py tools                              what is here, what is missing
    peers.py run  --root CORPORA --work SCRATCH --out results.jsonl
                  [--names cifar,source] [--tools tar.gz,zip,nra]
                  [--measures pack,extract,list,cat,random] [--reps 3]
    peers.py convert --root CORPORA --work SCRATCH --out results.jsonl
                  [--names cifar] [--tools ...] [--reps 3]
    peers.py table  results.jsonl [...] [--names cifar] [--measures pack,...] [--by cpu]
    peers.py matrix results.jsonl [...] [--by cpu+size]   tools down, corpora across

A run appends samples; the table takes the median over all samples of a
(tool, corpus, measure), so run again to steady a noisy figure, and put the
tool of interest and its rivals in ONE run to compare them under one load.
Samples that took longer than --long seconds (60) are not repeated.

Nothing is installed: missing tools are listed with their package names.
NRA_BIN names the nra binary (else 'nra' on PATH). NRA_REF_BIN names the
reference implementation's nra-cli, PEERS_PYTHON a Python that has the pip
peers, PEERS_PATH extra folders for PATH.

cpu_s is user+system of every process that took part (a FUSE daemon's share
is added from /proc). rss is the largest single process. The page cache is
warm; 'cold' in cat means a new process, not a cold disk.
"""
import argparse
import json
import os
import random
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PY = os.environ.get("PEERS_PYTHON", sys.executable)
if os.environ.get("PEERS_PATH"):
    os.environ["PATH"] = os.environ["PEERS_PATH"] + ":" + os.environ["PATH"]
os.environ.setdefault("NRA_BIN", "nra")
os.environ.setdefault("NRA_REF_BIN", "nra-cli")
os.environ["BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK"] = "yes"
os.environ["BORG_RELOCATED_REPO_ACCESS_IS_OK"] = "yes"
os.environ["RESTIC_PASSWORD"] = "bench"
CLK = os.sysconf("SC_CLK_TCK")


class Tool:
    """Commands are shell templates with {root} {name} {out} {dst} {path} {mnt}
    {rel} and {nra} / {ref} / {py}. cwd is {root} for pack, so {name} is the
    corpus folder and archives hold {name}/... unless top=False."""

    def __init__(self, name, need, pkg, pack=None, extract=None, list=None, cat=None,
                 mount=None, umount="fusermount3 -u {mnt}", inproc=None, top=True,
                 suffix=None, isdir=False, note="", mount_prefix="", flat=False):
        self.__dict__.update(locals())
        self.suffix = suffix or name


T = []


def tool(*a, **k):
    T.append(Tool(*a, **k))


# name, executables, package, then the commands
def tarlike(name, need, pkg, comp, decomp, **k):
    c = f" | {comp}" if comp else ""
    d = f"{decomp} {{out}} | " if decomp else ""
    inp = "-" if decomp else "{out}"
    tool(name, need, pkg, pack=f"tar -cf - {{name}}{c} > {{out}}",
         extract=f"{d}tar -xf {inp} -C {{dst}}",
         list=f"{d}tar -tf {inp}",
         cat=f"{d}tar -xOf {inp} --occurrence=1 {{path}}", **k)


tarlike("tar", ["tar"], "tar", "", "", inproc="tar")
tarlike("tar.gz", ["tar", "gzip"], "gzip", "gzip -6", "gzip -dc")
tarlike("tar.gz-pigz", ["pigz"], "pigz", "pigz -6", "pigz -dc")
tarlike("tar.gz-rapidgzip", ["rapidgzip"], "pip: rapidgzip", "pigz -6", "rapidgzip -d -c -P 2")
tarlike("tar.zst", ["zstd"], "zstd", "zstd -q -3 -T0", "zstd -dcq")
tarlike("tar.zst-1", ["zstd"], "zstd", "zstd -q -1 -T0", "zstd -dcq")
tarlike("tar.zst-long", ["zstd"], "zstd", "zstd -q -3 -T0 --long=27", "zstd -dcq --long=27")
tarlike("tar.zst-long31", ["zstd"], "zstd", "zstd -q -3 -T0 --long=31", "zstd -dcq --long=31")
tarlike("tar.zst-sorted", ["zstd"], "zstd", "zstd -q -3 -T0", "zstd -dcq")
T[-1].pack = "tar --sort=name -cf - {name} | zstd -q -3 -T0 > {out}"
tarlike("tar.zst-19", ["zstd"], "zstd", "zstd -q -19 -T0 --long=27", "zstd -dcq --long=27")
tarlike("tar.lz4", ["lz4"], "lz4", "lz4 -q -1", "lz4 -dcq")
tarlike("tpxz", ["pixz"], "pixz", "pixz -2", "pixz -d <", suffix="tpxz")
T[-1].cat = "pixz -x {path} < {out} | tar -xOf -"
T[-1].list = "pixz -l {out}"
tool("zip", ["zip", "unzip"], "zip unzip", pack="zip -q -r -X {out} {name}",
     extract="unzip -q -o {out} -d {dst}", list="unzip -l {out}", cat="unzip -p {out} {path}",
     mount="fuse-zip -r {out} {mnt}", mount_prefix="{name}/", inproc="zip", suffix="zip")
tool("zip-7zz", ["7zz"], "7zip", pack="7zz a -tzip -mmt=on -bso0 -bsp0 {out} {name}",
     extract="7zz x -y -bso0 -bsp0 -o{dst} {out}", list="7zz l -ba {out}",
     cat="7zz x -so -bso0 -bsp0 {out} {path}", suffix="7zz.zip")
tool("7z", ["7zz"], "7zip", pack="7zz a -t7z -mmt=on -bso0 -bsp0 {out} {name}",
     extract="7zz x -y -bso0 -bsp0 -o{dst} {out}", list="7zz l -ba {out}",
     cat="7zz x -so -bso0 -bsp0 {out} {path}", suffix="7z")
tool("7z-fast", ["7zz"], "7zip", pack="7zz a -t7z -mx=1 -mmt=on -bso0 -bsp0 {out} {name}",
     extract="7zz x -y -bso0 -bsp0 -o{dst} {out}", list="7zz l -ba {out}",
     cat="7zz x -so -bso0 -bsp0 {out} {path}", suffix="7z")
tool("bsdtar.zip", ["bsdtar"], "libarchive-tools", pack="bsdtar -a -cf {out} {name}",
     extract="bsdtar -xf {out} -C {dst}", list="bsdtar -tf {out}",
     cat="bsdtar -xOf {out} {path}", suffix="bsd.zip")
for comp, opt in (("zstd", "-comp zstd -Xcompression-level 3"), ("lz4", "-comp lz4"),
                  ("zstd15", "-comp zstd -Xcompression-level 15 -b 1M")):
    tool("squashfs-" + comp, ["mksquashfs", "unsquashfs"], "squashfs-tools",
         pack="mksquashfs {name} {out} -no-progress -quiet -noappend -processors 2 " + opt,
         extract="unsquashfs -q -n -p 2 -d {dst}/x {out}", list="unsquashfs -l {out}",
         cat="unsquashfs -cat {out} {rel}", mount="mount -t squashfs -o ro,loop {out} {mnt}",
         umount="umount {mnt}", top=False, suffix="sqfs")
tool("erofs-lz4", ["mkfs.erofs"], "erofs-utils",
     pack="mkfs.erofs --quiet -zlz4 -C65536 {out} {name}",
     extract="fsck.erofs --extract={dst}/x {out}",
     mount="mount -t erofs -o ro,loop {out} {mnt}", umount="umount {mnt}", top=False, suffix="erofs",
     note="no listing command in the Debian 12 version")
tool("zpaq", ["zpaq"], "zpaq", pack="zpaq a {out} {name} -m1 -t2",
     extract="zpaq x {out} -to {dst}/x -t2", list="zpaq l {out}",
     cat="zpaq x {out} {path} -to {dst}/one -t2 >/dev/null && cat {dst}/one", suffix="zpaq")
tool("borg", ["borg"], "borgbackup",
     pack="borg init -e none {out} && borg create -C zstd,3 {out}::a {name}",
     extract="cd {dst} && borg extract {out}::a", list="borg list {out}::a",
     cat="borg extract --stdout {out}::a {path}", isdir=True, suffix="borg",
     note="repository, no encryption")
tool("restic", ["restic"], "restic",
     pack="restic -q -r {out} init --repository-version 2 && restic -q -r {out} backup {name}",
     extract="restic -q -r {out} restore latest --target {dst}",
     list="restic -q -r {out} ls latest", cat="restic -q -r {out} dump latest /{path}",
     isdir=True, suffix="restic", note="encryption cannot be switched off")
tool("casync", ["casync"], "casync",
     pack="mkdir -p {out} && casync make --with=unix --store={out}/store {out}/a.caidx {name} >/dev/null",
     extract="casync extract --with=unix --store={out}/store {out}/a.caidx {dst}/x",
     list="casync list --with=unix --store={out}/store {out}/a.caidx", isdir=True, top=False, suffix="casync")
tool("dar", ["dar"], "dar", pack="dar -q -Q -c {out} -g {name} -zzstd:3 >/dev/null",
     extract="dar -q -Q -O -x {out} -R {dst} >/dev/null", list="dar -Q -l {out}",
     cat="dar -q -Q -O -x {out} -R {dst} -g {path} >/dev/null && cat {dst}/{path}", suffix="dar")
tool("ouch.zst", ["ouch"], "cargo: ouch", pack="ouch -q -y compress {name} {out}",
     extract="ouch -q -y decompress {out} -d {dst}", list="ouch -q list {out}", suffix="tar.zst")
tool("ouch.zip", ["ouch"], "cargo: ouch", pack="ouch -q -y compress {name} {out}",
     extract="ouch -q -y decompress {out} -d {dst}", list="ouch -q list {out}", suffix="ouch.zip")
for lv in ("3", "7"):
    tool("dwarfs-l" + lv, ["mkdwarfs", "dwarfsextract"], "DwarFS (not in Debian 12; build from source)",
         pack="mkdwarfs -i {name} -o {out} -l " + lv + " -N 2 --no-progress --log-level=warn --force",
         extract="dwarfsextract -i {out} -o {dst} -n 2 --log-level=warn", list="dwarfsck -i {out} --list",
         cat="dwarfsextract -i {out} -f gnutar --pattern {rel} -o - | tar -xOf -",
         mount="dwarfs {out} {mnt} -o workers=2", umount="fusermount3 -u {mnt}", top=False, suffix="dwarfs")
tool("ratarmount-tar", ["ratarmount"], "pip: ratarmount", pack="tar -cf {out} {name}",
     mount="ratarmount -P 2 {out} {mnt}", umount="ratarmount -u {mnt}",
     mount_prefix="{name}/", inproc="ratarmount", suffix="rm.tar")
tool("ratarmount-tgz", ["ratarmount", "pigz"], "pip: ratarmount; pigz", pack="tar -cf - {name} | pigz -6 > {out}",
     mount="ratarmount -P 2 {out} {mnt}", umount="ratarmount -u {mnt}",
     mount_prefix="{name}/", inproc="ratarmount", suffix="rm.tar.gz")
# the reference packs only the files that lie directly in a folder, so it gets a tar
tool("nra-ref", ["{ref}"], "the reference's nra-cli; pip: nra",
     pack="tar -cf {out}.tmp.tar {name} && {ref} convert -i {out}.tmp.tar -o {out} >/dev/null; rm {out}.tmp.tar",
     extract="{ref} unpack-beta -i {out} -o {dst} >/dev/null", list="{ref} info-beta -i {out} --verbose",
     cat="{py} -c 'import nra,sys; sys.stdout.buffer.write(bytes(nra.BetaArchive(sys.argv[1]).read_file(sys.argv[2])))' {out} {path}",
     mount="{ref} mount -i {out} -m {mnt}", mount_prefix="{name}/", flat=True,
     inproc="nra-ref", suffix="ref.nra", note="its mount turns a/b into a_b; its pack does not recurse")
for lab, opt in (("", ""), ("-l1", " --level 1"), ("-lz4", " --codec lz4"), ("-l9", " --level 9"), ("-l19", " --level 19"),
                 ("-dense", " --preset dense"), ("-nosync", " --no-sync")):
    tool("nra" + lab, ["{nra}"], "this project", pack="{nra} pack {name} -o {out}" + opt,
         extract="{nra} extract {out} -C {dst}", list="{nra} list {out}", cat="{nra} cat {out} {rel}",
         mount="{nra} mount {out} {mnt}", top=False, suffix="nra")
tool("dir", ["cat"], "coreutils", pack="cp -r {name} {out}", extract="cp -r {out} {dst}/x", list="find {out}",
     cat="cat {out}/{rel}", inproc="dir", isdir=True, top=False, suffix="dir",
     note="plain folder and cp -r, as a floor")
BY = {t.name: t for t in T}

# conversions: input suffix, name, executables, package, command, kind
C = [
    (".tar.gz", "tar xzf", ["tar"], "tar", "tar -xzf {in} -C {dst}"),
    (".tar.gz", "pigz | tar x", ["pigz"], "pigz", "pigz -dc {in} | tar -xf - -C {dst}"),
    (".tar.gz", "rapidgzip -P2 | tar x", ["rapidgzip"], "pip: rapidgzip", "rapidgzip -d -c -P 2 {in} | tar -xf - -C {dst}"),
    (".tar.gz", "bsdtar -xf", ["bsdtar"], "libarchive-tools", "bsdtar -xf {in} -C {dst}"),
    (".tar.gz", "ouch decompress", ["ouch"], "cargo: ouch", "ouch -q -y decompress {in} -d {dst}"),
    (".tar.gz", "gzip -dc >/dev/null (decode only)", ["gzip"], "gzip", "gzip -dc {in} >/dev/null"),
    (".tar.gz", "pigz -dc >/dev/null (decode only)", ["pigz"], "pigz", "pigz -dc {in} >/dev/null"),
    (".tar.gz", "rapidgzip -P2 >/dev/null (decode only)", ["rapidgzip"], "pip: rapidgzip", "rapidgzip -d -c -P 2 {in} >/dev/null"),
    (".tar.gz", "ratarmount index", ["ratarmount"], "pip: ratarmount", "{py} {here}/inproc.py ratarmount {in} {paths}"),
    (".tar.gz", "pigz | zstd -3 -T0 (.tar.zst)", ["pigz", "zstd"], "pigz zstd", "pigz -dc {in} | zstd -q -3 -T0 > {out}"),
    (".tar.gz", "pigz | zstd -1 -T0 (.tar.zst)", ["pigz", "zstd"], "pigz zstd", "pigz -dc {in} | zstd -q -1 -T0 > {out}"),
    (".tar.gz", "pigz | mksquashfs -tar zstd3", ["pigz", "mksquashfs"], "pigz squashfs-tools", "pigz -dc {in} | mksquashfs - {out} -tar -no-progress -quiet -noappend -processors 2 -comp zstd -Xcompression-level 3"),
    (".tar.gz", "pigz | mksquashfs -tar lz4", ["pigz", "mksquashfs"], "pigz squashfs-tools", "pigz -dc {in} | mksquashfs - {out} -tar -no-progress -quiet -noappend -processors 2 -comp lz4"),
    (".tar.gz", "bsdtar @in to zip", ["bsdtar"], "libarchive-tools", "bsdtar -a -cf {out}.zip @{in} && mv {out}.zip {out}"),
    (".tar.gz", "borg import-tar", ["borg"], "borgbackup", "borg init -e none {out} && borg import-tar -C zstd,3 {out}::a {in}"),
    (".tar.gz", "nra-ref convert", ["{ref}"], "reference nra-cli", "{ref} convert -i {in} -o {out} >/dev/null"),
    (".tar.gz", "nra-ref convert lz4", ["{ref}"], "reference nra-cli", "{ref} convert -i {in} -o {out} --codec lz4 >/dev/null"),
    (".tar.gz", "nra convert", ["{nra}"], "this project", "{nra} convert {in} -o {out}"),
    (".zip", "unzip", ["unzip"], "unzip", "unzip -q -o {in} -d {dst}"),
    (".zip", "7zz x", ["7zz"], "7zip", "7zz x -y -bso0 -bsp0 -o{dst} {in}"),
    (".zip", "bsdtar -xf", ["bsdtar"], "libarchive-tools", "bsdtar -xf {in} -C {dst}"),
    (".zip", "ouch decompress", ["ouch"], "cargo: ouch", "ouch -q -y decompress {in} -d {dst}"),
    (".zip", "ratarmount index", ["ratarmount"], "pip: ratarmount", "{py} {here}/inproc.py ratarmount {in} {paths}"),
    (".zip", "bsdtar @in | mksquashfs -tar zstd3", ["bsdtar", "mksquashfs"], "libarchive-tools squashfs-tools", "bsdtar -cf - --format=gnutar @{in} | mksquashfs - {out} -tar -no-progress -quiet -noappend -processors 2 -comp zstd -Xcompression-level 3"),
    (".zip", "nra-ref convert", ["{ref}"], "reference nra-cli", "{ref} convert -i {in} -o {out} >/dev/null"),
    (".zip", "nra convert", ["{nra}"], "this project", "{nra} convert {in} -o {out}"),
    (".tar.zst", "zstd | tar x", ["zstd"], "zstd", "zstd -dcq {in} | tar -xf - -C {dst}"),
    (".tar.zst", "nra convert", ["{nra}"], "this project", "{nra} convert {in} -o {out}"),
    (".tar", "tar xf", ["tar"], "tar", "tar -xf {in} -C {dst}"),
    (".tar", "mksquashfs -tar zstd3", ["mksquashfs"], "squashfs-tools", "mksquashfs - {out} -tar -no-progress -quiet -noappend -processors 2 -comp zstd -Xcompression-level 3 < {in}"),
    (".tar", "nra-ref convert", ["{ref}"], "reference nra-cli", "{ref} convert -i {in} -o {out} >/dev/null"),
    (".tar", "nra convert", ["{nra}"], "this project", "{nra} convert {in} -o {out}"),
]


def binaries(need):
    out = []
    for n in need:
        out.append(n.replace("{nra}", os.environ["NRA_BIN"]).replace("{ref}", os.environ["NRA_REF_BIN"]))
    return out


def present(need):
    return all(shutil.which(b) for b in binaries(need))


def fill(cmd, **k):
    k.update(nra=os.environ["NRA_BIN"], ref=os.environ["NRA_REF_BIN"], py=PY, here=HERE)
    for key, v in k.items():
        cmd = cmd.replace("{%s}" % key, shlex.quote(str(v)) if v else "")
    return cmd


def timed(cmd, cwd, timeout):
    """wall, cpu, rss (MB) of a shell command and all it waited for."""
    argv = ["bash", "-c", "set -o pipefail; " + cmd]
    rssfile = None
    if os.path.exists("/usr/bin/time"):     # its child does not inherit this process's peak RSS
        rssfile = os.path.join(cwd, f".rss.{os.getpid()}") if os.access(cwd, os.W_OK) else None
        if rssfile:
            argv = ["/usr/bin/time", "-q", "-f", "%M", "-o", rssfile] + argv
    t0 = time.perf_counter()
    p = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    err = b""
    signal.signal(signal.SIGALRM, lambda *_: os.killpg(p.pid, signal.SIGKILL))
    signal.alarm(timeout)
    err = p.stderr.read()
    _, status, ru = os.wait4(p.pid, 0)
    wall = time.perf_counter() - t0
    signal.alarm(0)
    p.returncode = os.waitstatus_to_exitcode(status)
    rss = ru.ru_maxrss / 1024
    if rssfile and os.path.exists(rssfile):
        words = open(rssfile).read().split()
        rss = int(words[-1]) / 1024 if words and words[-1].isdigit() else rss
        os.unlink(rssfile)
    return {"wall": wall, "cpu": ru.ru_utime + ru.ru_stime, "rss": rss,
            "rc": p.returncode, "err": err[-200:].decode(errors="replace") if p.returncode else ""}


def output(cmd, cwd):
    return subprocess.run(["bash", "-c", "set -o pipefail; " + cmd], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def tree_size(p):
    if os.path.isfile(p):
        return os.path.getsize(p)
    return sum(os.path.getsize(os.path.join(a, f)) for a, _, fs in os.walk(p) for f in fs
               if not os.path.islink(os.path.join(a, f)))


def listing(top):
    out = []
    for a, ds, fs in os.walk(top):
        ds.sort()
        out += [os.path.relpath(os.path.join(a, f), top) for f in sorted(fs)]
    return out


def daemon_cpu(word):
    """user+system seconds and RSS of running processes whose command has word."""
    cpu = rss = 0.0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            cmd = open(f"/proc/{pid}/cmdline", "rb").read().decode(errors="replace")
            if word in cmd and int(pid) != os.getpid():
                st = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
                cpu += (int(st[11]) + int(st[12])) / CLK
                rss = max(rss, int(st[21]) * os.sysconf("SC_PAGE_SIZE") / 2 ** 20)
        except (OSError, IndexError):
            pass
    return cpu, rss


class Dest:
    """Where extraction lands. On ext4 a tree removed moments ago makes the next
    creations several times dearer (inodes freed in the last minutes are skipped
    one by one), so by default root gets a freshly made ext4 or tmpfs each time,
    which also makes clean-up instant."""

    def __init__(self, work, kind):
        self.kind, self.img, self.top = kind, os.path.join(work, "x.img"), os.path.join(work, "x")

    def __enter__(self):
        os.makedirs(self.top, exist_ok=True)
        if self.kind == "ext4":
            with open(self.img, "wb") as f:
                f.truncate(8 << 30)
            sh("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", "-O", "^resize_inode", self.img)
            sh("mount", "-o", "loop", self.img, self.top)
        elif self.kind == "tmpfs":
            sh("mount", "-t", "tmpfs", "-o", "size=80%", "tmpfs", self.top)
        d = os.path.join(self.top, "d")
        os.makedirs(d)
        return d

    def __exit__(self, *_):
        if self.kind == "dir":
            shutil.rmtree(self.top, ignore_errors=True)
            return
        subprocess.run(["umount", self.top])
        os.rmdir(self.top)
        if os.path.exists(self.img):
            os.unlink(self.img)


def sh(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def count_and_size(top):
    n = size = 0
    stack = [top]
    while stack:
        with os.scandir(stack.pop()) as it:
            for e in it:
                if e.is_dir(follow_symlinks=False):
                    stack.append(e.path)
                elif e.is_file(follow_symlinks=False):
                    n += 1
                    size += e.stat(follow_symlinks=False).st_size
    return n, size


class Log:
    def __init__(self, path):
        self.f = open(path, "a")

    def add(self, **k):
        k["load1"] = os.getloadavg()[0]
        self.f.write(json.dumps(k) + "\n")
        self.f.flush()
        bad = "" if k.get("rc", 0) == 0 and k.get("ok", True) else "  FAILED " + k.get("err", "").strip()[-120:].replace("\n", " ")
        print(f"{k['corpus']:10} {k['tool']:28} {k['measure']:8} wall {k['wall']:8.3f}  cpu {k['cpu']:8.3f}  "
              f"rss {k.get('rss', 0):6.0f}  size {k.get('size', 0) / 1e6:8.2f}  load {k['load1']:.1f}{bad}", flush=True)


def random_mount(t, archive, mnt, names, name, refdir, timeout):
    os.makedirs(mnt, exist_ok=True)
    pre = fill(t.mount_prefix, name=name)
    where = {n: os.path.join(mnt, (pre + n).replace("/", "_") if t.flat else pre + n) for n in names}
    t0 = time.perf_counter()
    m = timed_mount(fill(t.mount, out=archive, mnt=mnt, name=name), where[names[0]], min(timeout, 60))
    if m is None:
        return None
    ready = time.perf_counter() - t0
    me0 = resource.getrusage(resource.RUSAGE_SELF)
    t1 = time.perf_counter()
    got = {}
    for n in names:
        with open(where[n], "rb", buffering=0) as f:
            got[n] = f.read()
    read = time.perf_counter() - t1
    me1 = resource.getrusage(resource.RUSAGE_SELF)
    cpu, rss = daemon_cpu(mnt)
    ok = all(v == open(os.path.join(refdir, n), "rb").read() for n, v in got.items())
    subprocess.run(["bash", "-c", fill(t.umount, mnt=mnt)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if m.poll() is None:
        try:
            m.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(m.pid, signal.SIGTERM)
            m.wait()
    return {"wall": ready + read, "open_s": ready, "read_s": read, "rss": rss, "ok": ok,
            "cpu": cpu + me1.ru_utime + me1.ru_stime - me0.ru_utime - me0.ru_stime}


def timed_mount(cmd, probe, timeout):
    p = subprocess.Popen(["bash", "-c", cmd], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.time() + timeout
    while time.time() < end:
        if os.path.lexists(probe):
            return p
        if p.poll() not in (None, 0):
            return None
        time.sleep(0.002)
    if p.poll() is None:
        os.killpg(p.pid, signal.SIGKILL)
    return None


def measure(t, name, a, log):
    src = os.path.join(a.root, name)
    files = listing(src)
    want_files, want_bytes = len(files), tree_size(src)
    mid = files[len(files) // 2]
    rnd = random.Random(7)
    sample = [rnd.choice(files) for _ in range(1000)] if len(files) >= 1000 else None
    work = os.path.join(a.work, f"{name}.{t.name}")
    out = os.path.join(work, "a." + t.suffix)
    real = out + ".1.dar" if t.suffix == "dar" else out
    path = f"{name}/{mid}" if t.top else mid
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)

    def repeat(measure_name, once):
        for i in range(a.reps):
            r = once()
            if r is None:
                break
            log.add(tool=t.name, corpus=name, measure=measure_name, files=want_files, bytes=want_bytes, **r)
            if r.get("rc") or r["wall"] > a.long:
                break

    def once_pack():
        shutil.rmtree(work)
        os.makedirs(work)
        r = timed(fill(t.pack, root=a.root, name=name, out=out), a.root, a.timeout)
        r["size"] = tree_size(real) if os.path.exists(real) else 0
        r["ok"] = r["size"] > 0
        return r

    def once_extract():
        with Dest(work, a.fs) as dst:
            r = timed(fill(t.extract, out=out, dst=dst, name=name), work, a.timeout)
            n, size = count_and_size(dst)
        r["fs"] = a.fs
        r["ok"] = (n, size) == (want_files, want_bytes)
        r["err"] = r["err"] or ("" if r["ok"] else f"{n} of {want_files} files, {size} of {want_bytes} bytes")
        return r

    def once_cat():
        dst = os.path.join(work, "x")
        os.makedirs(dst, exist_ok=True)
        # tar stops after the file, which breaks the decompressor's pipe: not an error
        r = timed("set +o pipefail; " + fill(t.cat, out=out, path=path, rel=mid, dst=dst, name=name), work, a.timeout)
        shutil.rmtree(dst, ignore_errors=True)
        return r

    ms = a.measures.split(",")
    if "pack" in ms:
        repeat("pack", once_pack)
    else:
        once_pack()
    if not os.path.exists(real):
        shutil.rmtree(work, ignore_errors=True)
        return
    if "extract" in ms and t.extract:
        repeat("extract", once_extract)
    if "list" in ms and t.list:
        repeat("list", lambda: timed(fill(t.list, out=out, name=name), work, a.timeout))
    if "cat" in ms and t.cat:
        dst = os.path.join(work, "x")
        os.makedirs(dst, exist_ok=True)
        got = output(fill(t.cat, out=out, path=path, rel=mid, dst=dst, name=name), work)
        shutil.rmtree(dst, ignore_errors=True)
        ok = got == open(os.path.join(src, mid), "rb").read()
        repeat("cat", lambda: dict(once_cat(), ok=ok, err="" if ok else "bytes differ"))
    if "random" in ms and sample:
        if t.mount:
            mnt = os.path.join(work, "mnt")
            repeat("mount1k", lambda: random_mount(t, out, mnt, sample, name, src, a.timeout))
        if t.inproc:
            lst = os.path.join(work, "paths")
            pre = f"{name}/" if t.top else ""
            with open(lst, "w") as f:
                f.write("".join(pre + n + "\n" for n in sample))
            ref = os.path.join(a.root, "" if t.top else name)
            cmd = fill("{py} {here}/inproc.py " + f"{t.inproc} " + "{out} {lst}", out=out, lst=lst)
            try:
                chk = json.loads(output(cmd + " " + shlex.quote(ref), work).splitlines()[-1])
            except (ValueError, IndexError):
                chk = {}

            def once_inproc():
                for idx in (out + ".index.sqlite", ):
                    if os.path.exists(idx):
                        os.unlink(idx)
                r = timed(cmd + " > one.json", work, a.timeout)
                try:
                    r.update({k: v for k, v in json.load(open(os.path.join(work, "one.json"))).items() if k.endswith("_s")})
                except (OSError, ValueError):
                    pass
                r["ok"] = chk.get("ok", False)
                return r
            repeat("inproc1k", once_inproc)
    shutil.rmtree(work, ignore_errors=True)


def convert(a, log):
    pick = a.tools.split(",") if a.tools else None
    for name in a.names.split(","):
        src = os.path.join(a.root, name)
        files = listing(src)
        want = count_and_size(src)
        for suffix, label, need, pkg, cmd in C:
            inp = os.path.join(a.root, "archives", name + suffix)
            if not os.path.exists(inp) or not present(need) or (pick and not any(p in label for p in pick)):
                continue
            for _ in range(a.reps):
                work = os.path.join(a.work, "convert")
                shutil.rmtree(work, ignore_errors=True)
                os.makedirs(work)
                out, lst = os.path.join(work, "out"), os.path.join(work, "paths")
                use = inp
                if "ratarmount" in label:           # the index is written beside the archive
                    use = os.path.join(work, os.path.basename(inp))
                    os.symlink(inp, use)
                with open(lst, "w") as f:
                    f.write(f"{name}/{files[len(files) // 2]}\n")
                cmd2 = cmd.replace("{in}", shlex.quote(use))
                if "{dst}" in cmd:
                    with Dest(work, a.fs) as dst:
                        r = timed(fill(cmd2, dst=dst, name=name), work, a.timeout)
                        got = count_and_size(dst)
                    r["ok"], r["size"], r["fs"] = got == want, got[1], a.fs
                else:
                    r = timed(fill(cmd2, out=out, paths=lst, name=name), work, a.timeout)
                    r["size"] = tree_size(out) if os.path.exists(out) else 0
                shutil.rmtree(work, ignore_errors=True)
                log.add(tool=label, corpus=name, measure="convert" + suffix, files=want[0], bytes=want[1], **r)
                if r["rc"] or r["wall"] > a.long:
                    break


def table(a):
    rows = {}
    for p in a.files:
        for line in open(p):
            r = json.loads(line)
            rows.setdefault((r["corpus"], r["measure"]), {}).setdefault(r["tool"], []).append(r)
    names = a.names.split(",") if a.names else sorted({k[0] for k in rows})
    order = ["pack", "extract", "list", "cat", "mount1k", "inproc1k",
             "convert.tar.gz", "convert.zip", "convert.tar.zst", "convert.tar"]
    ms = a.measures.split(",") if a.measures else order
    for n in names:
        for m in ms:
            got = rows.get((n, m))
            if not got:
                continue
            lines, failed = [], []
            for tname, rs in got.items():
                good = [r for r in rs if r.get("rc", 0) == 0 and r.get("ok", True)]
                if not good:
                    failed.append(f"{tname} ({(rs[-1].get('err') or 'wrong output').strip()[-80:]})")
                    continue
                med = lambda k: statistics.median(r.get(k, 0) for r in good)
                spread = (max(r["wall"] for r in good) / max(1e-9, min(r["wall"] for r in good))) if len(good) > 1 else 0
                lines.append((tname, med("wall"), med("cpu"), med("rss"), med("size"), len(good), spread,
                              med("read_s") if "read_s" in good[0] else None))
            if not lines:
                continue
            key = 7 if a.by == "read" and lines[0][7] is not None else {"wall": 1, "cpu": 2, "size": 4}.get(a.by, 1)
            lines.sort(key=lambda l: l[key] if l[key] is not None else 1e9)
            bw, bc = min(l[1] for l in lines), min(l[2] for l in lines)
            sizes = [l[4] for l in lines if l[4]]
            any_rs = next(iter(got.values()))[0]
            print(f"\n### {n}: {m}  ({any_rs['files']} files, {any_rs['bytes'] / 1e6:.1f} MB)\n")
            hasread = any(l[7] is not None for l in lines)
            print("| tool | wall s | x best | cpu s | x best | rss MB |" + (" size MB | x best |" if sizes else "")
                  + (" read s | files/s |" if hasread else "") + " n | spread |")
            print("|---|---:|---:|---:|---:|---:|" + ("---:|---:|" if sizes else "") + ("---:|---:|" if hasread else "") + "---:|---:|")
            for t, w, c, rss, size, k, sp, rd in lines:
                t = t.replace("|", "\\|")
                s = f"| {t} | {w:.3f} | {w / bw:.2f} | {c:.3f} | {c / max(bc, 1e-9):.2f} | {rss:.0f} |"
                if sizes:
                    s += f" {size / 1e6:.2f} | {size / min(sizes):.2f} |" if size else " | |"
                if hasread:
                    s += f" {rd:.3f} | {1000 / rd:.0f} |" if rd else " | |"
                print(s + f" {k} | {'%.1fx' % sp if sp else ''} |")
            if failed:
                print("\nFailed: " + "; ".join(failed))


def matrix(a):
    """One table per measure: tools down, corpora across; cell = value (x best)."""
    rows, names = {}, []
    for p in a.files:
        for line in open(p):
            r = json.loads(line)
            if r.get("rc", 0) == 0 and r.get("ok", True):
                rows.setdefault(r["measure"], {}).setdefault(r["tool"], {}).setdefault(r["corpus"], []).append(r)
                if r["corpus"] not in names:
                    names.append(r["corpus"])
    names = [n for n in (a.names.split(",") if a.names else names)]
    ms = a.measures.split(",") if a.measures else sorted(rows)
    for m in ms:
        for key in a.by.split("+"):
            k = {"read": "read_s"}.get(key, key)
            cell = {(t, n): statistics.median(r.get(k, 0) for r in rs)
                    for t, cs in rows.get(m, {}).items() for n, rs in cs.items() if n in names}
            cell = {c: v / (1e6 if k == "size" else 1) for c, v in cell.items() if v > 0}
            if not cell:
                continue
            cols = [n for n in names if any(c[1] == n for c in cell)]
            best = {n: min(v for (t, c), v in cell.items() if c == n) for n in cols}
            unit = {"size": "MB", "rss": "MB"}.get(k, "s")
            print(f"\n#### {m}: {key} ({unit}; in brackets x best of the column)\n")
            print("| tool | " + " | ".join(cols) + " |\n|---|" + "---:|" * len(cols))
            tools = sorted({t for t, _ in cell}, key=lambda t: statistics.mean(
                [cell[t, n] / best[n] for n in cols if (t, n) in cell]))
            for t in tools:
                print("| " + t.replace("|", "\\|") + " | " + " | ".join(
                    f"{cell[t, n]:.{3 if cell[t, n] < 1 else 2 if cell[t, n] < 100 else 0}f} ({cell[t, n] / best[n]:.2f})"
                    if (t, n) in cell else "" for n in cols) + " |")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("mode", choices=["tools", "run", "convert", "table", "matrix"])
    ap.add_argument("files", nargs="*")
    ap.add_argument("--root", default="corpora")
    ap.add_argument("--work", default="scratch")
    ap.add_argument("--out", default="results.jsonl")
    ap.add_argument("--names")
    ap.add_argument("--tools")
    ap.add_argument("--measures")
    ap.add_argument("--reps", type=int, default=3)
    ap.add_argument("--long", type=float, default=60)
    ap.add_argument("--timeout", type=int, default=900)
    ap.add_argument("--fs", choices=["ext4", "tmpfs", "dir"],
                    default="ext4" if os.geteuid() == 0 and shutil.which("mkfs.ext4") else "dir",
                    help="where extraction lands: a fresh loop-mounted ext4 or tmpfs (root), or a plain folder")
    ap.add_argument("--by", default="wall", help="table order: wall, cpu, size, read")
    a = ap.parse_args()
    if a.mode == "tools":
        for t in T:
            ok = present(t.need)
            print(f"{'ok     ' if ok else 'MISSING'} {t.name:18} {', '.join(binaries(t.need)):30} {'' if ok else 'get it from: ' + t.pkg} {t.note}")
        return
    if a.mode == "table":
        return table(a)
    if a.mode == "matrix":
        return matrix(a)
    a.root, a.work = os.path.abspath(a.root), os.path.abspath(a.work)
    os.makedirs(a.work, exist_ok=True)
    log = Log(a.out)
    if a.mode == "convert":
        a.names = a.names or "cifar,versioned,augmented,random,source"
        return convert(a, log)
    a.measures = a.measures or "pack,extract,list,cat,random"
    for name in (a.names or "cifar,versioned,augmented,random,source,model,backups").split(","):
        for t in T:
            if a.tools and t.name not in a.tools.split(","):
                continue
            if not present(t.need):
                continue
            measure(t, name, a, log)


if __name__ == "__main__":
    main()
