//! Offsets and sizes of the fields in structures of fixed layout.
//!
//! Encoders and parsers use these constants. `tests/spec_tables.rs` compares them with the tables of
//! nra.md.

/// A field of `N` bytes.
#[derive(Debug, Clone, Copy)]
pub struct Field<const N: usize> {
    /// Bytes from the start of the structure.
    pub offset: usize,
}

impl<const N: usize> Field<N> {
    /// Returns the bytes of the field in a structure that is long enough.
    pub fn get(self, structure: &[u8]) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&structure[self.offset..self.offset + N]);
        bytes
    }

    /// Sets the bytes of the field.
    pub fn put(self, structure: &mut [u8], bytes: [u8; N]) {
        structure[self.offset..self.offset + N].copy_from_slice(&bytes);
    }

    /// Returns whether all bytes of the field are zero.
    pub fn is_zero(self, structure: &[u8]) -> bool {
        self.get(structure) == [0; N]
    }
}

/// Defines a module with the fields of a structure.
#[macro_export]
macro_rules! structure {
    ($(#[$doc:meta])* $module:ident { $($name:ident = $text:literal: $offset:literal, $size:literal;)* }) => {
        $(#[$doc])*
        #[allow(missing_docs)]
        pub mod $module {
            use $crate::layout::Field;
            $(pub const $name: Field<$size> = Field { offset: $offset };)*
            /// Name, offset and size of each field.
            pub const TABLE: &[(&str, usize, usize)] = &[$(($text, $offset, $size)),*];
        }
    };
}

structure! {
    /// Payload of a key frame up to the key slots (section 18).
    key_frame {
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
