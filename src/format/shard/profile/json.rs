//! JSON as the profiles have it: looked up by key, so that unknown keys, and values of another type than expected, do no harm.

use serde_json::Value;

use nra_core::description::{Description, short};
use nra_core::error::{Error, Result};

/// Length of a piece of JSON that is read, bytes. In memory it takes up to 32 times as much.
pub const MAX_JSON: u64 = 4 << 20;
/// Keys and values of an object that are told.
const MAX_TOLD: usize = 50;

/// Reads a piece of JSON that begins at `offset` of the file.
///
/// # Errors
///
/// `Corrupt`.
pub fn read(structure: &'static str, offset: u64, bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes)
        .map_err(|error| Error::corrupt(structure, offset, format!("not the JSON it should be: {error}")))
}

/// Returns a text, number or truth value as text; nothing for everything else, and for an empty text.
pub fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// Returns a number that is not negative; some writers have it as text.
pub fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Returns a list of numbers that are not negative.
pub fn numbers(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(number).collect()
}

/// Returns a value in a few words: lists and objects by what is directly in them, which may be short JSON.
pub fn brief(value: &Value) -> String {
    let listed = |open: &str, items: &mut dyn Iterator<Item = String>, close: &str| {
        let mut items: Vec<String> = items.take(MAX_TOLD + 1).collect();
        if items.len() > MAX_TOLD {
            items[MAX_TOLD] = "…".into();
        }
        format!("{open}{}{close}", items.join(", "))
    };
    let simple = |value: &Value| word(value).unwrap_or_else(|| short(&value.to_string()));
    let text = match value {
        Value::Array(values) => listed("[", &mut values.iter().map(simple), "]"),
        Value::Object(map) => {
            listed("{", &mut map.iter().map(|(key, value)| format!("{}: {}", short(key), short(&simple(value)))), "}")
        }
        other => simple(other),
    };
    short(&text)
}

/// Adds what a key stands for to the facts, if it is there and says anything.
pub fn fact(table: &mut Description, label: &str, value: &Value) {
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

/// Adds the keys of an object to the facts.
pub fn facts(table: &mut Description, value: &Value) {
    for (key, value) in value.as_object().into_iter().flatten().take(MAX_TOLD) {
        fact(table, key, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_in_a_few_words() {
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
