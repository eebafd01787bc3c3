//! The header of TensorV1 tensors, and names of types.
//!
//! Specification: shard.md, section 5.1.

use nra_core::description::{Elements, product};

/// Longest header, bytes: 255 dimensions.
pub const MAX_HEADER_LEN: usize = 4 + 255 * 8;

/// Types: number, name, length of an element in bytes, and the long name that some writers use.
/// Quantised elements take one byte each. [`parse`] resolves the ambiguous number 3.
const TYPES: [(Option<u8>, &str, u64, &str); 18] = [
    (Some(0x01), "f32", 4, "float32"),
    (Some(0x02), "f16", 2, "float16"),
    (Some(0x03), "bf16", 2, "bfloat16"),
    (Some(0x04), "i8", 1, "int8"),
    (Some(0x05), "i16", 2, "int16"),
    (Some(0x06), "i32", 4, "int32"),
    (Some(0x07), "i64", 8, "int64"),
    (Some(0x08), "u8", 1, "uint8"),
    (Some(0x09), "u16", 2, "uint16"),
    (Some(0x0a), "u32", 4, "uint32"),
    (Some(0x0b), "u64", 8, "uint64"),
    (Some(0x0c), "f64", 8, "float64"),
    (None, "bool", 1, "bool"),
    (Some(0x10), "qint4", 1, "qint4"),
    (Some(0x11), "qint2", 1, "qint2"),
    (Some(0x12), "qint3", 1, "qint3"),
    (Some(0x13), "ternary", 1, "ternary"),
    (Some(0x14), "binary", 1, "binary"),
];

pub fn type_of(code: u8) -> Option<&'static str> {
    TYPES.iter().find(|(other, ..)| *other == Some(code)).map(|(_, name, ..)| *name)
}

/// Returns the length of an element, bytes, or `None` for an unknown type.
pub fn size_of(dtype: &str) -> Option<u64> {
    TYPES.iter().find(|(_, name, ..)| *name == dtype).map(|(_, _, size, _)| *size)
}

pub fn short_type(name: &str) -> &str {
    TYPES.iter().find(|(.., long)| *long == name).map_or(name, |(_, short, ..)| short)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Type and sizes.
    pub elements: Elements,
    /// Length that the elements need, bytes; `None` for an unknown type.
    pub needed: Option<u64>,
    /// Length of the content after the header, bytes.
    pub found: u64,
}

impl Tensor {
    /// Returns whether the type is a quantised one.
    pub fn is_quantised(&self) -> bool {
        ["qint4", "qint2", "qint3", "ternary", "binary"].contains(&self.elements.dtype.as_str())
    }
}

/// Parses the header at the start of a content of `len` bytes.
pub fn parse(bytes: &[u8], len: u64) -> Result<Tensor, String> {
    let Some((&[code, rank, _, _], sizes)) = bytes.split_first_chunk() else {
        return Err(format!("header of at least 4 bytes expected, {} found", bytes.len()));
    };
    let header_len = 4 + usize::from(rank) * 8;
    let Some(sizes) = sizes.get(..header_len - 4) else {
        return Err(format!("header of {header_len} bytes expected for {rank} dimensions, {len} found"));
    };
    let shape: Vec<u64> = sizes.as_chunks().0.iter().map(|size| u64::from_le_bytes(*size)).collect();
    // An element has at least one byte, so that larger numbers are invalid.
    let count = product(&shape).filter(|count| i64::try_from(*count).is_ok());
    let count = count.ok_or("number of elements exceeds 63 bits")?;
    let found = len.saturating_sub(header_len as u64);
    let dtype = match (code, type_of(code)) {
        // Earlier writers use 3 for f64.
        (3, _) if count > 0 && Some(found) == count.checked_mul(8) => "f64".to_owned(),
        (_, Some(name)) => name.to_owned(),
        (_, None) => format!("type {code}"),
    };
    let needed = size_of(&dtype).map(|size| count.saturating_mul(size));
    if needed.is_some_and(|needed| needed > found) {
        let elements = Elements { dtype, shape };
        return Err(format!("{} bytes expected for {elements}, {found} found", needed.unwrap_or_default()));
    }
    Ok(Tensor { elements: Elements { dtype, shape }, needed, found })
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
    fn types_of_both_tables_are_detected() {
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
        assert!(TYPES.iter().all(|(_, name, size, long)| size_of(name) == Some(*size) && short_type(long) == *name));
    }

    #[test]
    fn invalid_headers_are_rejected() {
        assert_eq!(text(1, &[2, 3], 23).unwrap_err(), "24 bytes expected for f32 [2, 3], 23 found");
        assert_eq!(text(1, &[u64::MAX, 2], 0).unwrap_err(), "number of elements exceeds 63 bits");
        assert_eq!(text(1, &[1 << 62, 1], 0).unwrap_err().split(' ').next(), Some("18446744073709551615"));
        assert_eq!(parse(&[1, 9, 0, 0, 1], 5).unwrap_err(), "header of 76 bytes expected for 9 dimensions, 5 found");
        assert_eq!(parse(&[1, 9], 2).unwrap_err(), "header of at least 4 bytes expected, 2 found");
    }

    proptest! {
        #[test]
        fn parse_never_panics_on_arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100), len in any::<u64>()) {
            let _ = parse(&bytes, len);
        }
    }
}
