//! The description of a file: facts and rows.

use std::fmt;

/// Maximum number of rows.
pub const MAX_ROWS: usize = 5_000;
/// Maximum length of a text, bytes.
pub const MAX_TEXT: usize = 256;

/// Facts about a file and its contents as rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// Name of the format: `safetensors`.
    pub format: &'static str,
    /// A short summary for a line of a list: `f32 [2, 3]`. May be empty.
    pub brief: String,
    /// Elements of the array, if the content is one.
    pub elements: Option<Elements>,
    /// Labels and values.
    pub facts: Vec<(String, String)>,
    /// Names of the columns.
    pub heads: Vec<&'static str>,
    /// The first [`MAX_ROWS`] rows, a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Number of all rows.
    pub row_count: u64,
}

/// Type and number of the elements of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements {
    /// Name of the type: `f32`.
    pub dtype: String,
    /// Sizes of the dimensions; none for a single number.
    pub shape: Vec<u64>,
}

impl fmt::Display for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        write!(f, "{} [{}]", self.dtype, sizes.join(", "))
    }
}

impl Description {
    /// Returns an empty description of a file of this format, with the names of its columns.
    pub fn new(format: &'static str, heads: &[&'static str]) -> Self {
        Self { format, heads: heads.to_vec(), ..Self::default() }
    }

    /// Sets the elements of the array.
    pub fn array(&mut self, elements: Elements) {
        self.brief = short(&elements.to_string());
        self.fact("type", elements.dtype.as_str());
        self.fact("shape", shape(&elements.shape));
        self.fact("elements", known(product(&elements.shape)));
        self.elements = Some(elements);
    }

    /// Adds a fact.
    pub fn fact(&mut self, label: &str, value: impl Into<String>) {
        self.facts.push((short(label), short(&value.into())));
    }

    /// Adds a row; rows beyond [`MAX_ROWS`] are only counted.
    pub fn row(&mut self, cells: &[&str]) {
        self.row_count += 1;
        if self.rows.len() < MAX_ROWS {
            self.rows.push(cells.iter().map(|cell| short(cell)).collect());
        }
    }
}

/// Returns the start of a text, with `…` where it was cut.
pub fn short(text: &str) -> String {
    if text.len() <= MAX_TEXT { text.to_owned() } else { format!("{}…", &text[..text.floor_char_boundary(MAX_TEXT)]) }
}

/// Returns a shape as `3 × 4`; that of a single number is `1`.
pub fn shape(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
    if sizes.is_empty() { "1".to_owned() } else { sizes.join(" × ") }
}

/// Multiplies sizes, unless the product is beyond 64 bits.
pub fn product(sizes: &[u64]) -> Option<u64> {
    sizes.iter().try_fold(1u64, |product, size| product.checked_mul(*size))
}

/// Returns a number that may be unknown.
pub fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}
