//! The records of a manifest, as arrays or as maps, in MessagePack or in JSON: one visitor each.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::building::{Building, File, Stored};
use super::extra::{Extra, MARK};
use super::hash::Hash;
use super::manifest::Coding;
use super::packed::Window;
use nra_core::entry::{Attribute, EMBEDDING, Namespace};
use nra_core::error::Error;
use nra_core::limits::{MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE};

/// Parses a MessagePack manifest without its prefix. Bytes behind the root are left alone, unless they are entries that have no record in it.
pub(super) fn parse_packed(window: &mut Window<'_>, building: &mut Building) -> Result<(), String> {
    Root(building).deserialize(&mut *window).map_err(|error| error.to_string())?;
    match window.next_text() {
        Some(mark) if mark == MARK => Files(building).deserialize(window).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

/// Parses a JSON manifest.
pub(super) fn parse_json(bytes: &[u8], building: &mut Building) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Root(building).deserialize(&mut deserializer).and_then(|()| deserializer.end()).map_err(|error| error.to_string())
}

/// Names of fields in maps.
#[derive(Deserialize, Clone, Copy)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Summary,
    Spaces,
    ChunkTable,
    Files,
    Dictionary,
    Name,
    TotalChunks,
    Encrypted,
    Hash,
    Offset,
    CompressedSize,
    OriginalSize,
    InnerOffset,
    Crc32,
    Compression,
    Vectors,
    Id,
    Chunks,
    #[serde(rename = "nra5")]
    Extra,
    #[serde(other)]
    Other,
}

/// Makes `$name` a seed for values of any form, to be visited by itself.
macro_rules! seed {
    ($name:ident, $value:ty, $expected:literal, { $($visit:item)* }) => {
        impl<'de> DeserializeSeed<'de> for $name<'_> {
            type Value = $value;
            fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<$value, D::Error> {
                deserializer.deserialize_any(self)
            }
        }
        impl<'de> Visitor<'de> for $name<'_> {
            type Value = $value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($expected)
            }
            $($visit)*
        }
    };
}

/// Takes the next element, which must be there.
fn next<'de, A: SeqAccess<'de>, S: DeserializeSeed<'de>>(seq: &mut A, seed: S, what: &'static str) -> Result<S::Value, A::Error> {
    seq.next_element_seed(seed)?.ok_or_else(|| A::Error::custom(format_args!("{what} is missing")))
}

/// Refuses more elements: earlier versions did, and what they mean is not known.
fn end<'de, A: SeqAccess<'de>>(seq: &mut A, what: &'static str) -> Result<(), A::Error> {
    match seq.next_element::<IgnoredAny>()? {
        None => Ok(()),
        Some(_) => Err(A::Error::custom(format_args!("{what} has more fields than are known"))),
    }
}

fn number<T>() -> PhantomData<T> {
    PhantomData
}

struct Root<'a>(&'a mut Building);

seed!(Root, (), "a manifest", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        next(&mut seq, number::<IgnoredAny>(), "version")?;
        let first = next(&mut seq, Summary(self.0), "summary")?;
        self.0.manifest().first = first;
        if first {
            next(&mut seq, Spaces(self.0), "list of spaces")?;
        } else {
            next(&mut seq, ChunkTable(self.0), "chunk table")?;
        }
        next(&mut seq, Files(self.0), "list of files")?;
        if !first {
            // Left out by some writers.
            seq.next_element_seed(Dictionary(self.0))?;
        }
        end(&mut seq, "the manifest")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut summary, mut table, mut files) = (false, false, false);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Summary => summary = map.next_value_seed(Summary(self.0)).map(|_| true)?,
                Field::Spaces => {
                    self.0.manifest().first = true;
                    table = map.next_value_seed(Spaces(self.0)).map(|()| true)?;
                }
                Field::ChunkTable => table = map.next_value_seed(ChunkTable(self.0)).map(|()| true)?,
                Field::Files => files = map.next_value_seed(Files(self.0)).map(|()| true)?,
                Field::Dictionary => map.next_value_seed(Dictionary(self.0))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if summary && table && files { Ok(()) } else { Err(A::Error::custom("a field of the manifest is missing")) }
    }
});

/// Gives whether the manifest is one of version 1.
struct Summary<'a>(&'a mut Building);

seed!(Summary, bool, "a summary", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        self.0.manifest().name = next(&mut seq, number::<String>(), "name")?;
        next(&mut seq, number::<IgnoredAny>(), "number of files")?;
        if seq.next_element::<IgnoredAny>()?.is_none() {
            return Ok(true);
        }
        for what in ["ratio", "original bytes", "stored bytes"] {
            next(&mut seq, number::<IgnoredAny>(), what)?;
        }
        self.0.manifest().encrypted = seq.next_element()?.unwrap_or_default();
        end(&mut seq, "the summary")?;
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut first = true;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Name => self.0.manifest().name = map.next_value()?,
                Field::Encrypted => self.0.manifest().encrypted = map.next_value()?,
                other => {
                    first &= !matches!(other, Field::TotalChunks);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(first)
    }
});

struct Dictionary<'a>(&'a mut Building);

seed!(Dictionary, (), "a dictionary in base64", {
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if !text.is_empty() {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            self.0.manifest().dictionary = Some(bytes.map_err(|error| E::custom(format_args!("dictionary: {error}")))?);
        }
        Ok(())
    }
});

struct ChunkTable<'a>(&'a mut Building);

seed!(ChunkTable, (), "a chunk table", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.expect_chunks(seq.size_hint().unwrap_or_default());
        while seq.next_element_seed(Chunk(self.0))?.is_some() {}
        Ok(())
    }
});

struct Chunk<'a>(&'a mut Building);

impl Chunk<'_> {
    fn add<E: serde::de::Error>(self, hash: Hash, stored: &Stored) -> Result<(), E> {
        self.0.add_chunk(hash, stored).map(drop).map_err(|error| E::custom(self.0.fail(error)))
    }
}

seed!(Chunk, (), "a chunk", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let hash = next(&mut seq, HashText, "hash")?;
        let offset = next(&mut seq, number(), "offset")?;
        let stored = next(&mut seq, number(), "size as stored")?;
        let size = next(&mut seq, number(), "size")?;
        let inner = next(&mut seq, number(), "inner offset")?;
        let crc = next(&mut seq, number(), "CRC")?;
        end(&mut seq, "a chunk")?;
        self.add(hash, &Stored { offset, stored, size, inner, crc, coding: Coding::Tagged })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut hash = None;
        let mut chunk = Stored { coding: Coding::Tagged, ..NOTHING };
        let mut fields = 0;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Hash => hash = Some(map.next_value_seed(HashText)?),
                other => fields += stored_field(&mut map, other, &mut chunk)?,
            }
        }
        match hash {
            Some(hash) if fields >= STORED_FIELDS => self.add(hash, &chunk),
            _ => Err(A::Error::custom("a field of a chunk is missing")),
        }
    }
});

/// Where nothing is said yet.
const NOTHING: Stored = Stored { offset: 0, stored: 0, size: 0, inner: 0, crc: 0, coding: Coding::Unknown };
/// Fields of a [`Stored`] that must be there: the inner offset may be missing.
const STORED_FIELDS: usize = 4;

/// Takes a field of a map if it is one of [`Stored`], or skips it; gives 1 for one that counts among [`STORED_FIELDS`].
fn stored_field<'de, A: MapAccess<'de>>(map: &mut A, field: Field, stored: &mut Stored) -> Result<usize, A::Error> {
    match field {
        Field::Offset => stored.offset = map.next_value()?,
        Field::CompressedSize => stored.stored = map.next_value()?,
        Field::OriginalSize => stored.size = map.next_value()?,
        Field::Crc32 => stored.crc = map.next_value()?,
        Field::InnerOffset => {
            stored.inner = map.next_value()?;
            return Ok(0);
        }
        _ => {
            map.next_value::<IgnoredAny>()?;
            return Ok(0);
        }
    }
    Ok(1)
}

/// The name of a chunk.
struct HashText;

impl<'de> DeserializeSeed<'de> for HashText {
    type Value = Hash;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Hash, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for HashText {
    type Value = Hash;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hash as text")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Hash, E> {
        Ok(Hash::from(text))
    }
}

struct Files<'a>(&'a mut Building);

seed!(Files, (), "a list of files", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.expect_files(seq.size_hint().unwrap_or_default());
        while seq.next_element_seed(FileRecord(self.0))?.is_some() {}
        Ok(())
    }
});

struct FileRecord<'a>(&'a mut Building);

impl FileRecord<'_> {
    fn add<E: serde::de::Error>(self, file: File) -> Result<(), E> {
        self.0.add_file(file).map_err(|error| E::custom(self.0.fail(error)))
    }

    fn add_own<E: serde::de::Error>(self, file: File, stored: &Stored) -> Result<(), E> {
        // An empty file lies nowhere: earlier versions wrote whatever came.
        if stored.size > 0 {
            self.0.add_own_chunk(stored).map_err(|error| E::custom(self.0.fail(error)))?;
        }
        self.add(File { size: stored.size, ..file })
    }
}

seed!(FileRecord, (), "a file", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let name = next(&mut seq, Name(self.0), "name")?;
        let second = next(&mut seq, number(), "size or offset")?;
        let mut file = File { name, ..File::default() };
        match next(&mut seq, Third(self.0), "recipe or inner offset")? {
            None => {
                end(&mut seq, "a file")?;
                self.add(File { size: second, ..file })
            }
            Some(inner) => {
                let stored = next(&mut seq, number(), "size as stored")?;
                let size = next(&mut seq, number(), "size")?;
                let crc = next(&mut seq, number(), "CRC")?;
                let coding = next(&mut seq, CodingName(PhantomData), "compression")?;
                file.attributes = next(&mut seq, Vectors(PhantomData), "list of vectors")?;
                end(&mut seq, "a file")?;
                self.add_own(file, &Stored { offset: second, stored, size, inner, crc, coding })
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut name, mut recipe) = (None, false);
        let mut file = File::default();
        let mut stored = NOTHING;
        let mut fields = 0;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Id => name = Some(map.next_value_seed(Name(self.0))?),
                Field::Chunks => recipe = map.next_value_seed(Third(self.0))?.is_none(),
                Field::Compression => stored.coding = map.next_value_seed(CodingName(PhantomData))?,
                Field::Vectors => file.attributes = map.next_value_seed(Vectors(PhantomData))?,
                Field::Extra => {
                    let extra: Extra = map.next_value()?;
                    file.facts = Some(Box::new(extra.facts().map_err(A::Error::custom)?));
                }
                other => fields += stored_field(&mut map, other, &mut stored)?,
            }
        }
        let missing = || A::Error::custom("a field of a file is missing");
        file.name = name.ok_or_else(missing)?;
        if recipe && fields >= 1 {
            self.add(File { size: stored.size, ..file })
        } else if fields >= STORED_FIELDS {
            self.add_own(file, &stored)
        } else {
            Err(missing())
        }
    }
});

/// The third field of a file: a recipe, which is taken at once, or the inner offset of version 1.
struct Third<'a>(&'a mut Building);

seed!(Third, Option<u64>, "a list of hashes or an offset", {
    fn visit_u64<E: serde::de::Error>(self, inner: u64) -> Result<Option<u64>, E> {
        Ok(Some(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<u64>, A::Error> {
        while let Some(hash) = seq.next_element_seed(HashText)? {
            self.0.add_to_recipe(hash).map_err(|error| A::Error::custom(self.0.fail(error)))?;
        }
        Ok(None)
    }
});

struct Name<'a>(&'a mut Building);

seed!(Name, Vec<u8>, "a name", {
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
        let mut name = self.0.spare();
        name.clear();
        name.extend_from_slice(text.as_bytes());
        Ok(name)
    }
});

struct CodingName<'a>(PhantomData<&'a ()>);

seed!(CodingName, Coding, "the name of a compression", {
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Coding, E> {
        match text {
            "Zstd" => Ok(Coding::Zstd),
            "None" => Ok(Coding::None),
            "Lz4" => Ok(Coding::Unknown),
            other => Err(E::custom(format_args!("a compression that is not known: {other:.20}"))),
        }
    }
});

/// Embedding spaces of version 1, which become attributes of the archive. Spec: nra.md, section 12.
struct Spaces<'a>(&'a mut Building);

#[derive(Deserialize)]
struct Space {
    id: String,
    model_uri: String,
    dimension: u16,
}

seed!(Spaces, (), "a list of spaces", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(space) = seq.next_element::<Space>()? {
            // Version 1 tells neither metric nor type of the numbers. A semicolon would end the model.
            let model = space.model_uri.replace(';', "%3B");
            let value = format!("model={model};dimension={}", space.dimension).into_bytes();
            let attributes = &mut self.0.manifest().attributes;
            attributes.push(attribute(&space.id, value)?);
        }
        let attributes = &mut self.0.manifest().attributes;
        attributes.sort();
        attributes.dedup_by(|a, b| a.name == b.name);
        Ok(())
    }
});

/// Vectors of a file of version 1, which become its attributes.
struct Vectors<'a>(PhantomData<&'a ()>);

#[derive(Deserialize)]
struct Vector {
    space_id: String,
    data: Vec<u8>,
}

seed!(Vectors, Vec<Attribute>, "a list of vectors", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Attribute>, A::Error> {
        let mut attributes = Vec::new();
        while let Some(vector) = seq.next_element::<Vector>()? {
            attributes.push(attribute(&vector.space_id, vector.data)?);
        }
        Ok(attributes)
    }
});

/// Makes the attribute of a space, or of a vector in it, as NRA 5 has them.
fn attribute<E: serde::de::Error>(space: &str, value: Vec<u8>) -> Result<Attribute, E> {
    let name = [EMBEDDING, space.as_bytes()].concat();
    if name.len() > MAX_ATTRIBUTE_NAME || value.len() > MAX_ATTRIBUTE_VALUE {
        let error = Error::Limit { what: "length of a vector", found: value.len() as u64, limit: MAX_ATTRIBUTE_VALUE as u64 };
        return Err(E::custom(error));
    }
    Ok(Attribute { namespace: Namespace::Nra, name: name.into(), value: value.into() })
}
