//! Describes safetensors files, which start with a JSON object of tensors.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::describe::{Description, MAX_ROWS, bytes, known, product, shape};
use nra_core::error::{Error, Result};
use nra_core::source::ReadAt;

/// Longest header that is read, bytes: that of some 80,000 tensors.
const MAX_HEADER: u64 = 8 << 20;
/// Most metadata entries that are shown.
const MAX_FACTS: usize = 50;
/// The structure in error messages.
const HEADER: &str = "safetensors header";

/// A tensor in the header.
#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The description, the number of tensors per type, and the number of elements, collected while
/// parsing.
struct Collected(Description, BTreeMap<String, u64>, Option<u64>);

impl<'de> Deserialize<'de> for Collected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Collector)
    }
}

struct Collector;

impl<'de> Visitor<'de> for Collector {
    type Value = Collected;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Collected, A::Error> {
        let mut table = Description::new("safetensors", &["name", "type", "shape", "bytes"]);
        let (mut types, mut elements) = (BTreeMap::new(), Some(0u64));
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                let facts: BTreeMap<String, String> = map.next_value()?;
                facts.iter().take(MAX_FACTS).for_each(|(label, value)| table.fact(label, value.as_str()));
                continue;
            }
            // Tensors past the limit are not parsed.
            if table.rows.len() == MAX_ROWS {
                map.next_value::<IgnoredAny>()?;
                table.row_count += 1;
                elements = None;
                continue;
            }
            let tensor: Tensor = map.next_value()?;
            let bytes = tensor.data_offsets.1.checked_sub(tensor.data_offsets.0);
            elements = elements.zip(product(&tensor.shape)).and_then(|(sum, more)| sum.checked_add(more));
            table.row(&[&name, &tensor.dtype, &shape(&tensor.shape), &known(bytes)]);
            if types.len() < MAX_FACTS {
                *types.entry(tensor.dtype).or_default() += 1;
            }
        }
        Ok(Collected(table, types, elements))
    }
}

/// Describes a safetensors file.
pub fn describe(source: &dyn ReadAt) -> Result<Description> {
    let len = bytes::little(&bytes::exactly(source, HEADER, 0, 8, 8)?);
    let header = bytes::exactly(source, HEADER, 8, len, MAX_HEADER)?;
    let collected = serde_json::from_slice(&header);
    let Collected(mut table, types, elements) = collected.map_err(|error| Error::corrupt(HEADER, 8, error.to_string()))?;
    table.fact("tensors", table.row_count.to_string());
    if let Some(elements) = elements {
        table.fact("elements", elements.to_string());
    }
    let types: Vec<String> = types.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    table.fact("types", types.join(", "));
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nra_core::source::MemorySource;

    fn read(json: &str) -> Result<Description> {
        let mut bytes = u64::try_from(json.len()).unwrap().to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        describe(&MemorySource::new(bytes))
    }

    #[test]
    fn tensors_are_listed_in_header_order() {
        let table = read(
            r#"{"__metadata__":{"format":"pt"},"z":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},"a":{"dtype":"F32","shape":[],"data_offsets":[12,16]}}"#,
        )
        .unwrap();
        assert_eq!(table.rows, [["z", "BF16", "2 × 3", "12"], ["a", "F32", "1", "4"]]);
        let facts: Vec<&str> = table.facts.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(facts, ["pt", "2", "7", "BF16 (1), F32 (1)"]);
    }

    #[test]
    fn invalid_headers_are_rejected() {
        for json in ["{", "{\"a\":1}", "[]", "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,1]}}"] {
            assert!(matches!(read(json), Err(Error::Corrupt { .. })), "{json}");
        }
        let long = [u64::MAX.to_le_bytes().as_slice(), b"{}"].concat();
        assert!(matches!(describe(&MemorySource::new(long)), Err(Error::Limit { .. })));
    }

    #[test]
    fn tensors_past_the_limit_are_counted() {
        let rows: Vec<String> =
            (0..MAX_ROWS + 7).map(|number| format!(r#""{number}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#)).collect();
        let table = read(&format!("{{{}}}", rows.join(","))).unwrap();
        assert_eq!((table.rows.len(), table.row_count), (MAX_ROWS, MAX_ROWS as u64 + 7));
    }
}
