//! A plan in words, for `--dry-run` and `--print-profile`. Values of header fields are not shown.

use std::fmt::Write as _;
use std::time::Duration;

use crate::plan::{
    Arrivals, Ask, BodyCheck, Expect, Flow, McpRevision, Model, Plan, Protocol, Request, Value,
};
use crate::template::Body;

/// Everything that a plan holds but the run's identifier.
pub fn plan(plan: &Plan) -> String {
    let mut out = String::new();
    line(
        &mut out,
        format_args!(
            "{}: seed {}, series each {:?}",
            plan.name, plan.seed, plan.interval
        ),
    );
    for flow in &plan.flows {
        self::flow(&mut out, flow);
    }
    out
}

/// The stages of each flow with what they mean in requests.
pub fn profile(plan: &Plan) -> String {
    let mut out = String::new();
    for flow in &plan.flows {
        let unit = match flow.model {
            Model::Closed => "connections",
            Model::Open { .. } => "arrivals/s",
        };
        line(&mut out, format_args!("{} ({unit})", flow.name));
        line(
            &mut out,
            format_args!(
                "  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}  stage",
                "begin", "end", "from", "to", "arrivals"
            ),
        );
        for step in flow.profile.steps() {
            let arrivals = match flow.model {
                Model::Closed => "-".to_owned(),
                Model::Open { .. } => {
                    format!("{:.0}", (step.from + step.to) / 2.0 * step.seconds())
                }
            };
            let kind = if step.warmup { " (left out)" } else { "" };
            let (begin, end) = (seconds(step.begin_ns), seconds(step.end_ns));
            line(
                &mut out,
                format_args!(
                    "  {begin:>10}  {end:>10}  {:>10}  {:>10}  {arrivals:>12}  {}{kind}",
                    step.from, step.to, step.name
                ),
            );
        }
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments) {
    writeln!(out, "{text}").expect("a String takes what is written");
}

fn seconds(ns: u64) -> String {
    format!("{}s", Duration::from_nanos(ns).as_secs_f64())
}

fn flow(out: &mut String, flow: &Flow) {
    line(
        out,
        format_args!(
            "{}: {}, {}",
            flow.name,
            protocol(&flow.protocol),
            model(flow)
        ),
    );
    let mut rest = format!("timeout {:?}", flow.timeout);
    if !flow.pause.is_zero() {
        write!(rest, ", pause {:?}", flow.pause).expect("a String takes what is written");
    }
    if flow.reconnect {
        rest.push_str(", a new connection for each request");
    }
    line(out, format_args!("  {rest}"));
    targets(out, flow);
    stages(out, flow);
    for request in &flow.requests {
        self::request(out, request);
    }
}

fn targets(out: &mut String, flow: &Flow) {
    for target in &flow.targets {
        let scheme = if target.tls { "https" } else { "http" };
        let addresses: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
        line(
            out,
            format_args!(
                "  target {scheme}://{} at {}",
                target.authority,
                addresses.join(", ")
            ),
        );
    }
    if let Some(tls) = &flow.tls {
        let client = if tls.client_auth_cert_resolver.has_certs() {
            ", with a client certificate"
        } else {
            ""
        };
        let speaks: Vec<_> = tls
            .alpn_protocols
            .iter()
            .map(|p| String::from_utf8_lossy(p))
            .collect();
        line(
            out,
            format_args!("  tls speaks {}{client}", speaks.join(", ")),
        );
    }
}

fn stages(out: &mut String, flow: &Flow) {
    for step in flow.profile.steps() {
        let kind = match (step.warmup, step.is_hold()) {
            (true, _) => "warm-up",
            (_, true) => "hold",
            (_, false) => "ramp",
        };
        let (begin, end) = (seconds(step.begin_ns), seconds(step.end_ns));
        line(
            out,
            format_args!(
                "  stage {}: {kind} {} to {}, {begin} to {end}",
                step.name, step.from, step.to
            ),
        );
    }
    for feed in &flow.feeds {
        let columns = feed.columns.join(", ");
        line(
            out,
            format_args!(
                "  feed {}: {} rows of {columns}, {:?}",
                feed.name,
                feed.rows.len(),
                feed.order
            ),
        );
    }
}

fn protocol(protocol: &Protocol) -> String {
    match protocol {
        Protocol::Http1 => "http1".to_owned(),
        Protocol::Http2 { streams } => format!("http2 with {streams} streams"),
        Protocol::Mcp(McpRevision::Session(date) | McpRevision::Stateless(date)) => {
            format!("mcp {date}")
        }
        Protocol::Sse => "sse".to_owned(),
        Protocol::Openai => "openai".to_owned(),
        Protocol::Anthropic => "anthropic".to_owned(),
    }
}

fn model(flow: &Flow) -> String {
    let (connections, threads) = (flow.connections, flow.threads);
    match flow.model {
        Model::Closed => format!("closed, {connections} connections, {threads} threads"),
        Model::Open {
            arrivals,
            queue_max,
        } => {
            let arrivals = match arrivals {
                Arrivals::Uniform => "uniform".to_owned(),
                Arrivals::Poisson => "poisson".to_owned(),
                Arrivals::Burst(size) => format!("bursts of {size}"),
            };
            format!(
                "open ({arrivals}), at most {connections} in flight and {queue_max} waiting, {threads} threads"
            )
        }
    }
}

fn request(out: &mut String, request: &Request) {
    let Request {
        name,
        weight,
        method,
        ..
    } = request;
    let path = match request.path.fixed() {
        Some(path) => String::from_utf8_lossy(path).into_owned(),
        None => "a path that varies".to_owned(),
    };
    line(
        out,
        format_args!("  request {name}: weight {weight}, {method} {path}"),
    );
    let fields = request.headers.iter().map(|(name, value)| match value {
        Value::Text(_) => name.clone(),
        Value::Secret(_) => format!("{name} (secret)"),
    });
    let fields: Vec<String> = fields.collect();
    if !fields.is_empty() {
        line(out, format_args!("    fields {}", fields.join(", ")));
    }
    match &request.ask {
        None => line(out, format_args!("    body {}", body(&request.body))),
        Some(Ask::Call { tool, arguments }) => {
            let arguments = arguments.fixed().map(String::from_utf8_lossy);
            let arguments = arguments.unwrap_or("arguments that vary".into());
            line(out, format_args!("    calls {tool} with {arguments}"));
        }
        Some(Ask::Initialize | Ask::List | Ask::Ping) => {}
    }
    line(out, format_args!("    good: {}", expect(&request.expect)));
}

fn body(body: &Body) -> String {
    match body {
        Body::None => "none".to_owned(),
        Body::Unique { bytes } => format!("unique, {bytes} bytes"),
        Body::Template(template) => match template.fixed() {
            Some(bytes) if bytes.len() <= 200 => String::from_utf8_lossy(bytes).into_owned(),
            Some(bytes) => format!("{} bytes", bytes.len()),
            None => "a text that varies".to_owned(),
        },
    }
}

fn expect(expect: &Expect) -> String {
    let mut parts = vec![match expect.statuses.as_slice() {
        [] => "any 2xx or 3xx".to_owned(),
        statuses => {
            let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
            statuses.join(" or ")
        }
    }];
    parts.extend(
        expect
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}")),
    );
    match &expect.body {
        BodyCheck::Any => {}
        BodyCheck::Echo => parts.push("the body echoed".to_owned()),
        BodyCheck::Exact(bytes) => parts.push(format!("exactly {} bytes", bytes.len())),
        BodyCheck::Contains(bytes) => {
            parts.push(format!("contains {}", String::from_utf8_lossy(bytes)))
        }
    }
    parts.join(", ")
}
