//! Offsets and sizes of the fields in structures of fixed layout.
//!
//! Encoders and parsers use these constants. `tests/spec_tables.rs` compares them with the tables of
//! nra.md.

/// Length of the superblock.
pub const SUPERBLOCK_LEN: usize = 256;

pub use nra_core::layout::{Field, key_frame, key_slot};
use nra_core::structure;

structure! {
    /// Reference to a frame (section 2).
    reference {
        OFFSET = "offset": 0, 8;
        LENGTH = "length": 8, 8;
        HEADER_CHECKSUM = "header_checksum": 16, 8;
    }
}

structure! {
    /// Superblock (section 4).
    superblock {
        MAGIC = "magic": 0, 4;
        VERSION = "version": 4, 2;
        RESERVED_A = "reserved_a": 6, 2;
        REQUIRED = "required": 8, 4;
        OPTIONAL = "optional": 12, 4;
        KEY_FRAME_OFFSET = "key_frame_offset": 16, 8;
        KEY_FRAME_LENGTH = "key_frame_length": 24, 8;
        RESERVED_B = "reserved_b": 32, 24;
        CHECKSUM = "checksum": 56, 8;
        COMMIT_SLOT_A = "commit_slot_a": 64, 64;
        COMMIT_SLOT_B = "commit_slot_b": 128, 64;
        RESERVED_C = "reserved_c": 192, 64;
    }
}

structure! {
    /// Commit slot of the superblock (section 5).
    commit_slot {
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
        BLOCK_INDEX_LEN = "block_index_len": 20, 4;
        DICTIONARY = "dictionary": 24, 8;
        PAYLOAD_CHECKSUM = "payload_checksum": 32, 8;
        BLOCK_INDEX_CHECKSUM = "block_index_checksum": 40, 8;
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
        CHUNK_BYTES = "chunk_bytes": 64, 8;
        STORED_BYTES = "stored_bytes": 72, 8;
        BLOCKS = "blocks": 80, 8;
        CHUNKS = "chunks": 88, 8;
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
    /// Recovery header: the start of the payload of each recovery frame (section 19).
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
    /// Footer after a commit frame (section 14).
    footer {
        MAGIC = "magic": 0, 8;
        VERSION = "version": 8, 2;
        RESERVED_A = "reserved_a": 10, 2;
        REQUIRED = "required": 12, 4;
        COMMIT_OFFSET = "commit_offset": 16, 8;
        COMMIT_LENGTH = "commit_length": 24, 8;
        KEY_FRAME_OFFSET = "key_frame_offset": 32, 8;
        KEY_FRAME_LENGTH = "key_frame_length": 40, 8;
        NUMBER = "number": 48, 8;
        CHECKSUM = "checksum": 56, 8;
    }
}

structure! {
    /// Start of a sealed frame (section 18).
    sealed {
        SYNC = "sync": 0, 4;
        RESERVED = "reserved": 4, 4;
        SALT = "salt": 8, 24;
        HEADER = "header": 32, 64;
        TAG = "tag": 96, 16;
    }
}
