//! Files for a deployment of a size: each number has a comment that says which measurement it comes from.
//!
//! Names that go into a file are checked first, so that none can break out of YAML, PromQL or a directive. What is YAML is
//! read back as a tree before it is kept, and what it must hold is asked of that tree.

mod balancers;
mod cluster;
mod monitors;

use clap::{Args, ValueEnum};

use crate::exit::Failure;
use crate::facts::size::{Sizing, Tier};
use crate::scenario;

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Artefact {
    /// Limits, reservations and a health check for Docker Compose
    Compose,
    /// A HorizontalPodAutoscaler (autoscaling/v2)
    Hpa,
    /// Rules of alerts for Prometheus
    Alerts,
    /// An upstream for nginx
    Nginx,
    /// A backend for HAProxy
    Haproxy,
    /// Sizes of pools
    Pools,
    /// Rate limits
    Limits,
}

/// Names that stand in the files.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Names in files of --emit")]
pub(super) struct Names {
    /// The service, the Deployment and the job in Prometheus
    #[arg(long, value_name = "NAME", default_value = "gateway")]
    service: String,
    /// Its image
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = "registry.example/gateway:latest"
    )]
    image: String,
    /// Its port
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,
    /// The path that says whether it is healthy
    #[arg(long, value_name = "PATH", default_value = "/health")]
    health: String,
    /// The histogram of durations in seconds, without _bucket
    #[arg(
        long,
        value_name = "METRIC",
        default_value = "http_request_duration_seconds"
    )]
    metric_duration: String,
    /// The counter of requests
    #[arg(long, value_name = "METRIC", default_value = "http_requests_total")]
    metric_requests: String,
    /// What selects the failed ones of that counter, such as code=~"5.."
    #[arg(long, value_name = "SELECTOR", default_value = "code=~\"5..\"")]
    selector_failed: String,
}

/// A file that is to be written.
pub(super) struct EmittedFile {
    pub(super) name: &'static str,
    pub(super) text: String,
}

impl Names {
    /// Refuses what would break out of a file.
    ///
    /// # Errors
    ///
    /// Names the flag, and what may stand there.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refuse = |flag: &str, what: &str| {
            Err(Failure::new(
                format!("--{flag} cannot stand in a file"),
                what.to_owned(),
            ))
        };
        let is_label = |text: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            (1..=63).contains(&text.len())
                && text.chars().all(inner)
                && text.starts_with(|c: char| c.is_ascii_lowercase())
                && !text.ends_with('-')
        };
        let is_metric = |text: &str| {
            let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
            text.len() <= 200
                && text.starts_with(first)
                && text
                    .chars()
                    .all(|c| c.is_ascii_digit() || c.is_ascii_alphabetic() || c == '_' || c == ':')
        };
        let is_word = |text: &str, more: &str| {
            (1..=255).contains(&text.len())
                && text
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if !is_label(&self.service) {
            return refuse(
                "service",
                "write lower-case letters, digits and hyphens, such as gateway",
            );
        }
        if !is_word(&self.image, "-_./:@") {
            return refuse(
                "image",
                "write an image's name, such as registry.example/gateway:1.0",
            );
        }
        if !self.health.starts_with('/') || !is_word(&self.health, "-_./") {
            return refuse("health", "write a path, such as /health");
        }
        for (flag, metric) in [
            ("metric-duration", &self.metric_duration),
            ("metric-requests", &self.metric_requests),
        ] {
            if !is_metric(metric) {
                return refuse(flag, "write a metric's name: letters, digits, _ and :");
            }
        }
        if !is_selector(&self.selector_failed) {
            return refuse(
                "selector-failed",
                "write one matcher, such as code=~\"5..\"",
            );
        }
        Ok(())
    }
}

/// One matcher of a label: a name, an operator, and a text without quotes or backslashes.
fn is_selector(text: &str) -> bool {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let operator = ["=~", "!~", "!=", "="]
        .iter()
        .find(|op| rest.starts_with(**op));
    let Some(value) = operator.map(|op| &rest[op.len()..]) else {
        return false;
    };
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"\\{}".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.len() <= 200
        && inner.is_some_and(|inner| !inner.is_empty() && inner.chars().all(is_plain))
}

/// The files that were asked for.
///
/// # Errors
///
/// A number that a file needs was not measured, or a file does not read back.
pub(super) fn files(
    wanted: &[Artefact],
    sizing: &Sizing,
    names: &Names,
) -> Result<Vec<EmittedFile>, Failure> {
    let mut files = Vec::new();
    for artefact in wanted {
        let file = match artefact {
            Artefact::Compose => cluster::compose(sizing, names)?,
            Artefact::Hpa => cluster::hpa(sizing, names)?,
            Artefact::Alerts => monitors::alerts(sizing, names)?,
            Artefact::Nginx => balancers::nginx(sizing, names)?,
            Artefact::Haproxy => balancers::haproxy(sizing, names)?,
            Artefact::Pools => monitors::pools(sizing)?,
            Artefact::Limits => monitors::limits(sizing)?,
        };
        files.push(file);
    }
    Ok(files)
}

/// The tier that files are written for.
fn tier(sizing: &Sizing) -> Result<&Tier, Failure> {
    sizing
        .choice()
        .or(sizing.tiers.last())
        .filter(|tier| tier.recommended > 0.0)
        .ok_or_else(|| missing("a rate", "sweep again"))
}

fn missing(what: &str, help: &str) -> Failure {
    Failure::new(
        format!("{what} was not measured, and a file of --emit needs it"),
        help.to_owned(),
    )
}

/// The first lines of each file.
fn head(sizing: &Sizing, what: &str) -> String {
    let setting = &sizing.setting;
    let clean = |text: &str| crate::output::units::plain(text).replace(['\n', '\r'], " ");
    format!(
        "# {what}, by weir lab size, from a sweep of {} on {} ({} cores).\n# Read it before you use it: it knows what was measured and \
         nothing of your house.\n",
        clean(&setting.started),
        clean(&setting.machine.cpu),
        setting.machine.cores_logical
    )
}

/// A text that must be YAML, with places that must be there: a list of names for each, and `*` for the first item.
fn yaml(name: &'static str, text: String, places: &[&[&str]]) -> Result<EmittedFile, Failure> {
    let fault = |why: String| {
        Failure::new(
            format!("{name} was not written: {why}"),
            "this is a fault of weir lab",
        )
    };
    let tree = scenario::tree(&text).map_err(|problem| fault(problem.to_string()))?;
    for place in places {
        let mut at = Some(&tree);
        for step in *place {
            at = at.and_then(|value| match *step {
                "*" => value.get(0),
                step => value.get(step),
            });
        }
        if at.is_none_or(serde_json::Value::is_null) {
            return Err(fault(format!("{} is missing", place.join("."))));
        }
    }
    Ok(EmittedFile { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            service: "gateway".to_owned(),
            image: "registry.example/gateway:1".to_owned(),
            port: 8080,
            health: "/health".to_owned(),
            metric_duration: "http_request_duration_seconds".to_owned(),
            metric_requests: "http_requests_total".to_owned(),
            selector_failed: "code=~\"5..\"".to_owned(),
        }
    }

    #[test]
    fn names_that_break_out_are_refused() {
        names().check().unwrap();
        let cases: &[fn(&mut Names)] = &[
            |n| n.service = "a b".to_owned(),
            |n| n.service = "A".to_owned(),
            |n| n.service = "a\nb: c".to_owned(),
            |n| n.service = String::new(),
            |n| n.image = "x # y".to_owned(),
            |n| n.health = "health".to_owned(),
            |n| n.health = "/a;b".to_owned(),
            |n| n.metric_duration = "x{y=\"z\"}".to_owned(),
            |n| n.metric_requests = "1x".to_owned(),
            |n| n.selector_failed = "code=~\"5..\"} or up{a=\"b\"".to_owned(),
            |n| n.selector_failed = "code".to_owned(),
            |n| n.selector_failed = "code=~\"\"".to_owned(),
        ];
        for break_it in cases {
            let mut broken = names();
            break_it(&mut broken);
            assert!(broken.check().is_err(), "{broken:?}");
        }
    }
}
