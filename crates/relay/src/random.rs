//! Random bytes of the kernel.
//!
//! They do not come from a generator in the process, because a machine that is cloned clones the generator with it.

use base::CallId;
use rustix::rand::{GetRandomFlags, getrandom};
use seal::Random;

/// The kernel gave no random bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRandom;

/// Fills a buffer.
pub(crate) fn fill(buffer: &mut [u8]) -> Result<(), NoRandom> {
    let mut filled = 0;
    while filled < buffer.len() {
        match getrandom(&mut buffer[filled..], GetRandomFlags::empty()) {
            Ok(0) => return Err(NoRandom),
            Ok(bytes) => filled += bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(NoRandom),
        }
    }
    Ok(())
}

/// Random bytes for `seal`.
pub(crate) fn draw<const N: usize>() -> Result<Random<N>, NoRandom> {
    Random::draw(fill)
}

/// The id of a call that is judged.
pub(crate) fn call_id() -> Result<CallId, NoRandom> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(CallId(bytes))
}
