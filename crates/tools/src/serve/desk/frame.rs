//! What processes tell each other: JSON behind its length, four bytes, big endian.

use std::io;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::serve::call::{Ask, Problem, Said};

/// Longest frame, in bytes.
pub const BYTES_MAX: usize = 16 << 20;

/// What the owner is asked.
#[derive(Serialize, Deserialize)]
pub struct Asked {
    /// Whose engine is meant: an owner with other settings may read what the asker may not.
    pub of: String,
    /// The call.
    pub ask: Ask,
}

/// What the owner says: any number of states, then the answer.
#[derive(Serialize, Deserialize)]
pub enum Frame<J> {
    /// How far the job is.
    Progress(Box<J>),
    /// The end.
    Answer(Box<Result<Said, Problem>>),
}

/// Writes one frame.
pub async fn write<T: Serialize>(to: &mut (impl AsyncWrite + Unpin), frame: &T) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, frame)?;
    let length = bytes.len() - 4;
    if length > BYTES_MAX {
        return Err(io::Error::other("a frame is too long"));
    }
    let length = u32::try_from(length).map_err(io::Error::other)?;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    to.write_all(&bytes).await
}

/// Reads one frame. Fails at a length over the bound before anything is kept of it.
pub async fn read<T: for<'a> Deserialize<'a>>(
    from: &mut (impl AsyncRead + Unpin),
) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let length = u32::from_be_bytes(length) as usize;
    if length > BYTES_MAX {
        let what = format!("a frame of {length} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let mut bytes = Vec::new();
    let read = from.take(length as u64).read_to_end(&mut bytes).await?;
    if read < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_comes_as_it_went() {
        let (mut a, mut b) = tokio::io::duplex(64);
        let problem = Problem::argument("no");
        let sent = Frame::<String>::Answer(Box::new(Err(problem.clone())));
        let (wrote, got) = tokio::join!(write(&mut a, &sent), read(&mut b));
        wrote.unwrap();
        let Frame::<String>::Answer(answer) = got.unwrap() else {
            panic!("another frame");
        };
        assert_eq!(answer.unwrap_err(), problem);
    }

    #[tokio::test]
    async fn what_is_no_frame_is_refused() {
        let long = (BYTES_MAX as u32 + 1).to_be_bytes();
        let cut = [0, 0, 0, 9, b'{'];
        let odd = [0, 0, 0, 2, b'{', b'x'];
        for bytes in [&long[..], &cut, &odd, &[0, 0]] {
            assert!(
                read::<Frame<String>>(&mut &bytes[..]).await.is_err(),
                "{bytes:?}"
            );
        }
    }
}
