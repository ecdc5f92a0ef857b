//! The runs of a text: letters that words are made of, and marks.
//!
//! A word of letters, in whatever spelling, stands in one run, so that what is known of a run is known of each word in
//! it. Sixty-four bytes are told apart at once, without a branch for each.

use std::ops::Range;

use crate::words::LEET_MARKS;

/// Bytes that are told apart at once, and so the most runs of them.
pub(crate) const BLOCK_BYTES: usize = 64;

/// Whether words are made of this byte: a letter, a digit, `_`, or a mark that is written for a letter.
#[inline(always)]
pub(crate) const fn is_letter(byte: u8) -> bool {
    let [a, b, c, d] = LEET_MARKS;
    ((byte | 0x20).wrapping_sub(b'a') < 26)
        | (byte.wrapping_sub(b'0') < 10)
        | (byte == b'_')
        | (byte == a)
        | (byte == b)
        | (byte == c)
        | (byte == d)
}

/// Whether a byte is neither: white space, a control character, or of another script.
#[inline(always)]
pub(crate) const fn is_gap(byte: u8) -> bool {
    byte as i8 <= b' ' as i8
}

/// What a byte is to a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Gap,
    Mark,
}

/// What each byte is, where one is looked at by itself.
const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Mark; 256];
    let mut byte = 0;
    while byte < 256 {
        if is_letter(byte as u8) {
            kinds[byte] = Kind::Letter;
        } else if is_gap(byte as u8) {
            kinds[byte] = Kind::Gap;
        }
        byte += 1;
    }
    kinds
};

/// Whether a text is ASCII. The standard library looks at each byte of a short one by itself.
pub(crate) fn is_ascii(text: &[u8]) -> bool {
    let (eights, rest) = text.as_chunks::<8>();
    let eights = eights.iter().map(|eight| u64::from_le_bytes(*eight));
    let all = eights.fold(0, |all, eight| all | eight).to_le_bytes();
    rest.iter().chain(&all).fold(0, |all, byte| all | byte) < 0x80
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Run {
    pub(crate) fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// The runs of a text, some at a time.
pub(crate) struct Runs<'t> {
    bytes: &'t [u8],
    /// Fewest marks of a run that is given: one or two.
    marks_min: usize,
    /// The block that is next, and where the last run of those before it ends.
    base: usize,
    from: usize,
}

impl<'t> Runs<'t> {
    pub(crate) fn new(bytes: &'t [u8], marks_min: usize) -> Runs<'t> {
        Runs {
            bytes,
            marks_min,
            base: 0,
            from: 0,
        }
    }

    /// Calls `each` with the runs that begin in the next block, in their order; answers whether there was one.
    #[inline(always)]
    pub(crate) fn next(&mut self, mut each: impl FnMut(Run)) -> bool {
        let base = self.base;
        let rest = match self.bytes.get(base..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => return false,
        };
        self.base += BLOCK_BYTES;
        let fresh = match self.from.saturating_sub(base) {
            before @ 0..BLOCK_BYTES => !0 << before,
            _ => return true,
        };
        let (letters, marks) = match rest.first_chunk() {
            Some(block) => kinds(block),
            None => {
                let mut block = [b' '; BLOCK_BYTES];
                block[..rest.len()].copy_from_slice(rest);
                kinds(&block)
            }
        };
        let (letters, marks) = (letters & fresh, marks & fresh);
        let mut starts = marks & !(marks << 1);
        if self.marks_min > 1 {
            // What goes on behind the block is looked at there.
            starts &= marks >> 1 | 1 << (BLOCK_BYTES - 1);
        }
        starts |= letters & !(letters << 1);
        while starts != 0 {
            let at = starts.trailing_zeros();
            starts &= starts - 1;
            let is_letters = letters >> at & 1 == 1;
            let kind = if is_letters { letters } else { marks };
            let start = base + at as usize;
            let end = start + (kind >> at).trailing_ones() as usize;
            let mut run = Run { start, end };
            if end < self.base || self.go_on(&mut run, is_letters) {
                each(run);
            }
        }
        true
    }

    /// Where the part of the text ends of which all runs were given.
    pub(crate) fn done(&self) -> usize {
        self.base.max(self.from)
    }

    /// Finds where a run ends that does not end in its block; answers whether it is long enough.
    fn go_on(&mut self, run: &mut Run, is_letters: bool) -> bool {
        let kind = if is_letters { Kind::Letter } else { Kind::Mark };
        let same = |byte: &&u8| KINDS[usize::from(**byte)] == kind;
        let behind = self.bytes[run.end..].iter();
        run.end += behind.take_while(same).count();
        self.from = run.end;
        is_letters || run.end - run.start >= self.marks_min
    }
}

/// A bit for each byte of a block that is a letter, and for each that is a mark.
#[inline(always)]
fn kinds(block: &[u8; BLOCK_BYTES]) -> (u64, u64) {
    let (letters, gaps) = (inside(block, is_letter), inside(block, is_gap));
    (letters, !(letters | gaps))
}

/// A bit for each byte of the first block of a text that a class holds; a class that has no zero.
#[inline(always)]
pub(crate) fn inside_first(text: &[u8], class: impl Fn(u8) -> bool) -> u64 {
    match text.first_chunk() {
        Some(block) => inside(block, class),
        None => {
            let mut block = [0; BLOCK_BYTES];
            block[..text.len()].copy_from_slice(text);
            inside(&block, class)
        }
    }
}

/// A bit for each byte of a block that a class holds. A class of few ranges costs no branch and no look into a table.
#[inline(always)]
pub(crate) fn inside(block: &[u8; BLOCK_BYTES], class: impl Fn(u8) -> bool) -> u64 {
    let mut flags = [0; BLOCK_BYTES];
    for (flag, byte) in flags.iter_mut().zip(block) {
        *flag = u8::from(class(*byte));
    }
    bits(&flags)
}

/// The lowest bits of bytes, in their order.
#[inline(always)]
fn bits(flags: &[u8; BLOCK_BYTES]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    let gather = |eight: &[u8; 8]| u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080);
    let rows = eights.iter().map(|eight| gather(eight) >> 56);
    rows.enumerate()
        .fold(0, |all, (at, row)| all | row << (8 * at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &[u8], marks_min: usize) -> Vec<Range<usize>> {
        let (mut all, mut runs) = (Runs::new(text, marks_min), Vec::new());
        while all.next(|run| runs.push(run.range())) {}
        runs
    }

    /// The same, byte by byte.
    fn slowly(text: &[u8], marks_min: usize) -> Vec<Range<usize>> {
        let kind = |byte: u8| match byte {
            _ if is_gap(byte) => 0,
            _ if is_letter(byte) => 1,
            _ => 2,
        };
        let (mut runs, mut start) = (Vec::new(), 0);
        for end in 1..=text.len() {
            if end == text.len() || kind(text[end]) != kind(text[start]) {
                let kind = kind(text[start]);
                if kind == 1 || kind == 2 && end - start >= marks_min {
                    runs.push(start..end);
                }
                start = end;
            }
        }
        runs
    }

    #[test]
    fn each_byte_of_a_text_tells_whether_it_is_ascii() {
        for length in 0..40 {
            let mut text = vec![b'a'; length];
            assert!(is_ascii(&text));
            for at in 0..length {
                text[at] = 0x80;
                assert!(!is_ascii(&text));
                text[at] = 0x7f;
            }
        }
    }

    #[test]
    fn letters_and_marks_are_runs_of_their_own() {
        let text = b"an api_key=\"s3cr3t!\" -- <!--x, \xe4\xbd\xa0y";
        let all = runs(text, 1);
        let words: Vec<_> = all.iter().map(|run| &text[run.clone()]).collect();
        let wanted: [&[u8]; 11] = [
            b"an", b"api_key", b"=\"", b"s3cr3t!", b"\"", b"--", b"<", b"!", b"--", b"x", b",",
        ];
        assert_eq!(words[..11], wanted);
        assert_eq!(words[11..], [b"y"]);
        let marks = |run: &&Range<usize>| !is_letter(text[run.start]) && run.len() == 1;
        let all: Vec<_> = all.iter().filter(|run| !marks(run)).cloned().collect();
        assert_eq!(runs(text, 2), all);
    }

    #[test]
    fn blocks_do_not_divide_runs() {
        let pieces: [&[u8]; 8] = [
            b"a",
            b" ",
            b"-",
            b"--",
            b"longer_word",
            b"<<<",
            b"\n",
            b".x",
        ];
        let mut seed = 1u32;
        for length in 0..400 {
            let mut text = Vec::new();
            while text.len() < length {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let piece = pieces[(seed >> 24) as usize % pieces.len()];
                let times = if seed >> 16 & 31 == 0 { 70 } else { 1 };
                text.extend(piece.repeat(times));
            }
            for marks_min in [1, 2] {
                assert_eq!(runs(&text, marks_min), slowly(&text, marks_min));
            }
        }
    }
}
