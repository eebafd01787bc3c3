//! Sixels: an image as the escape sequence that DEC terminals draw.
//!
//! A terminal takes up to 256 colors. They are chosen by splitting the cube of all colors where the
//! pixels of one part differ most. Error diffusion then spreads what each pixel loses over the
//! pixels that follow it.

use std::fmt::Write as _;

use image::RgbaImage;

/// Colors of a palette. Terminals accept at least this many.
const MAX_COLORS: usize = 256;
/// Rows of pixels in a band.
const BAND: usize = 6;
/// Bits of each channel by which colors are told apart when the palette is chosen.
const BITS: u32 = 6;
/// Cells of the color cube.
const CELLS: usize = 1 << (3 * BITS);
/// Mark for a cell whose nearest palette color is not yet known.
const UNKNOWN: u16 = u16::MAX;
/// Alpha from which a pixel is drawn.
const OPAQUE: u8 = 128;

type Color = [u8; 3];

/// Returns an image as one escape sequence. Transparent pixels keep what the terminal shows there.
pub fn encode(image: &RgbaImage) -> String {
    let palette = Palette::of(image);
    let indexes = palette.dither(image);
    // 9: square pixels. 1: pixels that are not drawn keep their color.
    let mut out = format!("\x1bP9;1;0q\"1;1;{};{}", image.width(), image.height());
    for (number, [red, green, blue]) in palette.percent.iter().enumerate() {
        let _ = write!(out, "#{number};2;{red};{green};{blue}");
    }
    let width = image.width() as usize;
    let mut sixels = vec![0_u8; MAX_COLORS * width];
    for band in indexes.chunks(width.max(1) * BAND) {
        write_band(&mut out, band, width, &mut sixels);
        out.push('-');
    }
    out.push_str("\x1b\\");
    out
}

/// Appends one band: a line of sixels for each color that occurs in it. `sixels` is all zero before and after.
fn write_band(out: &mut String, band: &[Option<u8>], width: usize, sixels: &mut [u8]) {
    let mut used = [false; MAX_COLORS];
    for (y, row) in band.chunks(width).enumerate() {
        for (x, index) in row.iter().enumerate() {
            if let Some(index) = index {
                let index = usize::from(*index);
                used[index] = true;
                sixels[index * width + x] |= 1 << y;
            }
        }
    }
    for (index, _) in used.iter().enumerate().filter(|(_, used)| **used) {
        let line = &mut sixels[index * width..(index + 1) * width];
        let end = line.iter().rposition(|sixel| *sixel != 0).map_or(0, |last| last + 1);
        let _ = write!(out, "#{index}");
        for run in line[..end].chunk_by(|a, b| a == b) {
            let symbol = char::from(b'?' + run[0]);
            if run.len() > 3 {
                let _ = write!(out, "!{}{symbol}", run.len());
            } else {
                out.extend(run.iter().map(|_| symbol));
            }
        }
        out.push('$');
        line.fill(0);
    }
}

/// Pixels whose colors lie in one cell of the color cube.
#[derive(Clone, Copy)]
struct Cell {
    count: f64,
    /// Mean of each channel.
    mean: [f64; 3],
}

/// A part of the color cube that becomes one color of the palette.
struct Part {
    cells: Vec<Cell>,
    mean: [f64; 3],
    /// The channel in which the pixels differ most, and the squared error there.
    widest: (usize, f64),
}

impl Part {
    fn new(cells: Vec<Cell>) -> Self {
        let count: f64 = cells.iter().map(|cell| cell.count).sum();
        let mean = [0, 1, 2].map(|c| cells.iter().map(|cell| cell.mean[c] * cell.count).sum::<f64>() / count);
        let errors = [0, 1, 2].map(|c| cells.iter().map(|cell| (cell.mean[c] - mean[c]).powi(2) * cell.count).sum::<f64>());
        let channel = (0..3).max_by(|a, b| errors[*a].total_cmp(&errors[*b])).unwrap_or(0);
        Self { cells, mean, widest: (channel, errors[channel]) }
    }

    /// Splits a part at the mean of its widest channel.
    fn split(self) -> (Self, Self) {
        let channel = self.widest.0;
        let (low, high) = self.cells.into_iter().partition(|cell| cell.mean[channel] <= self.mean[channel]);
        (Self::new(low), Self::new(high))
    }
}

struct Palette {
    /// As the terminal receives them: percent of each channel.
    percent: Vec<Color>,
    /// As the terminal shows them.
    shown: Vec<Color>,
}

impl Palette {
    /// Chooses the colors of an image.
    fn of(image: &RgbaImage) -> Self {
        let mut sums = vec![[0_u32; 4]; CELLS];
        for pixel in image.pixels().filter(|pixel| pixel[3] >= OPAQUE) {
            let [red, green, blue, _] = pixel.0;
            let sum = &mut sums[cell_of([red, green, blue])];
            *sum = [sum[0] + u32::from(red), sum[1] + u32::from(green), sum[2] + u32::from(blue), sum[3] + 1];
        }
        let cells: Vec<Cell> = sums
            .iter()
            .filter(|sum| sum[3] > 0)
            .map(|[red, green, blue, count]| {
                let count = f64::from(*count);
                Cell { count, mean: [red, green, blue].map(|sum| f64::from(*sum) / count) }
            })
            .collect();
        let mut parts = Vec::new();
        if !cells.is_empty() {
            parts.push(Part::new(cells));
        }
        while parts.len() < MAX_COLORS {
            let worst = (0..parts.len()).max_by(|a, b| parts[*a].widest.1.total_cmp(&parts[*b].widest.1));
            let Some(worst) = worst.filter(|worst| parts[*worst].cells.len() > 1) else { break };
            let (low, high) = parts.swap_remove(worst).split();
            parts.extend([low, high]);
        }
        let percent: Vec<Color> = parts.iter().map(|part| part.mean.map(|mean| (mean * 100.0 / 255.0).round() as u8)).collect();
        let shown = percent.iter().map(|color| color.map(|percent| (f64::from(percent) * 2.55).round() as u8)).collect();
        Self { percent, shown }
    }

    /// Returns the color of each pixel; `None` where the image is transparent.
    ///
    /// Floyd and Steinberg's weights, at 7/8 of their strength: full strength leaves specks in flat areas.
    fn dither(&self, image: &RgbaImage) -> Vec<Option<u8>> {
        let mut nearest = vec![UNKNOWN; CELLS];
        let width = image.width() as usize;
        // Errors of this row and the next one, in parts of 128; a column more at either end.
        let (mut errors, mut below) = (vec![[0_i32; 3]; width + 2], vec![[0_i32; 3]; width + 2]);
        let mut indexes = Vec::with_capacity(width * image.height() as usize);
        for row in image.rows() {
            for (x, pixel) in row.enumerate() {
                if pixel[3] < OPAQUE {
                    indexes.push(None);
                    continue;
                }
                let wanted = [0, 1, 2].map(|c| (i32::from(pixel[c]) + errors[x + 1][c] / 128).clamp(0, 255));
                let index = self.nearest(wanted, &mut nearest);
                for (c, wanted) in wanted.into_iter().enumerate() {
                    let error = (wanted - i32::from(self.shown[usize::from(index)][c])) * 7;
                    errors[x + 2][c] += error * 7;
                    below[x][c] += error * 3;
                    below[x + 1][c] += error * 5;
                    below[x + 2][c] += error;
                }
                indexes.push(Some(index));
            }
            std::mem::swap(&mut errors, &mut below);
            below.fill([0; 3]);
        }
        indexes
    }

    /// Returns the palette color nearest to a color, the same one for all colors of a cell.
    fn nearest(&self, color: [i32; 3], known: &mut [u16]) -> u8 {
        let cell = &mut known[cell_of(color.map(|channel| channel.clamp(0, 255) as u8))];
        if *cell == UNKNOWN {
            let distance = |other: &Color| (0..3).map(|c| (color[c] - i32::from(other[c])).pow(2)).sum::<i32>();
            let best = (0..self.shown.len()).min_by_key(|index| distance(&self.shown[*index]));
            *cell = best.unwrap_or(0) as u16;
        }
        *cell as u8
    }
}

fn cell_of(color: Color) -> usize {
    color.into_iter().fold(0, |cell, channel| cell << BITS | usize::from(channel >> (8 - BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::Rgba;

    /// Draws sixels as a terminal does.
    fn draw(sixels: &str) -> RgbaImage {
        let (_, data) = sixels.strip_prefix("\x1bP9;1;0q\"1;1;").unwrap().split_once(';').unwrap();
        let width = sixels.split(';').nth(4).unwrap().parse().unwrap();
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number = |text: &mut &str| {
            let (number, rest) = text.split_at(digits(text));
            *text = rest;
            number.parse::<u32>().unwrap()
        };
        let mut rest = data.strip_suffix("\x1b\\").unwrap();
        let height = number(&mut rest);
        let mut image = RgbaImage::new(width, height);
        let mut palette = std::collections::BTreeMap::new();
        let (mut x, mut top, mut color) = (0, 0, [0; 3]);
        while let Some(symbol) = rest.chars().next() {
            rest = &rest[1..];
            let mut count = 1;
            let mut sixel = symbol;
            match symbol {
                '#' => {
                    let index = number(&mut rest);
                    if let Some(definition) = rest.strip_prefix(";2;") {
                        rest = definition;
                        let percent = [0, 1, 2].map(|c| {
                            let percent = number(&mut rest);
                            rest = if c < 2 { &rest[1..] } else { rest };
                            percent
                        });
                        palette.insert(index, percent.map(|percent| (f64::from(percent) * 2.55).round() as u8));
                    } else {
                        color = palette[&index];
                    }
                    continue;
                }
                '$' => {
                    x = 0;
                    continue;
                }
                '-' => {
                    (x, top) = (0, top + 6);
                    continue;
                }
                '!' => {
                    count = number(&mut rest);
                    sixel = rest.chars().next().unwrap();
                    rest = &rest[1..];
                }
                _ => {}
            }
            let bits = sixel as u32 - '?' as u32;
            for _ in 0..count {
                for y in (0..6).filter(|y| bits >> y & 1 == 1) {
                    image.put_pixel(x, top + y, Rgba([color[0], color[1], color[2], 255]));
                }
                x += 1;
            }
        }
        image
    }

    /// Returns the mean squared difference of the averages of 8×8 pixels: what an eye at a distance sees.
    fn difference(a: &RgbaImage, b: &RgbaImage) -> f64 {
        let mean = |image: &RgbaImage, left: u32, top: u32, c: usize| {
            let pixels = (0..64).map(|i| f64::from(image.get_pixel(left + i % 8, top + i / 8)[c]));
            pixels.sum::<f64>() / 64.0
        };
        let (mut sum, mut count) = (0.0, 0.0);
        for top in (0..a.height() / 8).map(|y| y * 8) {
            for left in (0..a.width() / 8).map(|x| x * 8) {
                for c in 0..3 {
                    sum += (mean(a, left, top, c) - mean(b, left, top, c)).powi(2);
                    count += 1.0;
                }
            }
        }
        sum / count
    }

    #[test]
    fn few_colors_are_drawn_as_they_are() {
        let image = RgbaImage::from_fn(13, 17, |x, y| match (x / 5, y % 7) {
            (0, _) => Rgba([255, 0, 0, 255]),
            (1, 0..3) => Rgba([0, 51, 255, 255]),
            (1, _) => Rgba([0, 0, 0, 0]),
            _ => Rgba([255, 255, 255, 255]),
        });
        assert_eq!(draw(&encode(&image)), image);
    }

    #[test]
    fn gradients_keep_their_colors_on_average() {
        let image = RgbaImage::from_fn(128, 96, |x, y| Rgba([x as u8 * 2, y as u8 * 2, (x + y) as u8, 255]));
        let drawn = draw(&encode(&image));
        assert!(difference(&image, &drawn) < 4.0, "{}", difference(&image, &drawn));
        let worst = image.pixels().zip(drawn.pixels()).map(|(a, b)| (0..3).map(|c| a[c].abs_diff(b[c])).max()).max().flatten();
        assert!(worst < Some(60), "{worst:?}");
    }

    #[test]
    fn images_without_an_opaque_pixel_draw_nothing() {
        assert_eq!(encode(&RgbaImage::new(3, 8)), "\x1bP9;1;0q\"1;1;3;8--\x1b\\");
    }

    #[test]
    fn equal_sixels_are_counted() {
        let image = RgbaImage::from_pixel(50, 2, Rgba([255, 255, 255, 255]));
        assert_eq!(encode(&image), "\x1bP9;1;0q\"1;1;50;2#0;2;100;100;100#0!50B$-\x1b\\");
    }
}
