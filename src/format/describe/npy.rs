//! Describes NPY files: an array after a header that is a Python dictionary.

use crate::describe::{Description, Elements, bytes, known, product};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Longest header that is read, bytes.
const MAX_HEADER: u64 = 1 << 20;
/// The structure in error messages.
const HEADER: &str = "NPY header";

/// A parsed header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Array {
    /// Type of an element in numpy's notation: `<f4`, or a list for records.
    pub descr: String,
    /// The array is stored column by column.
    pub fortran: bool,
    /// Sizes of the dimensions.
    pub shape: Vec<u64>,
    /// Offset of the elements.
    pub data: u64,
}

impl Array {
    /// Returns the name of the type, such as `float32`, or numpy's notation if it is not a simple
    /// type.
    pub fn dtype(&self) -> String {
        let mut chars = self.descr.chars();
        let order = chars.next();
        let (Some(kind), Some(size)) = (chars.next(), self.item_bytes()) else { return self.descr.clone() };
        let name = match kind {
            'f' => "float",
            'i' => "int",
            'u' => "uint",
            'c' => "complex",
            'b' => return "bool".to_owned(),
            _ => return self.descr.clone(),
        };
        let order = if order == Some('>') { ", big-endian" } else { "" };
        format!("{name}{}{order}", size.saturating_mul(8))
    }

    /// Returns the length of an element, bytes.
    fn item_bytes(&self) -> Option<u64> {
        let rest = self.descr.strip_prefix(['<', '>', '|', '='])?;
        let (kind, size) = (rest.chars().next()?, rest.get(1..)?);
        let size: u64 = size.split_once('[').map_or(size, |(size, _)| size).parse().ok()?;
        match kind {
            'U' => size.checked_mul(4),
            'f' | 'i' | 'u' | 'c' | 'b' | 'S' | 'V' => Some(size),
            'm' | 'M' => Some(8),
            _ => None,
        }
    }

    /// Returns the number of elements.
    fn elements(&self) -> Option<u64> {
        product(&self.shape)
    }

    /// Returns the length of all elements, bytes.
    pub fn bytes(&self) -> Option<u64> {
        self.elements()?.checked_mul(self.item_bytes()?)
    }
}

/// Parses the header at the start of a source.
pub fn array(source: &dyn ReadAt) -> Result<Array> {
    let start = bytes::up_to(source, 0, 12)?;
    let (len, at) = match start.as_slice() {
        [.., 1, _, a, b, _, _] => (bytes::little(&[*a, *b]), 10),
        [.., 2 | 3, _, a, b, c, d] => (bytes::little(&[*a, *b, *c, *d]), 12),
        _ => return Err(Error::corrupt(HEADER, 0, "its version is not 1 to 3")),
    };
    let header = bytes::exactly(source, HEADER, at, len, MAX_HEADER)?;
    let header = String::from_utf8_lossy(&header);
    let missing = |what: &str| Error::corrupt(HEADER, at, format!("{what} is missing"));
    let descr = value(&header, "descr").ok_or_else(|| missing("descr"))?;
    let sizes = value(&header, "shape").ok_or_else(|| missing("shape"))?;
    let sizes = sizes.trim_matches(['(', ')', '[', ']']).split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape = sizes.map(|size| size.trim_end_matches('L').parse()).collect::<Result<Vec<u64>, _>>();
    Ok(Array {
        descr: descr.trim_matches(['\'', '"']).to_owned(),
        fortran: value(&header, "fortran_order") == Some("True"),
        shape: shape.map_err(|_| Error::corrupt(HEADER, at, "the shape is not a list of numbers"))?,
        data: at + len,
    })
}

/// Finds the value of a key in a Python dictionary.
fn value<'a>(dictionary: &'a str, key: &str) -> Option<&'a str> {
    let (mut depth, mut quote, mut start) = (0i64, None, None);
    let mut is_wanted = false;
    for (at, c) in dictionary.char_indices() {
        match c {
            _ if quote.is_some() => {
                if quote == Some(c) {
                    quote = None;
                }
            }
            '\'' | '"' => {
                quote = Some(c);
                start = start.or(Some(at));
            }
            '{' if depth == 0 => depth = 1,
            ':' if depth == 1 => {
                let name = dictionary[start?..at].trim().trim_matches(['\'', '"']);
                is_wanted = name == key;
                start = None;
            }
            ',' | '}' if depth == 1 => {
                if is_wanted {
                    return Some(dictionary[start?..at].trim());
                }
                start = None;
            }
            _ => {
                depth += match c {
                    '(' | '[' | '{' => 1,
                    ')' | ']' | '}' => -1,
                    _ => 0,
                };
                if !c.is_whitespace() {
                    start = start.or(Some(at));
                }
            }
        }
    }
    None
}

/// Describes an NPY file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let array = array(source)?;
    let mut table = Description::new("NPY", &[]);
    table.array(Elements { dtype: array.dtype(), shape: array.shape.clone() });
    table.fact("bytes", known(array.bytes()));
    table.fact("order", if array.fortran { "column by column (Fortran)" } else { "row by row (C)" });
    let available = source.len() - array.data;
    if array.bytes().is_some_and(|bytes| bytes != available) {
        table.fact("bytes in file", available.to_string());
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    /// Returns an NPY file of version 1 with a header and `data` bytes of elements.
    pub fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    fn read(header: &str) -> Result<Array> {
        array(&MemorySource::new(file(header, 0)))
    }

    #[test]
    fn numpy_headers_are_parsed() {
        let array = read("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n").unwrap();
        assert_eq!((array.dtype().as_str(), array.fortran, array.bytes()), ("float32", false, Some(48)));
        let array = read("{'descr': [('a,b', '<i4'), ('shape', '|S3')], 'fortran_order': True, 'shape': (7,), }").unwrap();
        assert_eq!(array.dtype(), "[('a,b', '<i4'), ('shape', '|S3')]");
        assert_eq!((array.shape.as_slice(), array.bytes(), array.fortran), (&[7][..], None, true));
        let array = read("{'descr': '|b1', 'fortran_order': False, 'shape': (), }").unwrap();
        assert_eq!((array.dtype().as_str(), array.bytes()), ("bool", Some(1)));
        assert_eq!(read("{'descr': '>u2', 'shape': (2, 3)}").unwrap().dtype(), "uint16, big-endian");
    }

    #[test]
    fn invalid_headers_are_rejected() {
        for header in ["", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'shape': (x,)}", "}}}}", "{'a': 'b', ']"] {
            assert!(matches!(read(header), Err(Error::Corrupt { .. })), "{header}");
        }
        let huge = read("{'descr': '<f8', 'shape': (9999999999999, 9999999999999)}").unwrap();
        assert_eq!((huge.elements(), huge.bytes()), (None, None));
    }

    #[test]
    fn missing_elements_are_reported() {
        let source = MemorySource::new(file("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", 9));
        let table = describe(&source).unwrap();
        assert_eq!(table.facts.last().unwrap(), &("bytes in file".to_owned(), "9".to_owned()));
    }
}
