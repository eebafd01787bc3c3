//! Describes GGUF files: metadata and tensors.

use crate::describe::bytes::Cursor;
use crate::describe::{Description, MAX_ROWS, product, shape};
use nra_core::error::Result;
use nra_core::source::ReadAt;

/// Most bytes read before and in the list of tensors, which vocabularies precede.
const MAX_HEADER: u64 = 64 << 20;
/// Most metadata entries that are shown.
const MAX_FACTS: usize = 200;
/// Bytes of a text that are kept.
const MAX_TEXT: u64 = 1 << 10;
/// Most dimensions of a tensor.
const MAX_DIMENSIONS: u32 = 8;

/// Names of tensor types by number; empty for obsolete types.
const TYPES: [&str; 31] = [
    "F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K",
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16", "I32", "I64", "F64", "IQ1_M",
    "BF16",
];

/// Type of texts.
const TEXT: u32 = 8;
/// Type of lists.
const LIST: u32 = 9;

/// Returns the length of a value of a numeric type, bytes.
fn plain_bytes(kind: u32) -> Option<u64> {
    match kind {
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

/// Reads a text and returns its start.
fn text(cursor: &mut Cursor<'_>) -> Result<String> {
    let len = cursor.u64()?;
    let kept = usize::try_from(len.min(MAX_TEXT)).expect("a KiB");
    let text = String::from_utf8_lossy(cursor.take(kept)?).into_owned();
    cursor.skip(len - kept as u64)?;
    Ok(text)
}

/// Reads a value as text.
fn value(cursor: &mut Cursor<'_>, kind: u32) -> Result<String> {
    match kind {
        TEXT => text(cursor),
        LIST => list(cursor),
        _ => {
            let len = plain_bytes(kind).ok_or_else(|| cursor.corrupt(format!("unknown type {kind}")))?;
            let len = usize::try_from(len).expect("at most eight");
            let bytes: [u8; 8] = cursor.number(len)?.to_le_bytes();
            let [a, b, c, d, ..] = bytes;
            Ok(match kind {
                0 | 2 | 4 | 10 => u64::from_le_bytes(bytes).to_string(),
                1 => i8::from_le_bytes([a]).to_string(),
                3 => i16::from_le_bytes([a, b]).to_string(),
                5 => i32::from_le_bytes([a, b, c, d]).to_string(),
                6 => f32::from_le_bytes([a, b, c, d]).to_string(),
                7 => (a != 0).to_string(),
                11 => i64::from_le_bytes(bytes).to_string(),
                _ => f64::from_le_bytes(bytes).to_string(),
            })
        }
    }
}

/// Skips a list and returns the number and type of its items. Nested lists are not used in
/// practice.
fn list(cursor: &mut Cursor<'_>) -> Result<String> {
    let (kind, count) = (cursor.u32()?, cursor.u64()?);
    if kind == TEXT {
        for _ in 0..count {
            let len = cursor.u64()?;
            cursor.skip(len)?;
        }
        return Ok(format!("{count} texts"));
    }
    let bytes = plain_bytes(kind).and_then(|len| len.checked_mul(count));
    cursor.skip(bytes.ok_or_else(|| cursor.corrupt("an invalid list"))?)?;
    Ok(format!("{count} numbers"))
}

/// Describes a GGUF file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let mut cursor = Cursor::new(source, "GGUF header", 4, MAX_HEADER);
    let version = cursor.u32()?;
    if !(2..=3).contains(&version) {
        return Err(cursor.corrupt(format!("version {version} instead of 2 or 3")));
    }
    let (tensors, keys) = (cursor.u64()?, cursor.u64()?);
    let mut table = Description::new("GGUF", &["name", "type", "shape", "elements"]);
    table.fact("version", version.to_string());
    table.fact("tensors", tensors.to_string());
    for number in 0..keys {
        let key = text(&mut cursor)?;
        let kind = cursor.u32()?;
        let value = value(&mut cursor, kind)?;
        if number < MAX_FACTS as u64 {
            table.fact(&key, value);
        }
    }
    for _ in 0..tensors.min(MAX_ROWS as u64) {
        let name = text(&mut cursor)?;
        let dimensions = cursor.u32()?;
        if dimensions > MAX_DIMENSIONS {
            return Err(cursor.corrupt(format!("a tensor of {dimensions} dimensions")));
        }
        let sizes = (0..dimensions).map(|_| cursor.u64()).collect::<Result<Vec<u64>>>()?;
        let kind = cursor.u32()?;
        cursor.skip(8)?;
        let known = usize::try_from(kind).ok().and_then(|kind| TYPES.get(kind)).filter(|name| !name.is_empty());
        let kind = known.map_or_else(|| format!("type {kind}"), |name| (*name).to_owned());
        table.row(&[&name, &kind, &shape(&sizes), &super::known(product(&sizes))]);
    }
    table.row_count = tensors;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::error::Error;
    use nra_core::source::MemorySource;

    fn put(file: &mut Vec<u8>, text: &str) {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    }

    fn file() -> Vec<u8> {
        let mut file = b"GGUF\x03\0\0\0".to_vec();
        file.extend(1u64.to_le_bytes());
        file.extend(3u64.to_le_bytes());
        put(&mut file, "general.architecture");
        file.extend(TEXT.to_le_bytes());
        put(&mut file, "llama");
        put(&mut file, "tokens");
        file.extend(LIST.to_le_bytes());
        file.extend(TEXT.to_le_bytes());
        file.extend(2u64.to_le_bytes());
        put(&mut file, "<s>");
        put(&mut file, "the");
        put(&mut file, "scale");
        file.extend(6u32.to_le_bytes());
        file.extend(0.5f32.to_le_bytes());
        put(&mut file, "blk.0.weight");
        file.extend(2u32.to_le_bytes());
        file.extend(4096u64.to_le_bytes());
        file.extend(32u64.to_le_bytes());
        file.extend(12u32.to_le_bytes());
        file.extend(0u64.to_le_bytes());
        file
    }

    #[test]
    fn metadata_and_tensors_are_described() {
        let table = describe(&MemorySource::new(file())).unwrap();
        assert_eq!(table.rows, [["blk.0.weight", "Q4_K", "4096 × 32", "131072"]]);
        let facts: Vec<&str> = table.facts.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(facts, ["3", "1", "llama", "2 texts", "0.5"]);
    }

    #[test]
    fn every_truncation_is_rejected() {
        let file = file();
        for len in 4..file.len() {
            let found = describe(&MemorySource::new(file[..len].to_vec()));
            assert!(matches!(found, Err(Error::Corrupt { .. })), "{len}: {found:?}");
        }
    }
}
