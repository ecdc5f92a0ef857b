//! A value that cannot be printed.

/// A secret: no `Debug`, no `Display`, no serialization. [`Secret::expose`] is the one way in, so that a
/// search for it finds each place where a secret is used. Two can be compared, so that a reload knows whether one changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: String) -> Secret {
        Secret(value)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}
