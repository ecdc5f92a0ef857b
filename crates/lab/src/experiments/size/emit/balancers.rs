//! nginx and HAProxy.

use super::{EmittedFile, Names, head, missing, tier};
use crate::exit::Failure;
use crate::facts::size::Sizing;

/// Instances that are written at most; a balancer of more is made by a program that knows their names.
const INSTANCES_MAX: u64 = 64;

fn connections(sizing: &Sizing) -> Result<u64, Failure> {
    let knee = sizing
        .knee_connections
        .ok_or_else(|| missing("the knee", "sweep again"))?;
    Ok(knee.ceil().max(1.0) as u64)
}

fn instances(sizing: &Sizing) -> Result<u64, Failure> {
    Ok(tier(sizing)?.replicas.unwrap_or(1).min(INSTANCES_MAX))
}

pub(super) fn nginx(sizing: &Sizing, names: &Names) -> Result<EmittedFile, Failure> {
    let keep = connections(sizing)?;
    let (service, port) = (&names.service, names.port);
    let mut text = head(sizing, "An upstream for nginx")
        + &format!(
            "# In the location: proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_pass http://{service};\n"
        )
        + &format!("upstream {} {{\n    least_conn;\n", service);
    for number in 1..=instances(sizing)? {
        text += &format!(
            "    server 127.0.0.{number}:{port} max_fails=3 fail_timeout=30s; # put the address of instance {number} here\n"
        );
    }
    text += &format!(
        "    keepalive {keep}; # connections at the knee of one instance: more of them gave no more\n    keepalive_requests 1000;\n    \
         keepalive_timeout 60s;\n}}\n"
    );
    Ok(EmittedFile {
        name: "nginx-upstream.conf",
        text,
    })
}

pub(super) fn haproxy(sizing: &Sizing, names: &Names) -> Result<EmittedFile, Failure> {
    let knee = connections(sizing)?;
    let (service, port, health) = (&names.service, names.port, &names.health);
    let mut text = head(sizing, "A backend for HAProxy")
        + &format!(
            "backend {service}\n    mode http\n    balance leastconn\n    option httpchk GET {health}\n"
        )
        + "    http-reuse safe\n    timeout connect 5s\n    timeout server 30s\n    timeout queue 5s\n";
    for number in 1..=instances(sizing)? {
        text += &format!(
            "    server {service}{number} 127.0.0.{number}:{port} check inter 5s maxconn {most} # {knee} connections are the knee; put \
             its address here\n",
            most = knee.saturating_mul(2),
        );
    }
    Ok(EmittedFile {
        name: "haproxy-backend.cfg",
        text,
    })
}
