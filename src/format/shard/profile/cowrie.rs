//! Parser for Cowrie records: a dictionary of keys and a tagged value.
//!
//! Specification: shard.md, section 5.2.

use super::sample_record::{SampleRecord, ValueType};
use super::tensor;

/// First bytes of a record.
pub const MAGIC: [u8; 2] = *b"SJ";
const VERSION: u8 = 2;
/// Flag of a compressed record.
const COMPRESSED: u8 = 0x01;
/// Flag of a record with hints about columns.
const HINTS: u8 = 0x08;
/// Type of a list whose first element is unknown.
const LIST: &str = "list";
/// Deepest nesting of lists and objects.
const MAX_DEPTH: usize = 1_000;

/// The reason why parsing ends early.
enum ParseError {
    UnexpectedEnd,
    Invalid(String),
    /// A value with this unsupported tag, whose length is unknown.
    UnknownTag(u8),
}

type Parse<T> = Result<T, ParseError>;

/// The bytes that are not parsed yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn read_byte(&mut self) -> Parse<u8> {
        Ok(self.read(1)?[0])
    }

    fn read(&mut self, len: u64) -> Parse<&'a [u8]> {
        let len = usize::try_from(len).map_err(|_| ParseError::UnexpectedEnd)?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(ParseError::UnexpectedEnd)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a number with seven bits per byte, lowest bits first.
    fn read_number(&mut self) -> Parse<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(ParseError::Invalid("a number of more than 64 bits".into()))
    }

    /// Reads a length and as many bytes.
    fn read_text(&mut self) -> Parse<&'a [u8]> {
        let len = self.read_number()?;
        self.read(len)
    }
}

/// The start of a value.
enum Element {
    Value(ValueType),
    /// A list of this many values.
    List(u64),
    /// An object of this many keys and values.
    Object(u64),
}

/// Reads a tag, and the value unless it is a list or an object.
fn read_element(bytes: &mut Bytes<'_>) -> Parse<Element> {
    let tag = bytes.read_byte()?;
    let value = |name| Ok(Element::Value(ValueType::of(name)));
    match tag {
        0x00 => value("null"),
        0x01 | 0x02 => value("bool"),
        0x03 | 0x09 => bytes.read_number().and_then(|_| value("int")),
        0x04 => bytes.read(8).and_then(|_| value("float")),
        0x0f => bytes.read(4).and_then(|_| value("float")),
        0x05 => bytes.read_text().and_then(|_| value("string")),
        0x08 => bytes.read_text().and_then(|_| value("bytes")),
        0x0b => bytes.read(8).and_then(|_| value("datetime")),
        0x0c => bytes.read(16).and_then(|_| value("uuid")),
        0x06 => Ok(Element::List(bytes.read_number()?)),
        0x07 => Ok(Element::Object(bytes.read_number()?)),
        0x20 => read_tensor(bytes).map(Element::Value),
        0x24 => {
            let count = bytes.read_number()?;
            bytes.read(count.div_ceil(8))?;
            Ok(Element::Value(ValueType { name: "bit", sizes: vec![Some(count)] }))
        }
        0x40..=0xbf | 0xe0..=0xef => value("int"),
        0xc0..=0xcf => Ok(Element::List((tag & 0x0f).into())),
        0xd0..=0xdf => Ok(Element::Object((tag & 0x0f).into())),
        other => Err(ParseError::UnknownTag(other)),
    }
}

fn read_tensor(bytes: &mut Bytes<'_>) -> Parse<ValueType> {
    let (code, rank) = (bytes.read_byte()?, bytes.read_byte()?);
    let name = if code == 0x0d { "bool" } else { tensor::type_of(code).unwrap_or("tensor") };
    let sizes = (0..rank).map(|_| bytes.read_number().map(Some)).collect::<Parse<Vec<_>>>()?;
    bytes.read_text()?;
    Ok(ValueType { name, sizes })
}

/// A list or an object that is being parsed.
struct OpenElement {
    remaining: u64,
    has_keys: bool,
}

/// Parses a value and sets its type, as far as it is known.
fn parse_value(bytes: &mut Bytes<'_>, value_type: &mut Option<ValueType>) -> Parse<()> {
    let mut open: Vec<OpenElement> = Vec::new();
    // The lengths of the lists around the first value, and whether the type is complete.
    let (mut sizes, mut is_type_known) = (Vec::new(), false);
    loop {
        if open.last().is_some_and(|open| open.has_keys) {
            bytes.read_number()?;
        }
        let element = read_element(bytes)?;
        let mut is_complete = false;
        if !is_type_known {
            let (name, size) = match &element {
                Element::Value(kind) => (kind.name, kind.sizes.clone()),
                Element::List(count) => (LIST, vec![Some(*count)]),
                Element::Object(_) => ("object", Vec::new()),
            };
            sizes.extend(size);
            *value_type = Some(ValueType { name, sizes: sizes.clone() });
            is_type_known = !matches!(element, Element::List(1..));
        }
        match element {
            Element::Value(_) => is_complete = true,
            Element::List(remaining) => open.push(OpenElement { remaining, has_keys: false }),
            Element::Object(remaining) => open.push(OpenElement { remaining, has_keys: true }),
        }
        if open.len() > MAX_DEPTH {
            return Err(ParseError::Invalid(format!("more than {MAX_DEPTH} nested values")));
        }
        loop {
            let Some(top) = open.last_mut() else { return Ok(()) };
            top.remaining -= u64::from(is_complete);
            if top.remaining > 0 {
                break;
            }
            open.pop();
            is_complete = true;
        }
    }
}

/// Parses a record or, unless `is_whole`, its first bytes.
pub fn parse(bytes: &[u8], is_whole: bool) -> Result<SampleRecord, String> {
    let mut record = SampleRecord { format: "Cowrie", ..SampleRecord::default() };
    let mut bytes = Bytes(bytes);
    match parse_record(&mut bytes, &mut record) {
        Ok(()) if is_whole && !bytes.0.is_empty() => Err(format!("{} bytes after a Cowrie record", bytes.0.len())),
        Err(ParseError::UnexpectedEnd) if is_whole => Err("truncated Cowrie record".into()),
        Err(ParseError::Invalid(detail)) => Err(format!("invalid Cowrie record: {detail}")),
        Ok(()) | Err(ParseError::UnexpectedEnd | ParseError::UnknownTag(_)) => Ok(record),
    }
}

fn parse_record(bytes: &mut Bytes<'_>, record: &mut SampleRecord) -> Parse<()> {
    record.kind = "…".to_owned();
    let &[_, _, version, flags] = bytes.read(4)? else { return Err(ParseError::UnexpectedEnd) };
    if version != VERSION {
        return Err(ParseError::Invalid(format!("version {version}, {VERSION} expected")));
    }
    if flags & (COMPRESSED | HINTS) != 0 {
        record.format = if flags & COMPRESSED != 0 { "Cowrie, compressed" } else { "Cowrie with hints about columns" };
        bytes.0 = &[];
        return Ok(());
    }
    let mut names = Vec::new();
    for _ in 0..bytes.read_number()? {
        names.push(bytes.read_text()?);
    }
    let mut ahead = Bytes(bytes.0);
    let Element::Object(count) = read_element(&mut ahead)? else {
        let mut value_type = None;
        let result = parse_value(bytes, &mut value_type);
        record.kind = value_type.map_or_else(|| "…".to_owned(), |kind| kind.to_string());
        return result;
    };
    record.kind = "object".to_owned();
    bytes.0 = ahead.0;
    for _ in 0..count {
        let key = bytes.read_number()?;
        let name = usize::try_from(key).ok().and_then(|key| names.get(key));
        let name = name.ok_or_else(|| ParseError::Invalid(format!("key {key} in a dictionary of {}", names.len())))?;
        let mut value_type = None;
        let result = parse_value(bytes, &mut value_type);
        let kind = match (&result, value_type) {
            (Err(ParseError::UnknownTag(tag)), None) => format!("tag {tag:02x}"),
            (_, value_type) => value_type.map_or_else(|| "…".to_owned(), |kind| kind.to_string()),
        };
        record.add_field(&String::from_utf8_lossy(name), kind);
        result?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &[u8] = b"SJ\x02\0\x02\x05input\x06target\xd2\x00\xc3\x41\x42\x43\x01\x40";

    fn type_of(value: &[u8]) -> Result<String, String> {
        parse(&[b"SJ\x02\0\x01\x01k".as_slice(), value].concat(), true).map(|record| record.kind)
    }

    #[test]
    fn fields_of_example_are_parsed() {
        let record = parse(EXAMPLE, true).unwrap();
        let fields = [("input".to_owned(), "int [3]".to_owned()), ("target".to_owned(), "int".to_owned())];
        assert_eq!((record.format, record.kind.as_str(), record.fields.as_slice()), ("Cowrie", "object", &fields[..]));
    }

    #[test]
    fn truncated_record_is_rejected_or_parsed_as_prefix() {
        for len in 2..EXAMPLE.len() {
            assert!(parse(&EXAMPLE[..len], true).is_err(), "{len}");
            assert!(parse(&EXAMPLE[..len], false).is_ok(), "{len}");
        }
        let record = parse(&EXAMPLE[..EXAMPLE.len() - 4], false).unwrap();
        assert_eq!(record.fields, [("input".to_owned(), "int [3]".to_owned())], "the length of a list precedes its values");
        assert!(parse(&[EXAMPLE, b"x"].concat(), true).unwrap_err().contains("1 bytes after"));
    }

    #[test]
    fn types_of_all_tags_are_detected() {
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
            assert_eq!(type_of(value).as_deref(), Ok(expected), "{value:02x?}");
        }
        assert!(type_of(&[0xc1; 2_000]).unwrap_err().contains("nested values"));
        assert!(type_of(b"\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f").unwrap_err().contains("64 bits"));
        assert!(parse(b"SJ\x03\0", true).unwrap_err().contains("version 3"));
        assert_eq!(parse(b"SJ\x02\x03xyz", true).unwrap().format, "Cowrie, compressed");
    }

    proptest! {
        #[test]
        fn parse_never_panics_on_arbitrary_bytes(rest in proptest::collection::vec(any::<u8>(), 0..200), is_whole in any::<bool>()) {
            let _ = parse(&[b"SJ\x02\0".as_slice(), &rest].concat(), is_whole);
            let _ = type_of(&rest);
        }
    }
}
