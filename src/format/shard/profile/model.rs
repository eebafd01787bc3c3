//! ModelShard: one tensor per entry, and quantisation.
//!
//! Specification: shard.md, section 5.1.

use std::collections::BTreeMap;

use super::tensor::{self, MAX_HEADER_LEN, Tensor};
use super::{JSON, RoleReader, TENSOR, UNTYPED, entry_json, json};
use crate::Shard;
use nra_core::description::{Description, MAX_ROWS, known, product, shape};
use nra_core::error::{Error, Result};

/// Name of the entry with JSON about the model.
const MODEL_METADATA: &[u8] = b"__metadata__";
/// Suffixes of the entries that hold the scales of a tensor.
const SCALES_SUFFIXES: [&[u8]; 2] = [b".scales", b".scale"];

/// The role of models.
pub struct Model;

/// Reads the header of a tensor. Returns `None` if the entry is not a tensor.
pub fn read_tensor(shard: &Shard, number: usize) -> Result<Option<Tensor>> {
    let entry = &shard.entries()[number];
    let is_declared = entry.content_type == TENSOR;
    if !is_declared && (entry.content_type != UNTYPED || shard.name(number).starts_with(b"__")) {
        return Ok(None);
    }
    match tensor::parse(&shard.read_prefix(number, MAX_HEADER_LEN)?, entry.content_len) {
        Ok(tensor) if is_declared || tensor.needed == Some(tensor.found) => Ok(Some(tensor)),
        Err(detail) if is_declared => Err(Error::corrupt("TensorV1 header", entry.data_offset, detail)),
        _ => Ok(None),
    }
}

pub fn describe_tensor(tensor: &Tensor) -> Description {
    let mut table = Description::new("TensorV1", &[]);
    table.array(tensor.elements.clone());
    table.fact("bytes", known(tensor.needed));
    if tensor.is_quantised() {
        table.fact("quantised", "by its type, with one byte per element");
    }
    if let Some(more) = tensor.needed.map(|needed| tensor.found - needed).filter(|more| *more > 0) {
        table.fact("but", format!("{more} surplus bytes"));
    }
    table
}

/// Describes the quantisation of a tensor, by its type or by scales in another entry.
fn quantisation(shard: &Shard, number: usize, tensor: &Tensor) -> Option<String> {
    if tensor.is_quantised() {
        return Some(tensor.elements.dtype.clone());
    }
    if tensor.elements.dtype != "i8" {
        return None;
    }
    let scales_entry = SCALES_SUFFIXES.iter().find_map(|suffix| shard.find(&[shard.name(number), suffix].concat()))?;
    let scales = read_tensor(shard, scales_entry).ok()??;
    let (dtype, count) = (&scales.elements.dtype, product(&scales.elements.shape)?);
    Some(match tensor.elements.shape.first() {
        Some(rows) if *rows == count && *rows != 1 => format!("i8, one scale ({dtype}) per row"),
        _ if count == 1 => format!("i8, one scale ({dtype})"),
        _ => format!("i8, {count} scales ({dtype})"),
    })
}

impl RoleReader for Model {
    fn describe_entry(&self, shard: &Shard, number: usize) -> Result<Option<Description>> {
        let Some(tensor) = read_tensor(shard, number)? else { return Ok(None) };
        let mut table = describe_tensor(&tensor);
        if let Some(how) = quantisation(shard, number, &tensor).filter(|_| !tensor.is_quantised()) {
            table.fact("quantised", how.as_str());
            table.brief = format!("{}, quantised", table.brief);
        }
        Ok(Some(table))
    }

    fn describe_file(&self, shard: &Shard, table: &mut Description) -> Result<()> {
        table.heads = vec!["name", "type", "shape", "bytes", "quantised"];
        let (mut types, mut elements, mut damaged) = (BTreeMap::<String, u64>::new(), Some(0u64), Vec::new());
        for number in 0..shard.entries().len() {
            let name = String::from_utf8_lossy(shard.name(number)).into_owned();
            // Rows past the limit are counted, but not described.
            if table.rows.len() == MAX_ROWS {
                table.row_count += u64::from(shard.entries()[number].content_type == TENSOR);
                elements = None;
                continue;
            }
            match read_tensor(shard, number) {
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
                    damaged.push((name, error.to_string()));
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
        if let Some(value) = shard.find(MODEL_METADATA).map(|number| entry_json(shard, number, JSON)) {
            match value {
                Ok(value) => json::add_facts(table, &value),
                Err(error) => damaged.push((String::from_utf8_lossy(MODEL_METADATA).into_owned(), error.to_string())),
            }
        }
        if let Some((name, detail)) = damaged.first() {
            table.fact("but", format!("{name}: {detail}"));
        }
        if damaged.len() > 1 {
            table.fact("but", format!("{} more headers are damaged", damaged.len() - 1));
        }
        Ok(())
    }
}
