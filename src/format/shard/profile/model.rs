//! ModelShard: a tensor an entry, and what is quantised.
//!
//! Specification: shard.md, section 5.1.

use std::collections::BTreeMap;

use super::tensor::{self, MAX_HEADER, Tensor};
use super::{Face, JSON, TENSOR, UNTYPED, entry_json, json};
use crate::Shard;
use nra_core::description::{Description, MAX_ROWS, known, product, shape};
use nra_core::error::{Error, Result};

/// Entry with facts about the model.
const MODEL: &[u8] = b"__metadata__";
/// What the name of a tensor has behind it when it holds the scales of another one.
const SCALES: [&[u8]; 2] = [b".scales", b".scale"];

/// The tensors of a model.
pub struct Model;

/// Reads the header of a tensor; `None` when the entry promises none and has none.
///
/// # Errors
///
/// `Corrupt` when it promises one.
pub fn tensor_of(shard: &Shard, number: usize) -> Result<Option<Tensor>> {
    let entry = &shard.entries()[number];
    let is_promised = entry.content_type == TENSOR;
    if !is_promised && (entry.content_type != UNTYPED || shard.name(number).starts_with(b"__")) {
        return Ok(None);
    }
    match tensor::parse(&shard.prefix(number, MAX_HEADER)?, entry.content_len) {
        Ok(tensor) if is_promised || tensor.needed == Some(tensor.there) => Ok(Some(tensor)),
        Err(detail) if is_promised => Err(Error::corrupt("TensorV1 header", entry.data_offset, detail)),
        _ => Ok(None),
    }
}

/// Describes a tensor.
pub fn table_of(tensor: &Tensor) -> Description {
    let mut table = Description::new("TensorV1", &[]);
    table.array(tensor.elements.clone());
    table.fact("bytes", known(tensor.needed));
    if tensor.is_quantised() {
        table.fact("quantised", "by its type, a byte for each element");
    }
    if let Some(more) = tensor.needed.map(|needed| tensor.there - needed).filter(|more| *more > 0) {
        table.fact("but", format!("{more} bytes more are there"));
    }
    table
}

/// Says how a tensor is quantised, by itself or by scales in an entry beside it.
fn quantisation(shard: &Shard, number: usize, tensor: &Tensor) -> Option<String> {
    if tensor.is_quantised() {
        return Some(tensor.elements.dtype.clone());
    }
    if tensor.elements.dtype != "i8" {
        return None;
    }
    let beside = SCALES.iter().find_map(|end| shard.find(&[shard.name(number), end].concat()))?;
    let scales = tensor_of(shard, beside).ok()??;
    let (dtype, count) = (&scales.elements.dtype, product(&scales.elements.shape)?);
    Some(match tensor.elements.shape.first() {
        Some(rows) if *rows == count && *rows != 1 => format!("i8, a scale ({dtype}) a row"),
        _ if count == 1 => format!("i8, one scale ({dtype})"),
        _ => format!("i8, {count} scales ({dtype})"),
    })
}

impl Face for Model {
    fn describe(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let Some(tensor) = tensor_of(shard, number)? else { return Ok(None) };
        let mut table = table_of(&tensor);
        if let Some(how) = quantisation(shard, number, &tensor).filter(|_| !tensor.is_quantised()) {
            table.fact("quantised", how.as_str());
            table.brief = format!("{}, quantised", table.brief);
        }
        Ok(Some(table))
    }

    fn sum_up(&self, shard: &Shard, table: &mut Description) -> Result<()> {
        table.heads = vec!["name", "type", "shape", "bytes", "quantised"];
        let (mut types, mut elements, mut broken) = (BTreeMap::<String, u64>::new(), Some(0u64), Vec::new());
        for number in 0..shard.entries().len() {
            let name = String::from_utf8_lossy(shard.name(number)).into_owned();
            // Rows that are not kept are not looked at either.
            if table.rows.len() == MAX_ROWS {
                table.row_count += u64::from(shard.entries()[number].content_type == TENSOR);
                elements = None;
                continue;
            }
            match tensor_of(shard, number) {
                Ok(Some(tensor)) => {
                    let sizes = &tensor.elements.shape;
                    elements = elements.zip(product(sizes)).and_then(|(sum, more)| sum.checked_add(more));
                    let how = quantisation(shard, number, &tensor).unwrap_or_default();
                    table.row(&[&name, &tensor.elements.dtype, &shape(sizes), &known(tensor.needed), &how]);
                    if types.len() < 50 {
                        *types.entry(tensor.elements.dtype).or_default() += 1;
                    }
                }
                Ok(None) => {}
                Err(error @ Error::Corrupt { .. }) => {
                    table.row(&[&name, "?", "?", "?", ""]);
                    broken.push((name, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        table.fact("tensors", table.row_count.to_string());
        if let Some(elements) = elements {
            table.fact("elements", elements.to_string());
        }
        if !types.is_empty() {
            let types: Vec<String> = types.iter().map(|(name, count)| format!("{name} ({count})")).collect();
            table.fact("types", types.join(", "));
        }
        if let Some(value) = shard.find(MODEL).map(|number| entry_json(shard, number, JSON)) {
            match value {
                Ok(value) => json::facts(table, &value),
                Err(error) => broken.push((String::from_utf8_lossy(MODEL).into_owned(), error.to_string())),
            }
        }
        if let Some((name, detail)) = broken.first() {
            table.fact("but", format!("{name}: {detail}"));
        }
        if broken.len() > 1 {
            table.fact("but", format!("{} more headers are damaged", broken.len() - 1));
        }
        Ok(())
    }
}
