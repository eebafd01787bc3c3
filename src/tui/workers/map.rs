//! Sums up the children of a directory for the map of sizes.

use crate::rows::{self, Scope};
use crate::state::{Tile, Tiles};
use crate::workers::errors::error_message;
use nra_format::archive::Archive;
use nra_format::entry::Kind;
use nra_format::error::Result;
use nra_format::path::EntryPath;

/// Most areas of a map: more would be indistinguishable.
const MOST: usize = 256;

/// Returns the map of sizes of a directory; `None` if it is cancelled.
pub fn map(
    archive: &dyn Archive,
    directory: Option<&EntryPath>,
    awaited: &dyn Fn() -> bool,
) -> Option<std::result::Result<Tiles, String>> {
    tiles(archive, directory, awaited).map_err(|error| error_message(&error)).transpose()
}

fn tiles(archive: &dyn Archive, directory: Option<&EntryPath>, awaited: &dyn Fn() -> bool) -> Result<Option<Tiles>> {
    let scope = Scope { directory: directory.cloned(), ..Scope::default() };
    let mut tiles: Vec<Tile> = Vec::new();
    let mut rest: (u64, u64) = (0, 0);
    let whole = rows::for_each_page(archive, &scope, awaited, |rows, _| {
        for row in rows {
            if !awaited() {
                return Ok(false);
            }
            let directory = row.entry.kind == Kind::Directory;
            // Unreadable entries have size 0.
            let below = || rows::totals(archive, &row.entry.path, awaited).ok().flatten();
            let bytes = if directory { below().map_or(0, |totals| totals.content_bytes) } else { row.entry.size };
            tiles.push(Tile { path: row.entry.path, directory, bytes });
        }
        // In the order of the list sorted by size: equal ones as the archive has them.
        tiles.sort_by_key(|tile| std::cmp::Reverse(tile.bytes));
        for tile in tiles.drain(MOST.min(tiles.len())..) {
            rest = (rest.0 + 1, rest.1.saturating_add(tile.bytes));
        }
        Ok(true)
    })?;
    Ok(whole.then_some((tiles, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn map_keeps_largest_entries() {
        let names: Vec<String> = (0..300).map(|number| format!("{number:03}")).collect();
        let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"xy"[..])).collect();
        files.push(("d/large", &[0; 1000]));
        let archive = sample::with_contents(&files);
        let (tiles, rest) = map(&*archive, None, &|| true).unwrap().unwrap();
        assert_eq!((tiles.len(), rest), (MOST, (45, 90)));
        assert_eq!((tiles[0].bytes, tiles[0].directory), (1000, true));
        assert_eq!(map(&*archive, None, &|| false), None);
    }
}
