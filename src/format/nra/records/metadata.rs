//! Metadata and attribute tables.
//!
//! Spec: nra.md, section 8.3.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use nra_core::entry::{Attribute, Metadata, Namespace, Owner};
use nra_core::limits::{MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE, MAX_LIST_ENTRIES, MAX_OWNER_NAME};
use nra_core::wire::{Cursor, Malformed, put_bytes, put_uv};

/// Highest mode: permissions, set-uid, set-gid, sticky.
pub(crate) const MAX_MODE: u16 = 0o7777;

const HAS_TIME: u8 = 1 << 0;
const HAS_IDS: u8 = 1 << 1;
const HAS_NAMES: u8 = 1 << 2;

#[derive(Debug, Clone)]
pub(crate) struct MetadataRow {
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) has_time: bool,
}

/// Builds columns 5 and 6.
#[derive(Debug, Default)]
pub(crate) struct MetadataEncoder {
    rows: Vec<u8>,
    sets: Vec<u8>,
    /// By memory address, the common case. Keeping the metadata alive prevents reuse of an address.
    by_address: HashMap<(usize, bool), (u64, Arc<Metadata>)>,
    by_value: HashMap<Vec<u8>, u64>,
    set_by_value: HashMap<Vec<u8>, u64>,
    last: Option<(Arc<Metadata>, bool, u64)>,
}

impl MetadataEncoder {
    /// Returns the index of a row, which is added if it is new.
    pub(crate) fn index(&mut self, metadata: &Arc<Metadata>, has_time: bool) -> u64 {
        if let Some((last, time, index)) = &self.last
            && *time == has_time
            && Arc::ptr_eq(last, metadata)
        {
            return *index;
        }
        let address = (Arc::as_ptr(metadata).addr(), has_time);
        let index = match self.by_address.get(&address) {
            Some((index, _)) => *index,
            None => {
                let index = self.index_by_value(metadata, has_time);
                self.by_address.insert(address, (index, Arc::clone(metadata)));
                index
            }
        };
        self.last = Some((Arc::clone(metadata), has_time, index));
        index
    }

    fn index_by_value(&mut self, metadata: &Metadata, has_time: bool) -> u64 {
        let mut row = Vec::new();
        let owner = metadata.owner.as_ref();
        let names = owner.filter(|owner| !owner.user.is_empty() || !owner.group.is_empty());
        let flag = |set: bool, flag| if set { flag } else { 0 };
        row.push(flag(has_time, HAS_TIME) | flag(owner.is_some(), HAS_IDS) | flag(names.is_some(), HAS_NAMES));
        put_uv(&mut row, metadata.mode.into());
        if let Some(owner) = owner {
            put_uv(&mut row, owner.user_id);
            put_uv(&mut row, owner.group_id);
        }
        if let Some(owner) = names {
            put_bytes(&mut row, &owner.user);
            put_bytes(&mut row, &owner.group);
        }
        let mut set = 0;
        if !metadata.attributes.is_empty() {
            let mut bytes = Vec::new();
            encode_attribute_set(&mut bytes, &metadata.attributes);
            set = index_of(bytes, &mut self.set_by_value, &mut self.sets) + 1;
        }
        put_uv(&mut row, set);
        index_of(row, &mut self.by_value, &mut self.rows)
    }

    /// Returns the bytes of both tables so far, without their counts.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.sets.len()
    }

    /// Returns columns 5 and 6.
    pub(crate) fn tables(&self) -> [Vec<u8>; 2] {
        let table = |count: usize, rows: &[u8]| {
            let mut column = Vec::with_capacity(rows.len() + 3);
            put_uv(&mut column, count as u64);
            column.extend_from_slice(rows);
            column
        };
        [table(self.by_value.len(), &self.rows), table(self.set_by_value.len(), &self.sets)]
    }
}

/// Returns the index of a row, which is appended to `table` if it is new.
fn index_of(row: Vec<u8>, known: &mut HashMap<Vec<u8>, u64>, table: &mut Vec<u8>) -> u64 {
    let next = known.len() as u64;
    if let Some(&index) = known.get(&row) {
        return index;
    }
    table.extend_from_slice(&row);
    known.insert(row, next);
    next
}

/// Parses columns 5 and 6.
pub(crate) fn parse(rows: &[u8], sets: &[u8]) -> Result<Vec<MetadataRow>, Malformed> {
    let sets: Vec<Arc<[Attribute]>> = parse_table(sets, |cursor| parse_attribute_set(cursor).map(Arc::from))
        .map_err(|detail| format!("attribute table: {detail}"))?;
    let mut used_sets = 0;
    let rows = parse_table(rows, |cursor| parse_metadata_row(cursor, &sets, &mut used_sets))
        .map_err(|detail| format!("metadata table: {detail}"))?;
    if used_sets != sets.len() {
        return Err(format!("{used_sets} of {} attribute sets are used", sets.len()));
    }
    Ok(rows)
}

/// Parses a table without repeated rows.
fn parse_table<T>(
    column: &[u8],
    mut parse_row: impl FnMut(&mut Cursor<'_>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut cursor = Cursor::new(column);
    let count = cursor.count("rows", MAX_LIST_ENTRIES)?;
    let mut rows = Vec::with_capacity(count);
    let mut seen = HashSet::new();
    for _ in 0..count {
        let start = cursor;
        rows.push(parse_row(&mut cursor)?);
        // Each row has one encoding, so equal rows have equal bytes.
        if count > 1 && !seen.insert(start.until(&cursor)) {
            return Err("a repeated row".into());
        }
    }
    cursor.end("it")?;
    Ok(rows)
}

fn parse_metadata_row(
    cursor: &mut Cursor<'_>,
    sets: &[Arc<[Attribute]>],
    used_sets: &mut usize,
) -> Result<MetadataRow, Malformed> {
    let flags = cursor.u8()?;
    if flags & !(HAS_TIME | HAS_IDS | HAS_NAMES) != 0 {
        return Err(format!("flags {flags:#04x}"));
    }
    let mode = u16::try_from(cursor.uv_max("mode", MAX_MODE.into())?).expect("not more than 07777");
    let mut owner = None;
    if flags & HAS_IDS != 0 {
        owner = Some(Owner { user_id: cursor.uv()?, group_id: cursor.uv()?, ..Owner::default() });
    }
    if flags & HAS_NAMES != 0 {
        let owner = owner.as_mut().ok_or("owner names without ids")?;
        owner.user = cursor.bytes("user name", MAX_OWNER_NAME)?.into();
        owner.group = cursor.bytes("group name", MAX_OWNER_NAME)?.into();
        if owner.user.is_empty() && owner.group.is_empty() {
            return Err("owner names that are both empty".into());
        }
    }
    let mut attributes = Arc::default();
    if let Some(set) = cursor.uv()?.checked_sub(1) {
        let index = usize::try_from(set).ok().filter(|&index| index < sets.len() && index <= *used_sets);
        let index = index.ok_or_else(|| format!("attribute set {set}, which does not exist or breaks the order of first use"))?;
        *used_sets = (*used_sets).max(index + 1);
        attributes = Arc::clone(&sets[index]);
    }
    Ok(MetadataRow { metadata: Arc::new(Metadata { mode, owner, attributes }), has_time: flags & HAS_TIME != 0 })
}

pub(crate) fn encode_attribute_set(out: &mut Vec<u8>, attributes: &[Attribute]) {
    put_uv(out, attributes.len() as u64);
    for attribute in attributes {
        out.push(attribute.namespace as u8);
        put_bytes(out, &attribute.name);
        put_bytes(out, &attribute.value);
    }
}

pub(crate) fn parse_attribute_set(cursor: &mut Cursor<'_>) -> Result<Vec<Attribute>, Malformed> {
    let count = cursor.count("attributes", usize::MAX)?;
    if count == 0 {
        return Err("an empty set".into());
    }
    // The count is not trusted: memory grows with the parsed attributes.
    let mut attributes: Vec<Attribute> = Vec::with_capacity(count.min(16));
    for _ in 0..count {
        let number = cursor.u8()?;
        let namespace = Namespace::from_number(number).ok_or_else(|| format!("unknown namespace {number}"))?;
        let name = cursor.bytes("attribute name", MAX_ATTRIBUTE_NAME)?.into();
        let value = cursor.bytes("attribute value", MAX_ATTRIBUTE_VALUE)?.into();
        let attribute = Attribute { namespace, name, value };
        if attributes.last().is_some_and(|last| (last.namespace, &last.name) >= (attribute.namespace, &attribute.name)) {
            return Err("attributes are not sorted, or one is repeated".into());
        }
        attributes.push(attribute);
    }
    Ok(attributes)
}

/// Checks metadata before it is written.
pub(crate) fn check(metadata: &Metadata) -> Result<(), Malformed> {
    if metadata.mode > MAX_MODE {
        return Err(format!("mode {:o}", metadata.mode));
    }
    if let Some(owner) = &metadata.owner
        && owner.user.len().max(owner.group.len()) > MAX_OWNER_NAME
    {
        return Err(format!("an owner name of more than {MAX_OWNER_NAME} bytes"));
    }
    check_attributes(&metadata.attributes)
}

/// Checks attributes before they are written.
pub(crate) fn check_attributes(attributes: &[Attribute]) -> Result<(), Malformed> {
    for attribute in attributes {
        if attribute.name.len() > MAX_ATTRIBUTE_NAME {
            return Err(format!("an attribute name of {} bytes, more than {MAX_ATTRIBUTE_NAME}", attribute.name.len()));
        }
        if attribute.value.len() > MAX_ATTRIBUTE_VALUE {
            return Err(format!("an attribute of {} bytes, more than {MAX_ATTRIBUTE_VALUE}", attribute.value.len()));
        }
    }
    let key = |attribute: &Attribute| (attribute.namespace, attribute.name.clone());
    if !attributes.is_sorted_by(|a, b| key(a) < key(b)) {
        return Err("unsorted or repeated attributes".into());
    }
    Ok(())
}
