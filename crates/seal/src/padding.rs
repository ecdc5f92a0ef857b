//! Padding: how many zeros hide the exact length of a message.
//!
//! It exists because lengths are visible whatever the cipher. It hides the length within a bucket and not
//! more: how often and when somebody speaks stays visible. The other side only checks that it is zeros.

/// Every padded length is a multiple of this, in bytes.
pub(crate) const PAD_STEP_MIN: u64 = 256;
/// No padding is as long as this, in bytes: it fits into one chunk.
pub(crate) const PAD_STEP_MAX: u64 = 65_536;

/// Zeros to append to a plaintext of this length, in bytes.
///
/// Buckets are at most an eighth of the length apart, and at least 256 and at most 65,536 bytes: so a
/// length up to 512 KiB becomes one of about eight for each doubling.
pub fn padding_bytes(plain_bytes: u64) -> u64 {
    let step = match plain_bytes.checked_ilog2() {
        Some(log) => (1_u64 << log.saturating_sub(3)).clamp(PAD_STEP_MIN, PAD_STEP_MAX),
        None => PAD_STEP_MIN,
    };
    let over = plain_bytes % step;
    if over == 0 { 0 } else { step - over }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_buckets() {
        for (plain, padded) in [
            (0, 0),
            (1, 256),
            (256, 256),
            (257, 512),
            (2_049, 2_304),
            (4_097, 4_608),
            (10_240, 10_240),
            (10_241, 11_264),
            (65_536, 65_536),
            (65_537, 73_728),
            (1 << 20, 1 << 20),
            ((1 << 20) + 1, (1 << 20) + 65_536),
        ] {
            assert_eq!(plain + padding_bytes(plain), padded, "{plain}");
        }
    }

    #[test]
    fn a_padded_length_stays_and_is_little_longer() {
        for plain in (0..4_000_000_u64).step_by(37) {
            let padding = padding_bytes(plain);
            assert!(padding < PAD_STEP_MAX && padding <= (plain / 8).max(PAD_STEP_MIN));
            assert_eq!(padding_bytes(plain + padding), 0, "{plain}");
        }
    }
}
