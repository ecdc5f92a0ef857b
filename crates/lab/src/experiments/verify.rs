//! `weir lab verify`: is this certificate as it was written, and does it say PASS?
//!
//! The digest is computed anew over the canonical JSON, and what the certificate says of itself is checked against its own
//! criteria. It has no key: it finds an edit, and cannot say who wrote it.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Ended, Exit, Failure};
use crate::facts::FACTS_BYTES_MAX;
use crate::facts::certificate::{CERTIFICATE_FILE, CERTIFICATE_SCHEMA, Certificate, digest};
use crate::output;

/// Checks a certificate: unedited, and PASS
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir lab verify certificate.json
  weir lab verify certificate --json

The digest shows that nothing was edited since; it has no key, so it does not show who wrote it.

Exit codes: 0 unedited and PASS, 2 it cannot be read, 95 it was edited, 99 unedited and FAIL.")]
pub struct Verify {
    /// A certificate.json, or a folder with one
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Verify {
    pub fn run(self) -> Ended {
        let file = if self.file.is_dir() {
            self.file.join(CERTIFICATE_FILE)
        } else {
            self.file.clone()
        };
        let (tree, certificate) = read(&file)?;
        let fail = |why: String| Failure::new(format!("{}: {why}", file.display()), "");
        let found = digest(&tree).map_err(fail)?;
        let is_whole = found == certificate.sha256;
        let holds =
            certificate.criteria.iter().all(|c| c.holds) && !certificate.criteria.is_empty();
        let exit = match (is_whole, certificate.passed && holds) {
            (false, _) => Exit::Integrity,
            (true, false) => Exit::Threshold,
            (true, true) => Exit::Pass,
        };
        let text = if self.json {
            let said = serde_json::json!({
                "unedited": is_whole, "passed": certificate.passed && holds, "sha256": found, "written": certificate.sha256,
            });
            format!("{said}\n")
        } else {
            words(&certificate, is_whole, holds, &found)
        };
        output::say(&mut std::io::stdout(), &text)?;
        Ok(exit)
    }
}

fn words(certificate: &Certificate, is_whole: bool, holds: bool, found: &str) -> String {
    if !is_whole {
        return format!(
            "✗ edited: its SHA-256 is {found}, and it says {}\n",
            output::units::plain(&certificate.sha256)
        );
    }
    let verdict = if certificate.passed && holds {
        "✓ unedited, PASS"
    } else {
        "✗ unedited, FAIL"
    };
    let target = output::units::plain(&certificate.setting.target);
    let started = output::units::plain(&certificate.setting.started);
    format!("{verdict}: {target}, {started}, SHA-256 {found}\n")
}

fn read(file: &Path) -> Result<(serde_json::Value, Certificate), Failure> {
    let help = "name a certificate.json, as weir lab certify --out DIR writes it";
    let fail = |why: String| Failure::new(format!("{}: {why}", file.display()), help);
    let meta = std::fs::metadata(file).map_err(|e| fail(e.to_string()))?;
    if meta.len() > FACTS_BYTES_MAX {
        return Err(fail(format!("is larger than {FACTS_BYTES_MAX} bytes")));
    }
    let text = std::fs::read(file).map_err(|e| fail(e.to_string()))?;
    let tree: serde_json::Value = serde_json::from_slice(&text).map_err(|e| fail(e.to_string()))?;
    let certificate: Certificate =
        serde_json::from_value(tree.clone()).map_err(|e| fail(e.to_string()))?;
    if certificate.schema != CERTIFICATE_SCHEMA {
        return Err(fail(format!(
            "is `{}`, not `{CERTIFICATE_SCHEMA}`",
            certificate.schema
        )));
    }
    Ok((tree, certificate))
}
