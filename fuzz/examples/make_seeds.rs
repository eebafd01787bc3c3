//! Writes the seeds of `each_structure` from the archives in `fuzz/seeds`. Run it in `fuzz/` with
//! `cargo run --example make_seeds`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use nra::fuzzing::Structure;
use nra_fuzz::bases;

/// Most seeds per structure and archive.
const MOST: usize = 3;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds/each_structure");
    fs::create_dir_all(&folder).expect("the folder can be made");
    for (base, archive) in bases().iter().enumerate() {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (structure, bytes) in archive.dissection.structures() {
            let count = counts.entry(format!("{structure:?}")).or_default();
            *count += 1;
            if *count > MOST {
                continue;
            }
            let number = Structure::ALL.iter().position(|other| *other == structure).expect("all are listed");
            let number = u8::try_from(number).expect("there are few");
            let name = format!("{structure:?}-{base}-{count}");
            fs::write(folder.join(name), [&[number][..], &bytes].concat()).expect("the file can be written");
        }
    }
}
