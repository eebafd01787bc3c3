//! A squarified treemap: rectangles with areas proportional to sizes.

use ratatui::layout::Rect;

/// Height of a character cell divided by its width.
const ASPECT: f64 = 2.0;

/// An undivided area in columns: left, top, width, height.
#[derive(Debug, Clone, Copy)]
struct Space {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// Divides `area` among `sizes`, sorted in descending order. Returns one rectangle each; rectangles
/// too small to be visible are empty. They do not overlap.
pub fn squarified(sizes: &[u64], area: Rect) -> Vec<Rect> {
    let mut tiles = vec![Rect::default(); sizes.len()];
    let total: f64 = sizes.iter().map(|&size| size as f64).sum();
    let mut space = Space { x: 0.0, y: 0.0, width: f64::from(area.width), height: f64::from(area.height) * ASPECT };
    let scale = if total > 0.0 { space.width * space.height / total } else { 0.0 };
    let mut next = 0;
    while next < sizes.len() && space.width >= 0.5 && space.height >= 0.5 {
        let short = space.width.min(space.height);
        let (mut end, mut sum) = (next + 1, sizes[next] as f64 * scale);
        // A row grows while this makes its worst tile squarer.
        while end < sizes.len() {
            let (largest, own) = (sizes[next] as f64 * scale, sizes[end] as f64 * scale);
            let before = worst(sum, largest, sizes[end - 1] as f64 * scale, short);
            if own <= 0.0 || worst(sum + own, largest, own, short) > before {
                break;
            }
            sum += own;
            end += 1;
        }
        if sum <= 0.0 {
            break;
        }
        let thick = sum / short;
        let beside = space.width >= space.height;
        let mut along = 0.0;
        for (tile, &size) in tiles[next..end].iter_mut().zip(&sizes[next..end]) {
            let len = size as f64 * scale / thick;
            let part = if beside {
                Space { x: space.x, y: space.y + along, width: thick, height: len }
            } else {
                Space { x: space.x + along, y: space.y, width: len, height: thick }
            };
            along += len;
            *tile = cells(part, area);
        }
        if beside {
            (space.x, space.width) = (space.x + thick, space.width - thick);
        } else {
            (space.y, space.height) = (space.y + thick, space.height - thick);
        }
        next = end;
    }
    tiles
}

/// Returns the worst aspect ratio in a row of tiles, 1 or more.
fn worst(sum: f64, largest: f64, smallest: f64, short: f64) -> f64 {
    let side = short * short;
    (side * largest / (sum * sum)).max(sum * sum / (side * smallest))
}

/// Rounds the edges of a tile to whole cells, so that neighbours share them.
fn cells(part: Space, area: Rect) -> Rect {
    // Edges lie within the area, so the numbers are small and not negative.
    let edge = |at: f64, most: u16| (at.round().clamp(0.0, f64::from(most))) as u16;
    let (left, right) = (edge(part.x, area.width), edge(part.x + part.width, area.width));
    let (top, bottom) = (edge(part.y / ASPECT, area.height), edge((part.y + part.height) / ASPECT, area.height));
    if right <= left || bottom <= top {
        return Rect::default();
    }
    Rect { x: area.x + left, y: area.y + top, width: right - left, height: bottom - top }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tiles_are_proportional() {
        let area = Rect::new(2, 3, 80, 20);
        let tiles = squarified(&[6, 6, 4, 3, 2, 2, 1], area);
        for (tile, size) in tiles.iter().zip([6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0]) {
            let share = f64::from(tile.area()) / 1_600.0;
            assert!((share - size / 24.0).abs() < 0.02, "{tile} is {share} of the area instead of {}", size / 24.0);
        }
        assert_eq!(squarified(&[], area), []);
        assert_eq!(squarified(&[0, 0], area), [Rect::default(); 2]);
        assert_eq!(squarified(&[5], area), [area]);
    }

    proptest! {
        #[test]
        fn tiles_fill_the_area_without_overlap(
            mut sizes in proptest::collection::vec(0u64..1 << 40, 1..60), width in 1u16..200, height in 1u16..60,
        ) {
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let area = Rect::new(1, 1, width, height);
            let tiles = squarified(&sizes, area);
            let mut covered = 0;
            for (index, tile) in tiles.iter().enumerate().filter(|(_, tile)| !tile.is_empty()) {
                prop_assert_eq!(area.union(*tile), area);
                covered += u32::from(tile.width) * u32::from(tile.height);
                prop_assert!(tiles[..index].iter().all(|other| other.is_empty() || !other.intersects(*tile)));
            }
            if sizes[0] > 0 {
                prop_assert!(covered > 0);
            }
        }
    }
}
