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

    /// Returns the number in the field.
    pub fn number<T: Number<N>>(self, structure: &[u8]) -> T {
        T::decode(self.get(structure))
    }

    /// Stores a number in the field.
    pub fn put_number<T: Number<N>>(self, structure: &mut [u8], number: T) {
        self.put(structure, number.encode());
    }
}

/// An integer that is stored in `N` bytes, little-endian.
pub trait Number<const N: usize> {
    /// Returns the number that these bytes hold.
    fn decode(bytes: [u8; N]) -> Self;
    /// Returns the bytes of the number.
    fn encode(self) -> [u8; N];
}

macro_rules! number {
    ($($type:ident: $len:literal),*) => {$(
        impl Number<$len> for $type {
            fn decode(bytes: [u8; $len]) -> Self {
                Self::from_le_bytes(bytes)
            }
            fn encode(self) -> [u8; $len] {
                self.to_le_bytes()
            }
        }
    )*};
}

number!(u8: 1, u16: 2, u32: 4, u64: 8, i64: 8);

/// Implements `put_numbers` and `get_numbers`, which store and read those members of a structure that
/// are numbers. Each member is followed by its offset. The remaining members stand in parentheses, so
/// that no member can be forgotten.
#[macro_export]
macro_rules! stored_numbers {
    ($type:ident ($($other:ident),*) { $($member:ident: $offset:expr),* $(,)? }) => {
        impl $type {
            fn put_numbers(&self, bytes: &mut [u8]) {
                let Self { $($member,)* $($other: _,)* } = self;
                $($crate::layout::Field { offset: $offset }.put_number(bytes, *$member);)*
            }
            fn get_numbers(&mut self, bytes: &[u8]) {
                $(self.$member = $crate::layout::Field { offset: $offset }.number(bytes);)*
            }
        }
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_little_endian_at_their_offset() {
        let field: Field<4> = Field { offset: 2 };
        let mut structure = [9; 8];
        field.put_number(&mut structure, 0x0102_0304_u32);
        assert_eq!(structure, [9, 9, 4, 3, 2, 1, 9, 9]);
        assert_eq!(field.get(&structure), [4, 3, 2, 1]);
        assert_eq!(field.number::<u32>(&structure), 0x0102_0304);
        field.put(&mut structure, [0, 0, 1, 0]);
        assert!(!field.is_zero(&structure));
        field.put(&mut structure, [0; 4]);
        assert!(field.is_zero(&structure));
        assert_eq!(structure, [9, 9, 0, 0, 0, 0, 9, 9]);
    }

    #[test]
    fn signed_numbers_round_trip() {
        let (field, mut structure) = (Field::<8> { offset: 0 }, [0; 8]);
        field.put_number(&mut structure, -2_i64);
        assert_eq!(structure, [0xfe, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(field.number::<i64>(&structure), -2);
    }
}
