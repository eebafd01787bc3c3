//! What the metadata say of the file as a whole: the description, in other containers the message or comment.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use nra_core::error::{Error, Result};

/// Metadata with all but the description passed over.
#[derive(Deserialize)]
struct Described {
    #[serde(default)]
    description: Value,
}

/// Checks that metadata, which begin at `offset` of the file, are JSON.
///
/// # Errors
///
/// `Corrupt`.
pub(super) fn check(offset: u64, metadata: &[u8]) -> Result<()> {
    serde_json::from_slice::<IgnoredAny>(metadata)
        .map(drop)
        .map_err(|error| Error::corrupt("Shard metadata", offset, format!("not the JSON it should be: {error}")))
}

/// Returns the description in metadata, if there is one.
pub fn description(metadata: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Described>(metadata).ok()?.description {
        Value::String(text) => Some(text).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// Returns metadata that say nothing but this.
pub fn described(description: &str) -> Vec<u8> {
    format!(r#"{{"schema_version":"shard-v2.1","description":{}}}"#, Value::from(description)).into_bytes()
}

/// Returns metadata with another description; `None` when they are no JSON object. Their text is not that of before: spaces and the order of keys
/// have no meaning.
pub fn with_description(metadata: &[u8], description: &str) -> Option<Vec<u8>> {
    let mut value = serde_json::from_slice::<Value>(metadata).ok()?;
    value.as_object_mut()?.insert("description".into(), description.into());
    Some(value.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_and_written() {
        let text = "m\u{e9}ta \"<&>\"\n";
        let metadata = described(text);
        assert_eq!(description(&metadata).as_deref(), Some(text));
        let more = br#"{"tags":["t"],"description":"old","extra":{"k":[1]}}"#;
        let other = with_description(more, text).unwrap();
        assert_eq!(description(&other).as_deref(), Some(text));
        let value: Value = serde_json::from_slice(&other).unwrap();
        assert_eq!((&value["tags"][0], &value["extra"]["k"][0]), (&"t".into(), &1.into()));
        for metadata in [&b""[..], b"{", b"[]", b"7", br#"{"description":7}"#, br#"{"description":""}"#] {
            assert_eq!(description(metadata), None);
        }
        assert_eq!((with_description(b"[]", ""), with_description(b"{", "")), (None, None));
        assert!(check(0, b"{}").is_ok() && check(0, b"{").is_err());
    }
}
