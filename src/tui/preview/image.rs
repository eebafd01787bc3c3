//! Images, drawn with half blocks (two pixels per cell) or by a graphics protocol of the terminal.
//!
//! Only a small copy (`MAX_SIDE`) and the data for the terminal are kept. The decoded image is
//! dropped after decoding; its size is checked in advance. Images that are too large are described
//! but not drawn.

use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;

use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, Rgb, RgbImage, Rgba, RgbaImage, imageops};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use crate::canvas::{Canvas, Protocol};
use crate::glyphs;
use crate::preview::{Request, Scrolled, terminal_image};
use crate::theme::{Depth, Theme};
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::{Error, Result};

/// Maximum number of pixels of a decoded image: 160 MiB with four bytes each. Larger pixels are
/// limited by `MAX_MEMORY`.
const MAX_PIXELS: u64 = 40 << 20;
/// Memory limit of a decoder, in bytes.
const MAX_MEMORY: u64 = 256 << 20;
/// Maximum width and height of the copy, in pixels.
const MAX_SIDE: u32 = 400;
/// Background of transparent pixels.
const BACKGROUND: Rgba<u8> = Rgba([48, 48, 48, 255]);
/// Cells from dark to bright, for terminals with too few colours.
const SHADES: [&str; 5] = [" ", "░", "▒", "▓", "█"];

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub format: &'static str,
    /// Width and height of the image, in pixels.
    pub size: (u32, u32),
    /// Pixel format, such as `rgb8`.
    pub color: String,
    /// The small copy.
    copy: Arc<RgbImage>,
    /// The cells that make the terminal draw the image.
    encoded: Option<Arc<Buffer>>,
    /// The reason the image is not drawn.
    pub remark: Option<String>,
}

impl Scrolled for Page {
    fn rows(&self) -> usize {
        1
    }
}

/// Detects the format of an image from its first bytes.
pub fn format(head: &[u8]) -> Option<ImageFormat> {
    use ImageFormat::{Bmp, Gif, Jpeg, Png, Tiff, WebP};
    image::guess_format(head).ok().filter(|format| matches!(format, Png | Jpeg | Gif | WebP | Bmp | Tiff))
}

fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Png => "PNG",
        ImageFormat::Jpeg => "JPEG",
        ImageFormat::Gif => "GIF",
        ImageFormat::WebP => "WebP",
        ImageFormat::Bmp => "BMP",
        _ => "TIFF",
    }
}

/// A reader that fails when the image is no longer needed.
struct CancellableReader<'a>(Cursor<Vec<u8>>, &'a dyn Fn() -> bool);

impl Read for CancellableReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // `Interrupted` would be retried.
        if (self.1)() { self.0.read(buffer) } else { Err(io::ErrorKind::ConnectionAborted.into()) }
    }
}

impl Seek for CancellableReader<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.0.seek(position)
    }
}

/// Decodes an image. Stops when `awaited` returns false. Fails with `Limit` if the file is too
/// long, and with `Corrupt` if it cannot be decoded.
pub fn load(
    archive: &dyn Archive,
    entry: &Entry,
    format: ImageFormat,
    request: &Request,
    awaited: &dyn Fn() -> bool,
) -> Result<Page> {
    let limit = request.limits.picture;
    if entry.size > limit {
        return Err(Error::Limit { what: "size of a displayed image", found: entry.size, limit });
    }
    let content = archive.read_all(entry, limit)?;
    decode(content, format, &request.canvas, awaited)
}

fn decode(content: Vec<u8>, format: ImageFormat, canvas: &Canvas, awaited: &dyn Fn() -> bool) -> Result<Page> {
    let corrupt = |error: ImageError| Error::corrupt("image", 0, error.to_string());
    let mut page =
        Page { format: name(format), size: (0, 0), color: String::new(), copy: Arc::default(), encoded: None, remark: None };
    let too_large = |why: String, page: Page| Ok(Page { remark: Some(format!("too large to display: {why}")), ..page });
    let memory = || format!("needs more than {} MiB of memory", MAX_MEMORY >> 20);
    let mut reader = ImageReader::with_format(BufReader::new(CancellableReader(Cursor::new(content), awaited)), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    let mut decoder = match reader.into_decoder() {
        Ok(decoder) => decoder,
        Err(ImageError::Limits(_)) => return too_large(memory(), page),
        Err(error) => return Err(corrupt(error)),
    };
    page.size = decoder.dimensions();
    page.color = format!("{:?}", decoder.color_type()).to_lowercase();
    let pixels = u64::from(page.size.0) * u64::from(page.size.1);
    if pixels > MAX_PIXELS {
        return too_large(format!("{pixels} pixels, the limit is {MAX_PIXELS}"), page);
    }
    if canvas.protocol == Protocol::Off {
        return Ok(page);
    }
    let orientation = decoder.orientation().ok();
    // The decoder does not check the memory for all pixels.
    if decoder.total_bytes() > MAX_MEMORY {
        return too_large(memory(), page);
    }
    let image = match DynamicImage::from_decoder(decoder) {
        Ok(image) => image,
        Err(ImageError::Limits(_)) => return too_large(memory(), page),
        Err(error) => return Err(corrupt(error)),
    };
    // Never larger than the image or the largest drawing.
    let most = if canvas.protocol.sends_pixels() { terminal_image::MAX_SIDE } else { MAX_SIDE };
    let mut image = if page.size.0.max(page.size.1) > most { image.thumbnail(most, most) } else { image };
    if let Some(orientation) = orientation {
        image.apply_orientation(orientation);
    }
    if !awaited() {
        return Err(Error::Cancelled);
    }
    page.encoded = terminal_image::encode(&image, canvas)?.map(Arc::new);
    let image =
        if image.width().max(image.height()) > MAX_SIDE { image.thumbnail(MAX_SIDE, MAX_SIDE) } else { image }.into_rgba8();
    let mut copy = RgbaImage::from_pixel(image.width(), image.height(), BACKGROUND);
    imageops::overlay(&mut copy, &image, 0, 0);
    page.copy = Arc::new(DynamicImage::from(copy).into_rgb8());
    Ok(page)
}

/// Returns the nearest of the 256 terminal colours: a 6×6×6 cube and grays.
fn indexed([r, g, b]: [u8; 3]) -> u8 {
    if r.abs_diff(g) < 8 && g.abs_diff(b) < 8 && r.abs_diff(b) < 8 {
        return match r {
            0..=3 => 16,
            243.. => 231,
            r => 232 + (r - 3).min(237) / 10,
        };
    }
    let level = |part: u8| if part < 48 { 0 } else { (part - 35) / 40 };
    16 + 36 * level(r) + 6 * level(g) + level(b)
}

/// Draws the format and the image. An image that is partly covered is drawn with half blocks.
pub fn view(page: &Page, theme: &Theme, covered: bool, area: Rect, buffer: &mut Buffer) {
    let title = match page.size {
        // Not even its header was read.
        (0, 0) => page.format.to_owned(),
        (columns, rows) => format!("{} · {columns} × {rows} · {}", page.format, page.color),
    };
    let room = usize::from(area.width);
    buffer.set_stringn(area.left(), area.top(), glyphs::fit(&title, room), room, theme.dim);
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if let Some(remark) = &page.remark {
        for (row, part) in (below.top()..below.bottom()).zip(glyphs::wrapped(remark, room)) {
            buffer.set_stringn(below.x, row, part, room, theme.warning);
        }
        return;
    }
    if let Some(picture) = &page.encoded
        && !covered
        && terminal_image::view(picture, below, buffer)
    {
        return;
    }
    let (width, height) = page.copy.dimensions();
    if below.is_empty() || width == 0 || height == 0 {
        return;
    }
    let (columns, rows) = terminal_image::fit((width, height), (below.width.into(), 2 * u32::from(below.height)));
    let drawn = imageops::thumbnail(&*page.copy, columns, rows);
    for (y, row) in (below.top()..below.bottom()).zip((0..rows).step_by(2)) {
        for (x, column) in (below.left()..below.right()).zip(0..columns) {
            let upper = *drawn.get_pixel(column, row);
            let lower = drawn.get_pixel_checked(column, row + 1).copied();
            let cell = &mut buffer[(x, y)];
            let color = |Rgb(rgb): Rgb<u8>| match theme.depth {
                Depth::True => Color::Rgb(rgb[0], rgb[1], rgb[2]),
                _ => Color::Indexed(indexed(rgb)),
            };
            match theme.depth {
                Depth::True | Depth::Indexed => {
                    let style = Style::new().fg(color(upper));
                    cell.set_symbol("▀").set_style(lower.map_or(style, |lower| style.bg(color(lower))));
                }
                Depth::Ansi | Depth::Mono => {
                    let light = |Rgb([r, g, b]): Rgb<u8>| (usize::from(r) * 3 + usize::from(g) * 6 + usize::from(b)) / 10;
                    let light = usize::midpoint(light(upper), light(lower.unwrap_or(upper)));
                    cell.set_symbol(SHADES[light * SHADES.len() / 256]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Background;

    /// Returns a PNG file, red on the left and black on the right.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let image = image::RgbImage::from_fn(width, height, |x, _| image::Rgb(if x < width / 2 { [250, 0, 0] } else { [0; 3] }));
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    fn drawn(page: &Page, depth: Depth) -> Buffer {
        let area = Rect::new(0, 0, 20, 10);
        let mut buffer = Buffer::empty(area);
        view(page, &Theme::new(Background::Dark, depth), false, area, &mut buffer);
        buffer
    }

    #[test]
    fn image_keeps_colours_and_proportions() {
        let page = decode(png(1_000, 500), ImageFormat::Png, &Canvas::default(), &|| true).unwrap();
        assert_eq!((page.size, page.copy.dimensions()), ((1_000, 500), (400, 200)));
        let buffer = drawn(&page, Depth::True);
        assert_eq!(buffer[(0, 1)].bg, Color::Rgb(250, 0, 0));
        assert_eq!(buffer[(19, 1)].fg, Color::Rgb(0, 0, 0));
        // 20 × 10 pixels need five rows.
        assert_eq!((buffer[(0, 5)].symbol(), buffer[(0, 6)].symbol()), ("▀", " "));
        assert_eq!(drawn(&page, Depth::Indexed)[(0, 1)].bg, Color::Indexed(16 + 36 * 5));
        let shades = drawn(&page, Depth::Mono);
        assert_eq!((shades[(0, 1)].symbol(), shades[(0, 1)].fg), ("░", Color::Reset));
    }

    #[test]
    fn too_large_images_are_described() {
        // A header without pixels that declares a billion of them.
        let mut file = b"BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0".to_vec();
        file.extend([0x00, 0x80, 0, 0, 0x00, 0x80, 0, 0, 1, 0, 24, 0]);
        file.resize(54, 0);
        let page = decode(file, ImageFormat::Bmp, &Canvas::default(), &|| true).unwrap();
        assert_eq!((page.size, page.copy.dimensions()), ((32_768, 32_768), (0, 0)));
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 5));
        view(&page, &Theme::new(Background::Dark, Depth::Mono), false, buffer.area, &mut buffer);
        let row = |y: u16| (0..40).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        assert!(row(0).starts_with("BMP · 32768 × 32768"), "{}", row(0));
        assert!(row(1).starts_with("too large to display: 1073741824"), "{}", row(1));
        assert!(row(2).starts_with("pixels, the limit is"), "{}", row(2));
        // A row exceeds the memory limit. The checksum is valid.
        let mut file = png(10, 10);
        file[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
        let sum = crc32fast::hash(&file[12..29]);
        file[29..33].copy_from_slice(&sum.to_be_bytes());
        let page = decode(file, ImageFormat::Png, &Canvas::default(), &|| true).unwrap();
        assert!(page.remark.unwrap().contains("256 MiB"));
        // Few enough pixels, but eight bytes each.
        let mut file = png(10, 10);
        file[16..24].copy_from_slice(&[0, 0, 0x19, 0, 0, 0, 0x19, 0]);
        file[24..26].copy_from_slice(&[16, 6]);
        let sum = crc32fast::hash(&file[12..29]);
        file[29..33].copy_from_slice(&sum.to_be_bytes());
        let page = decode(file, ImageFormat::Png, &Canvas::default(), &|| true).unwrap();
        assert!(page.size == (6_400, 6_400) && page.remark.unwrap().contains("256 MiB"));
    }

    #[test]
    fn covered_picture_is_drawn_with_blocks() {
        let canvas = Canvas { protocol: Protocol::Sixel, font: (10, 20), cells: (20, 9) };
        let page = decode(png(64, 48), ImageFormat::Png, &canvas, &|| true).unwrap();
        assert!(drawn(&page, Depth::True)[(0, 1)].symbol().contains("\x1bP"));
        let area = Rect::new(0, 0, 20, 10);
        let mut buffer = Buffer::empty(area);
        view(&page, &Theme::new(Background::Dark, Depth::True), true, area, &mut buffer);
        assert_eq!(buffer[(0, 1)].symbol(), "▀");
        // A picture that no longer fits its pane is replaced later.
        let area = Rect::new(0, 0, 4, 3);
        let mut buffer = Buffer::empty(area);
        view(&page, &Theme::new(Background::Dark, Depth::True), false, area, &mut buffer);
        assert_eq!(buffer[(0, 1)].symbol(), "▀");
    }

    #[test]
    fn disabled_pictures_are_not_decoded() {
        let canvas = Canvas { protocol: Protocol::Off, ..Canvas::default() };
        // Only the header is present.
        let page = decode(png(64, 48)[..60].to_vec(), ImageFormat::Png, &canvas, &|| true).unwrap();
        assert_eq!((page.size, page.copy.dimensions()), ((64, 48), (0, 0)));
    }

    #[test]
    fn decoding_is_cancelled() {
        assert!(decode(png(100, 100), ImageFormat::Png, &Canvas::default(), &|| false).is_err());
    }

    #[test]
    fn damaged_images_are_rejected() {
        let file = png(20, 20);
        for at in 0..file.len() {
            let mut file = file.clone();
            file[at] ^= 0x55;
            let _ = decode(file, ImageFormat::Png, &Canvas::default(), &|| true);
        }
    }

    #[test]
    fn nearest_of_256_colours_is_chosen() {
        assert_eq!(indexed([0, 0, 0]), 16);
        assert_eq!(indexed([255, 255, 255]), 231);
        assert_eq!(indexed([128, 128, 128]), 244);
        assert_eq!(indexed([255, 0, 0]), 196);
        for value in 0..=255 {
            assert!(indexed([value, value, value]) >= 16);
        }
    }
}
