//! Shannon entropy: how many bits it takes to say each byte of a text, when one knows how often each comes.

use std::sync::LazyLock;

/// Bits a byte; none for an empty text.
pub(crate) fn entropy(text: &[u8]) -> f32 {
    // It is `log2(n) - sum(count * log2(count)) / n`; here is what each byte of a kind adds to that sum, by how many came.
    static STEPS: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(step));
    let mut counts = [0usize; 256];
    let mut sum = 0.0;
    for byte in text {
        let count = &mut counts[usize::from(*byte)];
        sum += STEPS.get(*count).copied().unwrap_or_else(|| step(*count));
        *count += 1;
    }
    let total = text.len().max(1) as f32;
    total.log2() - sum / total
}

fn step(count: usize) -> f32 {
    let weighted = |count: usize| match count {
        0 => 0.0,
        count => count as f64 * (count as f64).log2(),
    };
    (weighted(count + 1) - weighted(count)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_told_from_repetition() {
        assert!(entropy(b"aaaaaaaaaaaaaaaa") < 0.01);
        assert!((entropy(b"abcdefghijklmnop") - 4.0).abs() < 0.01);
        assert!(entropy(b"") < 0.01);
    }

    #[test]
    fn it_is_what_its_definition_says() {
        let all: Vec<u8> = (0..=255u8)
            .flat_map(|byte| vec![byte % 37; usize::from(byte) * 3])
            .collect();
        for text in [&all[..], b"aabbc", b"0123456789abcdef0123", &[7; 5000]] {
            let shares = (0..=255u8).map(|byte| {
                let count = text.iter().filter(|other| **other == byte).count();
                count as f64 / text.len() as f64
            });
            let due: f64 = shares
                .filter(|share| *share > 0.0)
                .map(|share| -share * share.log2())
                .sum();
            assert!((f64::from(entropy(text)) - due).abs() < 1e-3, "{due}");
        }
    }
}
