//! Variable-length integers (RFC 9000 §16): the two highest bits of the first byte say how many bytes there are.
//!
//! We write the shortest form. We read every form, because RFC 9292 does not ask for the shortest; none of the values
//! is compared by its bytes, so two spellings of one number can mislead nobody.

/// The largest value, 2^62 - 1.
pub(super) const MAX: u64 = (1 << 62) - 1;

/// An integer of which perhaps not all bytes have come.
#[derive(Clone, Copy, Default)]
pub(super) struct Partial {
    value: u64,
    /// Bytes still to come; 0 before the first.
    missing: u8,
}

impl Partial {
    /// Takes bytes from `input` until the integer is whole; nothing if it is not yet.
    #[inline]
    pub(super) fn read(&mut self, input: &mut &[u8]) -> Option<u64> {
        if self.missing == 0 {
            let (&first, rest) = input.split_first()?;
            *input = rest;
            self.value = u64::from(first & 0x3f);
            self.missing = (1 << (first >> 6)) - 1;
        }
        while self.missing > 0 {
            let (&byte, rest) = input.split_first()?;
            *input = rest;
            self.value = self.value << 8 | u64::from(byte);
            self.missing -= 1;
        }
        Some(self.value)
    }

    /// Whether some bytes of an integer have come, and not all.
    pub(super) fn is_open(&self) -> bool {
        self.missing > 0
    }
}

/// Writes the shortest form of `value`, which is at most [`MAX`].
#[inline]
pub(super) fn write(out: &mut Vec<u8>, value: u64) {
    debug_assert!(value <= MAX);
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend_from_slice(&(value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> (Option<u64>, usize) {
        let whole = bytes.len();
        let value = Partial::default().read(&mut bytes);
        (value, whole - bytes.len())
    }

    #[test]
    fn the_examples_of_rfc_9000_appendix_a_1() {
        let cases: [(&[u8], u64); 5] = [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ];
        for (bytes, value) in cases {
            assert_eq!(read(bytes), (Some(value), bytes.len()));
        }
    }

    #[test]
    fn what_is_written_is_read_in_any_pieces_and_shortest() {
        let edges = [0, 0x3f, 0x40, 0x3fff, 0x4000, 0x3fff_ffff, 0x4000_0000, MAX];
        for (value, bytes) in edges.into_iter().zip([1, 1, 2, 2, 4, 4, 8, 8]) {
            let mut out = Vec::new();
            write(&mut out, value);
            assert_eq!(out.len(), bytes);
            assert_eq!(read(&out), (Some(value), bytes));
            let mut partial = Partial::default();
            for (index, byte) in out.iter().enumerate() {
                let read = partial.read(&mut [*byte].as_slice());
                assert_eq!(read, (index + 1 == bytes).then_some(value));
                assert_eq!(partial.is_open(), index + 1 < bytes);
            }
        }
    }
}
