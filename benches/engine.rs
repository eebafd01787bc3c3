//! Speed of the engine on generated data: writing, opening, looking up, reading, listing, verifying.
//!
//! Run it with `cargo bench --bench engine`. `docs/benchmarks.md` compares whole commands with other tools.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use nra::format::archive::{Access, Archive, Depth, OpenOptions, open};
use nra::format::chunker::next_chunk_len;
use nra::format::codec::looks_incompressible;
use nra::format::digest::Digest;
use nra::format::entry::{Entry, Kind};
use nra::format::nra::writer::{NewContent, Writer, WriterOptions};
use nra::format::path::EntryPath;
use nra::format::progress::Recorder;
use nra::format::source::MemorySource;

/// Number of entries in the archive.
const ENTRIES: u64 = 20_000;
/// Length of each entry, bytes.
const ENTRY_BYTES: usize = 2_600;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

fn text(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&str; 8] = ["model ", "train ", "layer ", "loss ", "batch ", "token ", "config ", "epoch\n"];
    noise(seed, len / 5 + 1).iter().flat_map(|byte| WORDS[usize::from(byte % 8)].bytes()).take(len).collect()
}

fn archive(incompressible: bool) -> Vec<u8> {
    let mut writer =
        Writer::create(Vec::new(), WriterOptions { reproducible: true, ..WriterOptions::balanced() }).expect("valid options");
    for number in 0..ENTRIES {
        let bytes = if incompressible { noise(number, ENTRY_BYTES) } else { text(number, ENTRY_BYTES) };
        let path = format!("class-{:02}/{number:06}.bin", number / 1000);
        let entry = Entry::new(EntryPath::try_from(path.as_str()).expect("a valid path"), Kind::File);
        let content = NewContent::Whole { bytes: &bytes, digest: Digest::of(&bytes), incompressible };
        writer.add(entry, content).expect("a valid entry");
    }
    writer.finish(&Recorder::default()).expect("a whole archive").0
}

fn opened(bytes: &[u8]) -> Box<dyn Archive> {
    open(Arc::new(MemorySource::new(bytes)), &OpenOptions::default()).expect("it opens")
}

fn engine(criterion: &mut Criterion) {
    let total = ENTRIES * ENTRY_BYTES as u64;
    for (name, incompressible) in [("raw", true), ("text", false)] {
        let bytes = archive(incompressible);
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        group.throughput(Throughput::Bytes(total));
        group.bench_function("write", |bencher| bencher.iter(|| black_box(archive(incompressible))));
        group.bench_function("verify", |bencher| {
            let archive = opened(&bytes);
            bencher.iter(|| black_box(archive.verify(Depth::Full, None, &Recorder::default())));
        });
        group.throughput(Throughput::Elements(1));
        group.bench_function("open and read one", |bencher| {
            bencher.iter(|| {
                let archive = opened(&bytes);
                let (_, entry) = archive.find(b"class-07/007777.bin").expect("the index reads").expect("it is there");
                black_box(archive.read_all(&entry, 1 << 20).expect("it reads"))
            });
        });
        group.throughput(Throughput::Elements(1000));
        group.bench_function("1,000 random reads", |bencher| {
            let numbers: Vec<u64> = (0..1000u64).map(|i| i * 7_919 % ENTRIES).collect();
            bencher.iter_batched(
                || opened(&bytes),
                |archive| {
                    for &number in &numbers {
                        let entry = archive.entry(number).expect("it is there");
                        archive
                            .with_content(&entry, Access::Random, &mut |part| {
                                black_box(part);
                                Ok(())
                            })
                            .expect("it reads");
                    }
                },
                BatchSize::PerIteration,
            );
        });
        group.throughput(Throughput::Elements(ENTRIES));
        group.bench_function("list", |bencher| {
            let archive = opened(&bytes);
            bencher.iter(|| black_box(archive.entries(0..archive.entry_count()).filter_map(Result::ok).count()));
        });
        group.finish();
    }
}

fn pieces(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pieces");
    let (small, large) = (noise(1, ENTRY_BYTES), text(2, 8 << 20));
    group.throughput(Throughput::Bytes(small.len() as u64));
    group.bench_function("is it compressible", |bencher| bencher.iter(|| looks_incompressible(black_box(&small))));
    group.throughput(Throughput::Bytes(large.len() as u64));
    group.bench_function("cut by content", |bencher| {
        bencher.iter(|| {
            let mut rest = black_box(&large[..]);
            while !rest.is_empty() {
                let len = next_chunk_len(rest, true).expect("the content ends here");
                rest = &rest[len..];
            }
        })
    });
    group.finish();
}

criterion_group!(benches, engine, pieces);
criterion_main!(benches);
