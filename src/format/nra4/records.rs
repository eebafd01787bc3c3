//! Visitors for the records of a manifest.
//!
//! Records are arrays or maps, in MessagePack or JSON. One visitor reads all forms of a record.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine as _;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::chunk_hash::ChunkHash;
use super::extra_metadata::{EXTRA_ENTRIES, ExtraRecord};
use super::manifest::BlockCodec;
use super::manifest_builder::{ChunkRecord, FileRecord, ManifestBuilder};
use super::messagepack::MessagePackReader;
use nra_core::entry::{Attribute, EMBEDDING, Namespace};
use nra_core::error::Error;
use nra_core::limits::{MAX_ATTRIBUTE_NAME, MAX_ATTRIBUTE_VALUE};

/// Parses a MessagePack manifest without its prefix.
///
/// Bytes that follow the manifest are ignored, unless they are [`EXTRA_ENTRIES`].
pub(super) fn parse_messagepack(reader: &mut MessagePackReader<'_>, builder: &mut ManifestBuilder) -> Result<(), String> {
    Root(builder).deserialize(&mut *reader).map_err(|error| error.to_string())?;
    match reader.next_text() {
        Some(text) if text == EXTRA_ENTRIES => Files(builder).deserialize(reader).map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

pub(super) fn parse_json(bytes: &[u8], builder: &mut ManifestBuilder) -> Result<(), String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    Root(builder).deserialize(&mut deserializer).and_then(|()| deserializer.end()).map_err(|error| error.to_string())
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

/// Implements `DeserializeSeed` and `Visitor` for `$name`, for values of any form.
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

/// Reads the next element. It is an error if there is none.
fn require_next<'de, A: SeqAccess<'de>, S: DeserializeSeed<'de>>(
    seq: &mut A,
    seed: S,
    what: &'static str,
) -> Result<S::Value, A::Error> {
    seq.next_element_seed(seed)?.ok_or_else(|| A::Error::custom(format_args!("missing field: {what}")))
}

/// Rejects further elements, as earlier versions did.
fn expect_end<'de, A: SeqAccess<'de>>(seq: &mut A, what: &'static str) -> Result<(), A::Error> {
    match seq.next_element::<IgnoredAny>()? {
        None => Ok(()),
        Some(_) => Err(A::Error::custom(format_args!("unknown fields after those of {what}"))),
    }
}

/// Returns a seed for a value of type `T`.
fn value<T>() -> PhantomData<T> {
    PhantomData
}

struct Root<'a>(&'a mut ManifestBuilder);

seed!(Root, (), "a manifest", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        require_next(&mut seq, value::<IgnoredAny>(), "version")?;
        let is_version_1 = require_next(&mut seq, Summary(self.0), "summary")?;
        self.0.manifest.is_version_1 = is_version_1;
        if is_version_1 {
            require_next(&mut seq, Spaces(self.0), "list of spaces")?;
        } else {
            require_next(&mut seq, ChunkTable(self.0), "chunk table")?;
        }
        require_next(&mut seq, Files(self.0), "list of files")?;
        if !is_version_1 {
            // Some writers omit it.
            seq.next_element_seed(Dictionary(self.0))?;
        }
        expect_end(&mut seq, "the manifest")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut summary, mut table, mut files) = (false, false, false);
        while let Some(field) = map.next_key()? {
            match field {
                Field::Summary => summary = map.next_value_seed(Summary(self.0)).map(|_| true)?,
                Field::Spaces => {
                    self.0.manifest.is_version_1 = true;
                    table = map.next_value_seed(Spaces(self.0)).map(|()| true)?;
                }
                Field::ChunkTable => table = map.next_value_seed(ChunkTable(self.0)).map(|()| true)?,
                Field::Files => files = map.next_value_seed(Files(self.0)).map(|()| true)?,
                Field::Dictionary => map.next_value_seed(Dictionary(self.0))?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if summary && table && files { Ok(()) } else { Err(A::Error::custom("missing field of the manifest")) }
    }
});

/// Reads the summary. The value tells whether the manifest is of version 1.
struct Summary<'a>(&'a mut ManifestBuilder);

seed!(Summary, bool, "a summary", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        self.0.manifest.name = require_next(&mut seq, value::<String>(), "name")?;
        require_next(&mut seq, value::<IgnoredAny>(), "number of files")?;
        if seq.next_element::<IgnoredAny>()?.is_none() {
            return Ok(true);
        }
        for what in ["ratio", "original bytes", "stored bytes"] {
            require_next(&mut seq, value::<IgnoredAny>(), what)?;
        }
        self.0.manifest.encrypted = seq.next_element()?.unwrap_or_default();
        expect_end(&mut seq, "the summary")?;
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let mut is_version_1 = true;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Name => self.0.manifest.name = map.next_value()?,
                Field::Encrypted => self.0.manifest.encrypted = map.next_value()?,
                other => {
                    is_version_1 &= !matches!(other, Field::TotalChunks);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(is_version_1)
    }
});

struct Dictionary<'a>(&'a mut ManifestBuilder);

seed!(Dictionary, (), "a dictionary in base64", {
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if !text.is_empty() {
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            self.0.manifest.dictionary = Some(bytes.map_err(|error| E::custom(format_args!("dictionary: {error}")))?);
        }
        Ok(())
    }
});

struct ChunkTable<'a>(&'a mut ManifestBuilder);

seed!(ChunkTable, (), "a chunk table", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.reserve_chunks(seq.size_hint().unwrap_or_default());
        while seq.next_element_seed(Chunk(self.0))?.is_some() {}
        Ok(())
    }
});

struct Chunk<'a>(&'a mut ManifestBuilder);

impl Chunk<'_> {
    fn add<E: serde::de::Error>(self, hash: ChunkHash, stored: &ChunkRecord) -> Result<(), E> {
        self.0.add_chunk(hash, stored).map(drop).map_err(|error| E::custom(self.0.fail(error)))
    }
}

seed!(Chunk, (), "a chunk", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let hash = require_next(&mut seq, ChunkHashText, "hash")?;
        let offset = require_next(&mut seq, value(), "offset")?;
        let stored_len = require_next(&mut seq, value(), "stored size")?;
        let size = require_next(&mut seq, value(), "size")?;
        let inner_offset = require_next(&mut seq, value(), "inner offset")?;
        let crc = require_next(&mut seq, value(), "CRC")?;
        expect_end(&mut seq, "a chunk")?;
        self.add(hash, &ChunkRecord { offset, stored_len, size, inner_offset, crc, codec: BlockCodec::Tagged })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut hash = None;
        let mut chunk = ChunkRecord { codec: BlockCodec::Tagged, ..EMPTY };
        let mut fields = 0;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Hash => hash = Some(map.next_value_seed(ChunkHashText)?),
                other => fields += read_chunk_field(&mut map, other, &mut chunk)?,
            }
        }
        match hash {
            Some(hash) if fields >= REQUIRED_FIELDS => self.add(hash, &chunk),
            _ => Err(A::Error::custom("missing field of a chunk")),
        }
    }
});

/// The value of fields that are missing.
const EMPTY: ChunkRecord = ChunkRecord { offset: 0, stored_len: 0, size: 0, inner_offset: 0, crc: 0, codec: BlockCodec::Unknown };
/// Number of required fields of a [`ChunkRecord`]. The inner offset may be missing.
const REQUIRED_FIELDS: usize = 4;

/// Reads a field of a [`ChunkRecord`], or skips another one. Returns the number of required fields read.
fn read_chunk_field<'de, A: MapAccess<'de>>(map: &mut A, field: Field, stored: &mut ChunkRecord) -> Result<usize, A::Error> {
    match field {
        Field::Offset => stored.offset = map.next_value()?,
        Field::CompressedSize => stored.stored_len = map.next_value()?,
        Field::OriginalSize => stored.size = map.next_value()?,
        Field::Crc32 => stored.crc = map.next_value()?,
        Field::InnerOffset => {
            stored.inner_offset = map.next_value()?;
            return Ok(0);
        }
        _ => {
            map.next_value::<IgnoredAny>()?;
            return Ok(0);
        }
    }
    Ok(1)
}

struct ChunkHashText;

impl<'de> DeserializeSeed<'de> for ChunkHashText {
    type Value = ChunkHash;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ChunkHash, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ChunkHashText {
    type Value = ChunkHash;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a hash as text")
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ChunkHash, E> {
        Ok(ChunkHash::from(text))
    }
}

struct Files<'a>(&'a mut ManifestBuilder);

seed!(Files, (), "a list of files", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.0.reserve_files(seq.size_hint().unwrap_or_default());
        while seq.next_element_seed(FileVisitor(self.0))?.is_some() {}
        Ok(())
    }
});

struct FileVisitor<'a>(&'a mut ManifestBuilder);

impl FileVisitor<'_> {
    fn add<E: serde::de::Error>(self, file: FileRecord) -> Result<(), E> {
        self.0.add_file(file).map_err(|error| E::custom(self.0.fail(error)))
    }

    fn add_with_own_chunk<E: serde::de::Error>(self, file: FileRecord, stored: &ChunkRecord) -> Result<(), E> {
        // The position of an empty file is meaningless.
        if stored.size > 0 {
            self.0.add_own_chunk(stored).map_err(|error| E::custom(self.0.fail(error)))?;
        }
        self.add(FileRecord { size: stored.size, ..file })
    }
}

seed!(FileVisitor, (), "a file", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let name = require_next(&mut seq, Name(self.0), "name")?;
        let second = require_next(&mut seq, value(), "size or offset")?;
        let mut file = FileRecord { name, ..FileRecord::default() };
        match require_next(&mut seq, RecipeOrOffset(self.0), "recipe or inner offset")? {
            None => {
                expect_end(&mut seq, "a file")?;
                self.add(FileRecord { size: second, ..file })
            }
            Some(inner_offset) => {
                let stored_len = require_next(&mut seq, value(), "stored size")?;
                let size = require_next(&mut seq, value(), "size")?;
                let crc = require_next(&mut seq, value(), "CRC")?;
                let codec = require_next(&mut seq, CodecName(PhantomData), "compression")?;
                file.attributes = require_next(&mut seq, Vectors(PhantomData), "list of vectors")?;
                expect_end(&mut seq, "a file")?;
                self.add_with_own_chunk(file, &ChunkRecord { offset: second, stored_len, size, inner_offset, crc, codec })
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut name, mut has_recipe) = (None, false);
        let mut file = FileRecord::default();
        let mut chunk = EMPTY;
        let mut fields = 0;
        while let Some(field) = map.next_key()? {
            match field {
                Field::Id => name = Some(map.next_value_seed(Name(self.0))?),
                Field::Chunks => has_recipe = map.next_value_seed(RecipeOrOffset(self.0))?.is_none(),
                Field::Compression => chunk.codec = map.next_value_seed(CodecName(PhantomData))?,
                Field::Vectors => file.attributes = map.next_value_seed(Vectors(PhantomData))?,
                Field::Extra => {
                    let extra: ExtraRecord = map.next_value()?;
                    file.extra = Some(Box::new(extra.decode().map_err(A::Error::custom)?));
                }
                other => fields += read_chunk_field(&mut map, other, &mut chunk)?,
            }
        }
        let missing = || A::Error::custom("missing field of a file");
        file.name = name.ok_or_else(missing)?;
        if has_recipe && fields >= 1 {
            self.add(FileRecord { size: chunk.size, ..file })
        } else if fields >= REQUIRED_FIELDS {
            self.add_with_own_chunk(file, &chunk)
        } else {
            Err(missing())
        }
    }
});

/// Reads the third field of a file: a recipe (`None`) or the inner offset of version 1.
struct RecipeOrOffset<'a>(&'a mut ManifestBuilder);

seed!(RecipeOrOffset, Option<u64>, "a list of hashes or an offset", {
    fn visit_u64<E: serde::de::Error>(self, inner: u64) -> Result<Option<u64>, E> {
        Ok(Some(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<u64>, A::Error> {
        while let Some(hash) = seq.next_element_seed(ChunkHashText)? {
            self.0.add_to_recipe(hash).map_err(|error| A::Error::custom(self.0.fail(error)))?;
        }
        Ok(None)
    }
});

struct Name<'a>(&'a mut ManifestBuilder);

seed!(Name, Vec<u8>, "a name", {
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
        let mut name = self.0.take_name_buffer();
        name.clear();
        name.extend_from_slice(text.as_bytes());
        Ok(name)
    }
});

struct CodecName<'a>(PhantomData<&'a ()>);

seed!(CodecName, BlockCodec, "the name of a compression", {
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<BlockCodec, E> {
        match text {
            "Zstd" => Ok(BlockCodec::Zstd),
            "None" => Ok(BlockCodec::None),
            "Lz4" => Ok(BlockCodec::Unknown),
            other => Err(E::custom(format_args!("unknown compression: {other:.20}"))),
        }
    }
});

/// Reads the embedding spaces of version 1, which become attributes of the archive.
///
/// Specification: nra.md, section 12.
struct Spaces<'a>(&'a mut ManifestBuilder);

#[derive(Deserialize)]
struct Space {
    id: String,
    model_uri: String,
    dimension: u16,
}

seed!(Spaces, (), "a list of spaces", {
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(space) = seq.next_element::<Space>()? {
            // Version 1 stores neither the metric nor the type of the numbers. A semicolon would end the
            // name of the model.
            let model = space.model_uri.replace(';', "%3B");
            let value = format!("model={model};dimension={}", space.dimension).into_bytes();
            let attributes = &mut self.0.manifest.attributes;
            attributes.push(embedding_attribute(&space.id, value)?);
        }
        let attributes = &mut self.0.manifest.attributes;
        attributes.sort();
        attributes.dedup_by(|a, b| a.name == b.name);
        Ok(())
    }
});

/// Reads the vectors of a file of version 1, which become its attributes.
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
            attributes.push(embedding_attribute(&vector.space_id, vector.data)?);
        }
        Ok(attributes)
    }
});

/// Returns the NRA 5 attribute of a space, or of a vector in it.
fn embedding_attribute<E: serde::de::Error>(space: &str, value: Vec<u8>) -> Result<Attribute, E> {
    let name = [EMBEDDING, space.as_bytes()].concat();
    if name.len() > MAX_ATTRIBUTE_NAME || value.len() > MAX_ATTRIBUTE_VALUE {
        let error = Error::Limit { what: "length of a vector", found: value.len() as u64, limit: MAX_ATTRIBUTE_VALUE as u64 };
        return Err(E::custom(error));
    }
    Ok(Attribute { namespace: Namespace::Nra, name: name.into(), value: value.into() })
}
