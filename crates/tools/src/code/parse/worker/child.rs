//! The child's side: bounds itself, then reads batches and answers until its input ends.

use std::io::{self, Read, Write};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::super::file_until;
use super::super::types::Parsed;
use super::{BATCH_FILES_MAX, FILE_CPU_MS_MAX, FILE_CPU_S_HARD, MEMORY_BYTES_MAX, wire};

/// How often it is asked whether to stop before a look at the clock, which is a call of the system: a parser asks after
/// each hundred steps, and takes far less than a millisecond for so many.
const ASKED_EACH: u32 = 16;

/// Asked whether to stop.
type Stop<'a> = &'a mut dyn FnMut() -> bool;

/// Answers on standard output what is asked on standard input, until that ends.
///
/// # Errors
///
/// When a bound cannot be set, or when the other side does not speak the frames: the process should end.
pub fn serve() -> io::Result<()> {
    serve_by(&mut |path, bytes, stop| file_until(path, bytes, stop))
}

/// As [`serve`], with another parser: for tests of what a pool does about bad ones.
///
/// # Errors
///
/// As [`serve`].
pub fn serve_by(parse: &mut dyn FnMut(&str, &[u8], Stop<'_>) -> Parsed) -> io::Result<()> {
    bound()?;
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    output.write_all(&wire::hello())?;
    output.flush()?;
    let mut frame = Vec::new();
    while let Some(count) = next(&mut input, &mut frame)? {
        let files = wire::read(&frame, count).ok_or(io::ErrorKind::InvalidData)?;
        for (path, bytes) in files {
            let parsed = within_time(path, bytes, parse)?;
            let answer = postcard::to_allocvec(&parsed).map_err(io::Error::other)?;
            let length = u32::try_from(answer.len()).map_err(io::Error::other)?;
            output.write_all(&length.to_le_bytes())?;
            output.write_all(&answer)?;
            output.flush()?;
        }
    }
    Ok(())
}

/// Reads the next batch; `None` at the end of the input.
fn next(input: &mut impl Read, frame: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut head = [0; 8];
    if input.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    input.read_exact(&mut head[1..])?;
    let number = |at: usize| {
        u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
    };
    let (count, length) = (number(0), number(4));
    if count > BATCH_FILES_MAX || length > wire::BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    frame.clear();
    frame.resize(length, 0);
    input.read_exact(frame)?;
    Ok(Some(count))
}

/// Parses within the time of one file: asked kindly first, ended by the kernel if that is not heard.
fn within_time(
    path: &str,
    bytes: &[u8],
    parse: &mut dyn FnMut(&str, &[u8], Stop<'_>) -> Parsed,
) -> io::Result<Parsed> {
    let begun = used();
    limit(Resource::Cpu, begun.as_secs() + 1 + FILE_CPU_S_HARD)?;
    let end = begun + Duration::from_millis(FILE_CPU_MS_MAX);
    let mut asked = 0_u32;
    let mut stop = || {
        asked += 1;
        asked.is_multiple_of(ASKED_EACH) && used() > end
    };
    Ok(parse(path, bytes, &mut stop))
}

/// The processor time of this process.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Gives up what a parser does not need: memory without end, files, sockets, dumps of its memory.
fn bound() -> io::Result<()> {
    limit(Resource::As, MEMORY_BYTES_MAX)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    // Standard input, output and error are all that it may have.
    limit(Resource::Nofile, 3)
}

/// Sets a limit. Only that of processor time moves on, file by file; the others can never be raised again.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let maximum = if matches!(resource, Resource::Cpu) {
        None
    } else {
        Some(most)
    };
    setrlimit(
        resource,
        Rlimit {
            current: Some(most),
            maximum,
        },
    )?;
    Ok(())
}
