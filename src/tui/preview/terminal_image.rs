//! Pictures encoded for graphics protocols: cells whose symbols make the terminal draw.
//!
//! The cells are plain data. Drawing them to the screen sends the picture; overwriting them removes
//! it.

use image::DynamicImage;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::widgets::Widget;
use ratatui_image::Image;
use ratatui_image::protocol::Protocol as Encoded;
use ratatui_image::protocol::iterm2::Iterm2;
use ratatui_image::protocol::kitty::Kitty;
use ratatui_image::protocol::sixel::Sixel;

use crate::canvas::{Canvas, Protocol};
use nra_format::error::{Error, Result};

/// Maximum width and height of a picture sent to the terminal: ten megabytes of RGBA.
pub const MAX_SIDE: u32 = 1_600;
/// ID of the picture in the terminal. It is always the same, so that each picture replaces the
/// previous one.
const IMAGE_ID: u32 = 0x6e_72_61;
/// Deletes the picture in a terminal with the kitty protocol.
pub const DELETE_IMAGE: &str = "\x1b_Ga=d,d=I,i=7238241,q=2\x1b\\";

/// Returns the largest size within `most` that has the proportions of `size` and does not exceed
/// it.
pub fn fit(size: (u32, u32), most: (u32, u32)) -> (u32, u32) {
    let (mut width, mut height) = (size.0.max(1), size.1.max(1));
    if width > most.0 {
        (width, height) = (most.0, (height * most.0 / width).max(1));
    }
    if height > most.1 {
        (width, height) = ((width * most.1 / height).max(1), most.1);
    }
    (width, height)
}

/// Returns the size of a picture as sent, in pixels.
fn scaled_size(size: (u32, u32), canvas: &Canvas) -> (u32, u32) {
    let most = |cells: u16, font: u16| (u32::from(cells) * u32::from(font)).min(MAX_SIDE);
    fit(size, (most(canvas.cells.0, canvas.font.0), most(canvas.cells.1, canvas.font.1)))
}

/// Encodes a picture for a canvas. Returns `None` if there is no room or the canvas does not accept
/// pixels.
pub fn encode(image: &DynamicImage, canvas: &Canvas) -> Result<Option<Buffer>> {
    if !canvas.protocol.sends_pixels() || canvas.cells.0 == 0 || canvas.cells.1 == 0 || canvas.font.0 == 0 || canvas.font.1 == 0 {
        return Ok(None);
    }
    let (columns, rows) = scaled_size((image.width(), image.height()), canvas);
    let scaled = if (columns, rows) == (image.width(), image.height()) {
        DynamicImage::ImageRgba8(image.to_rgba8())
    } else {
        DynamicImage::ImageRgba8(image.thumbnail_exact(columns, rows).into_rgba8())
    };
    let cells = |pixels: u32, font: u16| u16::try_from(pixels.div_ceil(u32::from(font))).expect("fits into cells");
    let size = Size::new(cells(columns, canvas.font.0), cells(rows, canvas.font.1));
    let encoded = match canvas.protocol {
        Protocol::Kitty => Kitty::new(scaled, size, IMAGE_ID, false, true).map(Encoded::Kitty),
        Protocol::Iterm2 => Iterm2::new(scaled, size, false).map(Encoded::ITerm2),
        Protocol::Sixel => Sixel::new(scaled, size, false).map(Encoded::Sixel),
        Protocol::Blocks | Protocol::Off => return Ok(None),
    };
    let encoded = encoded.map_err(|error| Error::corrupt("image", 0, error.to_string()))?;
    let area = Rect::new(0, 0, size.width, size.height);
    let mut buffer = Buffer::empty(area);
    Image::new(&encoded).render(area, &mut buffer);
    if canvas.protocol != Protocol::Kitty {
        // The cursor must end up after the first cell, as for any other cell; the protocol leaves
        // it below the picture.
        let first = &mut buffer[(0, 0)];
        let symbol = format!("\x1b7{}\x1b8\x1b[C", first.symbol());
        first.set_symbol(&symbol);
    }
    Ok(Some(buffer))
}

/// Copies the cells of a picture to the screen. Returns whether there was room.
pub fn view(picture: &Buffer, area: Rect, buffer: &mut Buffer) -> bool {
    if picture.area.width > area.width || picture.area.height > area.height {
        return false;
    }
    for y in 0..picture.area.height {
        for x in 0..picture.area.width {
            buffer[(area.x + x, area.y + y)] = picture[(x, y)].clone();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use ratatui::buffer::CellDiffOption;
    use ratatui::style::Color;

    /// Returns the bytes that a picture sends to the terminal, and the number of cells that it
    /// skips.
    fn bytes(picture: &Buffer) -> (&str, usize) {
        let alone = picture.content.iter().filter(|cell| cell.diff_option == CellDiffOption::Skip).count();
        (picture[(0, 0)].symbol(), alone)
    }

    fn picture(width: u32, height: u32) -> DynamicImage {
        image::RgbImage::from_fn(width, height, |x, _| image::Rgb(if x < width / 2 { [250, 0, 0] } else { [0, 0, 250] })).into()
    }

    fn canvas(protocol: Protocol) -> Canvas {
        Canvas { protocol, font: (10, 20), cells: (30, 10) }
    }

    #[test]
    fn picture_is_scaled_to_canvas() {
        let canvas = canvas(Protocol::Kitty);
        assert_eq!(scaled_size((64, 48), &canvas), (64, 48));
        assert_eq!(scaled_size((3_000, 1_000), &canvas), (300, 100));
        assert_eq!(scaled_size((1_000, 3_000), &canvas), (66, 200));
        assert_eq!(scaled_size((100_000, 1), &canvas), (300, 1));
        assert_eq!(scaled_size((1, 100_000), &canvas), (1, 200));
        assert_eq!(scaled_size((9_000, 9_000), &Canvas { cells: (1_000, 1_000), ..canvas }), (MAX_SIDE, MAX_SIDE));
    }

    #[test]
    fn kitty_receives_pixels_and_placeholders() {
        let encoded = encode(&picture(600, 200), &canvas(Protocol::Kitty)).unwrap().unwrap();
        assert_eq!((encoded.area.width, encoded.area.height), (30, 5));
        let (bytes, alone) = bytes(&encoded);
        assert_eq!(alone, 0);
        let (head, payload) = bytes.strip_prefix("\x1b_G").unwrap().split_once(';').unwrap();
        assert!(head.contains(&format!("i={IMAGE_ID},a=T,U=1,f=32,o=z,t=d,s=300,v=100")), "{head}");
        // In one chunk, because it compresses so well.
        let (payload, placeholder) = payload.split_once("\x1b\\").unwrap();
        let mut pixels = Vec::new();
        let compressed = STANDARD.decode(payload).unwrap();
        std::io::copy(&mut flate2::read::ZlibDecoder::new(&compressed[..]), &mut pixels).unwrap();
        assert_eq!(pixels.len(), 300 * 100 * 4);
        assert_eq!((&pixels[..4], &pixels[pixels.len() - 4..]), (&[250, 0, 0, 255][..], &[0, 0, 250, 255][..]));
        assert!(placeholder.starts_with('\u{10eeee}'));
        // The colour is the ID of the picture.
        assert_eq!(encoded[(29, 4)].fg, Color::Rgb(0x6e, 0x72, 0x61));
        assert!(encoded[(29, 4)].symbol().starts_with('\u{10eeee}'));
        assert!(DELETE_IMAGE.contains(&format!("i={IMAGE_ID},")));
    }

    #[test]
    fn iterm2_receives_png_file() {
        let encoded = encode(&picture(64, 48), &canvas(Protocol::Iterm2)).unwrap().unwrap();
        let (bytes, alone) = bytes(&encoded);
        assert_eq!(alone, 7 * 3 - 1);
        let (_, file) = bytes.split_once("\x1b]1337;File=").unwrap();
        let (head, payload) = file.split_once(':').unwrap();
        assert!(head.contains("inline=1") && head.contains("width=64px;height=48px"), "{head}");
        let (payload, rest) = payload.split_once('\x07').unwrap();
        assert_eq!(rest, "\x1b8\x1b[C");
        let image = image::load_from_memory(&STANDARD.decode(payload).unwrap()).unwrap();
        assert_eq!(image.to_rgb8(), picture(64, 48).to_rgb8());
    }

    #[test]
    fn sixels_have_picture_size() {
        let encoded = encode(&picture(64, 48), &canvas(Protocol::Sixel)).unwrap().unwrap();
        let (bytes, alone) = bytes(&encoded);
        assert_eq!(alone, 7 * 3 - 1);
        let (_, sixels) = bytes.split_once("\x1bP").unwrap();
        let (sixels, rest) = sixels.split_once("\x1b\\").unwrap();
        assert_eq!(rest, "\x1b8\x1b[C");
        let (_, data) = sixels.split_once('q').unwrap();
        assert!(data.starts_with("\"1;1;64;48"), "{data:.40}");
        assert_eq!(data.trim_end_matches('-').matches('-').count() + 1, 8, "bands of six rows");
    }

    #[test]
    fn nothing_is_drawn_without_protocol_or_room() {
        assert_eq!(encode(&picture(6, 4), &canvas(Protocol::Blocks)).unwrap(), None);
        assert_eq!(encode(&picture(6, 4), &Canvas { cells: (0, 3), ..canvas(Protocol::Sixel) }).unwrap(), None);
        let encoded = encode(&picture(64, 48), &canvas(Protocol::Sixel)).unwrap().unwrap();
        let area = Rect::new(0, 0, 5, 5);
        let mut buffer = Buffer::empty(area);
        assert!(!view(&encoded, area, &mut buffer));
        assert_eq!(buffer, Buffer::empty(area));
    }
}
