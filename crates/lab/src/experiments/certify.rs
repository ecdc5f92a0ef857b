//! `weir lab certify`: can this be signed? Zero errors, every byte compared, no request executed twice, through overload.
//!
//! A certificate says PASS or FAIL and what each criterion rests on. It is about rightness and not about speed, so a noisy
//! machine does not spoil it; what was too short does. It refuses a load whose answers cannot be compared, and to be
//! silent of duplicates: without an origin that counts them it has to be asked to leave them out, and says so.

mod course;

use std::time::Duration;

use clap::Args;

use self::course::Course;
use crate::bench::asked::AskedServer;
use crate::bench::deliver;
use crate::bench::side::given;
use crate::bench::stand::Stand;
use crate::exit::{Ended, Exit, Failure};
use crate::experiments::load::Load;
use crate::experiments::sweep::times;
use crate::facts::Facts;
use crate::facts::certificate::{CERTIFICATE_FILE, Certificate};
use crate::interrupt;
use crate::output;
use crate::plan::BodyCheck;
use crate::report::experiments::certificate::sheet;
use crate::report::words::seconds;

/// How long a stage is, and its warm-up, when nothing else is said.
const DURATION: &str = "30s";
const WARMUP: &str = "1s";
/// Flags of a load that a certificate sets itself.
const NOT_HERE: &[&str] = &["rate", "stage", "arrivals", "threshold"];
/// Flags that say what is sent or what comes back: without any the built-in echo is asked for.
const BODIES: &[&str] = &[
    "body",
    "body-json",
    "body-file",
    "unique",
    "expect",
    "method",
    "protocol",
];

const EXAMPLES: &str = "\
Examples:
  weir lab certify http://127.0.0.1:8900/echo --origin http://127.0.0.1:8900 --out certificate
  weir lab certify --command './gateway --port {port}' http://127.0.0.1:{port}/echo --origin http://127.0.0.1:8900 -d 60s
  weir lab certify http://127.0.0.1:8080/echo --no-origin --unique 10KB --expect echo -c 64
  weir lab verify certificate/certificate.json

Without a body and an expectation each request is a unique 1KB that has to come back byte for byte. --origin is the address
of the `weir lab target` that stands at the end: it counts whether any request came twice. The same command for an hour:
give -d 10m.

Exit codes: 0 PASS, 2 it could not be run, 95 FAIL with a wrong or doubled answer, 99 FAIL, 105 interrupted. weir lab --help
says each.";

/// Certifies that each request is answered rightly and once, also under overload
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CertifyArgs {
    #[command(flatten)]
    asked: AskedServer,
    /// Leave duplicates out of the certificate, which then says so
    #[arg(long)]
    no_origin: bool,
    /// Up to so many times more than it carries
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=64))]
    overload: u32,
}

impl CertifyArgs {
    pub fn run(self) -> Ended {
        if self.asked.flag("origin").is_none() && !self.no_origin {
            return Err(Failure::new(
                "a certificate says whether any request was executed twice, and nothing counts that here",
                "give --origin URL, the address of the weir lab target at the end, or --no-origin to leave it out",
            ));
        }
        let load = self.load()?;
        let hold = self.asked.time("duration", Duration::from_secs(30))?;
        if self.asked.dry_run {
            self.asked.spec().check(&load)?;
            let stages = times(self.overload).len() + 4;
            let each = hold + self.asked.time("warmup", Duration::from_secs(1))?;
            let text = format!(
                "the ladder to the knee, then {stages} stages of {}: about {} in all\n",
                seconds(each.as_secs_f64()),
                seconds(each.as_secs_f64() * stages as f64 + 20.0)
            );
            output::say(&mut std::io::stdout(), &text)?;
            return Ok(Exit::Pass);
        }
        deliver::check(&self.asked)?;
        interrupt::listen()?;
        let mut spec = self.asked.spec();
        spec.names_failures = true;
        let stand = Stand::set_up(spec, load, None)?;
        let (cell, _) = stand.planned()?;
        let requests = cell.plan.flows.iter().flat_map(|flow| &flow.requests);
        let compares = |check: &BodyCheck| matches!(check, BodyCheck::Echo | BodyCheck::Exact(_));
        if !requests
            .filter(|r| r.weight > 0)
            .all(|r| compares(&r.expect.body))
        {
            return Err(Failure::new(
                "a certificate compares every byte, and this load does not say what comes back",
                "give --unique SIZE --expect echo, or --expect exact=TEXT",
            ));
        }
        let mut course = Course::new(&self.asked, stand, self.overload, hold);
        course.carry_out()?;
        let certificate = course.certificate(self.words())?;
        let exit = exit(&certificate);
        self.deliver(certificate)?;
        Ok(exit)
    }

    fn load(&self) -> Result<Load, Failure> {
        let mut load = self.asked.load(NOT_HERE)?;
        let is_url = self.asked.what.iter().all(|what| what.contains("://"));
        let mut defaults = vec![("duration", DURATION), ("warmup", WARMUP)];
        if is_url && BODIES.iter().all(|name| self.asked.flag(name).is_none()) {
            defaults.extend([("unique", "1KB"), ("expect", "echo")]);
        }
        for (name, text) in defaults {
            if self.asked.flag(name).is_none() {
                load.flags.given.push(given(name, text)?);
            }
        }
        Ok(load)
    }

    fn words(&self) -> Vec<String> {
        let mut own = vec!["--overload".to_owned(), self.overload.to_string()];
        if self.no_origin {
            own.push("--no-origin".to_owned());
        }
        self.asked.words("certify", &own)
    }

    /// The certificate is a file of its own beside the facts: it is what is handed on, and what `verify` reads.
    fn deliver(&self, certificate: Certificate) -> Result<(), Failure> {
        let sheet = sheet(&certificate);
        let text = output::json::laid_out(&certificate);
        let mut facts = Facts::new();
        facts.certificates.push(certificate);
        deliver::deliver(&self.asked, &facts, &sheet)?;
        match self.asked.out() {
            Some(folder) => deliver::write(&folder.join(CERTIFICATE_FILE), &text),
            None => Ok(()),
        }
    }
}

fn exit(certificate: &Certificate) -> Exit {
    let is_wrong = certificate
        .criteria
        .iter()
        .any(|c| !c.holds && (c.id == "bytes" || c.id == "once"));
    match () {
        () if certificate.setting.partial => Exit::Interrupted,
        () if certificate.passed => Exit::Pass,
        () if is_wrong => Exit::Integrity,
        () => Exit::Threshold,
    }
}
