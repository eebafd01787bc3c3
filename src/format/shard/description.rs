//! The description in the metadata, which other containers call message or comment.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use nra_core::error::{Error, Result};

/// The metadata, reduced to the description.
#[derive(Deserialize)]
struct DescriptionOnly {
    #[serde(default)]
    description: Value,
}

/// Checks that metadata, which start at `offset`, are JSON.
pub(super) fn check(offset: u64, metadata: &[u8]) -> Result<()> {
    serde_json::from_slice::<IgnoredAny>(metadata)
        .map(drop)
        .map_err(|error| Error::corrupt("Shard metadata", offset, format!("invalid JSON: {error}")))
}

/// Returns the description in metadata, if any.
pub fn description(metadata: &[u8]) -> Option<String> {
    match serde_json::from_slice::<DescriptionOnly>(metadata).ok()?.description {
        Value::String(text) => Some(text).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// Returns metadata that consist of this description.
pub fn metadata_with_description(description: &str) -> Vec<u8> {
    format!(r#"{{"schema_version":"shard-v2.1","description":{}}}"#, Value::from(description)).into_bytes()
}

/// Replaces the description in metadata. Returns `None` if they are not a JSON object.
///
/// Spaces and the order of keys are not preserved.
pub fn replace_description(metadata: &[u8], description: &str) -> Option<Vec<u8>> {
    let mut value = serde_json::from_slice::<Value>(metadata).ok()?;
    value.as_object_mut()?.insert("description".into(), description.into());
    Some(value.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_is_read_created_and_replaced() {
        let text = "m\u{e9}ta \"<&>\"\n";
        let metadata = metadata_with_description(text);
        assert_eq!(description(&metadata).as_deref(), Some(text));
        let more = br#"{"tags":["t"],"description":"old","extra":{"k":[1]}}"#;
        let other = replace_description(more, text).unwrap();
        assert_eq!(description(&other).as_deref(), Some(text));
        let value: Value = serde_json::from_slice(&other).unwrap();
        assert_eq!((&value["tags"][0], &value["extra"]["k"][0]), (&"t".into(), &1.into()));
        for metadata in [&b""[..], b"{", b"[]", b"7", br#"{"description":7}"#, br#"{"description":""}"#] {
            assert_eq!(description(metadata), None);
        }
        assert_eq!((replace_description(b"[]", ""), replace_description(b"{", "")), (None, None));
        assert!(check(0, b"{}").is_ok() && check(0, b"{").is_err());
    }
}
