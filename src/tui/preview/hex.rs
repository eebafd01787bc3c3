//! Bytes in hexadecimal, with offsets.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::preview::seek::Seek;
use crate::preview::window::Window;
use crate::preview::{Request, Scroll, Scrolled};
use crate::theme::Theme;
use nra_format::archive::Archive;
use nra_format::entry::Entry;
use nra_format::error::Result;

/// Rows that show the bytes at the cursor as numbers.
const NUMBER_ROWS: usize = 2;
/// Minimum height for these rows.
const MIN_HEIGHT_FOR_NUMBERS: u16 = 8;

/// A window of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its offset in the content, in bytes.
    pub offset: u64,
    pub bytes: Vec<u8>,
    /// Bytes per row.
    pub columns: u16,
    pub size: u64,
}

impl Scrolled for Page {
    fn rows(&self) -> usize {
        // Room for the numbers after the last row.
        self.filled() + NUMBER_ROWS
    }

    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    fn offset(&self, row: usize) -> u64 {
        self.offset + row as u64 * u64::from(self.columns)
    }

    fn row(&self, offset: u64) -> usize {
        let row = offset.saturating_sub(self.offset) / u64::from(self.columns);
        usize::try_from(row).unwrap_or(usize::MAX).min(self.filled().saturating_sub(1))
    }

    fn numbered(&self, number: u64) -> Option<Seek> {
        Some(Seek::Offset(number))
    }

    fn at_start(&self) -> bool {
        self.offset == 0
    }

    fn at_end(&self) -> bool {
        self.offset + self.bytes.len() as u64 >= self.size
    }
}

impl Page {
    /// Number of rows with bytes.
    fn filled(&self) -> usize {
        self.bytes.len().div_ceil(usize::from(self.columns))
    }
}

/// Returns the bytes interpreted as numbers: little-endian and big-endian. Types that need more
/// bytes than available are skipped.
fn numbers_of(bytes: &[u8]) -> [Vec<String>; NUMBER_ROWS] {
    /// Adds the number at the start of the bytes: unsigned and, if it differs, signed.
    macro_rules! add {
        ($line:ident, $from:ident, $unsigned:ty, $signed:ty, $name:literal) => {
            if let Some(first) = bytes.first_chunk() {
                let (number, signed) = (<$unsigned>::$from(*first), <$signed>::$from(*first));
                let negative = if signed < 0 { format!(" ({signed})") } else { String::new() };
                $line.push(format!("{} {number}{negative}", $name));
            }
        };
    }
    macro_rules! line {
        ($from:ident, $name:literal) => {{
            let mut line = vec![$name.to_owned()];
            add!(line, $from, u8, i8, "8");
            add!(line, $from, u16, i16, "16");
            add!(line, $from, u32, i32, "32");
            if let Some(first) = bytes.first_chunk() {
                line.push(format!("f32 {:.4e}", f32::$from(*first)));
            }
            if let Some(first) = bytes.first_chunk() {
                line.push(format!("f64 {:.4e}", f64::$from(*first)));
            }
            add!(line, $from, u64, i64, "64");
            line
        }};
    }
    [line!(from_le_bytes, "le"), line!(from_be_bytes, "be")]
}

/// Joins as many numbers as fit. A cut number would look like another number.
fn fitting(numbers: &[String], width: usize) -> String {
    let mut line = String::new();
    for number in numbers {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.len() + gap.len() + number.len() > width {
            let room = line.len() + 2 <= width;
            line.push_str(if room { " …" } else { "" });
            break;
        }
        line.push_str(gap);
        line.push_str(number);
    }
    line
}

/// Returns the bytes per row for a width.
pub fn columns(width: u16) -> u16 {
    match width {
        79.. => 16,
        43.. => 8,
        _ => 4,
    }
}

/// Loads a window of bytes.
pub fn load(archive: &dyn Archive, entry: &Entry, request: &Request) -> Result<Page> {
    let columns = request.hex_columns.max(1);
    let Window { offset, bytes, size } = Window::read(archive, entry, request.offset, u64::from(columns), request.limits.window)?;
    Ok(Page { offset, bytes, columns, size })
}

/// Draws rows of bytes and returns the area of their text column.
pub fn view(page: &Page, scroll: Scroll, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Rect {
    let mut text = area.right();
    let columns = usize::from(page.columns);
    let at = scroll.at.filter(|at| page.row(*at) >= scroll.top).unwrap_or_else(|| page.offset(scroll.top));
    let (area, below) = if scroll.focused && area.height >= MIN_HEIGHT_FOR_NUMBERS {
        let rows = area.height - u16::try_from(NUMBER_ROWS).expect("two rows");
        (Rect { height: rows, ..area }, Rect { y: area.y + rows, height: area.height - rows, ..area })
    } else {
        (area, Rect::default())
    };
    let following =
        usize::try_from(at.saturating_sub(page.offset)).ok().and_then(|from| page.bytes.get(from..)).unwrap_or_default();
    for (y, line) in (below.top()..below.bottom()).zip(numbers_of(following)) {
        buffer.set_stringn(below.x, y, fitting(&line, usize::from(below.width)), usize::from(below.width), theme.dim);
    }
    let digits = if page.size > u64::from(u32::MAX) { 12 } else { 8 };
    for (y, row) in (area.top()..area.bottom()).zip(scroll.top..page.filled()) {
        let bytes = page.bytes.chunks(columns).nth(row).unwrap_or_default();
        let mut x = area.left();
        let mut put = |x: &mut u16, text: &str, style| {
            let room = usize::from(area.right().saturating_sub(*x));
            *x = buffer.set_stringn(*x, y, text, room, style).0;
        };
        put(&mut x, &format!("{:0digits$x} ", page.offset(row)), theme.dim);
        for column in 0..columns {
            if column % 8 == 0 {
                put(&mut x, " ", theme.text);
            }
            match bytes.get(column) {
                Some(byte) if scroll.at.is_some_and(|at| at == page.offset(row) + column as u64) => {
                    put(&mut x, &format!("{byte:02x}"), theme.hit);
                    put(&mut x, " ", theme.text);
                }
                Some(0) => put(&mut x, "00 ", theme.dim),
                Some(byte) => put(&mut x, &format!("{byte:02x} "), theme.text),
                None => put(&mut x, "   ", theme.text),
            }
        }
        put(&mut x, " ", theme.text);
        text = x;
        for byte in bytes {
            match byte {
                b' '..=b'~' => put(&mut x, &char::from(*byte).to_string(), theme.text),
                0 => put(&mut x, "·", theme.dim),
                _ => put(&mut x, "•", theme.symbol),
            }
        }
    }
    Rect { x: text, width: area.right().saturating_sub(text), ..area }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::sample;

    #[test]
    fn bytes_are_shown_as_numbers() {
        let numbers_of = |bytes: &[u8]| super::numbers_of(bytes).map(|numbers| fitting(&numbers, 200));
        let [little, big] = numbers_of(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0xf0, 0x3f, 9]);
        assert_eq!(little, "le  8 255 (-1)  16 65535 (-1)  32 4294967295 (-1)  f32 NaN  f64 1.0000e0  64 4607182423094984703");
        assert!(
            big.starts_with("be  8 255 (-1)  16 65535 (-1)") && big.ends_with("64 18446744069414645823 (-4294905793)"),
            "{big}"
        );
        assert_eq!(numbers_of(&[1, 2]), ["le  8 1  16 513", "be  8 1  16 258"]);
        assert_eq!(numbers_of(&[]), ["le", "be"]);
        let [numbers, _] = super::numbers_of(&[0xff, 0xff, 0xff, 0xff]);
        assert_eq!(fitting(&numbers, 33), "le  8 255 (-1)  16 65535 (-1) …");
        assert_eq!(fitting(&numbers, 15), "le  8 255 (-1)");
    }

    #[test]
    fn rows_follow_the_window() {
        let content: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let archive = sample::with_contents(&[("bytes", &content)]);
        let entry = archive.entry(0).unwrap();
        let page = load(&*archive, &entry, &Request { offset: 100_003, hex_columns: 16, ..Request::default() }).unwrap();
        assert_eq!(page.offset, 100_000);
        assert_eq!(page.filled(), 16_384);
        assert_eq!(page.row(100_016), 1);
        assert_eq!(page.bytes[..4], 25_000u32.to_le_bytes());
        assert!(!page.at_start() && !page.at_end());
        let end = load(&*archive, &entry, &Request { offset: u64::MAX, hex_columns: 16, ..Request::default() }).unwrap();
        assert!(end.at_end());
    }
}
