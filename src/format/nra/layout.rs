//! Places of the fields in structures of fixed layout.
//!
//! Encoders and parsers use these constants, and `tests/spec_tables.rs` compares them with the tables of nra.md.

/// Length of the head.
pub const HEAD_LEN: usize = 256;

/// A field of `N` bytes.
#[derive(Debug, Clone, Copy)]
pub struct Field<const N: usize> {
    /// Bytes from the start of the structure.
    pub offset: usize,
}

impl<const N: usize> Field<N> {
    /// Takes the bytes of the field out of a structure that is long enough.
    pub(crate) fn get(self, structure: &[u8]) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&structure[self.offset..self.offset + N]);
        bytes
    }

    /// Sets the bytes of the field.
    pub(crate) fn put(self, structure: &mut [u8], bytes: [u8; N]) {
        structure[self.offset..self.offset + N].copy_from_slice(&bytes);
    }

    /// Says whether all bytes of the field are zero.
    pub(crate) fn is_zero(self, structure: &[u8]) -> bool {
        self.get(structure) == [0; N]
    }
}

macro_rules! structure {
    ($(#[$doc:meta])* $module:ident { $($name:ident = $text:literal: $offset:literal, $size:literal;)* }) => {
        $(#[$doc])*
        #[allow(missing_docs)]
        pub mod $module {
            use super::Field;
            $(pub const $name: Field<$size> = Field { offset: $offset };)*
            /// Name, offset and size of each field.
            pub const TABLE: &[(&str, usize, usize)] = &[$(($text, $offset, $size)),*];
        }
    };
}

structure! {
    /// Reference to a frame (section 2).
    reference {
        OFFSET = "offset": 0, 8;
        LENGTH = "length": 8, 8;
        CHECK = "check": 16, 8;
    }
}

structure! {
    /// Head of the file (section 4).
    head {
        MAGIC = "magic": 0, 4;
        VERSION = "version": 4, 2;
        RESERVED_A = "reserved_a": 6, 2;
        REQUIRED = "required": 8, 4;
        OPTIONAL = "optional": 12, 4;
        KEYS_OFFSET = "keys_offset": 16, 8;
        KEYS_LENGTH = "keys_length": 24, 8;
        RESERVED_B = "reserved_b": 32, 24;
        CHECKSUM = "checksum": 56, 8;
        SLOT_A = "slot_a": 64, 64;
        SLOT_B = "slot_b": 128, 64;
        RESERVED_C = "reserved_c": 192, 64;
    }
}

structure! {
    /// Slot of the head (section 5).
    slot {
        MAGIC = "magic": 0, 8;
        NUMBER = "number": 8, 8;
        END = "end": 16, 8;
        RESERVED = "reserved": 24, 32;
        CHECKSUM = "checksum": 56, 8;
    }
}

structure! {
    /// Header of a frame (section 6).
    frame {
        SYNC = "sync": 0, 4;
        KIND = "kind": 4, 1;
        CODEC = "codec": 5, 1;
        RESERVED = "reserved": 6, 2;
        RAW_LEN = "raw_len": 8, 4;
        STORED_LEN = "stored_len": 12, 4;
        PAD_LEN = "pad_len": 16, 4;
        DIRECTORY_LEN = "directory_len": 20, 4;
        DICTIONARY = "dictionary": 24, 8;
        PAYLOAD_CHECKSUM = "payload_checksum": 32, 8;
        DIRECTORY_CHECKSUM = "directory_checksum": 40, 8;
        COMMIT = "commit": 48, 8;
        HEADER_CHECKSUM = "header_checksum": 56, 8;
    }
}

structure! {
    /// Payload of a commit frame up to its variable part (section 13).
    commit {
        ARCHIVE_ID = "archive_id": 0, 16;
        NUMBER = "number": 16, 8;
        SECONDS = "seconds": 24, 8;
        NANOSECONDS = "nanoseconds": 32, 4;
        FLAGS = "flags": 36, 4;
        ENTRIES = "entries": 40, 8;
        FILES = "files": 48, 8;
        CONTENT_BYTES = "content_bytes": 56, 8;
        PIECE_BYTES = "piece_bytes": 64, 8;
        STORED_BYTES = "stored_bytes": 72, 8;
        BLOCKS = "blocks": 80, 8;
        PIECES = "pieces": 88, 8;
        ENTRY_ROOT = "entry_root": 96, 24;
        PREVIOUS = "previous": 120, 24;
        ATTRIBUTES = "attributes": 144, 24;
        RESERVED = "reserved": 168, 24;
        LINK_GROUPS = "link_groups": 192, 8;
        RUNS = "runs": 200, 4;
        MESSAGE_LEN = "message_len": 204, 4;
    }
}

structure! {
    /// What the payload of each recovery frame begins with (section 19).
    recovery {
        PROTECTED = "protected": 0, 8;
        SHARD_LEN = "shard_len": 8, 4;
        GROUPS = "groups": 12, 4;
        PARITIES = "parities": 16, 4;
        FRAME_UNITS = "frame_units": 20, 4;
        PERCENT = "percent": 24, 4;
        RESERVED_A = "reserved_a": 28, 4;
        COMMIT = "commit": 32, 8;
        FRAME = "frame": 40, 8;
        RESERVED_B = "reserved_b": 48, 8;
        CHECKSUM = "checksum": 56, 8;
    }
}

structure! {
    /// Tail behind a commit (section 14).
    tail {
        MAGIC = "magic": 0, 8;
        VERSION = "version": 8, 2;
        RESERVED_A = "reserved_a": 10, 2;
        REQUIRED = "required": 12, 4;
        COMMIT_OFFSET = "commit_offset": 16, 8;
        COMMIT_LENGTH = "commit_length": 24, 8;
        KEYS_OFFSET = "keys_offset": 32, 8;
        KEYS_LENGTH = "keys_length": 40, 8;
        NUMBER = "number": 48, 8;
        CHECKSUM = "checksum": 56, 8;
    }
}

structure! {
    /// Payload of a key frame up to the slots (section 18).
    keys {
        SLOTS = "slots": 0, 2;
        RESERVED = "reserved": 2, 6;
        SALT = "salt": 8, 24;
        MAC = "mac": 32, 32;
    }
}

structure! {
    /// Key slot (section 18).
    key_slot {
        KIND = "kind": 0, 1;
        RESERVED_A = "reserved_a": 1, 3;
        MEMORY_KIB = "memory_kib": 4, 4;
        PASSES = "passes": 8, 4;
        LANES = "lanes": 12, 4;
        SALT = "salt": 16, 32;
        WRAPPED = "wrapped": 48, 48;
        LABEL = "label": 96, 16;
        RESERVED_B = "reserved_b": 112, 16;
    }
}

structure! {
    /// Beginning of a sealed frame (section 18).
    sealed {
        SYNC = "sync": 0, 4;
        RESERVED = "reserved": 4, 4;
        SALT = "salt": 8, 24;
        HEADER = "header": 32, 64;
        TAG = "tag": 96, 16;
    }
}
