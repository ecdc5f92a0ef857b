//! Content codings (RFC 9110 §8.4.1) undone as the bytes come: gzip, deflate, br and zstd, within a ratio and a size.
//!
//! It refuses what unpacks to too much, what is not whole, and more than one coding at once. zstd is unpacked when all of
//! it is there, because its library reads frames whole.

use std::fmt;
use std::io::{self, Read as _, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http::header::{CONTENT_ENCODING, HeaderMap};

/// What any body may unpack to, in bytes, whatever its size.
const FREE_BYTES: u64 = 1 << 20;
/// Bytes that each byte may unpack to beyond that. Text seldom packs better than 20 to 1.
const RATIO_MAX: u64 = 256;
/// Bytes that are given to a decoder at once, so that the bounds are looked at often.
const STEP_BYTES: usize = 4 << 10;
/// Largest body in zstd, in bytes, since it is kept until it is whole.
const ZSTD_BYTES_MAX: usize = 8 << 20;
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// One coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
    Deflate,
    Br,
    Zstd,
}

/// Why a body cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodingFault {
    /// A coding that is not known, or several.
    Unknown,
    /// It unpacks to more than its bound.
    TooMuch,
    /// It is not well formed, or not whole.
    Broken,
    /// It has a coding, and is too large to be judged before any of it is sent.
    TooLarge,
}

impl fmt::Display for CodingFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CodingFault::Unknown => "its content-encoding is not known here",
            CodingFault::TooMuch => "it unpacks to more than its size allows",
            CodingFault::TooLarge => {
                "with a content-encoding it may be only as large as web.body_bytes_max"
            }
            CodingFault::Broken => "it is not what its content-encoding says, or not whole",
        })
    }
}

impl Coding {
    /// The coding of a message.
    pub(crate) fn of(fields: &HeaderMap) -> Result<Coding, CodingFault> {
        let values = fields.get_all(CONTENT_ENCODING).iter();
        let mut found = Coding::Identity;
        for value in values {
            let value = value.to_str().map_err(|_| CodingFault::Unknown)?;
            for name in value.split(',').map(str::trim) {
                let coding = match name.to_ascii_lowercase().as_str() {
                    "" | "identity" => continue,
                    "gzip" | "x-gzip" => Coding::Gzip,
                    "deflate" => Coding::Deflate,
                    "br" => Coding::Br,
                    "zstd" => Coding::Zstd,
                    _ => return Err(CodingFault::Unknown),
                };
                if found != Coding::Identity {
                    return Err(CodingFault::Unknown);
                }
                found = coding;
            }
        }
        Ok(found)
    }
}

/// What is unpacked, up to a bound.
struct Unpacked {
    bytes: Vec<u8>,
    left: u64,
}

impl Write for Unpacked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(io::ErrorKind::FileTooLarge)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum Unpacking {
    Identity,
    Gzip(Box<MultiGzDecoder<Unpacked>>),
    /// Its first bytes say whether it is in the form of RFC 1950, as it should be, or bare.
    Deflate,
    Inflate(Box<Inflate>),
    Br(Box<DecompressorWriter<Unpacked>>),
    Zstd(Vec<u8>),
}

/// One body on its way out of its coding.
pub(crate) struct Decoder {
    unpacking: Unpacking,
    taken: u64,
    /// Bytes that it may unpack to at all.
    bytes_max: u64,
}

fn unpacked() -> Unpacked {
    Unpacked {
        bytes: Vec::new(),
        left: 0,
    }
}

impl Decoder {
    pub(crate) fn new(coding: Coding, bytes_max: u64) -> Decoder {
        let unpacking = match coding {
            Coding::Identity => Unpacking::Identity,
            Coding::Gzip => Unpacking::Gzip(Box::new(MultiGzDecoder::new(unpacked()))),
            Coding::Deflate => Unpacking::Deflate,
            Coding::Br => Unpacking::Br(Box::new(DecompressorWriter::new(
                unpacked(),
                BROTLI_BUFFER_BYTES,
            ))),
            Coding::Zstd => Unpacking::Zstd(Vec::new()),
        };
        Decoder {
            unpacking,
            taken: 0,
            bytes_max,
        }
    }

    /// Takes the next bytes, and adds what they unpack to.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), CodingFault> {
        for step in bytes.chunks(STEP_BYTES) {
            self.step(step, out)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &[u8], out: &mut Vec<u8>) -> Result<(), CodingFault> {
        let before = self.allowed();
        self.taken += step.len() as u64;
        let more = self.allowed() - before;
        let first = if self.taken == step.len() as u64 {
            before
        } else {
            0
        };
        self.choose(step);
        let (written, sink) = match &mut self.unpacking {
            Unpacking::Identity => {
                out.extend_from_slice(step);
                return Ok(());
            }
            Unpacking::Zstd(kept) => {
                if kept.len() + step.len() > ZSTD_BYTES_MAX {
                    return Err(CodingFault::TooMuch);
                }
                kept.extend_from_slice(step);
                return Ok(());
            }
            Unpacking::Deflate => return Ok(()),
            Unpacking::Gzip(decoder) => {
                decoder.get_mut().left += more + first;
                (decoder.write_all(step), decoder.get_mut())
            }
            Unpacking::Inflate(inflate) => {
                inflate.left += more + first;
                return inflate.push(step, out);
            }
            Unpacking::Br(decoder) => {
                decoder.get_mut().left += more + first;
                (decoder.write_all(step), decoder.get_mut())
            }
        };
        let drained = std::mem::take(&mut sink.bytes);
        written.map_err(|error| fault(&error))?;
        out.extend_from_slice(&drained);
        Ok(())
    }

    /// What may be unpacked in all, by what came.
    fn allowed(&self) -> u64 {
        let by_ratio = FREE_BYTES.saturating_add(self.taken.saturating_mul(RATIO_MAX));
        by_ratio.min(self.bytes_max)
    }

    /// Settles which form deflate has, by its first bytes. Programs have long sent both.
    fn choose(&mut self, step: &[u8]) {
        if let Unpacking::Deflate = &self.unpacking {
            let cmf = step.first().copied().unwrap_or_default();
            let is_zlib = cmf & 0x0f == 8
                && step
                    .get(1)
                    .is_none_or(|flg| (u16::from(cmf) << 8 | u16::from(*flg)).is_multiple_of(31));
            self.unpacking = match is_zlib {
                true => Unpacking::Inflate(Inflate::new(true)),
                false => Unpacking::Inflate(Inflate::new(false)),
            };
        }
    }

    /// Says that no more comes, and adds the rest.
    ///
    /// # Errors
    /// `Broken` where the body is not whole.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), CodingFault> {
        // A coded body of no bytes at all is that of an answer without one.
        if self.taken == 0 {
            return Ok(());
        }
        let left = self.allowed();
        let (ended, sink) = match &mut self.unpacking {
            Unpacking::Identity | Unpacking::Deflate => return Ok(()),
            Unpacking::Gzip(decoder) => (decoder.try_finish(), decoder.get_mut()),
            Unpacking::Inflate(inflate) => {
                return if inflate.is_ended {
                    Ok(())
                } else {
                    Err(CodingFault::Broken)
                };
            }
            Unpacking::Br(decoder) => (decoder.close(), decoder.get_mut()),
            Unpacking::Zstd(kept) => return zstd(kept, left, out),
        };
        let rest = std::mem::take(&mut sink.bytes);
        ended.map_err(|error| fault(&error))?;
        out.extend_from_slice(&rest);
        Ok(())
    }
}

/// Deflate, which says itself where it ends.
struct Inflate {
    inner: Decompress,
    left: u64,
    is_ended: bool,
}

impl Inflate {
    fn new(is_zlib: bool) -> Box<Inflate> {
        Box::new(Inflate {
            inner: Decompress::new(is_zlib),
            left: 0,
            is_ended: false,
        })
    }

    fn push(&mut self, mut step: &[u8], out: &mut Vec<u8>) -> Result<(), CodingFault> {
        let mut piece = [0; STEP_BYTES];
        loop {
            if self.is_ended {
                return if step.is_empty() {
                    Ok(())
                } else {
                    Err(CodingFault::Broken)
                };
            }
            let (taken, given) = (self.inner.total_in(), self.inner.total_out());
            let status = self
                .inner
                .decompress(step, &mut piece, FlushDecompress::None);
            let status = status.map_err(|_| CodingFault::Broken)?;
            let taken = (self.inner.total_in() - taken) as usize;
            let given = self.inner.total_out() - given;
            self.left = self.left.checked_sub(given).ok_or(CodingFault::TooMuch)?;
            out.extend_from_slice(&piece[..given as usize]);
            step = &step[taken..];
            self.is_ended = status == Status::StreamEnd;
            if !self.is_ended && step.is_empty() && given < STEP_BYTES as u64 {
                return Ok(());
            }
            if taken == 0 && given == 0 && !self.is_ended {
                return Err(CodingFault::Broken);
            }
        }
    }
}

fn fault(error: &io::Error) -> CodingFault {
    match error.kind() {
        io::ErrorKind::FileTooLarge => CodingFault::TooMuch,
        _ => CodingFault::Broken,
    }
}

/// Unpacks frames one after another (RFC 8878 §3.1).
fn zstd(packed: &[u8], allowed: u64, out: &mut Vec<u8>) -> Result<(), CodingFault> {
    let (mut rest, mut given) = (packed, 0);
    while !rest.is_empty() {
        let before = rest.len();
        let decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest);
        let mut decoder = decoder.map_err(|_| CodingFault::Broken)?;
        let mut piece = [0; STEP_BYTES];
        loop {
            match decoder.read(&mut piece).map_err(|_| CodingFault::Broken)? {
                0 => break,
                bytes => {
                    given += bytes as u64;
                    if given > allowed {
                        return Err(CodingFault::TooMuch);
                    }
                    out.extend_from_slice(&piece[..bytes]);
                }
            }
        }
        drop(decoder);
        if rest.len() == before {
            return Err(CodingFault::Broken);
        }
    }
    Ok(())
}

/// A body that is here, out of its coding.
pub(crate) fn whole(coding: Coding, bytes: &[u8], bytes_max: u64) -> Result<Vec<u8>, CodingFault> {
    let mut decoder = Decoder::new(coding, bytes_max);
    let mut out = Vec::new();
    decoder.push(bytes, &mut out)?;
    decoder.finish(&mut out)?;
    match out.len() as u64 > bytes_max {
        true => Err(CodingFault::TooMuch),
        false => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const MOST: u64 = 1 << 30;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn bare(text: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// RFC 7932: an uncompressed meta-block of this text, and an empty last one.
    fn brotli(text: &[u8]) -> Vec<u8> {
        // WBITS 16 (one bit 0), not last (0), MNIBBLES 4 (00), MLEN-1 in 16 bits, uncompressed (1).
        let bits: u32 = ((text.len() as u32 - 1) << 4) | (1 << 20);
        let mut bytes = bits.to_le_bytes()[..3].to_vec();
        bytes.extend_from_slice(text);
        bytes.push(0x03);
        bytes
    }

    /// RFC 8878: a frame of one raw block.
    fn zstd_frame(text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, text.len() as u8];
        let block = (text.len() as u32) << 3 | 1;
        bytes.extend_from_slice(&block.to_le_bytes()[..3]);
        bytes.extend_from_slice(text);
        bytes
    }

    /// RFC 8878: a frame of one block that repeats a byte.
    fn zstd_bomb(times: u32) -> Vec<u8> {
        let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
        let blocks = times / 131_072;
        bytes.extend_from_slice(&(blocks * 131_072).to_le_bytes());
        for block in 1..=blocks {
            let last = u32::from(block == blocks);
            bytes.extend_from_slice(&(131_072_u32 << 3 | 1 << 1 | last).to_le_bytes()[..3]);
            bytes.push(b'a');
        }
        bytes
    }

    #[test]
    fn each_coding_is_undone_over_any_split() {
        let text = b"a weir is the low dam that holds a river, and lets through what may pass";
        for (coding, packed) in [
            (Coding::Identity, text.to_vec()),
            (Coding::Gzip, gzip(text)),
            (
                Coding::Gzip,
                [gzip(&text[..20]), gzip(&text[20..])].concat(),
            ),
            (Coding::Deflate, zlib(text)),
            (Coding::Deflate, bare(text)),
            (Coding::Br, brotli(text)),
            (Coding::Zstd, zstd_frame(text)),
            (
                Coding::Zstd,
                [zstd_frame(&text[..9]), zstd_frame(&text[9..])].concat(),
            ),
        ] {
            assert_eq!(whole(coding, &packed, MOST).unwrap(), text, "{coding:?}");
            // The form of deflate is told by two bytes, which never come apart from each other.
            for cut in 2..packed.len() {
                let mut decoder = Decoder::new(coding, MOST);
                let mut out = Vec::new();
                decoder.push(&packed[..cut], &mut out).unwrap();
                decoder.push(&packed[cut..], &mut out).unwrap();
                decoder.finish(&mut out).unwrap();
                assert_eq!(out, text, "{coding:?} at {cut}");
            }
        }
    }

    #[test]
    fn what_is_cut_never_looks_whole() {
        let text = b"what was promised and what came";
        for (coding, packed) in [
            (Coding::Gzip, gzip(text)),
            (Coding::Deflate, zlib(text)),
            (Coding::Br, brotli(text)),
            (Coding::Zstd, zstd_frame(text)),
        ] {
            for cut in 1..packed.len() {
                let result = whole(coding, &packed[..cut], MOST);
                assert_eq!(result, Err(CodingFault::Broken), "{coding:?} at {cut}");
            }
        }
    }

    #[test]
    fn bombs_are_refused_before_they_are_unpacked() {
        let zeros = vec![0; 64 << 20];
        for (coding, packed) in [
            (Coding::Gzip, gzip(&zeros)),
            (Coding::Deflate, zlib(&zeros)),
            (Coding::Deflate, bare(&zeros)),
            (Coding::Zstd, zstd_bomb(256 << 20)),
        ] {
            // The window that a frame of zstd asks for is refused before anything is unpacked.
            let fault = match coding {
                Coding::Zstd => CodingFault::Broken,
                _ => CodingFault::TooMuch,
            };
            assert_eq!(whole(coding, &packed, MOST), Err(fault), "{coding:?}");
        }
        let packed = gzip(&vec![b'a'; 900_000]);
        assert!(whole(Coding::Gzip, &packed, MOST).is_ok());
        assert_eq!(
            whole(Coding::Gzip, &packed, 1000),
            Err(CodingFault::TooMuch)
        );
    }

    #[test]
    fn a_coding_is_named_once() {
        let of = |value: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(CONTENT_ENCODING, value.parse().unwrap());
            Coding::of(&fields)
        };
        assert_eq!(of("GZIP"), Ok(Coding::Gzip));
        assert_eq!(of("identity, br"), Ok(Coding::Br));
        assert_eq!(of("gzip, gzip"), Err(CodingFault::Unknown));
        assert_eq!(of("compress"), Err(CodingFault::Unknown));
    }
}
