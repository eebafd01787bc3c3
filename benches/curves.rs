//! Prints the effect of block size, level and dictionary on the size of the archive, the CPU time of packing, and a random read.
//!
//! `cargo bench --bench curves -- DIR...` measures each directory (by default the sample in `assets/`) with each setting.
//! `docs/design/compression.md` shows the results.

#![allow(clippy::print_stdout, reason = "its output is a table")]

use std::path::{Path, PathBuf};
use std::time::Instant;

use nra::convert::{Destination, Input, NewArchive, NraSink, Options, Sink, Source, WalkSource, convert};
use nra::format::archive::{Access, OpenOptions, open_path};
use nra::format::codec::Method;
use nra::format::entry::Kind;
use nra::format::nra::writer::{BlockPolicy, DictionaryPolicy, WriterOptions};
use nra::format::progress::Recorder;

/// Number of random reads per figure.
const READS: u64 = 300;

fn main() {
    let mut directories: Vec<PathBuf> =
        std::env::args_os().skip(1).filter(|word| !word.as_encoded_bytes().starts_with(b"-")).map(PathBuf::from).collect();
    if directories.is_empty() {
        directories.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/sample"));
    }
    for directory in directories {
        println!("\n{}\n", directory.file_name().unwrap_or_default().display());
        println!("| setting | archive MB | pack CPU s | blocks | one cold read, ms |");
        println!("| --- | --- | --- | --- | --- |");
        for (name, options) in settings() {
            measure(&directory, &name, options);
        }
    }
}

/// Returns named settings: the presets, then settings that differ in one value.
fn settings() -> Vec<(String, WriterOptions)> {
    let balanced = WriterOptions::balanced();
    let block = |kib: u32, options: &WriterOptions| WriterOptions {
        block: BlockPolicy { stored_bytes: kib << 10, min_raw_bytes: (kib << 10).max(128 << 10), ..options.block },
        ..options.clone()
    };
    let small = |kib: u32, dictionary: DictionaryPolicy| WriterOptions {
        block: BlockPolicy {
            min_raw_bytes: kib << 10,
            max_raw_bytes: kib << 10,
            stored_bytes: kib << 10,
            max_cheap_bytes: 16 << 20,
        },
        dictionary,
        ..balanced.clone()
    };
    let mut list = vec![
        ("balanced".into(), balanced.clone()),
        ("dense".into(), WriterOptions::dense()),
        ("random".into(), WriterOptions::random()),
    ];
    list.extend([64, 128, 256, 512].map(|kib| (format!("balanced, {kib} KiB stored"), block(kib, &balanced))));
    list.extend(
        [1, 2, 5, 6, 9]
            .map(|level| (format!("balanced, level {level}"), WriterOptions { method: Method::zstd(level), ..balanced.clone() })),
    );
    list.push(("lz4".into(), WriterOptions { method: Method::LZ4, ..balanced.clone() }));
    for kib in [16, 64, 256] {
        list.push((format!("{kib} KiB raw"), small(kib, DictionaryPolicy::Never)));
        list.push((format!("{kib} KiB raw, dictionary"), small(kib, DictionaryPolicy::Auto)));
    }
    list
}

fn measure(directory: &Path, name: &str, writer: WriterOptions) {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let file = scratch.path().join("curve.nra");
    let options = Options { sync: false, reproducible: true, ..Options::default() };
    let sink = Sink::Archive(Destination::new_file(&file), NewArchive::Nra(NraSink { writer, ..NraSink::default() }));
    let source = Source::Walk(WalkSource::new([Input::new(directory)]));
    let before = cpu_seconds();
    let stats = convert(source, sink, &options, &Recorder::default()).expect("packing works");
    let cpu = cpu_seconds() - before;

    let archive = open_path(&file, &OpenOptions::default()).expect("the archive opens");
    let entries = archive.entry_count();
    let mut state = 7u64;
    let (mut reads, mut seconds) = (0u32, 0.0);
    for _ in 0..READS * 4 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let entry = archive.entry((state >> 33) % entries).expect("the entry is there");
        if entry.kind != Kind::File || entry.size == 0 {
            continue;
        }
        // The caches of a new reader contain only the pages read while opening.
        let cold = open_path(&file, &OpenOptions::default()).expect("the archive opens");
        let start = Instant::now();
        cold.with_content(&entry, Access::Random, &mut |_| Ok(())).expect("the entry is readable");
        seconds += start.elapsed().as_secs_f64();
        reads += 1;
        if u64::from(reads) == READS {
            break;
        }
    }
    println!(
        "| {name} | {:.2} | {cpu:.2} | {} | {:.3} |",
        stats.written.archive_bytes as f64 / 1e6,
        stats.written.blocks,
        seconds * 1e3 / f64::from(reads.max(1))
    );
}

/// Returns the CPU time of this process in seconds, user and system.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a command name in parentheses").split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number of ticks")).sum();
    // Linux reports hundredths of a second, whatever the frequency of its clock.
    ticks as f64 / 100.0
}
