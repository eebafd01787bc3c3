//! Validates JSON against the schemas in `docs/schema`. Supports the part of JSON Schema that they use.

use serde_json::Value;

/// Checks the complete output of `--json` or `--jsonl`. Undocumented fields are errors.
pub fn check_output(text: &str) {
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let is_list = value.get("summary").is_some() || value.get("error").is_some();
        if !is_list {
            check(&value);
            continue;
        }
        for (name, field) in value.as_object().into_iter().flatten() {
            match (name.as_str(), field) {
                ("type", _) => {}
                ("summary", _) => {
                    let mut summary = field.clone();
                    summary["type"] = "summary".into();
                    check(&summary);
                }
                (_, Value::Array(records)) => records.iter().for_each(check),
                (_, other) => check(other),
            }
        }
    }
}

/// Checks `value` by the schema of its type.
pub fn check(value: &Value) {
    let name = value["type"].as_str().unwrap_or_else(|| panic!("no type: {value}"));
    check_as(value, name);
}

/// Checks `value` by the schema `name`.
pub fn check_as(value: &Value, name: &str) {
    let path = format!("{}/docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    if let Err(why) = valid(value, &schema) {
        panic!("{name}: {why}\n{value}");
    }
}

fn valid(value: &Value, schema: &Value) -> Result<(), String> {
    if let Some(constant) = schema.get("const").filter(|constant| *constant != value) {
        return Err(format!("{value} is not {constant}"));
    }
    if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.contains(value)) {
        return Err(format!("{value} is not one of {choices:?}"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is_a(value, name)) {
        return Err(format!("{value} is not of type {types:?}"));
    }
    if let Some(least) = schema["minimum"].as_i64().filter(|least| value.as_i64().is_some_and(|number| number < *least)) {
        return Err(format!("{value} is less than {least}"));
    }
    for element in value.as_array().into_iter().flatten() {
        valid(element, &schema["items"])?;
    }
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        value.get(required).ok_or_else(|| format!("missing field {required}"))?;
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(property) => valid(field, property).map_err(|why| format!("{name}: {why}"))?,
            None if schema["additionalProperties"] == Value::Bool(false) => return Err(format!("undocumented field {name}")),
            None => {}
        }
    }
    Ok(())
}

fn is_a(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("type {other} in a schema"),
    }
}
