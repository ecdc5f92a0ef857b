//! Relay keys as text: private and public keys, pins, pre-shared keys, ticket keys.
//!
//! It exists so that each kind of key has one spelling that begins with its kind: a private key is found by a
//! search, and cannot be pasted where a public one belongs. It refuses every text but the one that it would
//! write itself, and no error repeats a text, for it may be the secret.

use base::Secret;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use zeroize::Zeroizing;

use crate::key::{Identity, Key32, Pin, Psk, Public};
use crate::ticket::{TEK_MS, TICKET_KEYS_MAX, Tek, TekRing};

/// What every key begins with.
const ANY: &str = "shr1_";
/// What a private key begins with.
pub const PRIVATE: &str = "shr1_key_";
/// What a public key begins with.
pub const PUBLIC: &str = "shr1_pub_";
/// What a pre-shared key begins with.
pub const PSK: &str = "shr1_psk_";
/// What a ticket key begins with.
pub const TICKET: &str = "shr1_tek_";
/// Bytes of a file of a public key; the text alone has 1,631.
pub const PUBLIC_FILE_BYTES_MAX: usize = 4096;
/// Bytes of a line of a file of ticket keys: the prefix, an id of 8 digits, a time of at most 20, the key of 43, two `_`
/// and the end of the line.
const TICKET_LINE_BYTES_MAX: usize = TICKET.len() + 8 + 20 + 43 + 3;
/// Ticket keys that lie ready for the hours to come.
const TICKETS_AHEAD: u64 = 3;

/// The key of an inbound, as an outbound knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerKey {
    /// The whole key.
    Public(Public),
    /// Its pin: the key is asked for at `/.well-known/shr/keys`, and used only if it is the one.
    Pin(Pin),
}

impl PeerKey {
    /// The pin, which both forms have.
    pub fn pin(&self) -> Pin {
        match self {
            PeerKey::Public(public) => public.pin(),
            PeerKey::Pin(pin) => *pin,
        }
    }
}

/// A ticket key that the instances of a fleet share.
#[derive(Clone)]
pub struct TicketKey {
    pub id: u32,
    pub key: Key32,
    /// From when on it seals, for an hour, in Unix milliseconds; it opens for one hour more.
    pub begins_unix_ms: u64,
}

/// Whether a text is itself a key or a pin, and not the name of a file with one.
pub fn is_key_text(text: &str) -> bool {
    begins_as_key(text) || pin(text).is_ok()
}

/// Whether a text is a key, of whatever kind; not a pin.
pub fn begins_as_key(text: &str) -> bool {
    text.starts_with(ANY)
}

/// The private key of a text.
pub fn identity(text: &str) -> Result<Identity, String> {
    if text.starts_with(PUBLIC) {
        return Err("is a public key; the private one is wanted here".to_owned());
    }
    let seed = secret_bytes(text, PRIVATE).ok_or_else(|| {
        format!("is no private relay key ({PRIVATE}…); make one with weir relay keygen")
    })?;
    Ok(Identity::from_seed(&seed))
}

/// The public key of a text.
pub fn public(text: &str) -> Result<Public, String> {
    if text.starts_with(PRIVATE) {
        return Err(
            "is a private key, which nobody else may have; write the public one, and replace this pair if \
             others saw it"
                .to_owned(),
        );
    }
    let body = text.strip_prefix(PUBLIC);
    let bytes = body.and_then(|body| URL_SAFE_NO_PAD.decode(body).ok());
    let public = bytes.and_then(|bytes| Public::from_bytes(&bytes).ok());
    public
        .ok_or_else(|| format!("is no public relay key ({PUBLIC}…), as weir relay show prints it"))
}

/// A pin: 64 hex digits.
pub fn pin(text: &str) -> Result<Pin, String> {
    text.parse()
        .map_err(|_| "is no pin of 64 hex digits, as weir relay show prints it".to_owned())
}

/// A public key or a pin.
pub fn peer_key(text: &str) -> Result<PeerKey, String> {
    if begins_as_key(text) {
        return public(text).map(PeerKey::Public);
    }
    match pin(text) {
        Ok(pin) => Ok(PeerKey::Pin(pin)),
        Err(_) => Err(format!(
            "is neither a public relay key ({PUBLIC}…) nor a pin of 64 hex digits, as weir relay show prints them"
        )),
    }
}

/// A pre-shared key.
pub fn psk(text: &str) -> Result<Key32, String> {
    let bytes = secret_bytes(text, PSK).ok_or_else(|| {
        format!("is no pre-shared key ({PSK}…); make one with weir relay keygen --psk")
    })?;
    Psk::new(*bytes).map_err(|error| format!("is {error}"))?;
    Ok(Key32::new(*bytes))
}

/// The same, as a handshake takes it.
pub fn seal_psk(text: &str) -> Result<Psk, String> {
    let bytes = secret_bytes(text, PSK).ok_or_else(|| format!("is no pre-shared key ({PSK}…)"))?;
    Psk::new(*bytes).map_err(|error| format!("is {error}"))
}

/// The ticket keys of a file, one a line; empty lines and those that begin with `#` are left out.
pub fn ticket_keys(text: &str) -> Result<Vec<TicketKey>, String> {
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = ticket_key(line).ok_or_else(|| {
            let n = at + 1;
            format!("has no ticket key ({TICKET}ID_TIME_KEY) on line {n}; make the file with weir relay keygen --tickets")
        })?;
        if keys.len() == TICKET_KEYS_MAX {
            return Err(format!(
                "has more than {TICKET_KEYS_MAX} ticket keys; take out those that ended"
            ));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// The ring of these keys.
pub fn ring(keys: &[TicketKey]) -> Result<TekRing, String> {
    let teks = keys.iter().map(TicketKey::tek);
    TekRing::new(teks.collect()).map_err(|error| error.to_string())
}

/// How a file of ticket keys was brought up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    pub made: usize,
    pub ended: usize,
    /// Until when the keys mint, in Unix milliseconds.
    pub until_unix_ms: u64,
}

/// Brings ticket keys up to date: takes out those that open nothing any more, and makes one for each of the hours to
/// come. `id` and `key` draw random bytes. The error is theirs.
pub fn renew<E>(
    keys: &mut Vec<TicketKey>,
    now_unix_ms: u64,
    mut id: impl FnMut() -> Result<[u8; 4], E>,
    mut key: impl FnMut() -> Result<Key32, E>,
) -> Result<Renewed, E> {
    let before = keys.len();
    keys.retain(|key| now_unix_ms < key.begins_unix_ms.saturating_add(2 * TEK_MS));
    let ended = before - keys.len();
    let mut made = 0;
    loop {
        let until = keys.iter().map(|key| key.begins_unix_ms + TEK_MS).max();
        // A gap is not filled backwards: a key begins now at the earliest.
        let begins_unix_ms = until.map_or(now_unix_ms, |until| until.max(now_unix_ms));
        if begins_unix_ms > now_unix_ms + TICKETS_AHEAD * TEK_MS || keys.len() == TICKET_KEYS_MAX {
            let until_unix_ms = until.unwrap_or(now_unix_ms);
            return Ok(Renewed {
                made,
                ended,
                until_unix_ms,
            });
        }
        let id = loop {
            let id = u32::from_be_bytes(id()?);
            if keys.iter().all(|key| key.id != id) {
                break id;
            }
        };
        keys.push(TicketKey {
            id,
            begins_unix_ms,
            key: key()?,
        });
        made += 1;
    }
}

/// The text of a file of ticket keys, one a line.
pub fn ticket_file(keys: &[TicketKey]) -> Zeroizing<String> {
    // All lines fit, so that no shorter copy of a secret is left behind when the text grows.
    let mut text = Zeroizing::new(String::with_capacity(keys.len() * TICKET_LINE_BYTES_MAX));
    for key in keys {
        text.push_str(&key.text());
        text.push('\n');
    }
    text
}

fn ticket_key(line: &str) -> Option<TicketKey> {
    let (id, rest) = line.strip_prefix(TICKET)?.split_once('_')?;
    let (begins, _) = rest.split_once('_')?;
    let prefix = format!("{TICKET}{id}_{begins}_");
    let key = TicketKey {
        id: u32::from_str_radix(id, 16).ok()?,
        begins_unix_ms: begins.parse().ok()?,
        key: Key32::new(*secret_bytes(line, &prefix)?),
    };
    (*key.text() == *line).then_some(key)
}

impl TicketKey {
    /// The same as tickets are sealed with it.
    pub fn tek(&self) -> Tek {
        Tek::new(self.id, *self.key.bytes(), self.begins_unix_ms)
    }

    /// The line of a file.
    pub fn text(&self) -> Zeroizing<String> {
        let body = encode(self.key.bytes());
        Zeroizing::new(format!(
            "{TICKET}{:08x}_{}_{}",
            self.id,
            self.begins_unix_ms,
            body.as_str()
        ))
    }
}

/// The text of the private key of a seed.
pub fn identity_text(seed: &[u8; 32]) -> Secret {
    Secret::new(format!("{PRIVATE}{}", encode(seed).as_str()))
}

/// The text of a pre-shared key.
pub fn psk_text(bytes: &[u8; 32]) -> Secret {
    Secret::new(format!("{PSK}{}", encode(bytes).as_str()))
}

/// The text of a public key.
pub fn public_text(public: &Public) -> String {
    format!("{PUBLIC}{}", URL_SAFE_NO_PAD.encode(public.bytes()))
}

fn encode(bytes: &[u8; 32]) -> Zeroizing<String> {
    Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes))
}

/// The 32 bytes after a prefix; nothing for a text that they would not be written as.
fn secret_bytes(text: &str, prefix: &str) -> Option<Zeroizing<[u8; 32]>> {
    let body = text.strip_prefix(prefix).filter(|body| body.len() == 43)?;
    // base64 wants room for whole groups of three bytes.
    let mut room = Zeroizing::new([0; 33]);
    let length = URL_SAFE_NO_PAD.decode_slice(body, &mut room[..]).ok()?;
    let mut bytes = Zeroizing::new([0; 32]);
    bytes.copy_from_slice(room.get(..32).filter(|_| length == 32)?);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(n: u8) -> [u8; 32] {
        std::array::from_fn(|i| n.wrapping_mul(31).wrapping_add(i as u8))
    }

    #[test]
    fn keys_read_as_they_are_written() {
        let private = identity_text(&seed(1));
        let pair = identity(private.expose()).unwrap();
        let text = public_text(pair.public());
        assert_eq!(text.len(), 1631);
        assert!(public(&text).is_ok_and(|public| public == *pair.public()));
        assert_eq!(peer_key(&text), Ok(PeerKey::Public(pair.public().clone())));
        let pin_text = pair.public().pin().to_string();
        assert_eq!(peer_key(&pin_text), Ok(PeerKey::Pin(pair.public().pin())));
        assert!(psk(psk_text(&seed(2)).expose()).is_ok());
    }

    #[test]
    fn one_kind_of_key_is_no_other_and_no_error_repeats_it() {
        let private = identity_text(&seed(1));
        let pair = identity(private.expose()).unwrap();
        let psk_text = psk_text(&seed(3));
        for (what, error) in [
            ("private", public(private.expose()).unwrap_err()),
            ("private", peer_key(private.expose()).unwrap_err()),
            ("private", psk(private.expose()).map(drop).unwrap_err()),
            ("psk", identity(psk_text.expose()).map(drop).unwrap_err()),
            (
                "public",
                identity(&public_text(pair.public())).map(drop).unwrap_err(),
            ),
        ] {
            for secret in [private.expose(), psk_text.expose()] {
                assert!(!error.contains(&secret[PRIVATE.len()..]), "{what}: {error}");
            }
        }
        assert!(public(private.expose()).is_err_and(|error| error.contains("replace this pair")));
    }

    #[test]
    fn only_one_spelling_is_a_key() {
        let text = identity_text(&seed(1));
        let text = text.expose();
        let cut = &text[..text.len() - 1];
        let last = text.as_bytes()[text.len() - 1];
        // The last character carries four bits; the two it has to spare must be zero.
        let spare = format!("{cut}{}", char::from(last + 1));
        for bad in [
            "",
            PRIVATE,
            cut,
            &format!("{text}A"),
            &format!("{text}="),
            &spare,
            &text.to_uppercase(),
        ] {
            assert!(identity(bad).is_err(), "{bad}");
        }
        assert!(
            psk(&format!("{PSK}{}", "A".repeat(43))).is_err_and(|error| error.contains("zeros"))
        );
        assert!(pin(&"0".repeat(63)).is_err() && pin(&"g".repeat(64)).is_err());
        // An X-Wing key whose ML-KEM part is out of range.
        let wrong = format!("{PUBLIC}{}", URL_SAFE_NO_PAD.encode([0xff; 1216]));
        assert!(public(&wrong).is_err());
    }

    #[test]
    fn a_file_of_ticket_keys() {
        let key = |id, begins_unix_ms| TicketKey {
            id,
            begins_unix_ms,
            key: Key32::new(seed(id as u8)),
        };
        let lines = [key(7, 1_000), key(0xfeed_beef, 3_601_000)].map(|key| key.text().to_string());
        let file = format!("# of the fleet\n\n{}\n{}\n", lines[0], lines[1]);
        let keys = ticket_keys(&file).unwrap();
        let read: Vec<_> = keys
            .iter()
            .map(|key| (key.id, key.begins_unix_ms))
            .collect();
        assert_eq!(read, [(7, 1_000), (0xfeed_beef, 3_601_000)]);
        assert!(ring(&keys).is_ok());

        let twice = format!("{0}\n{0}\n", lines[0]);
        assert!(ring(&ticket_keys(&twice).unwrap()).is_err());
        assert!(ring(&[]).is_err());
        let many = format!("{}\n", lines[0]).repeat(TICKET_KEYS_MAX + 1);
        for bad in [
            many,
            lines[0].replace("00000007", "7"),
            lines[0].replace("_1000_", "_01000_"),
            lines[0].replace("_1000_", "__"),
            format!("{} x", lines[0]),
            "hunter2".to_owned(),
        ] {
            let error = ticket_keys(&bad).map(drop).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn each_hour_to_come_has_a_key_and_only_one() {
        const HOUR: u64 = TEK_MS;
        let mut drawn = 0_u32;
        let mut renew = |keys: &mut Vec<TicketKey>, now| {
            let id = || {
                drawn += 1;
                Ok(drawn.to_be_bytes())
            };
            let renewed = renew(keys, now, id, || Ok::<_, ()>(Key32::new(seed(1)))).unwrap();
            (renewed.made, renewed.ended)
        };
        let mut held = Vec::new();
        assert_eq!(renew(&mut held, 1_000), (4, 0));
        let begins: Vec<u64> = held.iter().map(|key| key.begins_unix_ms).collect();
        assert_eq!(
            begins,
            [1_000, 1_000 + HOUR, 1_000 + 2 * HOUR, 1_000 + 3 * HOUR]
        );
        assert_eq!(renew(&mut held, 1_000), (0, 0));
        assert_eq!(renew(&mut held, 1_000 + HOUR), (1, 0));
        // Long after: what ended is gone, and what is new begins now.
        held.truncate(1);
        assert_eq!(renew(&mut held, 10 * HOUR), (4, 1));
        assert_eq!(held[0].begins_unix_ms, 10 * HOUR);
        assert!(ring(&held).is_ok());
        let file = ticket_file(&held);
        assert!(ticket_keys(&file).is_ok_and(|keys| keys.len() == 4));
        assert!(file.lines().all(|line| line.len() < TICKET_LINE_BYTES_MAX));
    }
}
