//! Docker Compose and Kubernetes.

use super::{EmittedFile, Names, head, missing, tier, yaml};
use crate::exit::Failure;
use crate::facts::size::Sizing;

/// How much more than was measured at most a limit allows.
const HEADROOM: f64 = 1.5;
const MIB: f64 = 1024.0 * 1024.0;
/// A health check asks so often, and gives up after so many times.
const INTERVAL_S: u64 = 30;
const RETRIES: u64 = 5;
/// Replicas at most are so many times those that the peak needs.
const REPLICAS_TIMES: u64 = 3;
/// Memory in use beyond this share of its request adds a replica.
const MEMORY_PERCENT: u32 = 80;

/// A limit in MiB that is not under what was measured.
fn mib(bytes: f64) -> u64 {
    (bytes / MIB).ceil() as u64
}

fn cores_and_memory(sizing: &Sizing) -> Result<(f64, u64), Failure> {
    let help = "sweep with --command, or --watch the server's process";
    let cores = tier(sizing)?
        .cores
        .filter(|cores| *cores > 0.0)
        .ok_or_else(|| missing("the CPU of the server", help))?;
    let memory = sizing
        .memory_bytes
        .ok_or_else(|| missing("the memory of the server", help))?;
    Ok((cores, memory))
}

pub(super) fn compose(sizing: &Sizing, names: &Names) -> Result<EmittedFile, Failure> {
    let (cores, memory) = cores_and_memory(sizing)?;
    let tier = tier(sizing)?;
    let (limit, limit_from) = match tier.memory_bytes {
        Some(limit) => (mib(limit as f64), "the shape that was measured"),
        None => (
            mib(memory as f64 * HEADROOM),
            "the most that was measured, and half as much again",
        ),
    };
    let reserved = sizing.idle_bytes.unwrap_or(memory);
    let reserved_from = if sizing.idle_bytes.is_some() {
        "before any load, in the soak"
    } else {
        "the most that was measured"
    };
    let start_s = sizing
        .ready_after_s
        .map_or(30, |ready| (ready * 2.0).ceil().max(1.0) as u64);
    let start_from = match sizing.ready_after_s {
        Some(ready) => format!("ready {ready:.2} s after its start, and as much again"),
        None => "not measured: sweep with --command".to_owned(),
    };
    let (service, image, port, health) = (&names.service, &names.image, names.port, &names.health);
    let text = head(sizing, "Limits for Docker Compose")
        + &format!(
            "services:
  {service}:
    image: {image}
    deploy:
      replicas: {replicas} # for the peak that was asked for
      resources:
        limits:
          cpus: \"{cpus:.2}\" # {from}
          memory: {limit}M # {limit_from}
        reservations:
          cpus: \"{reserve:.2}\" # half of that
          memory: {reserved}M # {reserved_from}
    healthcheck:
      test: [\"CMD\", \"wget\", \"-q\", \"-O\", \"/dev/null\", \"http://127.0.0.1:{port}{health}\"]
      interval: {INTERVAL_S}s
      timeout: 5s
      retries: {RETRIES}
      start_period: {start_s}s # {start_from}
",
            replicas = tier.replicas.unwrap_or(1),
            cpus = cores,
            from = tier.from,
            reserve = cores / 2.0,
            reserved = mib(reserved as f64).min(limit),
        );
    yaml(
        "compose.yaml",
        text,
        &[&[
            "services",
            service,
            "deploy",
            "resources",
            "limits",
            "memory",
        ]],
    )
}

pub(super) fn hpa(sizing: &Sizing, names: &Names) -> Result<EmittedFile, Failure> {
    let tier = tier(sizing)?;
    let least = tier
        .replicas
        .unwrap_or(1)
        .max(if sizing.wanted.ha { 2 } else { 1 });
    let most = least.saturating_mul(REPLICAS_TIMES);
    let cpu = (sizing.wanted.utilisation * 100.0)
        .floor()
        .clamp(1.0, 100.0);
    let service = &names.service;
    let text = head(sizing, "A HorizontalPodAutoscaler")
        + &format!(
            "apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {service}
spec:
  scaleTargetRef:
    apiVersion: apps/v1
    kind: Deployment
    name: {service}
  minReplicas: {least} # for the peak: {recommended} requests a second of each at most, {from}
  maxReplicas: {most} # {REPLICAS_TIMES} times that: not measured, look at what is behind it first
  metrics:
    - type: Resource
      resource:
        name: cpu
        target:
          type: Utilization
          averageUtilization: {cpu} # the share of saturation that may be used
    - type: Resource
      resource:
        name: memory
        target:
          type: Utilization
          averageUtilization: {MEMORY_PERCENT}
  behavior:
    scaleUp:
      stabilizationWindowSeconds: 0
    scaleDown:
      stabilizationWindowSeconds: 300
",
            recommended = tier.recommended,
            from = tier.from,
        );
    yaml(
        "hpa.yaml",
        text,
        &[
            &["spec", "scaleTargetRef", "name"],
            &[
                "spec",
                "metrics",
                "*",
                "resource",
                "target",
                "averageUtilization",
            ],
            &["spec", "behavior", "scaleDown"],
        ],
    )
}
