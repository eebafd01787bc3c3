//! Cowrie: a dictionary of keys and one value, typed by tags.
//!
//! Specification: shard.md, section 5.2.

use super::record::{Kind, Record};
use super::tensor;

/// First bytes of a record.
pub const MAGIC: [u8; 2] = *b"SJ";
/// The only version.
const VERSION: u8 = 2;
/// Bit of a record that is compressed.
const COMPRESSED: u8 = 0x01;
/// Bit of a record with hints about columns behind the flags.
const HINTS: u8 = 0x08;
/// Type of a list whose first element was not seen.
const LIST: &str = "list";
/// Lists and objects within each other.
const MAX_DEPTH: usize = 1_000;

/// Why reading stops.
enum Stop {
    /// There are no more bytes.
    End,
    /// They are not as they should be.
    Wrong(String),
    /// A value whose length is not known.
    Unknown(u8),
}

type Read<T> = Result<T, Stop>;

/// The bytes that were not gone through yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, len: u64) -> Read<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| Stop::End)?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Stop::End)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads a number of seven bits a byte, the lowest first.
    fn number(&mut self) -> Read<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Stop::Wrong("a number of more than 64 bits".into()))
    }

    fn text(&mut self) -> Read<&'a [u8]> {
        let len = self.number()?;
        self.take(len)
    }
}

/// What a tag begins.
enum Begun {
    /// A value that was gone through.
    Value(Kind),
    /// So many values.
    List(u64),
    /// So many keys and values.
    Object(u64),
}

/// Reads the tag of a value, and the value unless others are in it.
fn begin(bytes: &mut Bytes<'_>) -> Read<Begun> {
    let tag = bytes.byte()?;
    let value = |word| Ok(Begun::Value(Kind::of(word)));
    match tag {
        0x00 => value("null"),
        0x01 | 0x02 => value("bool"),
        0x03 | 0x09 => bytes.number().and_then(|_| value("int")),
        0x04 => bytes.take(8).and_then(|_| value("float")),
        0x0f => bytes.take(4).and_then(|_| value("float")),
        0x05 => bytes.text().and_then(|_| value("string")),
        0x08 => bytes.text().and_then(|_| value("bytes")),
        0x0b => bytes.take(8).and_then(|_| value("datetime")),
        0x0c => bytes.take(16).and_then(|_| value("uuid")),
        0x06 => Ok(Begun::List(bytes.number()?)),
        0x07 => Ok(Begun::Object(bytes.number()?)),
        0x20 => tensor(bytes).map(Begun::Value),
        0x24 => {
            let count = bytes.number()?;
            bytes.take(count.div_ceil(8))?;
            Ok(Begun::Value(Kind { word: "bit", sizes: vec![Some(count)] }))
        }
        0x40..=0xbf | 0xe0..=0xef => value("int"),
        0xc0..=0xcf => Ok(Begun::List((tag & 0x0f).into())),
        0xd0..=0xdf => Ok(Begun::Object((tag & 0x0f).into())),
        other => Err(Stop::Unknown(other)),
    }
}

fn tensor(bytes: &mut Bytes<'_>) -> Read<Kind> {
    let (code, rank) = (bytes.byte()?, bytes.byte()?);
    let word = if code == 0x0d { "bool" } else { tensor::type_of(code).unwrap_or("tensor") };
    let sizes = (0..rank).map(|_| bytes.number().map(Some)).collect::<Read<Vec<_>>>()?;
    bytes.text()?;
    Ok(Kind { word, sizes })
}

/// Values that are left of a list or an object.
struct Open {
    left: u64,
    has_keys: bool,
}

/// Goes through a value and tells its type, as far as it gets.
fn value(bytes: &mut Bytes<'_>, told: &mut Option<Kind>) -> Read<()> {
    let mut open: Vec<Open> = Vec::new();
    // Lists around the first value, and whether that was seen.
    let (mut sizes, mut is_told) = (Vec::new(), false);
    loop {
        if open.last().is_some_and(|open| open.has_keys) {
            bytes.number()?;
        }
        let begun = begin(bytes)?;
        let mut is_through = false;
        if !is_told {
            let (word, size) = match &begun {
                Begun::Value(kind) => (kind.word, kind.sizes.clone()),
                Begun::List(count) => (LIST, vec![Some(*count)]),
                Begun::Object(_) => ("object", Vec::new()),
            };
            sizes.extend(size);
            *told = Some(Kind { word, sizes: sizes.clone() });
            is_told = !matches!(begun, Begun::List(1..));
        }
        match begun {
            Begun::Value(_) => is_through = true,
            Begun::List(left) => open.push(Open { left, has_keys: false }),
            Begun::Object(left) => open.push(Open { left, has_keys: true }),
        }
        if open.len() > MAX_DEPTH {
            return Err(Stop::Wrong(format!("more than {MAX_DEPTH} values within each other")));
        }
        loop {
            let Some(top) = open.last_mut() else { return Ok(()) };
            top.left -= u64::from(is_through);
            if top.left > 0 {
                break;
            }
            open.pop();
            is_through = true;
        }
    }
}

/// Reads as much of a record as there is.
///
/// # Errors
///
/// A sentence, when it contradicts the format.
pub fn read(head: &[u8], is_whole: bool) -> Result<Record, String> {
    let mut record = Record { format: "Cowrie", ..Record::default() };
    let mut bytes = Bytes(head);
    match fill(&mut bytes, &mut record) {
        Ok(()) if is_whole && !bytes.0.is_empty() => Err(format!("{} bytes behind a Cowrie record", bytes.0.len())),
        Err(Stop::End) if is_whole => Err("a Cowrie record that ends too early".into()),
        Err(Stop::Wrong(detail)) => Err(format!("a Cowrie record with {detail}")),
        Ok(()) | Err(Stop::End | Stop::Unknown(_)) => Ok(record),
    }
}

fn fill(bytes: &mut Bytes<'_>, record: &mut Record) -> Read<()> {
    record.kind = "…".to_owned();
    let &[_, _, version, flags] = bytes.take(4)? else { return Err(Stop::End) };
    if version != VERSION {
        return Err(Stop::Wrong(format!("version {version}, {VERSION} expected")));
    }
    if flags & (COMPRESSED | HINTS) != 0 {
        record.format = if flags & COMPRESSED != 0 { "Cowrie, compressed" } else { "Cowrie with hints about columns" };
        bytes.0 = &[];
        return Ok(());
    }
    let mut names = Vec::new();
    for _ in 0..bytes.number()? {
        names.push(bytes.text()?);
    }
    let mut ahead = Bytes(bytes.0);
    let Begun::Object(count) = begin(&mut ahead)? else {
        let mut told = None;
        let read = value(bytes, &mut told);
        record.kind = told.map_or_else(|| "…".to_owned(), |kind| kind.to_string());
        return read;
    };
    record.kind = "object".to_owned();
    bytes.0 = ahead.0;
    for _ in 0..count {
        let key = bytes.number()?;
        let name = usize::try_from(key).ok().and_then(|key| names.get(key));
        let name = name.ok_or_else(|| Stop::Wrong(format!("key {key} of {}", names.len())))?;
        let mut told = None;
        let read = value(bytes, &mut told);
        let kind = match (&read, told) {
            (Err(Stop::Unknown(tag)), None) => format!("tag {tag:02x}"),
            (_, told) => told.map_or_else(|| "…".to_owned(), |kind| kind.to_string()),
        };
        record.field(&String::from_utf8_lossy(name), kind);
        read?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of the specification.
    const EXAMPLE: &[u8] = b"SJ\x02\0\x02\x05input\x06target\xd2\x00\xc3\x41\x42\x43\x01\x40";

    fn told(value: &[u8]) -> Result<String, String> {
        read(&[b"SJ\x02\0\x01\x01k".as_slice(), value].concat(), true).map(|record| record.kind)
    }

    #[test]
    fn fields_of_the_example() {
        let record = read(EXAMPLE, true).unwrap();
        let fields = [("input".to_owned(), "int [3]".to_owned()), ("target".to_owned(), "int".to_owned())];
        assert_eq!((record.format, record.kind.as_str(), record.fields.as_slice()), ("Cowrie", "object", &fields[..]));
    }

    #[test]
    fn every_cut_is_told_or_refused() {
        for len in 2..EXAMPLE.len() {
            assert!(read(&EXAMPLE[..len], true).is_err(), "{len}");
            assert!(read(&EXAMPLE[..len], false).is_ok(), "{len}");
        }
        let record = read(&EXAMPLE[..EXAMPLE.len() - 4], false).unwrap();
        assert_eq!(record.fields, [("input".to_owned(), "int [3]".to_owned())], "a list tells its length first");
        assert!(read(&[EXAMPLE, b"x"].concat(), true).unwrap_err().contains("1 bytes behind"));
    }

    #[test]
    fn values_of_all_kinds() {
        for (value, expected) in [
            (&b"\x00"[..], "null"),
            (b"\x04\0\0\0\0\0\0\xf0\x3f", "float"),
            (b"\x05\x02hi", "string"),
            (b"\x06\x02\xc2\x01\x02\xc2\x01\x01", "bool [2, 2]"),
            (b"\xc2\x40\xc1\x05\x01x", "int [2]"),
            (b"\xc0", "list [0]"),
            (b"\xc2\xc0\xc1\x40", "list [2, 0]"),
            (b"\xc2\xd1\x00\x40\xd0", "object [2]"),
            (b"\x20\x01\x02\x02\x03\x18aaaaaaaaaaaaaaaaaaaaaaaa", "f32 [2, 3]"),
            (b"\x24\x09ab", "bit [9]"),
            (b"\xef", "int"),
        ] {
            assert_eq!(told(value).as_deref(), Ok(expected), "{value:02x?}");
        }
        assert!(told(&[0xc1; 2_000]).unwrap_err().contains("within each other"));
        assert!(told(b"\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f").unwrap_err().contains("64 bits"));
        assert!(read(b"SJ\x03\0", true).unwrap_err().contains("version 3"));
        assert_eq!(read(b"SJ\x02\x03xyz", true).unwrap().format, "Cowrie, compressed");
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(rest in proptest::collection::vec(any::<u8>(), 0..200), is_whole in any::<bool>()) {
            let _ = read(&[b"SJ\x02\0".as_slice(), &rest].concat(), is_whole);
            let _ = told(&rest);
        }
    }
}
