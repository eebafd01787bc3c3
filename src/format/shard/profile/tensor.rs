//! TensorV1: one tensor behind a header with its type and sizes, and names of types.
//!
//! Specification: shard.md, section 5.1.

use nra_core::description::{Elements, product};

/// Longest header, bytes: 255 dimensions.
pub const MAX_HEADER: usize = 4 + 255 * 8;

/// Numbers of the types of a tensor. `3` and the numbers of quantised types are settled by [`parse`] and [`Tensor::is_quantised`].
const CODES: [(u8, &str); 17] = [
    (0x01, "f32"),
    (0x02, "f16"),
    (0x03, "bf16"),
    (0x04, "i8"),
    (0x05, "i16"),
    (0x06, "i32"),
    (0x07, "i64"),
    (0x08, "u8"),
    (0x09, "u16"),
    (0x0a, "u32"),
    (0x0b, "u64"),
    (0x0c, "f64"),
    (0x10, "qint4"),
    (0x11, "qint2"),
    (0x12, "qint3"),
    (0x13, "ternary"),
    (0x14, "binary"),
];
/// Types and their lengths, bytes. Quantised elements take a byte each.
const SIZES: [(&str, u64); 18] = [
    ("f64", 8),
    ("f32", 4),
    ("f16", 2),
    ("bf16", 2),
    ("i64", 8),
    ("i32", 4),
    ("i16", 2),
    ("i8", 1),
    ("u64", 8),
    ("u32", 4),
    ("u16", 2),
    ("u8", 1),
    ("bool", 1),
    ("qint4", 1),
    ("qint2", 1),
    ("qint3", 1),
    ("ternary", 1),
    ("binary", 1),
];
/// Long names of types, as some writers have them.
const LONG: [(&str, &str); 12] = [
    ("float64", "f64"),
    ("float32", "f32"),
    ("float16", "f16"),
    ("bfloat16", "bf16"),
    ("int64", "i64"),
    ("int32", "i32"),
    ("int16", "i16"),
    ("int8", "i8"),
    ("uint64", "u64"),
    ("uint32", "u32"),
    ("uint16", "u16"),
    ("uint8", "u8"),
];

/// Returns the name of the type with this number.
pub fn type_of(code: u8) -> Option<&'static str> {
    CODES.iter().find(|(other, _)| *other == code).map(|(_, name)| *name)
}

/// Returns the length of an element, bytes; `None` for a type that is not known.
pub fn size_of(dtype: &str) -> Option<u64> {
    SIZES.iter().find(|(name, _)| *name == dtype).map(|(_, size)| *size)
}

/// Returns the short name of a type.
pub fn short_type(name: &str) -> &str {
    LONG.iter().find(|(long, _)| *long == name).map_or(name, |(_, short)| short)
}

/// What the header of a tensor says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Type and sizes.
    pub elements: Elements,
    /// Length of the elements, bytes; `None` for a type that is not known.
    pub needed: Option<u64>,
    /// Bytes behind the header.
    pub there: u64,
}

impl Tensor {
    /// Says whether the type itself is one of few values.
    pub fn is_quantised(&self) -> bool {
        ["qint4", "qint2", "qint3", "ternary", "binary"].contains(&self.elements.dtype.as_str())
    }
}

/// Reads the header at the start of a content of `len` bytes.
///
/// # Errors
///
/// A sentence.
pub fn parse(bytes: &[u8], len: u64) -> Result<Tensor, String> {
    let Some((&[code, rank, _, _], sizes)) = bytes.split_first_chunk() else {
        return Err(format!("a header of 4 bytes expected at least, {} found", bytes.len()));
    };
    let header = 4 + usize::from(rank) * 8;
    let Some(sizes) = sizes.get(..header - 4) else {
        return Err(format!("a header of {header} bytes expected for {rank} dimensions, {len} found"));
    };
    let shape: Vec<u64> = sizes.as_chunks().0.iter().map(|size| u64::from_le_bytes(*size)).collect();
    // No type is shorter than a byte: more elements than that can't be meant.
    let count = product(&shape).filter(|count| i64::try_from(*count).is_ok());
    let count = count.ok_or("more elements than 63 bits can count")?;
    let there = len.saturating_sub(header as u64);
    let dtype = match (code, type_of(code)) {
        // Earlier writers have f64 there.
        (3, _) if count > 0 && Some(there) == count.checked_mul(8) => "f64".to_owned(),
        (_, Some(name)) => name.to_owned(),
        (_, None) => format!("type {code}"),
    };
    let needed = size_of(&dtype).map(|size| count.saturating_mul(size));
    if needed.is_some_and(|needed| needed > there) {
        let elements = Elements { dtype, shape };
        return Err(format!("{} bytes expected behind it for {elements}, {there} found", needed.unwrap_or_default()));
    }
    Ok(Tensor { elements: Elements { dtype, shape }, needed, there })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(code: u8, shape: &[u64]) -> Vec<u8> {
        let mut bytes = vec![code, u8::try_from(shape.len()).unwrap(), 0, 0];
        shape.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
        bytes
    }

    fn text(code: u8, shape: &[u64], data: u64) -> Result<String, String> {
        let bytes = header(code, shape);
        parse(&bytes, bytes.len() as u64 + data).map(|tensor| tensor.elements.to_string())
    }

    #[test]
    fn both_tables_of_types() {
        for (code, data, expected) in [
            (0x01, 24, "f32 [2, 3]"),
            (0x03, 12, "bf16 [2, 3]"),
            (0x03, 48, "f64 [2, 3]"),
            (0x03, 60, "bf16 [2, 3]"),
            (0x09, 12, "u16 [2, 3]"),
            (0x0c, 48, "f64 [2, 3]"),
            (0x10, 6, "qint4 [2, 3]"),
            (0x77, 0, "type 119 [2, 3]"),
        ] {
            assert_eq!(text(code, &[2, 3], data).as_deref(), Ok(expected));
        }
        assert_eq!(text(0x0c, &[], 8).as_deref(), Ok("f64 []"));
        assert_eq!(text(0x03, &[0, 4], 0).as_deref(), Ok("bf16 [0, 4]"));
        assert!(CODES.iter().all(|(_, name)| size_of(name).is_some()) && LONG.iter().all(|(_, name)| size_of(name).is_some()));
    }

    #[test]
    fn headers_that_lie_are_told() {
        assert_eq!(text(1, &[2, 3], 23).unwrap_err(), "24 bytes expected behind it for f32 [2, 3], 23 found");
        assert_eq!(text(1, &[u64::MAX, 2], 0).unwrap_err(), "more elements than 63 bits can count");
        assert_eq!(text(1, &[1 << 62, 1], 0).unwrap_err().split(' ').next(), Some("18446744073709551615"));
        assert_eq!(parse(&[1, 9, 0, 0, 1], 5).unwrap_err(), "a header of 76 bytes expected for 9 dimensions, 5 found");
        assert_eq!(parse(&[1, 9], 2).unwrap_err(), "a header of 4 bytes expected at least, 2 found");
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..100), len in any::<u64>()) {
            let _ = parse(&bytes, len);
        }
    }
}
