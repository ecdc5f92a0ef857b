//! Alerts, pools and rate limits.

use super::{EmittedFile, Names, head, missing, tier, yaml};
use crate::exit::Failure;
use crate::facts::size::Sizing;

/// An alert on latency speaks at so many times what was measured, where no p99 was asked for.
const LATENCY_TIMES: f64 = 2.0;
/// Failures beyond this share of all requests are told.
const FAILED_MAX: &str = "0.01";

pub(super) fn alerts(sizing: &Sizing, names: &Names) -> Result<EmittedFile, Failure> {
    let tier = tier(sizing)?;
    let (used, found) = sizing.p99_at_use.ok_or_else(|| {
        missing(
            "the p99 at the share that may be used",
            "sweep with --open auto",
        )
    })?;
    let (bound_us, from) = match sizing.wanted.p99_us {
        Some(wanted) => (wanted, "the p99 that was asked for".to_owned()),
        None => (
            found * LATENCY_TIMES,
            format!(
                "{LATENCY_TIMES} times the p99 that was measured at {:.0} % of saturation",
                used * 100.0
            ),
        ),
    };
    let bound_s = bound_us / 1e6;
    let (job, duration, requests, failed) = (
        &names.service,
        &names.metric_duration,
        &names.metric_requests,
        &names.selector_failed,
    );
    let saturation = tier.saturation;
    let text = head(sizing, "Rules of alerts for Prometheus")
        + &format!(
            r#"groups:
  - name: {job}
    rules:
      - alert: HighLatency
        expr: histogram_quantile(0.99, sum by (le) (rate({duration}_bucket{{job="{job}"}}[5m]))) > {bound_s:.6}
        for: 5m
        labels: {{ severity: warning }}
        annotations:
          summary: The p99 is over {bound_s:.6} s ({from}).
      - alert: ErrorRatio
        expr: sum(rate({requests}{{job="{job}",{failed}}}[5m])) / sum(rate({requests}{{job="{job}"}}[5m])) > {FAILED_MAX}
        for: 5m
        labels: {{ severity: warning }}
        annotations:
          summary: More than 1 % of the requests fail.
      - alert: NearSaturation
        expr: sum by (instance) (rate({requests}{{job="{job}"}}[5m])) > {near}
        for: 5m
        labels: {{ severity: critical }}
        annotations:
          summary: An instance has over 85 % of the {saturation:.0} requests a second that it was measured to carry.
      - alert: InstanceDown
        expr: up{{job="{job}"}} == 0
        for: 1m
        labels: {{ severity: critical }}
        annotations:
          summary: An instance cannot be reached.
"#,
            near = (saturation * 0.85).floor(),
        );
    yaml(
        "alerts.yaml",
        text,
        &[&["groups", "*", "rules", "*", "expr"]],
    )
}

pub(super) fn pools(sizing: &Sizing) -> Result<EmittedFile, Failure> {
    let knee = sizing
        .knee_connections
        .ok_or_else(|| missing("the knee", "sweep again"))?
        .ceil()
        .max(1.0) as u64;
    let text = head(sizing, "Sizes of pools")
        + &format!(
            "pool:
  min: {least} # half of the connections at the knee
  max: {most} # the connections at the knee, and half as many again
  timeout_seconds: 5 # longer than this a request has waited in vain: the p99 at the knee is far under it
",
            least = knee.div_ceil(2),
            most = knee.saturating_add(knee.div_ceil(2)),
        );
    yaml("pools.yaml", text, &[&["pool", "min"], &["pool", "max"]])
}

pub(super) fn limits(sizing: &Sizing) -> Result<EmittedFile, Failure> {
    let tier = tier(sizing)?;
    let text = head(sizing, "Rate limits")
        + &format!(
            "rate_limit:
  per_instance:
    requests_per_second: {all} # {share:.0} % of saturation, {from}
  burst: {burst} # one second of what it carries at most
",
            all = tier.recommended.floor(),
            share = sizing.wanted.utilisation * 100.0,
            from = tier.from,
            burst = tier.saturation.floor(),
        );
    yaml(
        "limits.yaml",
        text,
        &[&["rate_limit", "per_instance", "requests_per_second"]],
    )
}
