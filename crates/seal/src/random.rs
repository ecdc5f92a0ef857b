//! Random bytes that are passed in, and used once.
//!
//! It exists because this crate draws nothing itself: a test passes known bytes, the relay passes the
//! kernel's. A [`Random`] has no `Clone`, so that the same bytes cannot be used for two messages.

use zeroize::Zeroizing;

/// `N` random bytes. They come from the kernel, not from a generator in the process, because a machine
/// that is cloned clones the generator with it.
pub struct Random<const N: usize>(Zeroizing<[u8; N]>);

/// What an init takes: the seed of the ephemeral key, and the randomness of one encapsulation.
pub type InitRandom = Random<96>;
/// What a reply takes: two encapsulations, the session's id, and the ticket's nonce.
pub type ReplyRandom = Random<156>;
/// What a sender takes: its id.
pub type IdRandom = Random<16>;

impl<const N: usize> Random<N> {
    /// Takes bytes that were drawn already.
    pub fn new(bytes: [u8; N]) -> Random<N> {
        Random(Zeroizing::new(bytes))
    }

    /// Draws bytes by a function that fills a buffer from the kernel.
    ///
    /// # Errors
    /// Those of the function.
    pub fn draw<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Random<N>, E> {
        let mut bytes = Zeroizing::new([0; N]);
        fill(&mut bytes[..])?;
        Ok(Random(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; N] {
        &self.0
    }
}
