//! Lists that are one constant. Of thousands of texts with an address each, all addresses have to be put right whenever a
//! process starts, which took a third of a hook's time.

use std::fmt;
use std::str::SplitTerminator;

/// Texts, none of which has a NUL: each ends with one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Texts(&'static str);

impl Texts {
    pub(crate) const fn packed(all: &'static str) -> Texts {
        Texts(all)
    }

    /// Puts texts together for the rest of the process.
    pub(crate) fn keep(texts: &[String]) -> Texts {
        let all: String = texts.iter().flat_map(|text| [text, "\0"]).collect();
        Texts(all.leak())
    }

    /// The texts, in their order.
    pub fn iter(&self) -> SplitTerminator<'static, char> {
        self.0.split_terminator('\0')
    }

    /// The first of them; empty where there is none.
    pub fn first(&self) -> &'static str {
        self.iter().next().unwrap_or_default()
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Texts {
    type Item = &'static str;
    type IntoIter = SplitTerminator<'static, char>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Words with their edges: of each its edges, its length in four bytes, and itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Words(&'static [u8]);

impl Words {
    pub(crate) const fn packed(all: &'static [u8]) -> Words {
        Words(all)
    }

    /// Puts words together for the rest of the process.
    pub(crate) fn keep(words: &[(Vec<u8>, u8)]) -> Words {
        Words(pack(words).leak())
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// What [`Words`] are.
pub(crate) fn pack(words: &[(Vec<u8>, u8)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (word, edges) in words {
        all.push(*edges);
        all.extend_from_slice(&(word.len() as u32).to_le_bytes());
        all.extend_from_slice(word);
    }
    all
}

impl Iterator for Words {
    type Item = (&'static [u8], u8);

    fn next(&mut self) -> Option<Self::Item> {
        let (edges, rest) = self.0.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (word, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.0 = rest;
        Some((word, *edges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_what_they_were() {
        let texts = ["", "a b", "", "\n"].map(str::to_owned);
        assert!(Texts::keep(&texts).iter().eq(texts.iter()));
        assert_eq!(Texts::keep(&texts).len(), 4);
        assert_eq!(Texts::keep(&texts[1..]).first(), "a b");
        assert!(Texts::keep(&[]).is_empty());
        let words = [(vec![1; 300], 3), (Vec::new(), 0), (vec![0, 9], 12)];
        let read = Words::keep(&words).map(|(word, edges)| (word.to_vec(), edges));
        assert!(read.eq(words));
    }
}
