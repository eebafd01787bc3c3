//! Access to the JSON of profiles by key. Unknown keys and values of unexpected types are ignored.

use serde_json::Value;

use nra_core::description::{Description, short};
use nra_core::error::{Error, Result};

/// Longest JSON that is read, bytes. It takes up to 32 times as much memory.
pub const MAX_JSON_LEN: u64 = 4 << 20;
/// Largest number of elements of a list or object that are shown.
const MAX_SHOWN: usize = 50;

/// Parses JSON that starts at `offset` in the file.
pub fn parse(structure: &'static str, offset: u64, bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| Error::corrupt(structure, offset, format!("invalid JSON: {error}")))
}

/// Returns a text, number or boolean as text. Returns `None` for other values and for an empty text.
pub fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns a non-negative integer. Some writers store it as text.
pub fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns a list of non-negative integers.
pub fn numbers(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(number).collect()
}

/// Returns a short text for a value. Values in lists and objects appear as short JSON.
pub fn brief(value: &Value) -> String {
    let listed = |open: &str, elements: &mut dyn Iterator<Item = String>, close: &str| {
        let mut elements: Vec<String> = elements.take(MAX_SHOWN + 1).collect();
        if elements.len() > MAX_SHOWN {
            elements[MAX_SHOWN] = "…".into();
        }
        format!("{open}{}{close}", elements.join(", "))
    };
    let simple = |value: &Value| text(value).unwrap_or_else(|| short(&value.to_string()));
    let text = match value {
        Value::Array(values) => listed("[", &mut values.iter().map(simple), "]"),
        Value::Object(map) => {
            listed("{", &mut map.iter().map(|(key, value)| format!("{}: {}", short(key), short(&simple(value)))), "}")
        }
        other => simple(other),
    };
    short(&text)
}

/// Adds a value to the facts unless it is missing or empty.
pub fn add_fact(table: &mut Description, label: &str, value: &Value) {
    let is_empty = match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    if !is_empty {
        table.fact(label, brief(value));
    }
}

/// Adds the values of an object to the facts.
pub fn add_facts(table: &mut Description, value: &Value) {
    for (key, value) in value.as_object().into_iter().flatten().take(MAX_SHOWN) {
        add_fact(table, key, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_become_short_texts_and_numbers() {
        for (value, expected) in [
            (json!(null), "null"),
            (json!(18_446_744_073_709_551_615u64), "18446744073709551615"),
            (json!([1, "two", [3], null]), "[1, two, [3], null]"),
            (json!({"a": true, "b": {"c": [1]}}), "{a: true, b: {\"c\":[1]}}"),
        ] {
            assert_eq!(brief(&value), expected);
        }
        assert!(brief(&Value::from(vec![7; 1_000])).len() < 300);
        assert_eq!((number(&json!("12")), number(&json!(-1)), number(&json!(1.5))), (Some(12), None, None));
        assert_eq!((numbers(&json!([1, 2])), numbers(&json!([1, "x"])), numbers(&json!(1))), (Some(vec![1, 2]), None, None));
    }
}
