//! Reads entries of an archive at random and tells how long that takes.
//!
//! `cargo run --release --example random_reads -- ARCHIVE [COUNT]`
#![allow(clippy::print_stdout, reason = "its output is the result")]

use std::path::Path;
use std::time::Instant;

use nra::format::archive::{Access, OpenOptions, Part, open_path};
use nra::format::entry::Kind;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let file = arguments.next().ok_or("an archive is missing")?;
    let count: u64 = arguments.next().map_or(Ok(1000), |count| count.to_string_lossy().parse())?;

    let start = Instant::now();
    let archive = open_path(Path::new(&file), &OpenOptions::default())?;
    let opened = start.elapsed();
    let (mut state, mut read, mut bytes) = (7u64, 0, 0u64);
    while read < count && archive.info().files > 0 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let entry = archive.entry((state >> 33) % archive.entry_count())?;
        if entry.kind != Kind::File {
            continue;
        }
        archive.with_content(&entry, Access::Random, &mut |part| {
            bytes += match part {
                Part::Data(data) => data.len() as u64,
                Part::Hole(len) => len,
            };
            Ok(())
        })?;
        read += 1;
    }
    let all = start.elapsed();
    println!("open {:.4} s, open and {read} entries {:.4} s, {bytes} bytes", opened.as_secs_f64(), all.as_secs_f64());
    Ok(())
}
