//! What the relay's commands have in common: reading and writing keys.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use base::Secret;
use seal::keytext;
use zeroize::Zeroizing;

use crate::cli::Failure;
use crate::config::settings::Reference;
use crate::config::{SECRET_BYTES_MAX, read, values};

/// Random bytes from the kernel, not from a generator in the process.
pub(super) fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Failure> {
    let mut bytes = Zeroizing::new([0; N]);
    let drawn =
        std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes[..]));
    drawn
        .map_err(|error| Failure::new(format!("the kernel gives no random bytes: {error}"), ""))?;
    Ok(bytes)
}

/// Writes a new file that only this user can read; fails where one is there already.
pub(super) fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
    });
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::new(
            format!("{} is there already; nothing was changed", path.display()),
            "Name another file. A key that is overwritten cannot be had back.",
        ),
        _ => Failure::new(format!("{} cannot be written: {error}", path.display()), ""),
    })
}

/// The first line of a small file.
pub(super) fn read_line(path: &Path, bytes_max: usize) -> Result<Secret, Failure> {
    let failed = |message: String| Failure::new(format!("{} {message}", path.display()), "");
    let text = read::read_text(path, bytes_max).map_err(failed)?;
    Ok(Secret::new(text.trim().to_owned()))
}

/// A secret where `env:NAME`, `file:PATH` or a path says that it is. `what` names it in errors.
pub(super) fn secret(what: &str, text: &str) -> Result<Secret, Failure> {
    let secret = match values::reference(text) {
        Ok(Reference::Env(name)) => crate::cli::variable(&name)
            .map(Secret::new)
            .ok_or_else(|| Failure::new(format!("{what}: the variable {name} is not set"), ""))?,
        Ok(Reference::File(path)) => read_line(&path, SECRET_BYTES_MAX)?,
        Err(_) if keytext::begins_as_key(text) => {
            // The text is not repeated: it is in the shell's history already.
            return Err(Failure::new(
                format!(
                    "{what}: a secret must not stand on the command line, where other processes see it"
                ),
                "Put it in a file or a variable and write file:PATH or env:NAME. Replace this one.",
            ));
        }
        Err(_) => read_line(Path::new(text), SECRET_BYTES_MAX)?,
    };
    match secret.expose() {
        "" => Err(Failure::new(format!("{what}: the secret is empty"), "")),
        _ => Ok(secret),
    }
}

/// A public key or a pin: the text itself, or the file that holds it.
pub(super) fn public<T>(
    text: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, Failure> {
    let path = Path::new(text.strip_prefix("file:").unwrap_or(text));
    let help = "weir relay show FILE prints the public key and the pin of a key file.";
    if keytext::is_key_text(text) {
        return parse(text).map_err(|message| Failure::new(format!("the key {message}"), help));
    }
    let held = read_line(path, keytext::PUBLIC_FILE_BYTES_MAX);
    let held = held.map_err(|failure| Failure {
        help: help.to_owned(),
        ..failure
    })?;
    parse(held.expose())
        .map_err(|message| Failure::new(format!("{}: the key {message}", path.display()), help))
}
